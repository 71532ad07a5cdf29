"""What an operator may order: cancel, mark as delivered, send again.

Plain functions inside one transaction of the writer, under the same rules as every other
verb: a row that is being worked on at this moment answers ``TryAgainError``, a state that does
not allow the order answers ``NotPossibleError`` with what is possible instead, and an order
that was carried out before is carried out by saying so.
"""

from __future__ import annotations

import apsw

from angelia.model.errors import NotPossibleError, TryAgainError
from angelia.model.messages import NewDelivery
from angelia.model.record import Record
from angelia.model.states import FINAL, Event, Reason, State
from angelia.seams.clock import Now
from angelia.store import sqlite_chats as chats
from angelia.store import sqlite_deliveries as deliveries
from angelia.store.rows import SQL, load_record, one

#: The reason beside ``delivered`` where an operator said so and receipts may be missing.
MARKED = "marked"


def cancel(conn: apsw.Connection, delivery: str, now: Now) -> Record:
    """Give up an owed delivery: ``abandoned(cancelled)``. Returns the record as it is then.

    Raises ``UnknownIdError``, ``TryAgainError`` (being sent now), ``NotPossibleError``.
    """
    record = _idle(conn, delivery)
    if record.state is State.ABANDONED and record.reason == Reason.CANCELLED:
        return record
    if record.state in FINAL:
        raise NotPossibleError(f"{_called(record)} and is not owed any more: there is nothing to cancel")
    deliveries.settle(conn, record, Event.CANCELLED, now)
    return load_record(conn, delivery)


def mark_delivered(conn: apsw.Connection, delivery: str, now: Now) -> Record:
    """Take an operator's word that a failed delivery arrived: it is not sent again.

    Raises ``UnknownIdError``, ``TryAgainError`` (being sent now), ``NotPossibleError``.
    """
    record = _idle(conn, delivery)
    if record.state is State.DELIVERED:
        return record
    if record.state is State.PENDING and record.parked:
        raise NotPossibleError(
            f"{_called(record)} and parked: nothing of it is on record as sent; if you know that it arrived, "
            "`cancel` stops it"
        )
    if record.state is State.PENDING:
        raise NotPossibleError(
            f"{_called(record)}: nothing of it was ever sent, so it cannot have arrived; `cancel` stops it"
        )
    if record.state is State.ABANDONED:
        raise NotPossibleError(f"{_called(record)}, which is final; `send-again` makes a new delivery of it")
    conn.execute(SQL.delivery_mark, {"id": delivery, "now": now.wall, "version": record.version})
    return load_record(conn, delivery)


def send_again(conn: apsw.Connection, delivery: str, new_id: str, now: Now) -> Record:
    """Owe the text of a final delivery once more, as the new delivery ``new_id``, marked as
    sent again on request. Returns its record. Repeating it with the same ``new_id`` adds nothing.

    Raises ``UnknownIdError``, ``TryAgainError`` (being sent now), ``NotPossibleError``.
    """
    record = _idle(conn, delivery)
    known = one(conn, SQL.again_known, (new_id,))
    if known == (delivery,):
        return load_record(conn, new_id)
    if known is not None:
        raise NotPossibleError(f"the id {new_id} is taken by another delivery; give a fresh one")
    if record.state not in FINAL and record.parked:
        raise NotPossibleError(f"{_called(record)} and parked; `release` lets it go, with the marker")
    if record.state not in FINAL:
        raise NotPossibleError(
            f"{_called(record)}: it is still owed and goes out by itself; `cancel` it first to send it anew"
        )
    if chats.whereabouts(conn, record.lane)[1]:
        raise NotPossibleError(
            f"the chat {record.lane.chat} is unreachable; that ends when somebody writes from it, "
            f"then `send-again` is possible"
        )
    new = NewDelivery(
        new_id,
        record.lane,
        tuple(part.text for part in record.live_parts if part.attachment is None),
        record.reply_to,
        origin="again",
        requested=True,
        attachments=tuple((p.attachment, p.text) for p in record.live_parts if p.attachment is not None),
    )
    deliveries.insert(conn, new, None, now)
    conn.execute(SQL.again_add, {"id": new_id, "of": delivery})
    return load_record(conn, new_id)


def _idle(conn: apsw.Connection, delivery: str) -> Record:
    """The record, if nobody works on it."""
    record = load_record(conn, delivery)
    if record.state is State.ATTEMPTING:
        raise TryAgainError(f"delivery {delivery} is being sent at this moment; try again in a few seconds")
    return record


def _called(record: Record) -> str:
    reason = f" ({record.reason})" if record.reason else ""
    return f"delivery {record.id} is {record.state}{reason}"
