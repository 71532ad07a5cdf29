"""What happens next to a delivery: one pure function of what is on record.

``next_step`` answers for an unclaimed row (send this revision, look up, wait, rest, settle)
and, with the row claimed, for what follows an outcome within the pass. ``end_of_pass``
says what a pass that ended leaves behind. Columns such as ``state`` and ``due_at`` are the
stored answer of these two, never a second truth (guarantees §1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from angelia.model import limits, markers
from angelia.model.messages import TextFormat
from angelia.model.record import (
    DOUBTFUL,
    STRENGTH,
    Attempt,
    Conclusion,
    Ending,
    Part,
    Record,
    Revision,
    Role,
    doubtful_attempts,
    is_received,
    lineage,
)
from angelia.model.states import FINAL, Event, State


@dataclass(frozen=True, slots=True)
class Promise:
    """What the plan needs to know of an adapter (see ``platforms.base.Capabilities``)."""

    text_limit: int
    measure: Callable[[str], int] = len
    key_window_ms: float = 0.0
    call_limit_ms: float = 30_000.0
    read_back: bool = False
    part_receipts: bool = True
    caption_limit: int = 0

    def limit_of(self, part: Part) -> int:
        """The longest text that may go with ``part`` in one message."""
        return self.text_limit if part.attachment is None else self.caption_limit


class Moment(Protocol):
    """Now, in wall and in steady milliseconds (``seams.clock.Now`` is one)."""

    @property
    def wall(self) -> int: ...

    @property
    def steady(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Send:
    """Make an attempt of this revision, ``after_s`` seconds from now (within the pass)."""

    revision: Revision
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LookUpFirst:
    """Read the conversation back for this attempt's revision before anything is sent."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing before this steady time (milliseconds)."""

    steady: int


@dataclass(frozen=True, slots=True)
class Rest:
    """Left for the next start."""


@dataclass(frozen=True, slots=True)
class Settle:
    """The row is final by this event."""

    event: Event


@dataclass(frozen=True, slots=True)
class SplitPart:
    """Replace the part by smaller ones (a file by a line that tells of it) and go on."""

    part: Part


@dataclass(frozen=True, slots=True)
class PassEnds:
    """This pass is over; ``end_of_pass`` says what it leaves behind."""


Step = Send | LookUpFirst | WaitUntil | Rest | Settle | SplitPart | PassEnds


def next_step(record: Record, promise: Promise, now: Moment) -> Step:
    """What happens next to ``record``. Total: every record has an answer."""
    if record.state is State.ATTEMPTING:
        return _within_pass(record, promise, now)
    if record.state in FINAL:
        return Rest()
    if record.missing is None:
        return Settle(Event.COMPLETED_LATE)
    if record.unreachable:
        return Settle(Event.CHAT_UNREACHABLE)
    if is_stale(record, now):
        return Settle(Event.GREW_STALE)
    if record.parked:
        return Rest()  # until somebody says that it shall go (guarantees §10)
    if record.state is State.FAILED:
        if record.tries >= limits.redeliveries_max:
            return Settle(Event.TRIES_USED_UP)
        if record.due_at is None:
            released = released_by_start(record, now)
            if released is None:
                return Rest()
            if released > now.steady:
                return WaitUntil(released)
    until = max(record.due_at or 0, record.held_until)
    if until > now.steady:
        return WaitUntil(until)
    return _for_part(record, record.missing, promise, now)


def is_stale(record: Record, now: Moment) -> bool:
    """Whether the reply is too old to go out at all."""
    return now.wall - record.written_at >= limits.freshness_ms


def released_by_start(record: Record, now: Moment) -> int | None:
    """When a resting row may go (steady milliseconds), because a gateway started after its
    last attempt; ``None`` while no start has released it."""
    last = max(record.attempts, key=lambda a: a.number, default=None)
    if last is None:
        return now.steady
    if record.newest_start <= last.start:
        return None
    passed = max(0, now.wall - (last.ended_at or last.started_at))
    return now.steady + max(0, limits.backoff_third_ms - passed)


def _within_pass(record: Record, promise: Promise, now: Moment) -> Step:
    """What follows the newest outcome of the pass that holds the claim."""
    part = record.missing
    if part is None:
        return Settle(Event.LAST_PART_ACCEPTED)
    last = max(record.of_pass(record.fence), key=lambda a: a.number, default=None)
    if last is None or last.ending is None:
        return PassEnds()
    match last.ending:
        case Ending.UNREACHABLE:
            return Settle(Event.CHAT_UNREACHABLE)
        case Ending.UNCONFIRMED | Ending.DROPPED:
            return _repeat_under_key(record, last, promise, now) or PassEnds()
        case Ending.BAD_MARKUP | Ending.TOO_LONG | Ending.BAD_MEDIA if last.part != part.number:
            pass  # a late receipt came for the part that this rejected
        case Ending.BAD_MARKUP if not _tried_plain(record, last):
            pass
        case Ending.TOO_LONG | Ending.BAD_MEDIA if part.parent is None and _is_content(record, last):
            return PassEnds() if is_stale(record, now) else SplitPart(part)
        case Ending.BAD_MARKUP | Ending.TOO_LONG | Ending.BAD_MEDIA:
            return Settle(Event.CONTENT_REJECTED)
        case Ending.ACCEPTED | Ending.THREAD_GONE | Ending.ANCHOR_GONE | Ending.MOVED:
            pass
        case _:
            return PassEnds()
    return _go_on(record, part, promise, now)


def _go_on(record: Record, part: Part, promise: Promise, now: Moment) -> Step:
    """The next message of the running pass, unless something learned late holds it."""
    if is_stale(record, now) or record.held_until > now.steady:
        return PassEnds()
    step = _for_part(record, part, promise, now)
    return step if isinstance(step, Send) else PassEnds()


def after(conclusion: Conclusion, promise: Promise, now: Moment) -> Step:
    """What follows an outcome within its pass. A call that was no attempt ends the pass."""
    return PassEnds() if conclusion.ending is None else next_step(conclusion.record, promise, now)


def after_split(record: Record, promise: Promise, now: Moment) -> Step:
    """The next message of the running pass, after a part was replaced by smaller ones."""
    part = record.missing
    return PassEnds() if part is None else _go_on(record, part, promise, now)


def _for_part(record: Record, part: Part, promise: Promise, now: Moment) -> Step:
    """Guarantees §4, in its order: the key, the look-up, the marker."""
    doubts = doubtful_attempts(record, part)
    if doubts:
        keyed = _safe_revision(record, part, doubts, promise, now)
        if keyed is not None:
            return Send(keyed)
        if promise.read_back:
            waiting = _look_up(record, part, doubts, now)
            if waiting is not None:
                return waiting
    return Send(_draft(record, part, promise, now))


def _safe_revision(
    record: Record, part: Part, doubts: tuple[Attempt, ...], promise: Promise, now: Moment
) -> Revision | None:
    """The revision in doubt whose repetition the platform's key makes harmless."""
    numbers = {(a.part, a.revision) for a in doubts}
    for attempt in sorted(doubts, key=lambda a: -a.number):
        if attempt.part != part.number:
            continue
        revision = record.revision(attempt.part, attempt.revision)
        if revision.target != record.target or not _window_is_open(record, revision, promise, now):
            continue
        if revision.format is TextFormat.MARKDOWN and _needs_plain(record, part):
            continue  # the platform has rejected these bytes: never again in this shape
        alone = numbers == {(attempt.part, attempt.revision)} and not record.inherited_doubt
        told = revision.doubt and (revision.text is not None or _line_was_accepted(record, revision))
        if alone or told:
            return revision
    return None


def _window_is_open(
    record: Record, revision: Revision, promise: Promise, now: Moment, ahead_ms: int = 0
) -> bool:
    """Whether the platform surely still knows the key of ``revision``, ``ahead_ms`` from now."""
    if promise.key_window_ms <= 0:
        return False
    same = [a for a in record.attempts if a.part == revision.part and a.revision == revision.number]
    first = min(a.started_at for a in same)
    newest = max(max(a.started_at, a.ended_at or 0) for a in record.attempts)
    if now.wall < newest:  # the clock stepped back: nobody knows how much time has passed
        return False
    # Steady time still moves where the civil clock was set back since this process began.
    return max(now.wall, now.steady) + ahead_ms < first + promise.key_window_ms - promise.call_limit_ms


def _repeat_under_key(record: Record, last: Attempt, promise: Promise, now: Moment) -> Step | None:
    """The same revision once more within the pass, after 1 s and after 2 s."""
    revision = record.revision(last.part, last.revision)
    part = record.part(last.part)
    doubts = doubtful_attempts(record, part)
    if revision.role is Role.CONTENT and _safe_revision(record, part, doubts, promise, now) != revision:
        return None
    made = sum(
        1
        for a in record.of_pass(record.fence)
        if a.part == last.part and a.revision == last.revision and a.ending in DOUBTFUL
    )
    if made > len(limits.keyed_retries_s):
        return None
    pause_s = limits.keyed_retries_s[made - 1]
    pause_ms = int(pause_s * limits.SECOND_MS)
    if not _window_is_open(record, revision, promise, now, pause_ms):
        return None
    if record.held_until > now.steady + pause_ms:
        return None
    if now.wall + pause_ms - record.written_at >= limits.freshness_ms:
        return None
    return Send(revision, after_s=pause_s)


def _look_up(record: Record, part: Part, doubts: tuple[Attempt, ...], now: Moment) -> Step | None:
    """The next look-up that this pass owes, or the time from which it may prove absence."""
    # A look-up is noted under the fence before the claim; it holds for the whole pass.
    asked = record.fence - 1 if record.state is State.ATTEMPTING else record.fence
    for attempt in doubts:
        looked_up = attempt.looked_up_fence is not None and attempt.looked_up_fence >= asked
        if attempt.part != part.number or looked_up:
            continue
        ended = attempt.ended_at or attempt.started_at
        if now.wall < ended:  # the clock stepped back: no look-up can prove an absence in time
            continue
        if now.wall < ended + limits.look_up_after_ms:
            return WaitUntil(now.steady + ended + limits.look_up_after_ms - now.wall)
        return LookUpFirst(attempt)
    return None


def _draft(record: Record, part: Part, promise: Promise, now: Moment) -> Revision:
    """The message to send for ``part``: with the marker in it, after a line of its own, or plain."""
    style = TextFormat.PLAIN if _needs_plain(record, part) else TextFormat.MARKDOWN
    said = markers.facts(record, part, now.wall, promise.part_receipts)
    base = Revision(part.number, 0, format=style, target=record.target)
    if said is None:
        return _numbered(record, base)
    line = markers.line(said)
    whole = markers.with_line(line, part.text)
    if part.text and promise.measure(whole) <= promise.limit_of(part):
        return _numbered(record, replace(base, text=whole, marker=True, doubt=said.doubt))
    after_line = replace(base, marker=True, doubt=said.doubt)
    if _line_was_accepted(record, after_line):
        return _numbered(record, after_line)
    short = markers.fitting(said, promise.measure, promise.text_limit)
    return _numbered(
        record,
        replace(base, role=Role.LINE, text=short, format=TextFormat.PLAIN, marker=True, doubt=said.doubt),
    )


def _numbered(record: Record, draft: Revision) -> Revision:
    """``draft`` under the number of the same bytes on record, else under the next one."""
    own = [r for r in record.revisions if r.part == draft.part]
    for known in own:
        if replace(known, number=0) == draft:
            return known
    return replace(draft, number=max((r.number for r in own), default=0) + 1)


def _line_was_accepted(record: Record, content: Revision) -> bool:
    """Whether this pass has already sent, to the same place, a line of its own that tells what
    ``content`` needs told."""
    if record.state is not State.ATTEMPTING:
        return False
    lines = (
        record.revision(a.part, a.revision)
        for a in record.of_pass(record.fence)
        if a.part == content.part and a.ending is Ending.ACCEPTED
    )
    return any(
        r.role is Role.LINE and r.target == content.target and (r.doubt or not content.doubt) for r in lines
    )


def _is_content(record: Record, attempt: Attempt) -> bool:
    return record.revision(attempt.part, attempt.revision).role is Role.CONTENT


def _needs_plain(record: Record, part: Part) -> bool:
    numbers = set(lineage(record, part))
    return any(a.part in numbers and a.ending is Ending.BAD_MARKUP for a in record.attempts)


def _tried_plain(record: Record, last: Attempt) -> bool:
    return record.revision(last.part, last.revision).format is TextFormat.PLAIN


@dataclass(frozen=True, slots=True)
class PassEnd:
    """What a pass leaves behind. ``due_at`` ``None``: it rests (steady milliseconds)."""

    event: Event
    due_at: int | None
    tries: int


def end_of_pass(record: Record, now: Moment, wait_until: int = 0, gone: bool = False) -> PassEnd:
    """What the pass that holds the claim of ``record`` leaves behind when it ends now.

    ``wait_until``: the end of a rate limit just learned (steady milliseconds). ``gone``: it
    ends because its owner is gone. All attempts of the pass have an ending.
    """
    mine = record.of_pass(record.fence)
    left = {p.number for p in record.parts if not is_received(record, p)}
    strongest = max((a for a in mine if a.part in left and a.ending in STRENGTH), key=_strength, default=None)
    gained = any(a.ending is Ending.ACCEPTED and a.part not in left and _is_content(record, a) for a in mine)
    redelivery = any(a.fence < record.fence for a in record.attempts)
    limited = strongest is not None and strongest.ending is Ending.RATE_LIMITED
    counts = redelivery and strongest is not None and not (limited and gained)
    tries = record.tries + int(counts)
    event = Event.OWNER_GONE if gone else Event.PASS_FAILED if strongest else Event.RELEASED
    if strongest is None:
        if not record.attempts and not gone:
            event = Event.RELEASED_UNTRIED
        return PassEnd(event, max(now.steady + _not_sent_pause(record), wait_until), tries)
    return PassEnd(event, _due(record, strongest, tries, now, wait_until), tries)


def _strength(attempt: Attempt) -> int:
    return STRENGTH[attempt.ending] if attempt.ending else 0


def _not_sent_pause(record: Record) -> int:
    """1 s, doubling to 30 s; nothing for a pass that was merely released."""
    if record.not_sent == 0:
        return 0
    return int(min(limits.not_sent_first_ms * 2 ** min(record.not_sent - 1, 10), limits.not_sent_most_ms))


def _due(record: Record, strongest: Attempt, tries: int, now: Moment, wait_until: int) -> int | None:
    """Guarantees §6: how long the next redelivery waits. ``None``: it rests."""
    if tries >= limits.redeliveries_max:
        return now.steady  # the next step settles it
    last = tries == limits.redeliveries_max - 1
    died = strongest.ending in (Ending.DIED, Ending.TAKEN_OVER)
    if strongest.ending is Ending.RATE_LIMITED:
        pause = (0, limits.rate_limit_second_ms, limits.backoff_third_ms)[tries]
        return max(wait_until, now.steady + pause)
    if last:
        released = released_by_start(record, now)
        return None if released is None else max(wait_until, released)
    if tries == 0:
        return max(wait_until, now.steady + (0 if died else limits.backoff_first_ms))
    second = limits.backoff_second_death_ms if died else limits.backoff_second_ms
    return max(wait_until, now.steady + second)
