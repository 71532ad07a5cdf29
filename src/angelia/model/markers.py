"""The marker: one visible line in front of a redelivery, and when it must stand there.

``facts`` decides from the record whether the next message of a delivery needs the line and
what it says (guarantees §5); ``line`` is the one catalogue of its sentences. The line is
never stored in the content of a part, so it cannot stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from angelia.model import limits
from angelia.model.record import (
    DOUBTFUL,
    Attempt,
    Ending,
    Part,
    Record,
    Role,
    doubtful_attempts,
    is_received,
)
from angelia.model.states import State


class Cause(StrEnum):
    """The newest interruption, in the words that a person reads."""

    RESTARTED = "the gateway restarted while sending this"
    TAKEN_OVER = "another gateway took this over"
    DROPPED = "the connection dropped before the platform confirmed it"
    UNCONFIRMED = "the platform did not confirm it"
    RATE_LIMITED = "the platform's rate limit delayed this"
    REROUTED = "its topic is gone, so it comes here"
    DELAYED = "this was delayed"
    REQUESTED = "sent again on request"


OPENING = "♻️ Recovered reply — "
DOUBT = ", so it may be a duplicate"
DOUBT_ABOUT_EARLIER = ", so earlier parts may already have arrived"

_CAUSE_OF: dict[Ending, Cause] = {
    Ending.DIED: Cause.RESTARTED,
    Ending.TAKEN_OVER: Cause.TAKEN_OVER,
    Ending.DROPPED: Cause.DROPPED,
    Ending.UNCONFIRMED: Cause.UNCONFIRMED,
    Ending.RATE_LIMITED: Cause.RATE_LIMITED,
    Ending.THREAD_GONE: Cause.REROUTED,
    Ending.REFUSED: Cause.DELAYED,
    Ending.BAD_CREDENTIAL: Cause.DELAYED,
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a marker has to say. ``k`` of ``n`` only when earlier parts have receipts;
    ``written_at`` (wall milliseconds) only when older than ten minutes."""

    cause: Cause
    doubt: bool = False
    doubt_about_earlier: bool = False
    k: int | None = None
    n: int | None = None
    written_at: int | None = None


def line(facts: Facts) -> str:
    """The marker as one line, without the empty line that follows it."""
    progress = f", continuing with part {facts.k} of {facts.n}" if facts.k else ""
    doubt = DOUBT_ABOUT_EARLIER if facts.doubt_about_earlier else DOUBT if facts.doubt else ""
    age = f" (written {_local_time(facts.written_at)})" if facts.written_at is not None else ""
    return f"{OPENING}{facts.cause}{progress}{doubt}{age}:"


def fitting(facts: Facts, measure: Callable[[str], int], limit: int) -> str:
    """The marker as a message of its own, on a platform whose messages are very short: age, then
    progress, then the cause are left out until it fits. The doubt is never left out."""
    shorter = (
        facts,
        replace(facts, written_at=None),
        replace(facts, written_at=None, k=None, n=None),
        Facts(Cause.DELAYED, doubt=facts.doubt),
    )
    return next((said for said in map(line, shorter) if measure(said) <= limit), line(shorter[-1]))


def _local_time(wall: int) -> str:
    """Hours, minutes and offset in the gateway's own time zone: ``14:03 +02:00``."""
    local = datetime.fromtimestamp(wall / 1000).astimezone()
    offset = local.strftime("%z")
    return f"{local:%H:%M} {offset[:3]}:{offset[3:5]}"


def with_line(marker: str, text: str) -> str:
    """A marked message: the line, an empty line, the text."""
    return f"{marker}\n\n{text}"


def facts(record: Record, part: Part, wall: int, part_receipts: bool = True) -> Facts | None:
    """What the marker in front of the next message, which carries ``part``, has to say;
    ``None`` if none may stand there.

    ``record`` is the record as it stands before the claim or, within a pass, before the
    further attempt. ``part_receipts``: whether the adapter can tell which parts arrived.
    """
    fence = record.fence if record.state is State.ATTEMPTING else record.fence + 1
    earlier_pass = any(a.fence < fence for a in record.attempts)
    first_message = not any(a.fence == fence and _is_content(record, a) for a in _accepted(record))
    doubt = bool(doubtful_attempts(record, part)) or record.inherited_doubt
    rerouted = record.rerouted and not _announced_since_reroute(record)
    live = record.live_parts
    k = live.index(part) + 1
    progress = any(is_received(record, p) for p in live[: k - 1])
    old = wall - record.written_at > limits.marker_age_min_ms
    cause = _cause(record, rerouted)
    # Where nobody can tell which parts arrived, every part of an earlier pass may have.
    untold = not part_receipts and len(live) > 1 and earlier_pass
    needed = doubt or rerouted
    if first_message:
        needed = needed or record.requested or untold
        if earlier_pass:
            needed = needed or cause is Cause.RATE_LIMITED or progress or record.overtaken or old
    if not needed:
        return None
    return Facts(
        cause,
        doubt=doubt or untold,
        doubt_about_earlier=untold,
        k=k if progress else None,
        n=len(live) if progress else None,
        written_at=record.written_at if old else None,
    )


def _accepted(record: Record) -> tuple[Attempt, ...]:
    return tuple(a for a in record.attempts if a.ending is Ending.ACCEPTED)


def _is_content(record: Record, attempt: Attempt) -> bool:
    return record.revision(attempt.part, attempt.revision).role is Role.CONTENT


def _announced_since_reroute(record: Record) -> bool:
    """Whether a message was accepted at the new place: it carried the line."""
    gone = max((a.number for a in record.attempts if a.ending is Ending.THREAD_GONE), default=0)
    return any(a.number > gone and _is_content(record, a) for a in _accepted(record))


def _cause(record: Record, rerouted: bool) -> Cause:
    interruptions = [a for a in record.attempts if a.ending in _CAUSE_OF and a.number >= record.released]
    newest = max(interruptions, key=lambda a: a.number, default=None)
    if newest is None or newest.ending is None:
        if record.released:
            return Cause.DELAYED
        if record.inherited_doubt:
            return Cause.RESTARTED
        return Cause.REQUESTED if record.requested else Cause.DELAYED
    # A place that nobody was told of is worth more words than a plain delay after it.
    if rerouted and newest.ending not in DOUBTFUL and newest.ending is not Ending.RATE_LIMITED:
        return Cause.REROUTED
    return _CAUSE_OF[newest.ending]
