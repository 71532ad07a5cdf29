"""Every move that a sender, a platform and a clock may make in the bounded world, checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.exhaustive.world import (
    DEATHS,
    DOUBTS,
    HOUR,
    MINUTE,
    OUTCOMES,
    SECOND,
    Alphabet,
    World,
    all_received,
    canonical,
    check_copies,
    check_due,
    doubts,
    effective,
    ensure,
    law_after,
    next_step,
)

from angelia.model import markers, plan
from angelia.model.plan import LookUpFirst, PassEnds, Rest, Send, Settle, SplitPart, WaitUntil
from angelia.model.record import (
    Attempt,
    Ending,
    Revision,
    Role,
    conclude,
    lineage,
    open_attempt,
    with_attempt,
    with_ending,
    with_receipt,
    with_split,
)
from angelia.model.states import REASONS, Event, State, step
from angelia.seams.clock import Now


def successors(world: World, alphabet: Alphabet) -> Iterator[World]:
    """Every world that may come next; none once the row is final."""
    if world.final:
        return
    if open_attempt(world.record) is not None:
        for word in alphabet.words:
            yield answered(world, word)
        return
    if alphabet.extras:
        yield from surprises(world)
    answer = next_step(world)
    tomorrow = next_step(world, Now(world.record.written_at + 24 * HOUR, world.now.steady + 48 * HOUR))
    ensure(isinstance(tomorrow, Settle), world, f"a day old, and the answer is {tomorrow}")
    match answer:
        case Send():
            yield claimed(world, answer)
        case LookUpFirst(attempt):
            yield from looked_up(world, attempt)
        case WaitUntil(until):
            ensure(until > world.now.steady, world, "waits for the past")
            too_soon = next_step(world.at(until - world.now.steady - 1))
            ensure(isinstance(too_soon, WaitUntil | Settle), world, f"1 ms too soon it says {too_soon}")
            stored = replace(world, record=replace(world.record, due_at=until))
            for jump in alphabet.jumps:
                yield stored.at(until + jump - world.now.steady).said(f"waits (+{jump} ms)")
        case Rest():
            ensure(isinstance(next_step(world.at(20 * HOUR)), Rest | Settle), world, "rest ends by time")
            for jump in alphabet.jumps:
                yield started(world.at(jump))
        case Settle(event):
            yield settled(world, event)
        case _:
            ensure(False, world, f"an unclaimed row was answered with {answer}")


def surprises(world: World) -> Iterator[World]:
    """What may happen to an unclaimed row at any time."""
    for attempt in world.record.attempts:
        if attempt.ending in (Ending.DIED, Ending.TAKEN_OVER) and attempt.number in world.landed:
            yield late_receipt(world, attempt)
    if len(world.record.attempts) in (1, 2) and not world.stepped:
        back = Now(world.now.wall - HOUR, world.now.steady)
        yield replace(world, now=back, stepped=True).said("the clock steps back 1 h")
    resting = world.record.due_at is None and world.record.state is State.FAILED
    if resting and not world.record.overtaken and len(world.record.attempts) < 4:
        yield replace(world, record=replace(world.record, overtaken=True)).said("overtaken")
    edge = world.record.written_at + 24 * HOUR - 1500 - world.now.wall
    if len(world.record.attempts) == 1 and edge > HOUR and not world.stepped:
        yield world.at(edge).said("1.5 s before it is a day old")


def started(world: World) -> World:
    """A gateway starts."""
    record = replace(world.record, newest_start=world.record.newest_start + 1)
    return replace(world, record=record).said("a gateway starts")


def late_receipt(world: World, attempt: Attempt) -> World:
    """The call of an owner that had lapsed is answered after all."""
    record = with_ending(world.record, attempt, Ending.ACCEPTED, world.now.wall, "late")
    if record.revision(attempt.part, attempt.revision).role is Role.CONTENT:
        record = with_receipt(record, attempt.part, "late")
    return replace(world, record=record).said(f"late receipt of attempt {attempt.number}")


def looked_up(world: World, attempt: Attempt) -> Iterator[World]:
    """Reading back tells the truth or nothing."""
    ensure(world.promise.read_back, world, "looked up where nothing can be read back")
    waited = world.now.wall - (attempt.ended_at or 0)
    ensure(waited >= 30 * SECOND, world, f"looked up {waited} ms after the attempt")
    ensure(attempt.looked_up_fence != world.record.fence, world, "looked up twice before one claim")
    blind = replace(attempt, looked_up_fence=world.record.fence)
    yield with_attempt_as(world, blind).said("look-up: cannot tell")
    if attempt.number in world.landed:
        yield late_receipt(world, attempt)
    else:
        yield with_attempt_as(world, replace(blind, absent=True)).said("look-up: absent")


def with_attempt_as(world: World, attempt: Attempt) -> World:
    attempts = tuple(attempt if a.number == attempt.number else a for a in world.record.attempts)
    return replace(world, record=replace(world.record, attempts=attempts))


def settled(world: World, event: Event) -> World:
    """A final state is reached, for a reason that the law allows."""
    state = step(world.record.state, event)
    received = [all_received(world.record, p.number) for p in world.record.live_parts]
    if state is State.DELIVERED:
        ensure(all(received), world, "delivered without a receipt")
        arrived = {part for part, _ in world.copies}
        ensure(
            all(arrived & set(lineage(world.record, p)) for p in world.record.live_parts),
            world,
            "delivered, and a part never arrived",
        )
    if event is Event.TRIES_USED_UP:
        ensure(world.law.tries == 3, world, "given up before the third redelivery")
    if event is Event.GREW_STALE:
        ensure(world.now.wall - world.record.written_at >= 24 * HOUR, world, "stale too soon")
    said = world.said(f"settled: {event}")
    return replace(said, record=replace(world.record, state=state), reason=REASONS.get(event))


def claimed(world: World, send: Send) -> World:
    """The row is claimed and its first message of this pass is in flight."""
    law, record, now = world.law, world.record, world.now
    earliest = law.earliest
    if earliest is None:
        ensure(record.newest_start > law.start, world, "a resting row went out without a new start")
        earliest = law.last + 2 * MINUTE if not world.stepped else 0
    ensure(now.steady >= earliest, world, f"{earliest - now.steady} ms before the law allows it")
    ensure(now.steady >= law.held_until, world, "inside a rate limit")
    ensure(law.tries < 3, world, "a fourth counted redelivery")
    ensure(send.after_s == 0, world, "a pause before the first message of a pass")
    plain = not record.attempts and not record.requested and not record.inherited_doubt
    ensure(not (plain and send.revision.marker), world, "never attempted, yet marked")
    state = step(record.state, Event.CLAIMED)
    claim = replace(record, state=state, fence=record.fence + 1, owner="a")
    return in_flight(replace(world, record=claim, words_of_pass=(), line_before=None), send)


def in_flight(world: World, send: Send) -> World:
    """One message is about to leave: the checks of the last moment before the first byte."""
    world = world.at(int(send.after_s * SECOND))
    record, revision = world.record, send.revision
    part = record.part(revision.part)
    ensure(world.now.wall - record.written_at < 24 * HOUR, world, "went out after 24 h")
    ensure(world.now.steady >= world.law.held_until, world, "went out inside a rate limit")
    ensure(not all_received(record, part.number), world, "sent again although it has a receipt")
    ensure(not part.replaced, world, "a part that was split went out whole")
    ensure(revision.target == record.target, world, "went to an old address")
    shown = revision.text if revision.text is not None else part.text
    ensure(markers.OPENING not in part.text, world, "the marker is stored in the content")
    bare = part.attachment is not None and not part.text and revision.role is Role.CONTENT
    ensure(not (bare and shown), world, "a line in the caption of a file that has none")
    ensure(shown.count(markers.OPENING) <= 1, world, "markers stack")
    has_line = shown.startswith(markers.OPENING)
    ensure(has_line == (revision.marker and revision.text is not None), world, "a marker and no line")
    if has_line and revision.role is Role.CONTENT:
        ensure(world.promise.measure(shown) <= world.promise.limit_of(part), world, "line and part too long")
        ensure(shown.endswith(f":\n\n{part.text}"), world, "the content was changed")
    if has_line:
        content_before = any(is_content and word == "ok" for _, is_content, word in world.words_of_pass)
        own = bool(doubts(world)) or record.rerouted or record.inherited_doubt
        ensure(not content_before or own, world, "a marker in front of a later message")
    ensure(len(world.words_of_pass) < 40, world, "a pass without end")
    return replace(world, record=with_attempt(record, revision, world.now.wall))


def answered(world: World, word: str) -> World:
    """The call in flight ends by ``word`` (a ``+`` says that it arrived), one second later."""
    world = world.at(SECOND).said(word)
    attempt = open_attempt(world.record)
    assert attempt is not None
    revision = world.record.revision(attempt.part, attempt.revision)
    content = revision.role is Role.CONTENT
    if word == "ok" or word.endswith("+"):
        world = arrived(world, attempt, revision)
    words = (*world.words_of_pass, (attempt.part, content, effective(world.record, word)))
    world = replace(world, words_of_pass=words)
    if word in DEATHS:
        return taken_over(world, attempt, DEATHS[word])
    conclusion = conclude(world.record, OUTCOMES[word], world.now.wall)
    held = world.now.steady + int(conclusion.wait_s * SECOND) if conclusion.limit else 0
    record = replace(conclusion.record, held_until=max(held, conclusion.record.held_until))
    law = replace(world.law, held_until=max(held, world.law.held_until))
    line = revision if word == "ok" and not content else None if word == "ok" else world.line_before
    world = replace(world, record=record, law=law, line_before=line)
    after = plan.after(replace(conclusion, record=record), world.promise, world.now)
    return followed(world, after, held)


def arrived(world: World, attempt: Attempt, revision: Revision) -> World:
    """The platform shows the message, unless it knows the key."""
    world = replace(world, landed=world.landed | {attempt.number})
    if revision.role is Role.LINE:
        return world
    window = world.promise.key_window_ms
    here = next((k for k in world.keys if k[:2] == (attempt.part, attempt.revision)), None)
    if here and world.now.steady + world.promise.call_limit_ms <= here[2] + window + SECOND:
        return world
    record = world.record
    numbers = set(lineage(record, record.part(attempt.part)))
    before = [c for c in world.copies if c[0] in numbers]
    if before:
        line = world.line_before
        told = revision.text or ""
        if revision.text is None and line is not None and line.target == revision.target:
            told = line.text or ""
        ensure(any(d in told.partition("\n")[0] for d in DOUBTS), world, "a silent second copy")
    copies = (*world.copies, (attempt.part, attempt.number))
    keys = world.keys
    if window:
        others = tuple(k for k in keys if k != here)
        keys = (*others, (attempt.part, attempt.revision, world.now.steady - SECOND))
    return replace(world, copies=copies, keys=keys)


def taken_over(world: World, attempt: Attempt, ending: Ending) -> World:
    """The owner is gone: by a restart, or because another gateway took the row."""
    if ending is Ending.DIED:
        world = started(world)
    record = with_ending(world.record, attempt, ending, world.now.wall)
    return passed(replace(world, record=record), 0, gone=True)


def followed(world: World, answer: plan.Step, held: int) -> World:
    """What the sender does within its pass."""
    match answer:
        case Send():
            return in_flight(world, answer)
        case SplitPart(part):
            half = len(part.text) // 2
            halves = (part.text[:half], part.text[half:])
            texts = halves if part.attachment is None else (f"not taken: {part.text}",)
            record, _ = with_split(world.record, part, texts)
            split = replace(world, record=record)
            return followed(split, plan.after_split(record, world.promise, world.now), held)
        case Settle(event):
            return settled(world, event)
        case PassEnds():
            return passed(world, held)
    ensure(False, world, f"a claimed row was answered with {answer}")
    return world


def passed(world: World, held: int, gone: bool = False) -> World:
    """The pass ends; what it stores is compared with the law's own reading."""
    end = plan.end_of_pass(world.record, world.now, held, gone)
    law = law_after(world)
    ensure(end.tries == law.tries, world, f"counted {end.tries}, the law counts {law.tries}")
    state = step(world.record.state, end.event)
    untouched = not world.record.attempts and not gone
    ensure((state is State.PENDING) == untouched, world, f"{state} after a pass")
    record = replace(world.record, state=state, due_at=end.due_at, tries=end.tries)
    world = replace(world, record=record, law=law, words_of_pass=(), line_before=None)
    check_copies(world)
    check_due(world)
    return world


def fair_end(
    world: World, word: str = "ok", calls_most: int = 20, fair: dict[int, int] | None = None
) -> World:
    """Every call is answered alike, no look-up can tell, time passes, gateways start: the row
    must come to its end. With all calls accepted, one start must be enough. ``fair`` remembers
    worlds that came to their end, and the starts they needed."""
    starts, calls = 0, 0
    passed_by: list[tuple[int, int]] = []
    while not world.final:
        ensure(calls <= calls_most and len(world.trail) < 150, world, "stranded")
        if fair is not None:
            mark = hash(canonical(world))
            if mark in fair:
                starts += fair[mark]
                ensure(starts <= 1, world, "one start was not enough")
                break
            passed_by.append((mark, starts))
        if open_attempt(world.record) is not None:
            world, calls = answered(world, word), calls + 1
            continue
        if next_step(world) == Rest():
            starts += 1
            ensure(starts == 1 or word != "ok", world, "one start was not enough")
        world = next(successors(world, Alphabet(())))
    if fair is not None:
        fair.update((mark, starts - before) for mark, before in passed_by)
    return world
