"""Parked deliveries: owed by an old copy of the store, and perhaps sent already.

When an older state of the store comes back (a restored backup, a copied file, a store that was
salvaged with holes), everything it owes may have been sent in the life that it does not
remember. To send it again without a word would be a silent duplicate, to drop it a lost
answer. So it is **parked**: shown, claimed by nobody, overtaken by newer rows, abandoned after
24 h like any other, until somebody cancels it or lets it go. Released, it goes out with the
marker and its doubt.

Turns that were open are given up, for they may have been answered and paid for: the person is
asked to send the message again, by a delivery that is parked with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from angelia.model import notices
from angelia.model.errors import NotPossibleError
from angelia.model.ids import Lane
from angelia.model.messages import NewDelivery
from angelia.model.states import TurnEvent, TurnState, turn_step
from angelia.seams.clock import Now
from angelia.store import pulse
from angelia.store import sqlite_deliveries as deliveries
from angelia.store import sqlite_owners as owners
from angelia.store.ledger import Parked, Pulse
from angelia.store.rows import SQL, load_record, many

#: Why a turn of an old copy was given up.
OLD_COPY = "old copy"


def park(conn: apsw.Connection, noted: Pulse | None, now: Now) -> Parked:
    """Park all that is owed, give up what is open, and let the store's life go on from the
    home's note: one transaction. Doing it again finds nothing more to do."""
    conn.execute(SQL.park_owners, {"now": now.wall})
    owners.end_passes_of_the_gone(conn, now)
    turns = _give_up_turns(conn, now)
    conn.execute(SQL.park_owed)
    found = conn.changes()
    return Parked(found, turns, pulse.go_on(conn, noted))


def _give_up_turns(conn: apsw.Connection, now: Now) -> int:
    """A turn of the copy may have been answered since, and its run been paid for."""
    rows = many(conn, SQL.park_open_turns)
    for turn, state, fence, kind, profile, platform, chat, thread, reply_to in rows:
        conn.execute(SQL.runs_interrupt, {"turn": turn, "now": now.wall})
        conn.execute(
            SQL.turn_end,
            {
                "turn": turn,
                "fence": fence,
                "expected": state,
                "state": turn_step(TurnState(state), TurnEvent.GAVE_UP),
                "reason": OLD_COPY,
                "now": now.wall,
            },
        )
        if kind == "message":
            lane = Lane(profile, platform, chat, thread)
            told = NewDelivery(turn, lane, (notices.PUT_BACK,), reply_to=reply_to or "")
            deliveries.insert(conn, told, turn, now)
    return len(rows)


def release(conn: apsw.Connection, ids: Sequence[str] | None, now: Now) -> list[str]:
    """Let parked deliveries go, with the marker: those of ``ids``, or all (``None``). Returns
    the ids of those that are due from now on; one transaction.

    Raises ``UnknownIdError`` and, for one that is not parked, ``NotPossibleError``; then
    nothing is changed. One that was released before is so already, and is no error."""
    if ids is None:
        chosen = [row[0] for row in many(conn, SQL.parked_ids)]
    else:
        chosen = []
        for delivery in dict.fromkeys(ids):
            record = load_record(conn, delivery)
            if record.released and not record.parked:
                continue
            if not record.parked or record.state not in ("pending", "failed"):
                raise NotPossibleError(f"delivery {delivery} is {record.state} and is not parked")
            chosen.append(delivery)
    for delivery in chosen:
        conn.execute(SQL.release_parked, {"id": delivery, "steady": now.steady})
    return chosen


def count(conn: apsw.Connection) -> int:
    """How many deliveries are parked now."""
    return len(many(conn, SQL.parked_ids))
