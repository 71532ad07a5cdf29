"""The verbs on inbound, turns and model runs, as plain functions inside one transaction."""

from __future__ import annotations

from typing import Any

import apsw

from angelia.model import limits
from angelia.model.ids import Lane
from angelia.model.messages import Inbound, NewDelivery, Reception, Usage
from angelia.model.plan import PassEnd
from angelia.model.record import Record
from angelia.model.states import RunEnd, TurnEvent, TurnState, turn_step
from angelia.seams.clock import Now
from angelia.store import sqlite_deliveries as deliveries
from angelia.store import sqlite_unprotected as unprotected
from angelia.store.ledger import Finished, Turn, TurnKind
from angelia.store.rows import SQL, attachments_of, many, one


def accept(conn: apsw.Connection, inbound: Inbound, turn: str, kind: TurnKind, now: Now) -> Reception:
    """See ``Ledger.accept``."""
    key = _key(inbound)
    joined = _burst(conn, inbound) if inbound.burst and kind is TurnKind.MESSAGE else None
    conn.execute(
        SQL.inbound_add,
        {
            **key,
            "thread": inbound.thread,
            "user": inbound.user,
            "user_name": inbound.user_name,
            "text": inbound.text,
            "reply_to": inbound.reply_to,
            "attachments": "\n".join(one.to_text() for one in inbound.attachments) or None,
            "sent_at": inbound.sent_at,
            "now": now.wall,
            "turn": joined or turn,
        },
    )
    if conn.changes() == 0:
        known = one(conn, SQL.inbound_turn, key)
        return Reception.ACCEPTED if known == (turn,) else Reception.DUPLICATE
    more_ms = int(min(max(inbound.more_s, 0.0), limits.pieces_most_s) * limits.SECOND_MS)
    pieces_until = now.steady + more_ms if inbound.burst and more_ms else None
    if joined:
        conn.execute(SQL.turn_piece_came, {"turn": joined, "pieces_until": pieces_until})
    else:
        conn.execute(
            SQL.turn_add,
            {
                **key,
                "turn": turn,
                "thread": inbound.thread,
                "kind": kind,
                "now": now.wall,
                "burst": inbound.burst,
                "pieces_until": pieces_until,
            },
        )
    sent_at = now.wall if inbound.sent_at is None else inbound.sent_at
    conn.execute(SQL.chat_revive, {**key, "sent_at": sent_at})
    return Reception.ACCEPTED


def _burst(conn: apsw.Connection, inbound: Inbound) -> str | None:
    """The waiting turn that this piece of a burst belongs to."""
    where = {
        **_key(inbound),
        "thread": inbound.thread,
        "burst": inbound.burst,
        "pieces_max": limits.pieces_max,
    }
    row = one(conn, SQL.turn_of_burst, where)
    return None if row is None else str(row[0])


def _key(inbound: Inbound) -> dict[str, Any]:
    return {
        "profile": inbound.profile,
        "platform": inbound.platform,
        "chat": inbound.chat,
        "message_id": inbound.message_id,
    }


def edit(conn: apsw.Connection, inbound: Inbound) -> bool:
    """See ``Ledger.edit``."""
    conn.execute(SQL.inbound_edit, {**_key(inbound), "text": inbound.text})
    return conn.changes() > 0


def load_turn(conn: apsw.Connection, turn: str) -> tuple[Turn, TurnState, str] | None:
    """A turn with its state and owner; the texts of a merged burst are joined."""
    rows = many(conn, SQL.turn_load, {"turn": turn})
    if not rows:
        return None
    first = rows[0]
    lane = Lane(*first[1:5])
    loaded = Turn(
        id=first[0],
        lane=lane,
        text="\n".join(row[9] for row in rows),
        user=first[10],
        user_name=first[11],
        reply_to=first[12],
        conversation=f"{lane}:{first[14]}",
        fence=first[7],
        kind=TurnKind(first[5]),
        attachments=tuple(file for row in rows for file in attachments_of(row[13])),
    )
    return loaded, TurnState(first[6]), first[8] or ""


def start_run(conn: apsw.Connection, turn: str, run: str, owner: str, model: str, now: Now) -> Turn | None:
    """See ``Ledger.start_run``."""
    before = now.wall - limits.inbound_fresh_ms
    started = many(
        conn,
        SQL.turn_start,
        {"turn": turn, "owner": owner, "now": now.wall, "steady": now.steady, "before": before},
    )
    if not started:
        conn.execute(SQL.turn_expire, {"turn": turn, "now": now.wall, "before": before})
        return _started(conn, turn, run, owner)
    conn.execute(SQL.run_add, {"run": run, "turn": turn, "owner": owner, "model": model, "now": now.wall})
    profile, platform, chat, thread, kind, fence, text, user, user_name, reply_to, files, number = started[0]
    lane = Lane(profile, platform, chat, thread)
    return Turn(
        turn,
        lane,
        text,
        user,
        user_name,
        reply_to,
        f"{lane}:{number}",
        fence,
        TurnKind(kind),
        attachments_of(files),
    )


def _started(conn: apsw.Connection, turn: str, run: str, owner: str) -> Turn | None:
    """The turn, if this very start was committed before and only its answer was lost."""
    loaded = load_turn(conn, turn)
    if loaded is None or loaded[1:] != (TurnState.RUNNING, owner):
        return None
    return loaded[0] if one(conn, SQL.run_state, (run,)) == (None,) else None


def next_run(
    conn: apsw.Connection, turn: Turn, ended: str, usage: Usage, detail: str, run: str, model: str, now: Now
) -> bool:
    """See ``Ledger.next_run``."""
    loaded = load_turn(conn, turn.id)
    if loaded is None or loaded[1] is not TurnState.RUNNING or loaded[0].fence != turn.fence:
        return False
    end_run(conn, ended, RunEnd.FALLBACK, usage, detail, now)
    conn.execute(
        SQL.run_add, {"run": run, "turn": turn.id, "owner": loaded[2], "model": model, "now": now.wall}
    )
    return True


def end_run(conn: apsw.Connection, run: str, ending: RunEnd, usage: Usage, detail: str, now: Now) -> None:
    """Close a run with its usage."""
    conn.execute(
        SQL.run_end,
        {
            "run": run,
            "ending": ending,
            "detail": detail,
            "now": now.wall,
            "model": usage.model,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        },
    )


def finish_turn(
    conn: apsw.Connection,
    turn: Turn,
    run: str | None,
    ending: RunEnd,
    usage: Usage,
    detail: str,
    delivery: NewDelivery | None,
    sent: tuple[Record, PassEnd] | None,
    gave_up: str,
    now: Now,
) -> Finished | None:
    """See ``Ledger.finish_turn``."""
    event = TurnEvent.GAVE_UP if gave_up else TurnEvent.ANSWERED
    expected = TurnState.RUNNING if run else TurnState.WAITING
    state = turn_step(expected, event)
    conn.execute(
        SQL.turn_end,
        {
            "turn": turn.id,
            "fence": turn.fence,
            "expected": expected,
            "state": state,
            "reason": gave_up or ("" if ending is RunEnd.ANSWERED else ending.value),
            "now": now.wall,
        },
    )
    if conn.changes() == 0:
        return Finished() if _finished(conn, turn, run, ending, delivery, state) else None
    if run:
        end_run(conn, run, ending, usage, detail, now)
    if delivery is not None and sent is not None:
        unprotected.insert_sent(conn, delivery, turn.id, *sent, now)
    elif delivery is not None:
        return Finished(deliveries.insert(conn, delivery, turn.id, now))
    return Finished()


def _finished(
    conn: apsw.Connection,
    turn: Turn,
    run: str | None,
    ending: RunEnd,
    delivery: NewDelivery | None,
    state: TurnState,
) -> bool:
    """Whether this very end was committed before and only its answer was lost."""
    if run:
        return one(conn, SQL.run_state, (run,)) == (ending,)
    if delivery is None:  # nothing tells who ended it: with the ledger off, two would answer one command
        return False
    return one(conn, SQL.turn_ended, (turn.id, turn.fence)) == (state, delivery.id)


def release_turn(conn: apsw.Connection, turn: Turn, run: str, now: Now) -> bool:
    """See ``Ledger.release_turn``."""
    conn.execute(SQL.turn_wait_again, {"turn": turn.id, "fence": turn.fence, "interrupted": 0})
    if conn.changes() == 0:
        return one(conn, SQL.run_state, (run,)) == (RunEnd.DRAINED,)
    end_run(conn, run, RunEnd.DRAINED, Usage(), "", now)
    return True


def new_conversation(conn: apsw.Connection, lane: Lane, turn: str) -> None:
    """See ``Ledger.new_conversation``."""
    conn.execute(
        SQL.conversation_new,
        {
            "profile": lane.profile,
            "platform": lane.platform,
            "chat": lane.chat,
            "thread": lane.thread,
            "turn": turn,
        },
    )
