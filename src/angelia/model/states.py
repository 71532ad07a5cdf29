"""The states of a delivery and of a turn, and the only ways from one to another.

States are data: ``TRANSITIONS`` is guarantees §2, line by line, and ``step`` is the only
function that may compute a new state. The store applies what ``step`` answered in a
compare-and-swap; a trigger in its schema keeps final states final even against a bug here.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"  # recorded, no attempt on record
    ATTEMPTING = "attempting"  # claimed: a call may be on the wire
    FAILED = "failed"  # owed: waits until due, or rests until the next start
    DELIVERED = "delivered"  # final: every part has a receipt (or an operator said so)
    ABANDONED = "abandoned"  # final: given up, for a reason


OWED = frozenset({State.PENDING, State.ATTEMPTING, State.FAILED})
FINAL = frozenset({State.DELIVERED, State.ABANDONED})


class Reason(StrEnum):
    """Why a delivery was abandoned."""

    UNREACHABLE = "unreachable"
    TRIES_USED_UP = "tries_used_up"
    STALE = "stale"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


class Event(StrEnum):
    """What can happen to a delivery."""

    CLAIMED = "claimed"
    PART_ACCEPTED = "part accepted"
    LAST_PART_ACCEPTED = "last part accepted"
    GOES_ON = "goes on"  # BadContent, ThreadGone, Moved, a retry under the same key
    RELEASED_UNTRIED = "released, no attempt on record"
    RELEASED = "released"
    PASS_FAILED = "pass failed"  # RateLimited, Unconfirmed, Refused
    CONTENT_REJECTED = "content rejected"
    CHAT_UNREACHABLE = "chat unreachable"
    OWNER_GONE = "owner gone"
    TRIES_USED_UP = "tries used up"
    GREW_STALE = "grew stale"
    CANCELLED = "cancelled"
    MARKED_DELIVERED = "marked delivered"
    COMPLETED_LATE = "completed by a late receipt"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.PENDING, Event.CLAIMED): State.ATTEMPTING,
    (State.FAILED, Event.CLAIMED): State.ATTEMPTING,
    (State.ATTEMPTING, Event.PART_ACCEPTED): State.ATTEMPTING,
    (State.ATTEMPTING, Event.GOES_ON): State.ATTEMPTING,
    (State.ATTEMPTING, Event.LAST_PART_ACCEPTED): State.DELIVERED,
    (State.ATTEMPTING, Event.RELEASED_UNTRIED): State.PENDING,
    (State.ATTEMPTING, Event.RELEASED): State.FAILED,
    (State.ATTEMPTING, Event.PASS_FAILED): State.FAILED,
    (State.ATTEMPTING, Event.OWNER_GONE): State.FAILED,
    (State.ATTEMPTING, Event.CONTENT_REJECTED): State.ABANDONED,
    (State.ATTEMPTING, Event.CHAT_UNREACHABLE): State.ABANDONED,
    (State.PENDING, Event.CHAT_UNREACHABLE): State.ABANDONED,
    (State.FAILED, Event.CHAT_UNREACHABLE): State.ABANDONED,
    (State.FAILED, Event.TRIES_USED_UP): State.ABANDONED,
    (State.PENDING, Event.GREW_STALE): State.ABANDONED,
    (State.FAILED, Event.GREW_STALE): State.ABANDONED,
    (State.PENDING, Event.CANCELLED): State.ABANDONED,
    (State.FAILED, Event.CANCELLED): State.ABANDONED,
    (State.FAILED, Event.MARKED_DELIVERED): State.DELIVERED,
    (State.FAILED, Event.COMPLETED_LATE): State.DELIVERED,
}

#: The reason that an event writes beside ``abandoned``.
REASONS: dict[Event, Reason] = {
    Event.CONTENT_REJECTED: Reason.REJECTED,
    Event.CHAT_UNREACHABLE: Reason.UNREACHABLE,
    Event.TRIES_USED_UP: Reason.TRIES_USED_UP,
    Event.GREW_STALE: Reason.STALE,
    Event.CANCELLED: Reason.CANCELLED,
}


def step(state: State, event: Event) -> State:
    """The state after ``event``. Raises ``ValueError`` for what cannot happen."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"a delivery that is {state} cannot be {event}") from None


class TurnState(StrEnum):
    """Where the work of answering an inbound stands."""

    WAITING = "waiting"
    RUNNING = "running"
    ANSWERED = "answered"
    GAVE_UP = "gave_up"


class TurnEvent(StrEnum):
    """What can happen to a turn."""

    RUN_STARTED = "run started"
    ANSWERED = "answered"
    INTERRUPTED = "interrupted"
    DRAINED = "drained"
    GAVE_UP = "gave up"


TURN_TRANSITIONS: dict[tuple[TurnState, TurnEvent], TurnState] = {
    (TurnState.WAITING, TurnEvent.RUN_STARTED): TurnState.RUNNING,
    (TurnState.RUNNING, TurnEvent.ANSWERED): TurnState.ANSWERED,
    # a chat command is answered without a run
    (TurnState.WAITING, TurnEvent.ANSWERED): TurnState.ANSWERED,
    (TurnState.RUNNING, TurnEvent.INTERRUPTED): TurnState.WAITING,
    (TurnState.RUNNING, TurnEvent.DRAINED): TurnState.WAITING,
    (TurnState.RUNNING, TurnEvent.GAVE_UP): TurnState.GAVE_UP,
    (TurnState.WAITING, TurnEvent.GAVE_UP): TurnState.GAVE_UP,
}


def turn_step(state: TurnState, event: TurnEvent) -> TurnState:
    """The state of a turn after ``event``. Raises ``ValueError`` for what cannot happen."""
    try:
        return TURN_TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"a turn that is {state} cannot be {event}") from None


class RunEnd(StrEnum):
    """How a model run ended."""

    ANSWERED = "answered"
    ERROR = "error"
    TIMEOUT = "timeout"
    EMPTY = "empty"
    FALLBACK = "fallback"  # failed in a way that started a second, recorded run
    INTERRUPTED = "interrupted"  # the gateway died
    DRAINED = "drained"  # the gateway stopped gracefully; no interruption in the count
    STOPPED = "stopped"  # the person said stop
