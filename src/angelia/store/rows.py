"""From rows to values: loads everything that ``plan`` may look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from angelia.model.errors import UnknownIdError
from angelia.model.ids import Lane
from angelia.model.media import Attachment
from angelia.model.messages import TextFormat
from angelia.model.record import Attempt, Ending, Part, Record, Revision, Role
from angelia.model.states import State
from angelia.store.queries import dialect_folder, load

SQL = load(dialect_folder())

Row = tuple[Any, ...]


def one(conn: apsw.Connection, sql: str, bindings: Sequence[Any] | dict[str, Any] = ()) -> Row | None:
    """The first row, or ``None``."""
    row: Row | None = conn.execute(sql, bindings).fetchone()
    return row


def many(conn: apsw.Connection, sql: str, bindings: Sequence[Any] | dict[str, Any] = ()) -> list[Row]:
    """All rows, read to the end, so that the statement may be followed by writes."""
    rows: list[Row] = conn.execute(sql, bindings).fetchall()
    return rows


def number(conn: apsw.Connection, sql: str, bindings: Sequence[Any] | dict[str, Any] = ()) -> int:
    """The one number that a statement answers."""
    row = one(conn, sql, bindings)
    return int(row[0]) if row and row[0] is not None else 0


def held_until(conn: apsw.Connection, profile: str, platform: str, chat: str) -> int:
    """Until when rate limits hold a send to ``chat`` (steady milliseconds; 0: none is known)."""
    until = 0
    for scope, subject, end in many(conn, SQL.waits_of_adapter, (profile, platform)):
        if (
            scope == "bot"
            or (scope == "chat" and subject == chat)
            or (scope == "method" and subject == "send")
        ):
            until = max(until, end)
    return until


def attachment_of(column: str | None) -> Attachment | None:
    """The file that a column names, if any."""
    return None if column is None else Attachment.from_text(column)


def attachments_of(column: str | None) -> tuple[Attachment, ...]:
    """The files that a column of several lines names."""
    return tuple(Attachment.from_text(line) for line in (column or "").splitlines())


def load_record(conn: apsw.Connection, delivery: str) -> Record:
    """All that is on record about a delivery. Raises ``UnknownIdError``."""
    row = one(conn, SQL.delivery_load, (delivery,))
    if row is None:
        raise UnknownIdError(f"there is no delivery {delivery}")
    lane = Lane(*row[2:6])
    parts = tuple(
        Part(n, position, text, parent, bool(replaced), receipt, attachment_of(attached))
        for n, position, text, parent, replaced, receipt, attached in many(conn, SQL.parts_load, (delivery,))
    )
    revisions: tuple[Revision, ...] = ()
    attempts = tuple(
        Attempt(
            n,
            part,
            revision,
            fence,
            started,
            start,
            ended,
            Ending(ending) if ending else None,
            detail,
            bool(absent),
            looked,
        )
        for n, part, revision, fence, started, start, ended, ending, detail, absent, looked in many(
            conn, SQL.attempts_load, (delivery,)
        )
    )
    known = many(conn, SQL.revisions_load, (delivery,)) if attempts or row[9] else []
    revisions = tuple(
        Revision(part, n, Role(role), text, TextFormat(style), target, bool(marker), bool(doubt))
        for part, n, role, text, style, target, marker, doubt in known
    )
    return Record(
        id=row[0],
        seq=row[1],
        lane=lane,
        reply_to=row[6],
        state=State(row[7]),
        written_at=row[8],
        fence=row[9],
        version=row[10],
        due_at=row[11],
        tries=row[12],
        not_sent=row[13],
        moves=row[14],
        rerouted=bool(row[15]),
        anchor_dropped=bool(row[16]),
        requested=bool(row[17]),
        inherited_doubt=bool(row[18]),
        owner=row[19] or "",
        reason=row[20],
        origin=row[21],
        turn=row[22],
        unreachable=bool(row[23]),
        parked=bool(row[24]),
        released=row[25],
        overtaken=bool(attempts) and bool(number(conn, SQL.delivery_overtaken, (*lane, row[1]))),
        held_until=held_until(conn, lane.profile, lane.platform, lane.chat),
        newest_start=number(conn, SQL.newest_start),
        parts=parts,
        revisions=revisions,
        attempts=attempts,
    )
