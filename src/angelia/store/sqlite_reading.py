"""What may be read beside the writer: heads of lanes, due lanes, histories."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from angelia.model import limits
from angelia.model.ids import AdapterId, Lane
from angelia.model.media import worded
from angelia.model.messages import ChatSummary, HistoryEntry, HistoryPart
from angelia.model.record import Record
from angelia.model.states import State
from angelia.seams.clock import Now
from angelia.store.ledger import TurnKind
from angelia.store.rows import SQL, attachment_of, attachments_of, load_record, many, one

_TITLE_CHARACTERS = 60


def head(conn: apsw.Connection, lane: Lane) -> Record | None:
    """See ``Ledger.head``."""
    row = one(conn, SQL.lane_head, tuple(lane))
    return None if row is None or row[1] == State.ATTEMPTING else load_record(conn, row[0])


def due_lanes(conn: apsw.Connection, adapters: Sequence[AdapterId], limit: int, now: Now) -> list[Lane]:
    """See ``Ledger.due_lanes``."""
    lanes: list[Lane] = []
    for profile, platform in adapters:
        where = {"steady": now.steady, "limit": limit, "profile": profile, "platform": platform}
        lanes.extend(Lane(*row[:4]) for row in many(conn, SQL.lanes_due, where))
    return lanes


def stale(conn: apsw.Connection, limit: int, now: Now) -> list[Record]:
    """Owed, unclaimed rows that grew older than 24 h, whatever they wait for."""
    before = {"before": now.wall - limits.freshness_ms, "limit": limit}
    return [load_record(conn, row[0]) for row in many(conn, SQL.owed_stale, before)]


def files_named(conn: apsw.Connection) -> set[str]:
    """See ``Ledger.files_named``."""
    return {one.file for row in many(conn, SQL.files_named) for one in attachments_of(row[0])}


def waiting_turns(conn: apsw.Connection, limit: int, now: Now) -> list[tuple[str, Lane, TurnKind]]:
    """See ``Ledger.waiting_turns``."""
    return [
        (row[0], Lane(*row[1:5]), TurnKind(row[5]))
        for row in many(conn, SQL.turns_waiting, {"limit": limit, "steady": now.steady})
    ]


def history(conn: apsw.Connection, adapter: AdapterId, chat: str, limit: int) -> list[HistoryEntry]:
    """See ``Ledger.history``."""
    key = (adapter.profile, adapter.platform, chat, limit)
    lines = [
        HistoryEntry("user", text, at, turn, _said(state, reason), client_id=message_id)
        for _, turn, state, reason, text, at, message_id, _ in reversed(many(conn, SQL.history_turns, key))
    ]
    for delivery, state, reason, at, recovered in reversed(many(conn, SQL.history_deliveries, key)):
        lines.append(_reply(conn, delivery, _said(state, reason), at, bool(recovered)))
    lines.sort(key=lambda entry: (entry.at, entry.role == "assistant"))
    return lines[-limit:]


def _said(state: str, reason: str) -> str:
    """A state as a person may read it; how it came to be delivered is no matter of the chat."""
    return f"{state} ({reason})" if reason and state != State.DELIVERED else state


def _reply(
    conn: apsw.Connection, delivery: str, state: str, at: int, recovered: bool = False
) -> HistoryEntry:
    rows = [row for row in many(conn, SQL.parts_load, (delivery,)) if not row[4]]
    parts = tuple(
        HistoryPart(i, row[2], row[5] is not None, attachment_of(row[6])) for i, row in enumerate(rows, 1)
    )
    text = "\n\n".join(worded(part.text, part.attachment) for part in parts)
    return HistoryEntry("assistant", text, at, delivery, state, recovered, parts)


def conversation(conn: apsw.Connection, lane: Lane, before_turn: str, limit: int) -> list[HistoryEntry]:
    """See ``Ledger.conversation``."""
    where = {
        "profile": lane.profile,
        "platform": lane.platform,
        "chat": lane.chat,
        "thread": lane.thread,
        "before": before_turn,
        "limit": limit,
    }
    lines: list[HistoryEntry] = []
    for text, at, turn, delivery, written_at in reversed(many(conn, SQL.conversation_lines, where)):
        lines.append(HistoryEntry("user", text, at, turn))
        if delivery is not None:
            lines.append(_reply(conn, delivery, "", written_at))
    return lines[-limit:] if limit else []


def chats(conn: apsw.Connection, adapter: AdapterId, limit: int) -> list[ChatSummary]:
    """See ``Ledger.chats``."""
    return [
        ChatSummary(chat, " ".join((text or chat).split())[:_TITLE_CHARACTERS], at)
        for chat, at, text in many(conn, SQL.chats_of_adapter, (adapter.profile, adapter.platform, limit))
    ]


def latest_answer(conn: apsw.Connection, lane: Lane) -> str | None:
    """The id of the newest answer or notice of a conversation; what a command said is none."""
    row = one(conn, SQL.latest_answer, tuple(lane))
    return None if row is None else str(row[0])
