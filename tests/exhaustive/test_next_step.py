"""The next-step function, case by case: what a search found once, and rows that never end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.exhaustive.moves import answered, fair_end, late_receipt, successors
from tests.exhaustive.world import FULL, HOUR, MINUTE, SECOND, World, fresh, next_step

from angelia.model.plan import LookUpFirst, Promise, Rest, Send, Settle, WaitUntil
from angelia.model.record import Role
from angelia.model.states import FINAL, Event, State


def after(promise: Promise, *words: str, parts: int = 1, addressed: bool = False) -> World:
    """The world after these calls, each at the moment it was due."""
    world = fresh(promise, parts, addressed)
    for word in words:
        while world.record.state is not State.ATTEMPTING:
            world = next(successors(world, FULL))
        world = answered(world, word)
    return world


def test_a_row_never_attempted_goes_out_at_once_and_plain() -> None:
    step = next_step(fresh(Promise(4096), 1))
    assert isinstance(step, Send)
    assert (step.revision.text, step.revision.marker, step.after_s) == (None, False, 0.0)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_row_is_left_alone(state: State) -> None:
    world = fresh(Promise(4096), 1)
    assert next_step(replace(world, record=replace(world.record, state=state))) == Rest()


def test_an_unreachable_chat_is_never_called() -> None:
    world = fresh(Promise(4096), 1)
    record = replace(world.record, unreachable=True)
    assert next_step(replace(world, record=record)) == Settle(Event.CHAT_UNREACHABLE)


@pytest.mark.parametrize(("age", "stale"), [(24 * HOUR - 1, False), (24 * HOUR, True)])
def test_stale_from_24_h_on(age: int, stale: bool) -> None:
    step = next_step(fresh(Promise(4096), 1).at(age))
    assert (step == Settle(Event.GREW_STALE)) is stale


def test_rejected_markup_is_never_repeated_under_its_key() -> None:
    """Unconfirmed under a key, then "markup rejected": plain text follows, not the same bytes."""
    world = after(Promise(4096, key_window_ms=float("inf")), "unconfirmed-", "markup")
    assert world.record.state is State.ATTEMPTING
    assert [a.revision for a in world.record.attempts] == [1, 1, 2]


def test_a_look_up_holds_for_the_whole_pass() -> None:
    """A line of its own is followed by the content, also where no look-up could tell."""
    world = fair_end(after(Promise(40, read_back=True), "unconfirmed+"))
    roles = [world.record.revision(a.part, a.revision).role for a in world.record.attempts]
    assert roles == [Role.CONTENT, Role.LINE, Role.CONTENT]


def test_a_line_is_said_again_in_the_place_that_the_message_was_re_routed_to() -> None:
    world = after(Promise(40), "limit 5 s", "ok", "topic gone", addressed=True)
    newest = world.record.attempts[-1]
    revision = world.record.revision(newest.part, newest.revision)
    assert (revision.role, revision.target) == (Role.LINE, world.record.target)


def test_a_late_receipt_of_a_split_part_stands_for_its_children() -> None:
    world = after(Promise(4096), "died+", "too long", "limit 5 s")
    received = late_receipt(world, world.record.attempts[0])
    assert next_step(received) == Settle(Event.COMPLETED_LATE)


def test_no_look_up_waits_for_a_clock_that_was_set_back() -> None:
    world = after(Promise(4096, read_back=True), "unconfirmed-")
    due = world.record.due_at
    assert due is not None
    there = world.at(due - world.now.steady)
    assert isinstance(next_step(there), LookUpFirst)
    back = replace(there, now=replace(there.now, wall=there.now.wall - HOUR))
    assert isinstance(next_step(back), Send)


def test_a_key_window_closes_although_the_clock_was_set_back() -> None:
    world = after(Promise(4096, key_window_ms=2.0 * MINUTE), "died+").at(2 * MINUTE)
    back = replace(world, now=replace(world.now, wall=world.now.wall - 100 * SECOND))
    step = next_step(back)
    assert isinstance(step, Send)
    assert step.revision.marker


def test_a_keyed_repetition_never_crosses_24_h() -> None:
    world = after(Promise(4096, key_window_ms=float("inf")), "refused").at(24 * HOUR - 2_500)
    world = answered(next(successors(world, FULL)), "unconfirmed-")
    assert world.record.state is State.FAILED


def test_the_third_redelivery_waits_for_a_start_and_then_two_minutes() -> None:
    world = after(Promise(4096), "refused", "refused", "refused")
    assert next_step(world) == Rest()
    step = next_step(replace(world, record=replace(world.record, newest_start=2)))
    assert step == WaitUntil(world.now.steady + 2 * MINUTE)


def test_children_of_a_part_in_doubt_go_out_marked() -> None:
    world = after(Promise(4096), "unconfirmed+", "too long", "ok", "ok")
    children = world.record.attempts[2:]
    assert [world.record.revision(a.part, a.revision).doubt for a in children] == [True, True]
    assert world.record.state is State.DELIVERED
