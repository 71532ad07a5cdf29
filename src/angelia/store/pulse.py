"""How far the life of a store has come, so that an old copy of it is known as one.

The store counts a beat with each commit by which a gateway shows that it is alive (its start,
every lease it renews, its end). The home keeps the newest count in a note beside the store,
written after the commit, so the note never runs ahead of the store it belongs to. A store that
is behind its note, or has another name than the note says, was put there from somewhere else:
what it owes may have been sent in the life that it does not remember (guarantees §10).

The note is written at every start, every few seconds and at the end. A copy that was taken in
the last seconds before a kill -9 and is put back by hand looks like the store itself.
"""

from __future__ import annotations

import apsw

from angelia.store.ledger import Pulse
from angelia.store.rows import SQL, one


def read(conn: apsw.Connection) -> Pulse:
    """The store's own pulse."""
    row = one(conn, SQL.pulse_read)
    return Pulse("", 0) if row is None else Pulse(row[0], row[1])


def is_old_copy(mine: Pulse, noted: Pulse | None) -> bool:
    """Whether a store with the pulse ``mine`` is not the one that the home's note tells of.
    Without a note only a store that no gateway ever used is known to be no copy."""
    if noted is None:
        return mine.beats > 0
    return mine.store != noted.store or mine.beats < noted.beats


def go_on(conn: apsw.Connection, noted: Pulse | None) -> Pulse:
    """This store is the home's from now on: it takes over the name that the note has, and its
    count goes on beyond both. Part of the caller's transaction."""
    mine = read(conn)
    heir = noted or mine
    conn.execute(SQL.pulse_continue, {"store": heir.store, "beats": heir.beats})
    return read(conn)
