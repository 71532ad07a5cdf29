"""Owners, leases and the take-over, as plain functions inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import apsw

from angelia.model import limits, notices
from angelia.model.ids import Lane
from angelia.model.messages import NewDelivery
from angelia.model.plan import end_of_pass, released_by_start
from angelia.model.record import Ending, open_attempt, with_ending
from angelia.model.states import State as DeliveryState
from angelia.model.states import TurnEvent, TurnState, step, turn_step
from angelia.seams.clock import Now
from angelia.store import sqlite_deliveries as deliveries
from angelia.store.ledger import OwnerKind, TakenOver
from angelia.store.rows import SQL, load_record, many, number


def start(conn: apsw.Connection, owner: str, kind: OwnerKind, reborn: bool, now: Now) -> int:
    """See ``Ledger.start``."""
    conn.execute(
        SQL.owner_add,
        {
            "id": owner,
            "kind": kind,
            "is_start": int(not reborn),
            "now": now.wall,
            "lease_until": now.wall + limits.lease_ms,
        },
    )
    conn.execute(SQL.pulse_beat, (owner,))
    return number(conn, SQL.newest_start)


def renew(conn: apsw.Connection, owner: str, now: Now) -> bool:
    """See ``Ledger.renew``."""
    conn.execute(SQL.owner_renew, {"id": owner, "now": now.wall, "lease_until": now.wall + limits.lease_ms})
    renewed = conn.changes() == 1
    conn.execute(SQL.pulse_beat, (owner,))
    return renewed


def adopt(conn: apsw.Connection, owner: str, heir: str, turns: Sequence[str]) -> None:
    """See ``Ledger.adopt``."""
    conn.executemany(SQL.turn_adopt, [{"turn": t, "owner": owner, "heir": heir} for t in turns])


def retire(conn: apsw.Connection, owner: str, now: Now) -> None:
    """See ``Ledger.retire``."""
    conn.execute(SQL.owner_retire, {"id": owner, "now": now.wall})
    conn.execute(SQL.pulse_beat, (owner,))


def take_over(conn: apsw.Connection, owner: str, lock_held: bool, protected: bool, now: Now) -> TakenOver:
    """See ``Ledger.take_over``."""
    conn.execute(SQL.restamp_leases, {"now": now.wall, "lease_ms": limits.lease_ms})
    conn.execute(SQL.owners_bury, {"taker": owner, "now": now.wall, "lock_held": int(lock_held)})
    taken = _take_deliveries(conn, owner, now) if protected else 0
    running = many(conn, SQL.running_by_the_gone)
    for turn, fence, interruptions, *lane, reply_to in running:
        _take_turn(conn, turn, fence, interruptions, now)
        if protected and interruptions >= limits.interruptions_max:
            told = NewDelivery(turn, Lane(*lane), (notices.INTERRUPTED_TWICE,), reply_to=reply_to or "")
            deliveries.insert(conn, told, turn, now)
    conn.execute(SQL.turns_expire, {"now": now.wall, "before": now.wall - limits.inbound_fresh_ms})
    return TakenOver(taken, len(running))


def _take_deliveries(conn: apsw.Connection, owner: str, now: Now) -> int:
    """The rows of owners that are gone; also what a step of the clock or a start has changed."""
    taken = end_passes_of_the_gone(conn, now, owner)
    _restamp(conn, now)  # also what was in flight a moment ago, or the next take-over would change it
    _release_rested(conn, now)
    return taken


def end_passes_of_the_gone(conn: apsw.Connection, now: Now, taker: str = "") -> int:
    """What owners that are gone had in flight has died; how many deliveries that were. Part of
    the caller's transaction. Without a ``taker`` nobody took it over: it died with its gateway."""
    claimed = [row[0] for row in many(conn, SQL.claimed_by_the_gone)]
    for delivery in claimed:
        _take_delivery(conn, delivery, taker, now)
    return len(claimed)


def _take_delivery(conn: apsw.Connection, delivery: str, taker: str, now: Now) -> None:
    record = load_record(conn, delivery)
    attempt = open_attempt(record)
    if attempt is not None:
        after = {"taker": taker, "attempt_start": attempt.start}
        restarted = not taker or number(conn, SQL.owner_started_after, after)
        ending = Ending.DIED if restarted else Ending.TAKEN_OVER
        record = with_ending(record, attempt, ending, now.wall)
        conn.execute(SQL.attempt_end, (delivery, attempt.number, now.wall, ending, ""))
    end = end_of_pass(record, now, gone=True)
    conn.execute(
        SQL.delivery_pass_over,
        {
            "id": delivery,
            "owner": record.owner,
            "fence": record.fence,
            "state": step(DeliveryState.ATTEMPTING, end.event),
            "reason": "",
            "due_at": end.due_at,
            "steady": now.steady,
            "tries": end.tries,
            "not_sent": 0,
            "moved": 0,
            "rerouted": 0,
            "anchor_dropped": 0,
            "ended_at": None,
        },
    )
    deliveries.complete_late(conn, delivery, now)


def _take_turn(conn: apsw.Connection, turn: str, fence: int, interruptions: int, now: Now) -> None:
    """It runs again once; after a second interruption it is given up."""
    conn.execute(SQL.runs_interrupt, {"turn": turn, "now": now.wall})
    if interruptions < limits.interruptions_max:
        turn_step(TurnState.RUNNING, TurnEvent.INTERRUPTED)
        conn.execute(SQL.turn_wait_again, {"turn": turn, "fence": fence, "interrupted": 1})
        return
    conn.execute(
        SQL.turn_end,
        {
            "turn": turn,
            "fence": fence,
            "expected": TurnState.RUNNING,
            "state": turn_step(TurnState.RUNNING, TurnEvent.GAVE_UP),
            "reason": "interrupted twice",
            "now": now.wall,
        },
    )


def _release_rested(conn: apsw.Connection, now: Now) -> None:
    """A start has come since the last attempt: the third redelivery may go, not before 2 min."""
    newest = number(conn, SQL.newest_start)
    for (delivery,) in many(conn, SQL.rested_and_released, {"start": newest}):
        due_at = released_by_start(replace(load_record(conn, delivery), newest_start=newest), now)
        if due_at is not None:
            conn.execute(SQL.release_rested, {"id": delivery, "due_at": due_at, "steady": now.steady})


def _restamp(conn: apsw.Connection, now: Now) -> None:
    conn.execute(SQL.restamp_due, {"steady": now.steady})
    conn.execute(SQL.restamp_waits, {"steady": now.steady})
    conn.execute(SQL.restamp_written, {"wall": now.wall})
