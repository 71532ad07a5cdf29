"""The ledger on SQLite: the verbs of ``store.ledger``, each one transaction of the one writer.

Readers stand beside the writer on a connection of their own. Time comes from the ``Clock``
given; leases use its wall reading, which on one machine is the clock of all who share the
file. A death between two verbs leaves exactly what the earlier ones committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import AdapterId, Claim, Lane
from angelia.model.messages import (
    NO_USAGE,
    ChatSummary,
    HistoryEntry,
    Inbound,
    NewDelivery,
    Reception,
    Usage,
)
from angelia.model.outcomes import LookUp
from angelia.model.plan import PassEnd
from angelia.model.record import Record, Revision
from angelia.model.states import Event, RunEnd
from angelia.seams import crash
from angelia.seams.clock import Clock, Now
from angelia.store import parking, pulse
from angelia.store import sqlite_chats as chats
from angelia.store import sqlite_deliveries as deliveries
from angelia.store import sqlite_owners as owners
from angelia.store import sqlite_pruning as pruning
from angelia.store import sqlite_reading as reading
from angelia.store import sqlite_turns as turns
from angelia.store.connection import open_connection, quick_check
from angelia.store.ledger import (
    Advance,
    AdvanceAnswer,
    ClaimAnswer,
    Finished,
    Limit,
    OwnerKind,
    Parked,
    Pulse,
    TakenOver,
    Turn,
    TurnKind,
)
from angelia.store.migrate import migrate
from angelia.store.reader import Reader
from angelia.store.rows import SQL, held_until, load_record, one
from angelia.store.writer import Writer

T = TypeVar("T")

#: The verbs that commit, and what each leaves on record.
VERBS: dict[str, str] = {
    "start": "the owner and its lease",
    "renew": "the longer lease",
    "adopt": "running turns of a reborn owner under its new id",
    "retire": "the end of an owner",
    "take_over": "rows of dead owners are owed again",
    "accept": "the inbound and its turn",
    "edit": "the new text of a waiting inbound",
    "start_run": "the running turn and its model run",
    "next_run": "the failed run and the one after it",
    "finish_turn": "the ended run, the answered turn and the pending delivery",
    "release_turn": "the turn waits again",
    "new_conversation": "where the conversation begins anew",
    "enqueue": "the pending notice",
    "claim": "the claimed row with its first attempt in flight",
    "advance": "the outcome, and the next attempt in flight or the end of the pass",
    "record_receipt": "a late receipt",
    "note_look_up": "what reading back found",
    "settle": "the final state",
    "defer": "the later due time",
    "hold": "the rate limit",
    "connected": "rows brought forward by a new connection",
    "prune": "old final rows are gone",
    "operate": "what an operator ordered",
    "park": "owed rows of an old copy ask first, its open turns are given up",
}
for _verb, _doc in VERBS.items():
    crash.verb_points(_verb, _doc)


class SqliteLedger:
    """``Ledger`` on one SQLite file. Opens, checks and migrates it in the constructor.

    Raises ``StoreDamagedError``, ``StoreNewerError`` or ``StoreUnavailableError``. With
    ``inline``, verbs run in the caller, without threads (simulation).
    """

    def __init__(self, path: Path, clock: Clock, *, inline: bool = False) -> None:
        self.path = path
        self._clock = clock
        connection = open_connection(str(path))
        try:
            migrate(connection)
            quick_check(connection)
        finally:
            connection.close()
        self._writer = Writer(lambda: open_connection(str(path)), inline=inline)
        self._reader = Reader(lambda: open_connection(str(path), read_only=True), inline=inline)

    @property
    def trouble(self) -> str | None:
        """The last failure to write that no success has followed yet."""
        return self._writer.trouble

    async def _write(self, verb: str, work: Callable[[apsw.Connection, Now], T]) -> T:
        return await self._writer.run(verb, lambda connection: work(connection, self._clock.now()))

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run a read-only piece of work beside the writer (operator's views)."""
        return await self._reader.run(work)

    # -- owners ------------------------------------------------------------------------------

    async def start(self, owner: str, kind: OwnerKind, reborn: bool = False) -> int:
        return await self._write("start", lambda c, now: owners.start(c, owner, kind, reborn, now))

    async def renew(self, owner: str) -> bool:
        return await self._write("renew", lambda c, now: owners.renew(c, owner, now))

    async def adopt(self, owner: str, heir: str, turns: Sequence[str]) -> None:
        await self._write("adopt", lambda c, now: owners.adopt(c, owner, heir, turns))

    async def retire(self, owner: str) -> None:
        await self._write("retire", lambda c, now: owners.retire(c, owner, now))

    async def take_over(self, owner: str, lock_held: bool, protected: bool = True) -> TakenOver:
        return await self._write(
            "take_over", lambda c, now: owners.take_over(c, owner, lock_held, protected, now)
        )

    async def pulse(self) -> Pulse:
        return await self.read(pulse.read)

    async def park(self, noted: Pulse | None) -> Parked:
        return await self._write("park", lambda c, now: parking.park(c, noted, now))

    async def release(self, deliveries: Sequence[str] | None) -> Sequence[str]:
        return await self._write("operate", lambda c, now: parking.release(c, deliveries, now))

    # -- inbound and turns ---------------------------------------------------------------------

    async def accept(self, inbound: Inbound, turn: str, kind: TurnKind = TurnKind.MESSAGE) -> Reception:
        return await self._write("accept", lambda c, now: turns.accept(c, inbound, turn, kind, now))

    async def edit(self, inbound: Inbound) -> bool:
        return await self._write("edit", lambda c, now: turns.edit(c, inbound))

    async def waiting_turns(self, limit: int) -> Sequence[tuple[str, Lane, TurnKind]]:
        return await self.read(lambda c: reading.waiting_turns(c, limit, self._clock.now()))

    async def start_run(self, turn: str, run: str, owner: str, model: str) -> Turn | None:
        return await self._write("start_run", lambda c, now: turns.start_run(c, turn, run, owner, model, now))

    async def next_run(self, turn: Turn, ended: str, usage: Usage, detail: str, run: str, model: str) -> bool:
        return await self._write(
            "next_run", lambda c, now: turns.next_run(c, turn, ended, usage, detail, run, model, now)
        )

    async def open_turn(self, turn: str) -> Turn | None:
        loaded = await self.read(lambda c: turns.load_turn(c, turn))
        return loaded[0] if loaded is not None and loaded[1] == "waiting" else None

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
        return await self._write(
            "finish_turn",
            lambda c, now: turns.finish_turn(
                c, turn, run, ending, usage, detail, delivery, sent, gave_up, now
            ),
        )

    async def release_turn(self, turn: Turn, run: str) -> bool:
        return await self._write("release_turn", lambda c, now: turns.release_turn(c, turn, run, now))

    async def new_conversation(self, lane: Lane, turn: str = "") -> None:
        await self._write("new_conversation", lambda c, now: turns.new_conversation(c, lane, turn))

    # -- deliveries ----------------------------------------------------------------------------

    async def enqueue(self, delivery: NewDelivery) -> Record:
        return await self._write("enqueue", lambda c, now: deliveries.enqueue(c, delivery, now))

    async def claim(self, record: Record, owner: str, revision: Revision, at: int) -> ClaimAnswer:
        return await self._write(
            "claim", lambda c, now: deliveries.claim(c, record, owner, revision, at, now)
        )

    async def advance(self, claim: Claim, change: Advance) -> AdvanceAnswer:
        return await self._write("advance", lambda c, now: deliveries.advance(c, claim, change, now))

    async def holds(self, claim: Claim) -> bool:
        def work(connection: apsw.Connection) -> bool:
            row = one(connection, SQL.delivery_key, (claim.delivery,))
            alive = one(connection, SQL.owner_alive, (claim.owner, self._clock.now().wall))
            return (
                alive is not None and row is not None and row[:3] == ("attempting", claim.owner, claim.fence)
            )

        return await self.read(work)

    async def record_receipt(self, delivery: str, attempt: int, receipt: str) -> None:
        await self._write(
            "record_receipt", lambda c, now: deliveries.record_receipt(c, delivery, attempt, receipt, now)
        )

    async def note_look_up(self, record: Record, attempt: int, found: LookUp) -> None:
        await self._write("note_look_up", lambda c, now: deliveries.note_look_up(c, record, attempt, found))

    async def settle(self, record: Record, event: Event) -> bool:
        return await self._write("settle", lambda c, now: deliveries.settle(c, record, event, now))

    async def defer(self, record: Record, due_at: int | None, offline: bool = False) -> bool:
        return await self._write("defer", lambda c, now: deliveries.defer(c, record, due_at, offline, now))

    async def hold(self, adapter: AdapterId, limit: Limit) -> None:
        await self._write("hold", lambda c, now: chats.hold(c, adapter, limit, now))

    async def connected(self, adapter: AdapterId, chat: str | None) -> int:
        return await self._write("connected", lambda c, now: chats.connected(c, adapter, chat, now))

    async def prune(self) -> int:
        return await self._write("prune", pruning.prune)

    async def operate(self, verb: str, work: Callable[[apsw.Connection, Now], T]) -> T:
        """An operator's order as one transaction; ``verb`` is a key of ``VERBS``."""
        return await self._write(verb, work)

    # -- reading -------------------------------------------------------------------------------

    async def head(self, lane: Lane) -> Record | None:
        return await self.read(lambda c: reading.head(c, lane))

    async def record(self, delivery: str) -> Record:
        return await self.read(lambda c: load_record(c, delivery))

    async def due_lanes(self, adapters: Sequence[AdapterId], limit: int) -> Sequence[Lane]:
        return await self.read(lambda c: reading.due_lanes(c, adapters, limit, self._clock.now()))

    async def stale(self, limit: int) -> Sequence[Record]:
        return await self.read(lambda c: reading.stale(c, limit, self._clock.now()))

    async def files_named(self) -> Collection[str]:
        return await self.read(reading.files_named)

    async def held_until(self, lane: Lane) -> int:
        return await self.read(lambda c: held_until(c, lane.profile, lane.platform, lane.chat))

    async def history(self, adapter: AdapterId, chat: str, limit: int) -> Sequence[HistoryEntry]:
        return await self.read(lambda c: reading.history(c, adapter, chat, limit))

    async def conversation(self, lane: Lane, before_turn: str, limit: int) -> Sequence[HistoryEntry]:
        return await self.read(lambda c: reading.conversation(c, lane, before_turn, limit))

    async def chats(self, adapter: AdapterId, limit: int) -> Sequence[ChatSummary]:
        return await self.read(lambda c: reading.chats(c, adapter, limit))

    # -- the file ------------------------------------------------------------------------------

    async def writable(self) -> bool:
        """Whether a write can be committed now (a health check; nothing is changed)."""

        def touch(connection: apsw.Connection) -> Any:
            return connection.execute("PRAGMA application_id").fetchone()

        try:
            await self._writer.run("renew", touch)
        except StoreUnavailableError:
            return False
        return True

    async def close(self) -> None:
        await self._reader.close()  # first, so that the last close can fold the log into the file
        await self._writer.close()
