"""What a store with holes must not say.

Rows that were lost leave others that lean on them. Here each such hole is closed in the way
that can neither lose an answer silently nor send one unmarked: the salvaged store parks
everything it owes, and what is mended is told.
"""

from __future__ import annotations

import apsw

from angelia.model import notices
from angelia.model.record import POSITION_STEP
from angelia.store.rows import SQL, many


def mend(conn: apsw.Connection) -> list[str]:
    """Close the holes; what was done, in sentences. Part of the caller's transaction."""
    notes = []
    for sql, sentence in (
        # Whoever held something and is not known any more must be gone, or nobody takes it over.
        (SQL.mend_owners, "{} owners whose rows were lost are on record as gone"),
        (
            SQL.mend_revisions,
            "of {} attempts the bytes they sent were lost; they count as the part's own text",
        ),
        (SQL.mend_turns, "{} turns whose rows were lost are on record as given up"),
        (SQL.mend_runs, "{} model runs that nobody will end are on record as interrupted"),
    ):
        conn.execute(sql)
        if changed := conn.changes():
            notes.append(sentence.format(changed))
    notes += _texts(conn)
    notes += _orphans(conn)
    return notes


def _texts(conn: apsw.Connection) -> list[str]:
    """An owed delivery that lost a text says so in its place: without any part it would count
    as received."""
    notes = []
    for delivery, first_missing in many(conn, SQL.mend_missing_parts):
        conn.execute(
            SQL.part_add,
            (delivery, first_missing, first_missing * POSITION_STEP, None, notices.PART_LOST, None),
        )
        notes.append(f"delivery {delivery} lost the text of its part {first_missing}; a line tells of it")
    return notes


def _orphans(conn: apsw.Connection) -> list[str]:
    """Texts, attempts and revisions of deliveries that were lost: who should get them is not
    known any more. They are left out; the damaged file keeps them."""
    notes = [
        f"delivery {delivery} was lost, all but its text: {' '.join(text.split())[:120]}"
        for delivery, text in many(conn, SQL.mend_lost_deliveries)
    ]
    for sql in (SQL.mend_orphan_parts, SQL.mend_orphan_revisions, SQL.mend_orphan_attempts):
        conn.execute(sql)
    return notes
