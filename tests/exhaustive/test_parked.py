"""Parked rows, over every history that a short story can have: never sent, and honest once released."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.exhaustive.moves import successors
from tests.exhaustive.world import FULL, HOUR, World, fresh, next_step

from angelia.model.markers import DOUBT, OPENING
from angelia.model.plan import Promise, Rest, Send, Settle
from angelia.model.record import Role
from angelia.model.states import FINAL, Event, State

PROMISES = (Promise(4096), Promise(4096, key_window_ms=float("inf")), Promise(40, read_back=True))
_WORLDS_MOST = 1500


def worlds(promise: Promise) -> Iterator[World]:
    """Different records of a delivery of two parts that nobody works on."""
    todo = [fresh(promise, 2)]
    seen: set[object] = set()
    while todo and len(seen) < _WORLDS_MOST:
        world = todo.pop(0)
        if world.record in seen:
            continue
        seen.add(world.record)
        if world.record.state not in FINAL and world.record.state is not State.ATTEMPTING:
            yield world
        todo += successors(world, FULL)


def test_a_parked_row_is_never_sent() -> None:
    looked_at = 0
    for promise in PROMISES:
        for world in worlds(promise):
            parked = replace(world, record=replace(world.record, parked=True, due_at=None))
            for moment in (parked, parked.at(HOUR), parked.at(24 * HOUR)):
                step = next_step(moment)
                assert isinstance(step, Rest | Settle), step
                if isinstance(step, Settle):
                    assert step.event in (Event.COMPLETED_LATE, Event.CHAT_UNREACHABLE, Event.GREW_STALE)
            looked_at += 1
    assert looked_at > 100


def test_a_released_row_tells_of_its_doubt_first() -> None:
    sent = 0
    for promise in PROMISES:
        for world in worlds(promise):
            first = max((attempt.number for attempt in world.record.attempts), default=0) + 1
            record = replace(world.record, due_at=0, inherited_doubt=True, released=first)
            step = next_step(replace(world, record=record))
            if not isinstance(step, Send):
                continue
            sent += 1
            said = step.revision.text or ""
            known = any(a.revision == step.revision.number for a in world.record.attempts)
            assert step.revision.doubt or known, step
            if step.revision.role is Role.LINE or said:
                assert said.startswith(OPENING)
                assert DOUBT in said.partition("\n")[0]
    assert sent > 50
