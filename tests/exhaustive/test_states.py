"""The state tables against guarantees §2 and §9, every pair of state and event."""

from __future__ import annotations

from itertools import product

import pytest

from angelia.model.states import (
    FINAL,
    OWED,
    REASONS,
    Event,
    Reason,
    State,
    TurnEvent,
    TurnState,
    step,
    turn_step,
)

P, A, F = State.PENDING, State.ATTEMPTING, State.FAILED
DONE, GONE = State.DELIVERED, State.ABANDONED

#: Guarantees §2, line by line, written from the text.
LAW: dict[Event, dict[State, State]] = {
    Event.OWNER_GONE: {A: F},  # attempting whose owner is gone | take-over | failed
    Event.CLAIMED: {P: A, F: A},  # pending, failed when due | claim | attempting
    Event.PART_ACCEPTED: {A: A},  # attempting | part accepted, more to come | attempting
    Event.LAST_PART_ACCEPTED: {A: DONE},  # attempting | last part accepted | delivered
    Event.RELEASED_UNTRIED: {A: P},  # NotSent or a release, no attempt on record | pending
    Event.RELEASED: {A: F},  # NotSent, BadCredential or a release, else | failed
    Event.PASS_FAILED: {A: F},  # RateLimited, Unconfirmed, Refused | failed
    Event.GOES_ON: {A: A},  # BadContent, ThreadGone, Moved go on in the same pass
    Event.CONTENT_REJECTED: {A: GONE},  # exhausted: abandoned(rejected)
    Event.CHAT_UNREACHABLE: {A: GONE, P: GONE, F: GONE},  # Unreachable; its chat is unreachable
    Event.TRIES_USED_UP: {F: GONE},  # failed | third redelivery used without success
    Event.GREW_STALE: {P: GONE, F: GONE},  # pending, failed | 24 h since it was written
    Event.CANCELLED: {P: GONE, F: GONE},  # an attempting row answers "try again"
    Event.MARKED_DELIVERED: {F: DONE},  # failed | operator marks it delivered
    Event.COMPLETED_LATE: {F: DONE},  # failed | or a late receipt completes it
}

W, R = TurnState.WAITING, TurnState.RUNNING
TURN_LAW: dict[TurnEvent, dict[TurnState, TurnState]] = {
    TurnEvent.RUN_STARTED: {W: R},
    TurnEvent.ANSWERED: {R: TurnState.ANSWERED, W: TurnState.ANSWERED},  # a command needs no run
    TurnEvent.INTERRUPTED: {R: W},  # runs again once
    TurnEvent.DRAINED: {R: W},  # no interruption in this count
    TurnEvent.GAVE_UP: {R: TurnState.GAVE_UP, W: TurnState.GAVE_UP},
}


def test_the_law_knows_every_event() -> None:
    assert set(LAW) == set(Event)
    assert set(TURN_LAW) == set(TurnEvent)


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_pair_of_state_and_event(state: State, event: Event) -> None:
    allowed = LAW[event].get(state)
    if allowed is not None:
        assert step(state, event) is allowed
        return
    with pytest.raises(ValueError, match="cannot be"):
        step(state, event)


@pytest.mark.parametrize(("state", "event"), list(product(TurnState, TurnEvent)))
def test_every_pair_of_turn_state_and_event(state: TurnState, event: TurnEvent) -> None:
    allowed = TURN_LAW[event].get(state)
    if allowed is not None:
        assert turn_step(state, event) is allowed
        return
    with pytest.raises(ValueError, match="cannot be"):
        turn_step(state, event)


def reached(first: object, ways: dict[object, set[object]]) -> set[object]:
    """Every state that can be reached from ``first``."""
    found: set[object] = set()
    ahead = [first]
    while ahead:
        state = ahead.pop()
        if state not in found:
            found.add(state)
            ahead.extend(ways.get(state, ()))
    return found


def ways_of(allowed: object) -> dict[object, set[object]]:
    assert isinstance(allowed, dict)
    ways: dict[object, set[object]] = {}
    for by_state in allowed.values():
        for source, target in by_state.items():
            ways.setdefault(source, set()).add(target)
    return ways


def test_every_state_is_reachable_and_every_owed_row_can_end() -> None:
    ways = ways_of(LAW)
    assert reached(P, ways) == set(State)
    for state in OWED:
        assert reached(state, ways) & set(FINAL) == set(FINAL)


def test_final_is_final() -> None:
    assert set(State) - set(FINAL) == set(OWED)
    assert {DONE, GONE} == set(FINAL)
    assert all(reached(state, ways_of(LAW)) == {state} for state in FINAL)


def test_every_turn_state_is_reachable_and_a_turn_ends_once() -> None:
    ways = ways_of(TURN_LAW)
    assert reached(W, ways) == set(TurnState)
    for state in (TurnState.ANSWERED, TurnState.GAVE_UP):
        assert reached(state, ways) == {state}


def test_every_way_to_abandoned_names_its_reason_and_no_other_does() -> None:
    giving_up = {event for event, by_state in LAW.items() if GONE in by_state.values()}
    assert set(REASONS) == giving_up
    assert REASONS == {
        Event.CONTENT_REJECTED: Reason.REJECTED,
        Event.CHAT_UNREACHABLE: Reason.UNREACHABLE,
        Event.TRIES_USED_UP: Reason.TRIES_USED_UP,
        Event.GREW_STALE: Reason.STALE,
        Event.CANCELLED: Reason.CANCELLED,
    }


def test_no_state_has_two_ways_out_by_one_event() -> None:
    """A claim moves every row to attempting, whatever its state before."""
    assert {step(state, Event.CLAIMED) for state in (P, F)} == {A}
