"""What is known of a chat: where it is now, whether it can be reached, what holds it."""

from __future__ import annotations

import apsw

from angelia.model import limits
from angelia.model.ids import AdapterId, Lane
from angelia.model.outcomes import Scope
from angelia.model.record import Record
from angelia.seams.clock import Now
from angelia.store.ledger import ClaimAnswer, Limit
from angelia.store.rows import SQL, many, one

#: Moves form no circle (see ``chat_not_moved``); this bound only keeps a damaged store from one.
_HOPS_MAX = 16


def whereabouts(conn: apsw.Connection, lane: Lane) -> tuple[Lane, bool]:
    """Where a chat is now, after known moves, and whether it is unreachable."""
    row = None
    for _ in range(_HOPS_MAX):
        row = one(conn, SQL.chat_state, (lane.profile, lane.platform, lane.chat))
        if row is None or row[1] is None:
            break
        lane = lane._replace(chat=row[1])
    return lane, bool(row and row[0])


def moved(conn: apsw.Connection, lane: Lane, moved_to: str, delivery: str) -> None:
    """``delivery`` learned that the chat has another id: every owed row of it goes there."""
    where = {"profile": lane.profile, "platform": lane.platform, "chat": lane.chat, "moved_to": moved_to}
    conn.execute(SQL.chat_moved, where)
    conn.execute(SQL.chat_not_moved, where)
    conn.execute(SQL.chat_readdress, {**where, "id": delivery})


def unreachable(conn: apsw.Connection, lane: Lane, at: int, detail: str, now: Now) -> None:
    """The whole chat, unless somebody wrote from it after the attempt had begun."""
    where = {"profile": lane.profile, "platform": lane.platform, "chat": lane.chat}
    conn.execute(SQL.chat_unreachable, {**where, "at": at, "detail": detail})
    if conn.changes():
        conn.execute(SQL.chat_abandon, {**where, "now": now.wall})


def held(conn: apsw.Connection, record: Record, now: Now) -> ClaimAnswer | None:
    """Whether a rate limit holds the row, or another row has to prove first that it is over."""
    lane = record.lane
    for scope, subject, until in many(conn, SQL.waits_of_adapter, (lane.profile, lane.platform)):
        if (scope == Scope.CHAT and subject != lane.chat) or (scope == Scope.METHOD and subject != "send"):
            continue
        if until > now.steady:
            return ClaimAnswer.HELD
        busy = one(
            conn,
            SQL.busy_in_scope,
            {
                "profile": lane.profile,
                "platform": lane.platform,
                "chat": lane.chat if scope == Scope.CHAT else None,
                "id": record.id,
                "seq": record.seq,
                "steady": now.steady,
                "fresh": now.wall - limits.freshness_ms,
            },
        )
        if busy:
            return ClaimAnswer.BEHIND
    return None


def hold(conn: apsw.Connection, adapter: AdapterId, limit: Limit, now: Now) -> None:
    """See ``Ledger.hold``."""
    conn.execute(
        SQL.wait_set,
        {
            "profile": adapter.profile,
            "platform": adapter.platform,
            "scope": limit.scope,
            "subject": limit.subject,
            "steady": now.steady,
            "until": limit.until,
        },
    )


def connected(conn: apsw.Connection, adapter: AdapterId, chat: str | None, now: Now) -> int:
    """See ``Ledger.connected``."""
    conn.execute(
        SQL.deliveries_connected,
        {"profile": adapter.profile, "platform": adapter.platform, "chat": chat, "steady": now.steady},
    )
    return conn.changes()
