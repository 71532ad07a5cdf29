"""What is on record about one delivery: the only input of ``plan``.

Pure values. The store loads them; ``plan`` computes from them what happens next; the pure
``with_…`` functions say what an outcome adds, so that sender and take-over share one truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from angelia.model import limits
from angelia.model.ids import Lane
from angelia.model.media import Attachment
from angelia.model.messages import TextFormat
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    BadCredential,
    ContentFault,
    Moved,
    NotSent,
    Outcome,
    RateLimited,
    Refused,
    ThreadGone,
    Unconfirmed,
    Unreachable,
)
from angelia.model.states import State


class Ending(StrEnum):
    """How an attempt ended, as it is kept on record."""

    ACCEPTED = "accepted"
    RATE_LIMITED = "rate_limited"
    UNCONFIRMED = "unconfirmed"
    DROPPED = "dropped"  # unconfirmed because the connection broke
    DIED = "died"  # in flight when its gateway died
    TAKEN_OVER = "taken_over"  # in flight when another gateway took it over
    REFUSED = "refused"
    BAD_MARKUP = "bad_markup"
    TOO_LONG = "too_long"
    BAD_MEDIA = "bad_media"
    THREAD_GONE = "thread_gone"
    ANCHOR_GONE = "anchor_gone"
    MOVED = "moved"
    UNREACHABLE = "unreachable"
    BAD_CREDENTIAL = "bad_credential"


#: Endings after which the part may have arrived.
DOUBTFUL = frozenset({Ending.UNCONFIRMED, Ending.DROPPED, Ending.DIED, Ending.TAKEN_OVER})

#: By how much an ending decides about its pass (guarantees §6); others do not decide.
STRENGTH: dict[Ending, int] = {
    Ending.DIED: 4,
    Ending.TAKEN_OVER: 4,
    Ending.UNCONFIRMED: 3,
    Ending.DROPPED: 3,
    Ending.REFUSED: 2,
    Ending.RATE_LIMITED: 1,
}


class Role(StrEnum):
    """What a revision carries: (part of) the reply, or a marker line as a message of its own."""

    CONTENT = "content"
    LINE = "line"


@dataclass(frozen=True, slots=True)
class Part:
    """One platform message of a delivery. ``position`` orders them; a part that was split is
    ``replaced`` by children that name it as ``parent`` and inherit its doubt. With an
    ``attachment``, ``text`` is its caption, or ``""``."""

    number: int
    position: int
    text: str
    parent: int | None = None
    replaced: bool = False
    receipt: str | None = None
    attachment: Attachment | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """The exact bytes of an attempt. ``text`` ``None`` stands for the part's own text.

    ``target`` numbers the versions of the address (see ``Record.target``). ``doubt``: it
    tells (or the line before it told) that it may be a duplicate.
    """

    part: int
    number: int
    role: Role = Role.CONTENT
    text: str | None = None
    format: TextFormat = TextFormat.MARKDOWN
    target: int = 0
    marker: bool = False
    doubt: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One wire call that may have put bytes on the wire; times in wall milliseconds.

    ``start`` numbers the newest start of a gateway at that time; counted, not timed, so that
    a stepped clock cannot hide a start. ``ending`` is ``None`` while in flight. ``absent``: a
    look-up proved that it did not arrive. ``looked_up_fence``: the fence under which it was
    last looked up.
    """

    number: int
    part: int
    revision: int
    fence: int
    started_at: int
    start: int = 0
    ended_at: int | None = None
    ending: Ending | None = None
    detail: str = ""
    absent: bool = False
    looked_up_fence: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that ``plan`` may look at. ``due_at`` and ``held_until`` in steady
    milliseconds (``due_at`` ``None`` on a failed row: it rests), the others in wall ones.
    ``newest_start`` is the number of the newest start of any gateway on this store.
    ``parked``: the store was put back from an old copy, so it may have arrived and asks first;
    ``released``: the number of its first attempt after it was let go (0: it never was parked)."""

    id: str
    seq: int
    lane: Lane
    state: State
    written_at: int
    parts: tuple[Part, ...]
    reply_to: str = ""
    fence: int = 0
    version: int = 0
    due_at: int | None = None
    tries: int = 0
    not_sent: int = 0
    moves: int = 0
    rerouted: bool = False
    anchor_dropped: bool = False
    requested: bool = False
    inherited_doubt: bool = False
    parked: bool = False
    released: int = 0
    revisions: tuple[Revision, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    unreachable: bool = False
    held_until: int = 0
    overtaken: bool = False
    newest_start: int = 0
    owner: str = ""
    reason: str = ""
    origin: str = "turn"
    turn: str | None = None

    @property
    def live_parts(self) -> tuple[Part, ...]:
        """The parts that make up the delivery now, in order."""
        return tuple(sorted((p for p in self.parts if not p.replaced), key=lambda p: (p.position, p.number)))

    @property
    def missing(self) -> Part | None:
        """The first part without a receipt."""
        return next((p for p in self.live_parts if not is_received(self, p)), None)

    @property
    def target(self) -> int:
        """Which version of the address is in force: it changes with a move, a re-route and a
        dropped reply anchor, and a changed address is a changed revision."""
        return self.moves * 4 + int(self.anchor_dropped) * 2 + int(self.rerouted)

    def part(self, number: int) -> Part:
        return next(p for p in self.parts if p.number == number)

    def revision(self, part: int, number: int) -> Revision:
        return next(r for r in self.revisions if r.part == part and r.number == number)

    def of_pass(self, fence: int) -> tuple[Attempt, ...]:
        return tuple(a for a in self.attempts if a.fence == fence)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What an outcome adds to the record of a claimed delivery, as facts to be stored.

    ``record`` is the record with these facts; ``ending`` is ``None`` when the call turned
    out to be no attempt (``NotSent``, released): its note is removed again.
    """

    record: Record
    attempt: Attempt
    ending: Ending | None
    detail: str = ""
    receipt: str | None = None
    wait_s: float = 0.0
    limit: RateLimited | None = None
    moved_to: str = ""


def open_attempt(record: Record) -> Attempt | None:
    """The attempt that is in flight, if any."""
    return next((a for a in reversed(record.attempts) if a.ending is None), None)


def lineage(record: Record, part: Part) -> Iterable[int]:
    """The numbers of a part and of the parts that it was split from."""
    number: int | None = part.number
    while number is not None:
        yield number
        number = record.part(number).parent


def is_received(record: Record, part: Part) -> bool:
    """Whether a part has a receipt, or something that it was split from got one late."""
    return any(record.part(number).receipt is not None for number in lineage(record, part))


def doubtful_attempts(record: Record, part: Part) -> tuple[Attempt, ...]:
    """The attempts that may have brought this part (or what it was split from) to the
    person, and of which nothing better is known."""
    numbers = set(lineage(record, part))
    return tuple(
        a
        for a in record.attempts
        if a.part in numbers
        and a.ending in DOUBTFUL
        and not a.absent
        and record.revision(a.part, a.revision).role is Role.CONTENT
    )


_FAULTS = {
    ContentFault.MARKUP: Ending.BAD_MARKUP,
    ContentFault.TOO_LONG: Ending.TOO_LONG,
    ContentFault.MEDIA: Ending.BAD_MEDIA,
}


def _ending_of(record: Record, outcome: Outcome) -> Ending | None:
    match outcome:
        case Accepted():
            return Ending.ACCEPTED
        case NotSent():
            return None
        case RateLimited():
            return Ending.RATE_LIMITED
        case Unconfirmed(dropped=dropped):
            return Ending.DROPPED if dropped else Ending.UNCONFIRMED
        case Refused():
            return Ending.REFUSED
        case BadContent(fault=fault):
            return _FAULTS[fault]
        case ThreadGone(anchor_only=True):
            return Ending.REFUSED if record.anchor_dropped or not record.reply_to else Ending.ANCHOR_GONE
        case ThreadGone():
            return Ending.REFUSED if record.rerouted or not record.lane.thread else Ending.THREAD_GONE
        case Moved():
            return Ending.REFUSED if record.moves >= limits.moves_max else Ending.MOVED
        case Unreachable():
            return Ending.UNREACHABLE
        case BadCredential():
            return Ending.BAD_CREDENTIAL


def conclude(record: Record, outcome: Outcome, at: int) -> Conclusion:
    """What ``outcome`` of the open attempt adds, at wall time ``at`` (milliseconds)."""
    attempt = open_attempt(record)
    if attempt is None:
        raise ValueError("no attempt is in flight")
    ending = _ending_of(record, outcome)
    detail = "" if isinstance(outcome, Accepted) else outcome.detail
    if ending is None:
        others = tuple(a for a in record.attempts if a.number != attempt.number)
        after = replace(record, attempts=others, not_sent=record.not_sent + 1)
        return Conclusion(after, attempt, None, detail)
    receipt: str | None = None
    moved_to = ""
    facts: dict[str, Any] = {"attempts": _ended(record, attempt, ending, at, detail), "not_sent": 0}
    if isinstance(outcome, Accepted) and record.revision(attempt.part, attempt.revision).role is Role.CONTENT:
        receipt = outcome.receipt
        facts["parts"] = _received(record, attempt.part, receipt)
    elif ending is Ending.THREAD_GONE:
        facts["rerouted"] = True
    elif ending is Ending.ANCHOR_GONE:
        facts["anchor_dropped"] = True
    elif ending is Ending.MOVED and isinstance(outcome, Moved):
        moved_to = outcome.chat
        facts.update(moves=record.moves + 1, lane=record.lane._replace(chat=moved_to))
    after = replace(record, **facts)
    limit = outcome if isinstance(outcome, RateLimited) else None
    return Conclusion(
        after, attempt, ending, detail, receipt, limit.wait_s if limit else 0.0, limit, moved_to
    )


def released(record: Record) -> Conclusion:
    """The pass gives up before the first byte of the open attempt: its note is removed."""
    attempt = open_attempt(record)
    if attempt is None:
        raise ValueError("no attempt is in flight")
    others = tuple(a for a in record.attempts if a.number != attempt.number)
    return Conclusion(replace(record, attempts=others, not_sent=0), attempt, None)


def with_ending(record: Record, attempt: Attempt, ending: Ending, at: int, detail: str = "") -> Record:
    """The record after ``attempt`` ended."""
    return replace(record, attempts=_ended(record, attempt, ending, at, detail))


def _ended(record: Record, attempt: Attempt, ending: Ending, at: int, detail: str) -> tuple[Attempt, ...]:
    ended = replace(attempt, ending=ending, ended_at=at, detail=detail)
    return tuple([ended if a.number == attempt.number else a for a in record.attempts])


def with_receipt(record: Record, part: int, receipt: str) -> Record:
    """The record after a part was received."""
    return replace(record, parts=_received(record, part, receipt))


def _received(record: Record, part: int, receipt: str) -> tuple[Part, ...]:
    return tuple([replace(p, receipt=receipt) if p.number == part else p for p in record.parts])


def with_attempt(record: Record, revision: Revision, started_at: int) -> Record:
    """The record with an attempt of ``revision`` in flight under the present claim."""
    known = any(r.part == revision.part and r.number == revision.number for r in record.revisions)
    attempt = Attempt(
        number=max((a.number for a in record.attempts), default=0) + 1,
        part=revision.part,
        revision=revision.number,
        fence=record.fence,
        started_at=started_at,
        start=record.newest_start,
    )
    return replace(
        record,
        revisions=record.revisions if known else (*record.revisions, revision),
        attempts=(*record.attempts, attempt),
    )


def with_split(record: Record, part: Part, texts: Iterable[str]) -> tuple[Record, tuple[Part, ...]]:
    """The record after ``part`` was replaced by smaller children, and these children."""
    number = max(p.number for p in record.parts)
    children = tuple(
        Part(number + i, part.position + i, text, parent=part.number) for i, text in enumerate(texts, 1)
    )
    parts = tuple(replace(p, replaced=True) if p.number == part.number else p for p in record.parts)
    return replace(record, parts=(*parts, *children)), children


#: How far the first positions of parts are apart, so that children fit in between.
POSITION_STEP = 1_000_000


def fresh_parts(texts: Iterable[str], attachments: Iterable[tuple[Attachment, str]] = ()) -> tuple[Part, ...]:
    """The parts of a new delivery, numbered from 1: its texts, then its files."""
    worded = tuple([Part(i, i * POSITION_STEP, text) for i, text in enumerate(texts, 1)])
    files = enumerate(attachments, len(worded) + 1)
    return (*worded, *(Part(i, i * POSITION_STEP, text, attachment=file) for i, (file, text) in files))
