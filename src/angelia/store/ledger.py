"""The ledger: one protocol, and the promise of the whole product.

Every verb is **one transaction**: when it returns, what its docstring says is committed and
survives kill -9 and power loss; when it raises ``StoreUnavailableError``, nothing of it is
on record, or, if only the answer was lost, calling it again with the same ids finds that
out: every verb is repeatable by id. Every write to a claimed row names (owner, fence); a
stale claim changes nothing. Raises ``StoreDamagedError`` when the file is damaged.

Names and states are those of ``docs/glossary.md``; the bounds are ``model/limits.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from angelia.model.ids import AdapterId, Claim, Lane
from angelia.model.media import Attachment
from angelia.model.messages import (
    NO_USAGE,
    ChatSummary,
    HistoryEntry,
    Inbound,
    NewDelivery,
    Reception,
    Usage,
)
from angelia.model.outcomes import LookUp, Scope
from angelia.model.plan import PassEnd
from angelia.model.record import Attempt, Ending, Part, Record, Revision
from angelia.model.states import Event, RunEnd


class OwnerKind(StrEnum):
    """A daemon holds the home's lock; a library owner is known by its lease alone."""

    DAEMON = "daemon"
    LIBRARY = "library"


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What a take-over found: deliveries now ``failed``, turns now waiting or given up."""

    deliveries: int
    turns: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """How far the life of a store has come: ``store`` is a random name that it keeps for life,
    ``beats`` only grows. The home's note of it tells an old copy (``store/pulse.py``)."""

    store: str
    beats: int


@dataclass(frozen=True, slots=True)
class Parked:
    """What an old copy owed: ``deliveries`` that ask first, ``turns`` that were given up."""

    deliveries: int
    turns: int
    pulse: Pulse


class TurnKind(StrEnum):
    """A message is for the agent; a command is answered by the gateway, without a run."""

    MESSAGE = "message"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Turn:
    """The work of answering. ``conversation`` changes when a person says ``new``."""

    id: str
    lane: Lane
    text: str
    user: str
    user_name: str
    reply_to: str
    conversation: str
    fence: int
    kind: TurnKind = TurnKind.MESSAGE
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn's end is on record. ``fresh``: its delivery as it is on record now, where that was
    sure without reading it; a hint, as any record that was read is."""

    fresh: Record | None = None


class ClaimAnswer(StrEnum):
    """What became of a claim."""

    GRANTED = "granted"
    CHANGED = "changed"  # the row is not as the plan saw it: look again
    BEHIND = "behind"  # an older row of its lane, or of a lifted rate limit, goes first
    HELD = "held"  # a rate limit or its own due time holds it
    LAPSED = "lapsed"  # the owner's lease is over


class AdvanceAnswer(StrEnum):
    """What became of a write to a claimed row."""

    DONE = "done"
    STALE = "stale"  # the claim is no longer valid: nothing changed
    LAPSED = "lapsed"  # the lease is over: nothing changed, no further attempt may begin
    HELD = "held"  # a rate limit was learned meanwhile: nothing changed, likewise


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate limit with its scope. ``until`` in steady milliseconds."""

    scope: Scope
    subject: str
    until: int


@dataclass(frozen=True, slots=True)
class Advance:
    """What one outcome changes in a claimed row, all in one commit.

    ``ending`` ``None`` with an ``attempt``: the call was none, its note is removed.
    ``opened``: the next attempt, in flight from this commit on. ``event``: what happens to
    the row; with the pass over, ``due_at`` (``None``: it rests) and ``tries``.
    """

    event: Event
    attempt: Attempt | None = None
    ending: Ending | None = None
    ended_at: int = 0
    detail: str = ""
    receipt: str | None = None
    children: tuple[Part, ...] = ()
    opened: tuple[Attempt, Revision] | None = None
    due_at: int | None = None
    tries: int | None = None
    not_sent: int = 0
    limit: Limit | None = None
    moved_to: str = ""
    rerouted: bool = False
    anchor_dropped: bool = False


class Ledger(Protocol):
    """The verbs."""

    # -- owners ----------------------------------------------------------------------------

    async def start(self, owner: str, kind: OwnerKind, reborn: bool = False) -> int:
        """Register ``owner`` with a fresh lease; returns the number of the newest start.
        ``reborn``: a lapsed owner under a new id, which is no start of a gateway."""
        ...

    async def renew(self, owner: str) -> bool:
        """Prolong the lease by 15 s from now. False: it had lapsed; become a new owner."""
        ...

    async def adopt(self, owner: str, heir: str, turns: Sequence[str]) -> None:
        """The same process goes on as ``heir``: those of ``turns`` that still run under ``owner``
        are its own now. Nothing else changes hands."""
        ...

    async def retire(self, owner: str) -> None:
        """The owner is gone from now on; what it still holds may be taken over at once."""
        ...

    async def take_over(self, owner: str, lock_held: bool, protected: bool = True) -> TakenOver:
        """End the open attempts of every owner that is gone (lapsed, retired or, with the
        home's lock held, any other daemon) as died in flight, in one transaction: deliveries
        become ``failed`` with their due time, turns wait again or are given up with a notice.
        Turns that waited for 24 h are given up. Not ``protected`` (the ledger is switched off):
        deliveries stay untouched, and a turn interrupted twice is given up without a notice.
        Also releases resting rows for which a start has come and restamps stepped waits."""
        ...

    async def pulse(self) -> Pulse:
        """The store's own pulse. Each start, renewal and end of a daemon is a beat."""
        ...

    async def park(self, noted: Pulse | None) -> Parked:
        """The store is an old copy: everything owed is parked (claimed by nobody, overtaken,
        growing stale as ever), what was in flight has died, open turns are given up with a
        parked notice, no owner is alive any more, and the pulse goes on beyond ``noted``."""
        ...

    async def release(self, deliveries: Sequence[str] | None) -> Sequence[str]:
        """Parked ``deliveries`` (``None``: all) are due now and marked as possible duplicates;
        returns which. Raises ``UnknownIdError``, ``NotPossibleError``; then nothing changed."""
        ...

    # -- inbound and turns -----------------------------------------------------------------

    async def accept(self, inbound: Inbound, turn: str, kind: TurnKind = TurnKind.MESSAGE) -> Reception:
        """Record an inbound and its turn ``turn``, waiting; a further piece of a burst joins the
        turn of the earlier ones while that waits. DUPLICATE: its key is known."""
        ...

    async def edit(self, inbound: Inbound) -> bool:
        """Replace the text of an inbound whose turn still waits. False: nothing changed."""
        ...

    async def waiting_turns(self, limit: int) -> Sequence[tuple[str, Lane, TurnKind]]:
        """Turns that wait, oldest first; of each conversation only the first message."""
        ...

    async def start_run(self, turn: str, run: str, owner: str, model: str) -> Turn | None:
        """Claim a waiting turn and record that its model run starts. ``None``: not now (taken,
        ended, not first of its conversation, or too old, which gives it up)."""
        ...

    async def next_run(self, turn: Turn, ended: str, usage: Usage, detail: str, run: str, model: str) -> bool:
        """Close run ``ended`` as a fallback and record that ``run`` starts, for the same turn."""
        ...

    async def open_turn(self, turn: str) -> Turn | None:
        """A waiting turn's content, without claiming it (chat commands)."""
        ...

    async def finish_turn(
        self,
        turn: Turn,
        run: str | None,
        ending: RunEnd,
        usage: Usage = NO_USAGE,
        detail: str = "",
        delivery: NewDelivery | None = None,
        sent: tuple[Record, PassEnd] | None = None,
        gave_up: str = "",
    ) -> Finished | None:
        """Run ended, turn answered (or, with ``gave_up``, given up), delivery and its parts
        pending: one commit. ``sent``: the delivery was already sent unprotected, its attempts
        are part of the commit. ``None``: the claim on the turn is stale, nothing changed."""
        ...

    async def release_turn(self, turn: Turn, run: str) -> bool:
        """The drain cut this run: the turn waits again, which is no interruption."""
        ...

    async def new_conversation(self, lane: Lane, turn: str = "") -> None:
        """Later runs of this conversation see no lines from before ``turn``, the command that
        said so ("": none of those on record now)."""
        ...

    # -- deliveries ------------------------------------------------------------------------

    async def enqueue(self, delivery: NewDelivery) -> Record:
        """Record a notice: ``pending`` (or abandoned at once if its chat is unreachable)."""
        ...

    async def claim(self, record: Record, owner: str, revision: Revision, at: int) -> ClaimAnswer:
        """Compare-and-swap on (id, state, fence) to ``attempting``, stamped with ``owner`` and
        fence + 1, and the first attempt, of ``revision``, in flight: one commit."""
        ...

    async def advance(self, claim: Claim, change: Advance) -> AdvanceAnswer:
        """Record an outcome and what follows from it: one commit, under the claim."""
        ...

    async def holds(self, claim: Claim) -> bool:
        """Whether the claim is valid: row attempting, owner and fence its own, lease alive."""
        ...

    async def record_receipt(self, delivery: str, attempt: int, receipt: str) -> None:
        """A receipt is a fact and is recorded under any claim, also a lapsed one's. It may
        complete a ``failed`` row."""
        ...

    async def note_look_up(self, record: Record, attempt: int, found: LookUp) -> None:
        """Record that reading back found nothing (ABSENT: no longer in doubt)."""
        ...

    async def settle(self, record: Record, event: Event) -> bool:
        """Make an unclaimed row final by ``event``. False: it is not as ``record`` says."""
        ...

    async def defer(self, record: Record, due_at: int | None, offline: bool = False) -> bool:
        """Store the plan's later due time of an unclaimed row (``None``: it rests).
        ``offline``: nobody is there to send to; ``connected`` brings it forward again."""
        ...

    async def hold(self, adapter: AdapterId, limit: Limit) -> None:
        """Store a rate limit learned outside a delivery."""
        ...

    async def connected(self, adapter: AdapterId, chat: str | None) -> int:
        """A new connection: rows that wait because a call was not sent are due now. Never
        shortens a backoff or a rate limit. Returns how many rows were brought forward."""
        ...

    async def prune(self) -> int:
        """Delete final rows, attempts and inbound keys older than 7 days. Owed rows stay."""
        ...

    # -- reading -----------------------------------------------------------------------------

    async def head(self, lane: Lane) -> Record | None:
        """The oldest owed row of a lane that does not rest, with all that is on record."""
        ...

    async def record(self, delivery: str) -> Record:
        """All that is on record about a delivery. Raises ``UnknownIdError``."""
        ...

    async def due_lanes(self, adapters: Sequence[AdapterId], limit: int) -> Sequence[Lane]:
        """Lanes of these adapters with a row that is due, oldest first."""
        ...

    async def files_named(self) -> Collection[str]:
        """The names of all spooled files that anything on record names."""
        ...

    async def stale(self, limit: int) -> Sequence[Record]:
        """Owed, unclaimed rows older than 24 h, whatever they wait for."""
        ...

    async def held_until(self, lane: Lane) -> int:
        """Until when a rate limit holds all traffic to this chat (steady milliseconds, or 0)."""
        ...

    async def history(self, adapter: AdapterId, chat: str, limit: int) -> Sequence[HistoryEntry]:
        """The newest lines of a chat (all threads), oldest first."""
        ...

    async def conversation(self, lane: Lane, before_turn: str, limit: int) -> Sequence[HistoryEntry]:
        """The newest lines of a conversation before a turn, since the last ``new``."""
        ...

    async def chats(self, adapter: AdapterId, limit: int) -> Sequence[ChatSummary]:
        """The chats of an adapter, newest activity first."""
        ...

    async def close(self) -> None:
        """Commit what waits and close the files."""
        ...
