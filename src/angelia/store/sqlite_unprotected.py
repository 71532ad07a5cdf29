"""What was sent while the store could not be written, put on record once it can be.

The answer, its attempts and their outcomes are one commit, before any claim, so that what may
have arrived is not sent again plain (guarantees §10).
"""

from __future__ import annotations

import apsw

from angelia.model.messages import NewDelivery
from angelia.model.plan import PassEnd
from angelia.model.record import Ending, Record
from angelia.model.states import FINAL, REASONS, State, step
from angelia.seams.clock import Now
from angelia.store import sqlite_chats as chats
from angelia.store import sqlite_deliveries as deliveries
from angelia.store.rows import SQL


def insert_sent(
    conn: apsw.Connection, new: NewDelivery, turn: str, sent: Record, end: PassEnd, now: Now
) -> None:
    """A delivery that went out unprotected while the store could not be written, together
    with its attempts and their outcomes, so that it is not sent again plain."""
    if sent.fence == 0:
        deliveries.insert(conn, new, turn, now)  # nobody was there to send to: owed like any other
        return
    if not deliveries.add(conn, new, sent.lane, turn, now):
        return
    _add_split(conn, sent)
    for revision in sent.revisions:
        deliveries.add_revision(conn, new.id, revision)
    for attempt in sent.attempts:
        conn.execute(
            SQL.attempt_add,
            (new.id, attempt.number, attempt.part, attempt.revision, 1, "unprotected", attempt.started_at),
        )
        conn.execute(
            SQL.attempt_end, (new.id, attempt.number, attempt.ended_at, attempt.ending, attempt.detail)
        )
    for part in sent.parts:
        if part.receipt is not None:
            conn.execute(SQL.part_received, (new.id, part.number, part.receipt))
    state = step(State.ATTEMPTING, end.event)
    conn.execute(
        SQL.delivery_sent_unprotected,
        {
            "id": new.id,
            "state": state,
            "reason": REASONS.get(end.event, ""),
            "due_at": None if state in FINAL else end.due_at,
            "steady": now.steady,
            "ended_at": now.wall if state in FINAL else None,
            "tries": end.tries,
            "not_sent": sent.not_sent,
            "moves": sent.moves,
            "rerouted": int(sent.rerouted),
            "anchor_dropped": int(sent.anchor_dropped),
        },
    )
    if sent.lane.chat != new.lane.chat:
        chats.moved(conn, new.lane, sent.lane.chat, new.id)
    for attempt in sent.attempts:
        if attempt.ending is Ending.UNREACHABLE:
            chats.unreachable(conn, sent.lane, attempt.started_at, attempt.detail, now)


def _add_split(conn: apsw.Connection, sent: Record) -> None:
    """The parts that a pass without the ledger had to split, and what they were split into."""
    for part in sent.parts:
        if part.replaced:
            conn.execute(SQL.part_replaced, (sent.id, part.number))
        if part.parent is not None:
            deliveries.add_parts(conn, sent.id, (part,))
