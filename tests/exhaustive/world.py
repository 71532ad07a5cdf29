"""A bounded world around the pure model: what a sender, a platform and a clock may do to it.

``World`` holds one delivery, the platform's own truth (which calls really arrived) and the
law's schedule, written here a second time, from guarantees §6, without looking at ``plan``.
``successors`` plays every move of an alphabet; every move is checked. A violated guarantee is
an ``AssertionError`` that names the words that led to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from angelia.model import markers, plan
from angelia.model.ids import Lane
from angelia.model.media import Attachment, MediaKind
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
from angelia.model.plan import Promise, Rest, Settle, WaitUntil
from angelia.model.record import (
    Attempt,
    Ending,
    Record,
    Revision,
    fresh_parts,
    lineage,
)
from angelia.model.states import Reason, State
from angelia.seams.clock import Now

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
DAWN = 1_800_000_000_000
DOUBTS = (markers.DOUBT, markers.DOUBT_ABOUT_EARLIER)
OUTCOMES: dict[str, Outcome] = {
    "ok": Accepted("r"),
    "not sent": NotSent(),
    "limit 5 s": RateLimited(5),
    "limit 300 s": RateLimited(300),
    "unconfirmed+": Unconfirmed(),
    "unconfirmed-": Unconfirmed(),
    "dropped+": Unconfirmed(dropped=True),
    "dropped-": Unconfirmed(dropped=True),
    "refused": Refused(),
    "markup": BadContent(),
    "too long": BadContent(ContentFault.TOO_LONG),
    "bad media": BadContent(ContentFault.MEDIA),
    "topic gone": ThreadGone(),
    "anchor gone": ThreadGone(anchor_only=True),
    "moved": Moved("elsewhere"),
    "unreachable": Unreachable(),
    "bad credential": BadCredential(),
}
DEATHS = {
    "died+": Ending.DIED,
    "died-": Ending.DIED,
    "taken over+": Ending.TAKEN_OVER,
    "taken over-": Ending.TAKEN_OVER,
}
WEIGHT = {"died": 4, "taken over": 4, "unconfirmed": 3, "dropped": 3, "refused": 2}
WEIGHT |= {"limit 5 s": 1, "limit 300 s": 1}
UNCLEAR = (Ending.UNCONFIRMED, Ending.DROPPED, *DEATHS.values())


@dataclass(frozen=True, slots=True)
class Alphabet:
    """What may happen: ``words`` answer a call; ``jumps`` are how long after a due time the
    sender looks again (milliseconds); ``extras`` allow steps back, late receipts, overtaking."""

    words: tuple[str, ...]
    jumps: tuple[int, ...] = (0,)
    extras: bool = False


FULL = Alphabet((*OUTCOMES, *DEATHS), jumps=(0,))
WILD = Alphabet(FULL.words, jumps=(0, 52_000, 11 * MINUTE), extras=True)
CORE = Alphabet(
    ("ok", "unconfirmed+", "unconfirmed-", "died+", "died-", "refused", "limit 5 s", "markup", "too long"),
    extras=True,
)
FILES = Alphabet(
    ("ok", "unconfirmed+", "unconfirmed-", "died-", "refused", "bad media", "markup"), extras=True
)
DEEP = Alphabet(("ok", "unconfirmed+", "died-", "refused", "limit 5 s", "not sent"))


@dataclass(frozen=True, slots=True)
class Law:
    """The schedule of guarantees §6 as this file reads it. ``earliest`` ``None``: it rests
    until a start after start number ``start``, then until ``last + 2 min``."""

    earliest: int | None = 0
    tries: int = 0
    sent_before: bool = False
    held_until: int = 0
    calls_not_sent: int = 0
    start: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """One delivery and all that is true about it. ``copies``: (part, attempt) that a person
    sees; ``landed``: attempts that arrived, also those that a key made the same copy;
    ``keys``: (part, revision, since when the platform knows it)."""

    record: Record
    promise: Promise
    now: Now
    law: Law = Law()
    copies: tuple[tuple[int, int], ...] = ()
    landed: frozenset[int] = frozenset()
    keys: tuple[tuple[int, int, int], ...] = ()
    words_of_pass: tuple[tuple[int, bool, str], ...] = ()
    line_before: Revision | None = None
    stepped: bool = False
    reason: Reason | None = None
    trail: tuple[str, ...] = ()

    def at(self, later: int) -> World:
        return replace(self, now=Now(self.now.wall + later, self.now.steady + later))

    def said(self, word: str) -> World:
        return replace(self, trail=(*self.trail, word))

    @property
    def final(self) -> bool:
        return self.record.state in (State.DELIVERED, State.ABANDONED)


def fresh(
    promise: Promise, parts: int, addressed: bool = False, captions: Iterable[str] = (), **facts: object
) -> World:
    """A new delivery, just written. ``addressed``: in a thread, as a reply. ``captions``: those
    of files, which come after the texts."""
    files = [(Attachment(c, MediaKind.FILE, f"{c}.bin", "", 1), c) for c in captions]
    record = Record(
        id="d",
        seq=1,
        lane=Lane("default", "web", "c", "t" if addressed else ""),
        state=State.PENDING,
        written_at=DAWN,
        parts=fresh_parts((f"text of part {i}" for i in range(1, parts + 1)), files),
        reply_to="m" if addressed else "",
        newest_start=1,
    )
    return World(replace(record, **facts), promise, Now(DAWN, DAWN))  # type: ignore[arg-type]


def ensure(truth: bool, world: World, what: str) -> None:
    """A guarantee, checked."""
    assert truth, f"{what}\n  after: {' / '.join(world.trail)}\n  {world.record}"


def next_step(world: World, now: Now | None = None) -> plan.Step:
    """The plan's answer; asked twice, since it must be a function."""
    answer = plan.next_step(world.record, world.promise, now or world.now)
    again = plan.next_step(world.record, world.promise, now or world.now)
    ensure(answer == again, world, "next_step is not deterministic")
    return answer


def effective(record: Record, word: str) -> str:
    """What a word means where its one chance is used up (guarantees §3)."""
    spent = {
        "topic gone": record.rerouted or not record.lane.thread,
        "anchor gone": record.anchor_dropped or not record.reply_to,
        "moved": record.moves >= 2,
    }
    return "refused" if spent.get(word) else word


def all_received(record: Record, part: int) -> bool:
    return any(record.part(n).receipt is not None for n in lineage(record, record.part(part)))


def doubts(world: World) -> list[Attempt]:
    """Attempts on the next part that may have arrived, counted without the plan's help."""
    part = world.record.missing
    numbers = set(lineage(world.record, part)) if part else set()
    return [a for a in world.record.attempts if a.part in numbers and a.ending in UNCLEAR and not a.absent]


def check_copies(world: World) -> None:
    """No part arrived more often than once and once more per doubt on record."""
    for part in world.record.live_parts:
        numbers = set(lineage(world.record, part))
        seen = sum(1 for p, _ in world.copies if p in numbers)
        doubtful = sum(1 for a in world.record.attempts if a.part in numbers and a.ending in UNCLEAR)
        late = sum(1 for a in world.record.attempts if a.detail == "late")
        ensure(seen <= 1 + doubtful + late, world, f"{seen} copies, {doubtful} doubts")


def check_due(world: World) -> None:
    """Right after a pass the plan waits exactly as long as the law says."""
    law, now = world.law, world.now
    answer = next_step(world)
    if isinstance(answer, Settle):
        return
    if law.earliest is None:
        released = world.record.newest_start > law.start
        ensure(
            isinstance(answer, WaitUntil) if released else answer == Rest(), world, f"rests, says {answer}"
        )
        return
    due = max(law.earliest, law.held_until)
    if isinstance(answer, WaitUntil):
        slack = 30 * SECOND if world.promise.read_back else 0
        ensure(max(due, now.steady) <= answer.steady <= max(due, now.steady) + slack, world, f"due {answer}")
    else:
        ensure(due <= now.steady, world, f"says {answer}, {due - now.steady} ms too soon")


def law_after(world: World) -> Law:
    """Guarantees §6 on the pass that just ended: does it count, and how long is the wait."""
    law, now, record = world.law, world.now, world.record
    words = world.words_of_pass
    attempts = [w for w in words if w[2] != "not sent"]
    left = {p.number for p in record.parts if not all_received(record, p.number)}
    weights = [WEIGHT.get(word.rstrip("+-"), 0) for part, _, word in words if part in left]
    strongest = max(weights, default=0)
    gained = any(w == "ok" and content for _, content, w in words)
    counts = law.sent_before and strongest > 0 and not (strongest == 1 and gained)
    tries = law.tries + counts
    streak = law.calls_not_sent
    for _, _, word in words:
        streak = streak + 1 if word == "not sent" else streak if word in DEATHS else 0
    law = replace(law, tries=tries, sent_before=law.sent_before or bool(attempts), calls_not_sent=streak)
    if strongest == 0:
        pause = min(30, 2 ** (streak - 1)) * SECOND if streak else 0
        return replace(law, earliest=now.steady + pause)
    if strongest == 1:
        pause = (0, 30 * SECOND, 2 * MINUTE, 0)[tries]
        return replace(law, earliest=now.steady + pause)
    if tries == 2:
        newest = record.attempts[-1]
        last = now.steady - (now.wall - (newest.ended_at or 0))
        return replace(law, earliest=None, start=newest.start, last=last)
    at_once, short, long = 0, 30 * SECOND, 2 * MINUTE
    pause = {0: at_once if strongest == 4 else short, 1: short if strongest == 4 else long}.get(tries, 0)
    return replace(law, earliest=now.steady + pause)


def canonical(world: World) -> object:
    """What can still matter of a world: times relative to now, and of old attempts only the
    doubtful ones, the accepted ones and the newest."""
    record, wall, steady = world.record, world.now.wall, world.now.steady
    newest = max((a.number for a in record.attempts), default=0)
    kept = tuple(
        _relative(a, record.fence, wall)
        for a in record.attempts
        if a.fence == record.fence or a.number == newest or a.ending in UNCLEAR or a.ending is Ending.ACCEPTED
    )
    due = None if record.due_at is None else max(0, record.due_at - steady)
    law = world.law
    return (
        record.state,
        due,
        record.tries,
        min(record.not_sent, 6),
        record.target,
        record.parts,
        record.revisions,
        record.overtaken,
        record.newest_start - law.start,
        max(0, record.held_until - steady),
        min(wall - record.written_at, 24 * 3_600_000),
        kept,
        law.tries,
        None if law.earliest is None else max(0, law.earliest - steady),
        law.sent_before,
        max(0, law.held_until - steady),
        world.copies,
        tuple((p, r, steady - since) for p, r, since in world.keys),
        world.words_of_pass,
        world.stepped,
    )


def _relative(attempt: Attempt, fence: int, wall: int) -> tuple[object, ...]:
    looked = None if attempt.looked_up_fence is None else fence - attempt.looked_up_fence
    return (
        attempt.part,
        attempt.revision,
        fence - attempt.fence,
        attempt.ending,
        attempt.absent,
        looked,
        wall - attempt.started_at,
    )
