"""Forgetting what nobody needs any more. Owed rows stay, whatever their number."""

from __future__ import annotations

import apsw

from angelia.model import limits
from angelia.seams.clock import Now
from angelia.store.rows import SQL


def prune(conn: apsw.Connection, now: Now) -> int:
    """See ``Ledger.prune``."""
    before = {"before": now.wall - limits.retention_ms}
    for sql in (SQL.prune_attempts, SQL.prune_revisions, SQL.prune_parts):
        conn.execute(sql, before)
    conn.execute(SQL.prune_deliveries, before)
    deleted = conn.changes()
    for sql in (SQL.prune_inbound, SQL.prune_runs, SQL.prune_turns, SQL.owners_forget):
        conn.execute(sql, before)
    conn.execute(SQL.conversations_clamp)
    conn.execute(SQL.prune_waits, {"steady": now.steady})
    return deleted
