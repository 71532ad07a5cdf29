"""The verbs on deliveries, as plain functions on one connection inside one transaction.

Each leaves nothing behind when it raises, and each finds out by id whether it was already
committed. What a row becomes is computed in ``model``; here it is compared and swapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw

from angelia.model import limits
from angelia.model.ids import Claim, Lane
from angelia.model.messages import NewDelivery
from angelia.model.outcomes import LookUp
from angelia.model.record import Attempt, Ending, Part, Record, Revision, Role, fresh_parts
from angelia.model.states import FINAL, REASONS, Event, State, step
from angelia.seams.clock import Now
from angelia.store import sqlite_chats as chats
from angelia.store.ledger import Advance, AdvanceAnswer, ClaimAnswer
from angelia.store.rows import SQL, Row, held_until, load_record, many, number, one


def enqueue(conn: apsw.Connection, new: NewDelivery, now: Now) -> Record:
    """See ``Ledger.enqueue``."""
    return insert(conn, new, None, now) or load_record(conn, new.id)


def insert(conn: apsw.Connection, new: NewDelivery, turn: str | None, now: Now) -> Record | None:
    """A new delivery with its parts, ``pending``; abandoned at once if its chat is unreachable.
    Recording the same id, or the same turn, again changes nothing.

    Returns what is on record now, where that is sure without reading it (the usual case)."""
    added = _add_usual(conn, new, turn, now)
    if added is None:
        _insert_with_care(conn, new, turn, now)
        return None
    seq, newest_start, limited = added
    # What was written a moment ago need not be read back; the exam compares it with what is.
    return Record(
        id=new.id,
        seq=seq,
        lane=new.lane,
        state=State.PENDING,
        written_at=now.wall,
        parts=fresh_parts(new.texts, new.attachments),
        reply_to=new.reply_to,
        due_at=now.steady,
        requested=new.requested,
        origin=new.origin,
        turn=turn,
        newest_start=newest_start or 0,
        held_until=held_until(conn, *new.lane[:3]) if limited else 0,
    )


def _add_usual(conn: apsw.Connection, new: NewDelivery, turn: str | None, now: Now) -> Row | None:
    """A new row and its parts. ``None``: known already, or its chat has to be looked at."""
    added = many(conn, SQL.delivery_add_usual, _row(new, new.lane, turn, now))
    if not added:
        return None
    _add_parts(conn, new)
    return added[0]


def _insert_with_care(conn: apsw.Connection, new: NewDelivery, turn: str | None, now: Now) -> None:
    lane, unreachable = chats.whereabouts(conn, new.lane)
    if add(conn, new, lane, turn, now) and unreachable:
        settle(conn, load_record(conn, new.id), Event.CHAT_UNREACHABLE, now)


def add(conn: apsw.Connection, new: NewDelivery, lane: Lane, turn: str | None, now: Now) -> bool:
    """The ``pending`` row and its parts. False: it is on record already."""
    conn.execute(SQL.delivery_add, _row(new, lane, turn, now))
    if conn.changes() == 0:
        return False
    _add_parts(conn, new)
    return True


def _row(new: NewDelivery, lane: Lane, turn: str | None, now: Now) -> Row:
    """The values of a new delivery, in the order of both statements that add it."""
    return (new.id, turn, new.origin, *lane, new.reply_to, now.steady, now.wall, int(new.requested))


def _add_parts(conn: apsw.Connection, new: NewDelivery) -> None:
    add_parts(conn, new.id, fresh_parts(new.texts, new.attachments))


def add_parts(conn: apsw.Connection, delivery: str, parts: Iterable[Part]) -> None:
    """Put parts on record, as they are when nothing has happened to them."""
    rows = [
        (delivery, p.number, p.position, p.parent, p.text, p.attachment and p.attachment.to_text())
        for p in parts
    ]
    conn.executemany(SQL.part_add, rows)


def claim(
    conn: apsw.Connection, record: Record, owner: str, revision: Revision, at: int, now: Now
) -> ClaimAnswer:
    """See ``Ledger.claim``."""
    attempt = max((a.number for a in record.attempts), default=0) + 1
    if record.state not in (State.PENDING, State.FAILED):
        return ClaimAnswer.CHANGED  # seen as somebody's, or as final: there is nothing to claim
    swap = (record.id, owner, record.state, record.fence, record.version, now.wall, now.steady)
    refused = _in_time(record, now)
    if refused is None:
        conn.execute(SQL.delivery_claim, (*swap, 0))
    if refused is not None or conn.changes() == 0:
        answer = _claim_with_care(conn, record, swap, attempt, now)
        if answer is not None:
            return answer
    add_revision(conn, record.id, revision)
    conn.execute(
        SQL.attempt_add, (record.id, attempt, revision.part, revision.number, record.fence + 1, owner, at)
    )
    return ClaimAnswer.GRANTED


def _claim_with_care(
    conn: apsw.Connection, record: Record, swap: tuple[Any, ...], attempt: int, now: Now
) -> ClaimAnswer | None:
    """Why the claim changed nothing; or, if only rate limits had to be looked at first, the
    claim (``None``: the row is ours now)."""
    owner = swap[1]
    row = one(conn, SQL.delivery_key, (record.id,))
    if row is not None and row[:3] == (State.ATTEMPTING, owner, record.fence + 1):
        known = one(conn, SQL.attempt_known, (record.id, attempt))  # committed before?
        return ClaimAnswer.GRANTED if known and known[2] is None else ClaimAnswer.CHANGED
    if row is None or (row[0], *row[2:4]) != (record.state, record.fence, record.version):
        return ClaimAnswer.CHANGED
    if one(conn, SQL.owner_alive, (owner, now.wall)) is None:
        return ClaimAnswer.LAPSED
    held = _in_time(record, now) or chats.held(conn, record, now)
    if held is not None:
        return held
    conn.execute(SQL.delivery_claim, (*swap, 1))
    return ClaimAnswer.BEHIND if conn.changes() == 0 else None


def _in_time(record: Record, now: Now) -> ClaimAnswer | None:
    """Why a plan that is a moment old may not be followed now, if its time is over or not yet come."""
    if now.wall - record.written_at >= limits.freshness_ms:
        return ClaimAnswer.CHANGED  # it grew stale: the plan settles it
    if record.parked:
        return ClaimAnswer.HELD
    return ClaimAnswer.HELD if record.due_at is not None and record.due_at > now.steady else None


def add_revision(conn: apsw.Connection, delivery: str, r: Revision) -> None:
    conn.execute(
        SQL.revision_add,
        (delivery, r.part, r.number, r.role, r.text, r.format, r.target, int(r.marker), int(r.doubt)),
    )


def advance(conn: apsw.Connection, held: Claim, change: Advance, now: Now) -> AdvanceAnswer:
    """See ``Ledger.advance``."""
    if change.event is Event.LAST_PART_ACCEPTED and change.ending is Ending.ACCEPTED:
        return _deliver(conn, held, change, now)
    row = one(conn, SQL.delivery_key, (held.delivery,))
    if row is None or row[:3] != (State.ATTEMPTING, held.owner, held.fence):
        return _already(conn, held, change)
    if _repeated(conn, held, change):
        return AdvanceAnswer.DONE  # committed before, only the answer was lost
    if change.opened:
        if one(conn, SQL.owner_alive, (held.owner, now.wall)) is None:
            return AdvanceAnswer.LAPSED
        if held_until(conn, *row[5:8]) > now.steady:
            return AdvanceAnswer.HELD
    if change.attempt is not None:
        _end_attempt(conn, held.delivery, change.attempt, change)
    _apply_row(conn, held, change, Lane(*row[5:9]), row[4], now)
    if change.opened:
        attempt, revision = change.opened
        add_revision(conn, held.delivery, revision)
        conn.execute(
            SQL.attempt_add,
            (
                held.delivery,
                attempt.number,
                attempt.part,
                attempt.revision,
                held.fence,
                held.owner,
                attempt.started_at,
            ),
        )
    return AdvanceAnswer.DONE


def _deliver(conn: apsw.Connection, held: Claim, change: Advance, now: Now) -> AdvanceAnswer:
    """The last part was accepted: the compare-and-swap itself tells whether the claim holds."""
    done = many(conn, SQL.delivery_done, (held.delivery, held.owner, held.fence, now.wall))
    if not done:
        return _already(conn, held, change)
    profile, platform, chat, limited = done[0]
    if change.attempt is not None:
        _end_attempt(conn, held.delivery, change.attempt, change)
    if limited:
        conn.execute(SQL.waits_proved, (profile, platform, chat, now.steady))
    return AdvanceAnswer.DONE


def _repeated(conn: apsw.Connection, held: Claim, change: Advance) -> bool:
    """Whether a change that leaves the row claimed was committed before."""
    if change.opened:
        return one(conn, SQL.attempt_known, (held.delivery, change.opened[0].number)) is not None
    if change.attempt is None or step(State.ATTEMPTING, change.event) is not State.ATTEMPTING:
        return False
    known = one(conn, SQL.attempt_known, (held.delivery, change.attempt.number))
    return known == (held.owner, held.fence, change.ending, change.ended_at)


def _already(conn: apsw.Connection, held: Claim, change: Advance) -> AdvanceAnswer:
    """Whether this very change ended the pass before and only its answer was lost."""
    if change.opened:
        return AdvanceAnswer.STALE
    if change.attempt is not None and change.ending is not None:
        known = one(conn, SQL.attempt_known, (held.delivery, change.attempt.number))
        ours = known is not None and known == (held.owner, held.fence, change.ending, change.ended_at)
        return AdvanceAnswer.DONE if ours else AdvanceAnswer.STALE
    # Nothing of a call that was none is left to be compared with; the row itself tells.
    left = one(conn, SQL.delivery_left, (held.delivery, held.fence))
    number = change.attempt.number if change.attempt is not None else 0
    gone = one(conn, SQL.attempt_known, (held.delivery, number)) is None
    same = left is not None and left == (step(State.ATTEMPTING, change.event), change.due_at)
    return AdvanceAnswer.DONE if gone and same else AdvanceAnswer.STALE


def _end_attempt(conn: apsw.Connection, delivery: str, attempt: Attempt, change: Advance) -> None:
    if change.ending is None:
        conn.execute(SQL.attempt_remove, (delivery, attempt.number))
        return
    conn.execute(SQL.attempt_end, (delivery, attempt.number, change.ended_at, change.ending, change.detail))
    if change.receipt is not None:
        conn.execute(SQL.part_received, (delivery, attempt.part, change.receipt))
    if change.children:
        conn.execute(SQL.part_replaced, (delivery, attempt.part))
        add_parts(conn, delivery, change.children)
        conn.execute(SQL.part_received_above, (delivery, attempt.part))


def _apply_row(conn: apsw.Connection, held: Claim, change: Advance, lane: Lane, tries: int, now: Now) -> None:
    state = step(State.ATTEMPTING, change.event)
    key = (held.delivery, held.owner, held.fence)
    if state is State.ABANDONED and number(conn, SQL.parts_missing, (held.delivery,)) == 0:
        state = State.DELIVERED  # late receipts came for all of it meanwhile
    if state is not State.ATTEMPTING:
        _end_pass(conn, held, change, state, tries, now)
    elif change.moved_to or change.rerouted or change.anchor_dropped:
        flags = (int(bool(change.moved_to)), int(change.rerouted), int(change.anchor_dropped))
        conn.execute(SQL.delivery_goes_on, (*key, *flags))
    if change.ending is Ending.ACCEPTED:
        conn.execute(SQL.waits_proved, (lane.profile, lane.platform, lane.chat, now.steady))
    if change.limit is not None:
        chats.hold(conn, lane.adapter, change.limit, now)
    if change.moved_to:
        chats.moved(conn, lane, change.moved_to, held.delivery)
    if change.ending is Ending.UNREACHABLE and change.attempt is not None:
        chats.unreachable(conn, lane, change.attempt.started_at, change.detail, now)


def _end_pass(
    conn: apsw.Connection, held: Claim, change: Advance, state: State, tries: int, now: Now
) -> None:
    conn.execute(
        SQL.delivery_pass_over,
        {
            "id": held.delivery,
            "owner": held.owner,
            "fence": held.fence,
            "state": state,
            "reason": REASONS.get(change.event, "") if state is State.ABANDONED else "",
            "due_at": None if state in FINAL else change.due_at,
            "steady": now.steady,
            "tries": change.tries if change.tries is not None else tries,
            # A pass that made an attempt waits for its backoff, which no connection shortens.
            "not_sent": 0 if change.event is Event.PASS_FAILED else change.not_sent,
            "moved": int(bool(change.moved_to)),
            "rerouted": int(change.rerouted),
            "anchor_dropped": int(change.anchor_dropped),
            "ended_at": now.wall if state in FINAL else None,
        },
    )
    complete_late(conn, held.delivery, now)


def complete_late(conn: apsw.Connection, delivery: str, now: Now) -> None:
    """A failed row whose last missing part was received meanwhile is delivered."""
    if number(conn, SQL.parts_missing, (delivery,)) == 0:
        conn.execute(SQL.delivery_complete_late, {"id": delivery, "now": now.wall})


def record_receipt(conn: apsw.Connection, delivery: str, attempt: int, receipt: str, now: Now) -> None:
    """See ``Ledger.record_receipt``."""
    record = load_record(conn, delivery)
    made = next((a for a in record.attempts if a.number == attempt), None)
    if made is None or made.ending is Ending.ACCEPTED:
        return
    conn.execute(SQL.attempt_received, {"delivery": delivery, "number": attempt, "now": now.wall})
    if record.revision(made.part, made.revision).role is Role.CONTENT:
        conn.execute(SQL.part_received, (delivery, made.part, receipt))
        conn.execute(SQL.part_received_below, {"delivery": delivery, "part": made.part, "receipt": receipt})
    conn.execute(SQL.delivery_touch, (delivery,))
    complete_late(conn, delivery, now)


def note_look_up(conn: apsw.Connection, record: Record, attempt: int, found: LookUp) -> None:
    """See ``Ledger.note_look_up``."""
    conn.execute(
        SQL.look_up_noted,
        {
            "delivery": record.id,
            "number": attempt,
            "absent": int(found is LookUp.ABSENT),
            "fence": record.fence,
        },
    )


def settle(conn: apsw.Connection, record: Record, event: Event, now: Now) -> bool:
    """See ``Ledger.settle``. Raises ``ValueError`` for what the table does not know."""
    to_state = step(record.state, event)
    if to_state not in FINAL:
        raise ValueError(f"{event} makes no delivery final")
    if record.state is State.ATTEMPTING:
        return False
    if event is Event.COMPLETED_LATE and number(conn, SQL.parts_missing, (record.id,)):
        return False
    conn.execute(
        SQL.delivery_settle,
        {
            "id": record.id,
            "state": record.state,
            "fence": record.fence,
            "version": record.version,
            "to_state": to_state,
            "reason": REASONS.get(event, ""),
            "now": now.wall,
        },
    )
    return conn.changes() == 1 or _is(conn, record, SQL.delivery_settled, to_state, REASONS.get(event, ""))


def _is(conn: apsw.Connection, record: Record, sql: str, *wanted: object) -> bool:
    """Whether this very write to an unclaimed row was committed before."""
    return one(conn, sql, (record.id, record.fence, record.version + 1)) == wanted


def defer(conn: apsw.Connection, record: Record, due_at: int | None, offline: bool, now: Now) -> bool:
    """See ``Ledger.defer``."""
    conn.execute(
        SQL.delivery_defer,
        {
            "id": record.id,
            "state": record.state,
            "fence": record.fence,
            "version": record.version,
            "due_at": due_at,
            "steady": now.steady,
            "offline": int(offline),
        },
    )
    return conn.changes() == 1 or _is(conn, record, SQL.delivery_deferred, record.state, due_at)
