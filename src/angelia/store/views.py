"""What an operator sees: lists, one delivery with all its attempts, and the story behind an answer.

Plain functions on a connection that reads (``SqliteLedger.read``), one snapshot each. All times
are wall milliseconds, also the due times, which are stored on the steady clock. Nothing here
decides anything; what happens next is the plan's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import apsw

from angelia.model import markers
from angelia.model.errors import UnknownIdError
from angelia.model.media import Attachment, worded
from angelia.model.record import Attempt, Part, Record, Revision, Role
from angelia.model.states import State
from angelia.seams.clock import Now
from angelia.store.rows import SQL, Row, attachment_of, attachments_of, load_record, many, one
from angelia.store.verdict import verdict as verdict


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """One line of a list. ``due`` is ``None`` for what rests, is being sent or is final.
    ``parts`` and ``received`` count messages; ``redeliveries`` those that counted as a try.
    ``parked``: it may have arrived already, so it waits for somebody's word."""

    id: str
    state: str
    reason: str
    profile: str
    platform: str
    chat: str
    thread: str
    origin: str
    text: str
    parts: int
    received: int
    redeliveries: int
    due: int | None
    created: int
    ended: int | None
    turn: str | None
    again_of: str | None
    parked: bool = False


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One wire call; ``pass_number`` counts the passes that made one, from 1.

    ``outcome`` is "in flight" until it has ended. ``marker`` is the line that the message
    carried, "" for none. ``absent``: a look-up proved that it did not arrive.
    """

    number: int
    part: int
    revision: int
    owner: str
    start: int
    pass_number: int
    started: int
    ended: int | None
    outcome: str
    detail: str
    marker: str
    absent: bool


@dataclass(frozen=True, slots=True)
class DeliveryDetail:
    """One delivery with everything on record about it."""

    view: DeliveryView
    reply_to: str
    parts: tuple[Part, ...]
    revisions: tuple[Revision, ...]
    attempts: tuple[AttemptView, ...]
    record: Record


@dataclass(frozen=True, slots=True)
class RunView:
    """One model run. ``ending`` is "" while it runs; tokens are ``None`` where nobody knows."""

    id: str
    model: str
    owner: str
    started: int
    ended: int | None
    ending: str
    detail: str
    input_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True)
class QuestionView:
    """One inbound message. ``sent`` is the platform's own time, where it gave one."""

    message_id: str
    user: str
    user_name: str
    text: str
    sent: int | None
    first_seen: int
    files: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnView:
    """The work of answering: its state, why it ended so, how often it was interrupted."""

    id: str
    kind: str
    state: str
    reason: str
    received: int
    ended: int | None
    interruptions: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The story behind ``id``: what came in, what ran, what went out.

    ``found`` says what the id named; ``matches`` how many different stories it would fit (the
    newest is told). A notice has no turn, no questions and no runs.
    """

    id: str
    found: str
    matches: int
    turn: TurnView | None
    questions: tuple[QuestionView, ...]
    runs: tuple[RunView, ...]
    deliveries: tuple[DeliveryDetail, ...]


def list_deliveries(
    conn: apsw.Connection, now: Now, *, state: str = "", chat: str = "", limit: int = 50, parked: bool = False
) -> list[DeliveryView]:
    """Deliveries in all states, newest first; ``state``, ``chat`` and ``parked`` narrow the list."""
    where = {"state": state, "chat": chat, "id": "", "limit": limit, "parked": int(parked)}
    return [_view(conn, row, now) for row in many(conn, SQL.view_deliveries, where)]


def _view(conn: apsw.Connection, row: Row, now: Now) -> DeliveryView:
    parts = many(conn, SQL.view_parts, (row[0],))
    return DeliveryView(
        id=row[0],
        state=row[1],
        reason=row[2],
        profile=row[3],
        platform=row[4],
        chat=row[5],
        thread=row[6],
        origin=row[7],
        text="\n\n".join(worded(part[0], attachment_of(part[2])) for part in parts),
        parts=len(parts),
        received=sum(part[1] is not None for part in parts),
        redeliveries=row[8],
        due=None if row[9] is None else now.wall + (row[9] - now.steady),
        created=row[10],
        ended=row[11],
        turn=row[12],
        again_of=row[13],
        parked=bool(row[14]),
    )


def show(conn: apsw.Connection, delivery: str, now: Now | None = None) -> DeliveryDetail:
    """Everything about one delivery. Raises ``UnknownIdError``. Without ``now``, due times are
    those of the steady clock."""
    record = load_record(conn, delivery)
    where = {"state": "", "chat": "", "id": delivery, "limit": 1, "parked": 0}
    view = _view(conn, many(conn, SQL.view_deliveries, where)[0], now or Now(0, 0))
    attempts = tuple(
        _attempt(record, attempt, owner, start)
        for attempt, (_, owner, start) in zip(
            record.attempts, many(conn, SQL.view_owners_of_attempts, (delivery,)), strict=True
        )
    )
    return DeliveryDetail(view, record.reply_to, record.parts, record.revisions, attempts, record)


def _attempt(record: Record, attempt: Attempt, owner: str, start: int) -> AttemptView:
    passes = sorted({a.fence for a in record.attempts})
    return AttemptView(
        number=attempt.number,
        part=attempt.part,
        revision=attempt.revision,
        owner=owner,
        start=start,
        pass_number=passes.index(attempt.fence) + 1,
        started=attempt.started_at,
        ended=attempt.ended_at,
        outcome=attempt.ending.value if attempt.ending else "in flight",
        detail=attempt.detail,
        marker=_marker(record, record.revision(attempt.part, attempt.revision)),
        absent=attempt.absent,
    )


def _marker(record: Record, revision: Revision) -> str:
    """The line that a message carried in front; for one whose line went ahead of it as a message
    of its own, that line."""
    if not revision.marker:
        return ""
    if revision.text is not None and revision.text.startswith(markers.OPENING):
        return revision.text.partition("\n")[0]
    lines = [r for r in record.revisions if r.part == revision.part and r.role is Role.LINE and r.text]
    return next((r.text for r in reversed(lines) if r.text), "")


def timeline(conn: apsw.Connection, name: str, now: Now | None = None) -> Timeline:
    """The story behind an id: a delivery's, a turn's, a run's or a platform's message id (of
    an incoming message or of a receipt). Raises ``UnknownIdError``."""
    stories: dict[tuple[str | None, str | None], str] = {}
    for found, delivery, turn, _ in many(conn, SQL.view_matches, {"id": name}):
        stories.setdefault(_root(conn, delivery, turn), found)
    if not stories:
        raise UnknownIdError(
            f"there is no delivery, turn or message {name} in the store (final ones go after 7 days)"
        )
    (delivery, turn), found = next(iter(stories.items()))
    told = many(conn, SQL.view_told, {"delivery": delivery, "turn": turn})
    return Timeline(
        id=name,
        found=found,
        matches=len(stories),
        turn=_turn(conn, turn),
        questions=tuple(_question(row) for row in many(conn, SQL.view_questions, (turn,))),
        runs=tuple(_run(row) for row in many(conn, SQL.view_runs, (turn,))),
        deliveries=tuple(show(conn, row[0], now) for row in told),
    )


def _root(conn: apsw.Connection, delivery: str | None, turn: str | None) -> tuple[str | None, str | None]:
    """Where a story begins: its turn, or the first delivery of what was sent again and again."""
    while turn is None and delivery is not None:
        row = one(conn, SQL.view_again_of, (delivery,))
        if row is None or (row[0] is None and row[1] is None):
            break
        earlier, turn = row
        if turn is None and one(conn, SQL.view_again_of, (earlier,)) is None:
            break  # the original was pruned
        delivery = earlier or delivery
    return (None, turn) if turn is not None else (delivery, None)


def _question(row: Row) -> QuestionView:
    message_id, user, user_name, text, sent, first_seen, files = row
    return QuestionView(message_id, user, user_name, text, sent, first_seen, attachments_of(files))


def _run(row: Row) -> RunView:
    run, model, owner, started, ended, ending, detail, input_tokens, output_tokens = row
    return RunView(run, model, owner, started, ended, ending or "", detail, input_tokens, output_tokens)


def _turn(conn: apsw.Connection, turn: str | None) -> TurnView | None:
    row = one(conn, SQL.view_turn, (turn,))
    return None if row is None else TurnView(*row)


# -- the whole store -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChatView:
    """What is known of one chat. ``unreachable_since`` is the start of the attempt that said so."""

    profile: str
    platform: str
    chat: str
    newest: int
    owed: int
    unreachable_since: int | None
    detail: str
    moved_to: str | None


@dataclass(frozen=True, slots=True)
class WaitView:
    """A rate limit that still holds."""

    profile: str
    platform: str
    scope: str
    subject: str
    until: int


@dataclass(frozen=True, slots=True)
class OwnerView:
    """A gateway or an embedding program that is not known to be gone."""

    id: str
    kind: str
    started: int
    lease_until: int
    alive: bool
    deliveries: int
    turns: int


@dataclass(frozen=True, slots=True)
class StatusView:
    """The state of the house. ``deliveries`` and ``turns`` count by state, all states named."""

    deliveries: dict[str, int]
    turns: dict[str, int]
    oldest_owed: int | None
    due: int
    resting: int
    parked: int
    unreachable: Sequence[tuple[str, str, str, int, str]]
    waits: Sequence[WaitView]
    owners: Sequence[OwnerView]


def status(conn: apsw.Connection, now: Now) -> StatusView:
    """Everything that an operator looks at first."""
    steady = {"steady": now.steady}
    oldest, due, resting, parked = one(conn, SQL.view_owed, steady) or (None, 0, 0, 0)
    counted = dict.fromkeys((state.value for state in State), 0)
    turns = dict.fromkeys(("waiting", "running", "answered", "gave_up"), 0)
    return StatusView(
        deliveries=counted | dict(many(conn, SQL.view_states)),
        turns=turns | dict(many(conn, SQL.view_turn_states)),
        oldest_owed=oldest,
        due=due,
        resting=resting,
        parked=parked,
        unreachable=[(r[0], r[1], r[2], r[3], r[4]) for r in many(conn, SQL.view_unreachable)],
        waits=[
            WaitView(row[0], row[1], row[2], row[3], now.wall + (row[4] - now.steady))
            for row in many(conn, SQL.view_waits, steady)
        ],
        owners=[
            OwnerView(row[0], row[1], row[2], row[3], row[3] > now.wall, row[4], row[5])
            for row in many(conn, SQL.view_owners)
        ],
    )


def chats_view(conn: apsw.Connection, limit: int = 200) -> list[ChatView]:
    """All chats that anything is known of, newest activity first."""
    return [ChatView(*row) for row in many(conn, SQL.view_chats, {"limit": limit})]
