"""The platform's truth against the ledger, message by message.

What the shared checkers know (``angelia.testing.checks``: the invariants of every ring) and what
only the soak can know: who was acknowledged, what the platform answered to whom, what the model
server was asked, and that everything has settled. Each violation is a sentence; the numbers are
those of the invariants in ``angelia.testing.checks`` and ``angelia.store.invariants``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import apsw
from tests.soak.people import Said
from tests.soak.torture import Arrival

from angelia.model import limits
from angelia.model.markers import DOUBT, OPENING
from angelia.model.record import Record, Role
from angelia.model.states import State
from angelia.store.rows import load_record
from angelia.testing.checks import Arrived, problems_of

#: Why a turn may be given up. Any other reason is none.
_GAVE_UP = frozenset({"interrupted twice"})


@dataclass(frozen=True)
class Truth:
    """Everything that is known outside the gateway. ``calls``: how often each key was on the
    wire; ``told``: what the platform said about a delivery or a conversation; ``asked``: how
    often the model was asked about a message."""

    said: Mapping[str, Said]
    arrived: Sequence[Arrival]
    calls: Mapping[str, int]
    told: Mapping[str, set[str]]
    asked: Mapping[str, int]

    @property
    def in_order(self) -> list[Arrival]:
        """As they were sent: what waited in a socket while its sender died came first all the same."""
        return sorted(self.arrived, key=lambda one: (one.sent, one.number))


def violations(connection: apsw.Connection, wall: int, truth: Truth) -> list[str]:
    """Everything that is wrong, in sentences. ``wall``: now, in virtual milliseconds."""
    arrived = truth.in_order
    records = [
        load_record(connection, id) for (id,) in _rows(connection, "SELECT id FROM deliveries ORDER BY seq")
    ]
    found = problems_of(connection, wall, [Arrived(one.key, one.text, one.chat) for one in arrived])
    found += _inbound(connection, truth)
    found += _answers(connection, records, truth)
    found += _wire(records, truth)
    found += _words(records, arrived)
    found += _order(records, arrived)
    found += _ends(connection, records, truth)
    return found


def on_record(connection: apsw.Connection) -> list[Record]:
    """All deliveries, in the order of writing."""
    ids = [id for (id,) in _rows(connection, "SELECT id FROM deliveries ORDER BY seq")]
    return [load_record(connection, id) for id in ids]


def _rows(connection: apsw.Connection, sql: str, *values: str) -> list[tuple[Any, ...]]:
    return list(connection.execute(sql, values))


def _inbound(connection: apsw.Connection, truth: Truth) -> Iterator[str]:
    """1, 2: who was acknowledged is on record, once, and got an answer or a recorded reason."""
    turns: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for id, *turn in _rows(
        connection,
        "SELECT i.message_id, t.id, t.state, t.reason, i.profile, i.chat, i.text,"
        " (SELECT count(*) FROM deliveries d WHERE d.turn = t.id),"
        " (SELECT count(*) FROM model_runs r WHERE r.turn = t.id)"
        " FROM inbound i LEFT JOIN turns t ON t.id = i.turn",
    ):
        turns[id].append(tuple(turn))
    for id in turns:
        if id not in truth.said:
            yield f"1: {id} is on record, but nobody said it"
    for said in truth.said.values():
        known = turns.get(said.id, [])
        if said.accepted > 1:
            yield f"2: {said.id} was new {said.accepted} times: {said.statuses}"
        if said.acknowledged and len(known) != 1:
            yield f"1: {said.id} is acknowledged with {len(known)} turns"
        for _, state, reason, profile, chat, text, owed, runs in known:
            if (profile, chat, text) != (said.profile, said.chat, said.text):
                yield f"1: {said.id} is on record with other words or elsewhere"
            if state not in ("answered", "gave_up"):
                yield f"8: the turn of {said.id} is still {state}"
            if state == "gave_up" and reason not in _GAVE_UP:
                yield f"2: the turn of {said.id} was given up: {reason or 'no reason'}"
            if owed != 1:
                yield f"2: {said.id} is {state} with {owed} deliveries"
            asked = truth.asked.get(said.id, 0)
            if asked > runs:
                yield f"9: the model was asked {asked} times about {said.id}, {runs} runs are on record"


def _answers(connection: apsw.Connection, records: Iterable[Record], truth: Truth) -> Iterator[str]:
    """An answer goes to who asked, and tells of what was asked, unless it is a notice."""
    questions = dict(
        _rows(
            connection,
            "SELECT t.id, i.message_id FROM turns t JOIN inbound i ON i.turn = t.id"
            " WHERE t.state = 'answered'"
            " AND EXISTS (SELECT 1 FROM model_runs r WHERE r.turn = t.id AND r.ending = 'answered')",
        )
    )
    for record in records:
        said = truth.said.get(str(questions.get(record.turn)))
        if said is None:
            continue
        if record.lane.chat != said.chat or record.lane.profile != said.profile:
            yield f"4: the answer to {said.id} goes to {record.lane}"
        if f"[{said.id}]" not in record.parts[0].text:
            yield f"4: delivery {record.id} is no answer to {said.id}"


def _wire(records: Iterable[Record], truth: Truth) -> Iterator[str]:
    """Every call that the platform saw is an attempt on record."""
    attempts: dict[str, int] = defaultdict(int)
    for record in records:
        for attempt in record.attempts:
            attempts[f"{record.id}.{attempt.part}.{attempt.revision}"] += 1
    for key, calls in truth.calls.items():
        if calls > attempts[key]:
            yield f"4: {key} was on the wire {calls} times with {attempts[key]} attempts on record"


def copies(records: Iterable[Record], arrived: Iterable[Arrival]) -> Iterator[tuple[Arrival, bool]]:
    """Every message that a person had seen before, and whether it says that it may be one: by
    itself, or by the line of its own in front of it."""
    known = {record.id: record for record in records}
    seen: set[tuple[str, int]] = set()
    announced: dict[tuple[str, int], str] = {}
    for one in arrived:
        delivery, number, revision_number = one.key.rsplit(".", 2)
        record, part = known.get(delivery), (delivery, int(number))
        if record is None:
            continue  # another check has said so
        numbers = (part[1], int(revision_number))
        revision = next((r for r in record.revisions if (r.part, r.number) == numbers), None)
        if revision is not None and revision.role is Role.LINE:
            announced[part] = one.text
            continue
        line = one.text.partition("\n")[0] if one.text.startswith(OPENING) else announced.get(part, "")
        if part in seen:
            yield one, DOUBT in line
        seen.add(part)


def _words(records: Iterable[Record], arrived: Iterable[Arrival]) -> Iterator[str]:
    """4, by what a person read."""
    for one, says_so in copies(records, arrived):
        if not says_so:
            yield f"4: {one.key} repeats a message and does not say that it may be a duplicate"


def _order(records: Sequence[Record], arrived: Iterable[Arrival]) -> Iterator[str]:
    """7, by what a person saw: the first message of each reply, in the order of writing, unless
    the earlier reply rested."""
    first: dict[str, int] = {}
    for place, one in enumerate(arrived):
        first.setdefault(one.key.rsplit(".", 2)[0], place)
    lanes: dict[object, list[Record]] = defaultdict(list)
    for record in records:
        if record.id in first:
            lanes[record.lane].append(record)
    for lane in lanes.values():
        for earlier, later in pairwise(lane):
            if first[earlier.id] > first[later.id] and earlier.tries < limits.redeliveries_max - 1:
                yield f"7: {later.id} was seen before {earlier.id}, which did not rest"


def _ends(connection: apsw.Connection, records: Iterable[Record], truth: Truth) -> Iterator[str]:
    """8: nothing is open, and nothing is given up without what justifies it."""
    for record in records:
        about = truth.told.get(record.id, set())
        about_chat = truth.told.get(f"{record.lane.profile} {record.lane.chat}", set())
        if record.state not in (State.DELIVERED, State.ABANDONED):
            yield f"8: delivery {record.id} is still {record.state}"
        if record.state is not State.ABANDONED:
            continue
        passes = len({attempt.fence for attempt in record.attempts})
        (ended,) = _rows(connection, "SELECT ended_at FROM deliveries WHERE id = ?", record.id)[0]
        justified = {
            "unreachable": "gone" in about_chat,
            "rejected": bool({"too long", "bad markup"} & about),
            "tries_used_up": record.tries == limits.redeliveries_max and passes > limits.redeliveries_max,
            "stale": ended - record.written_at >= limits.freshness_ms,
        }
        if not justified.get(record.reason, False):
            yield f"8: delivery {record.id} was abandoned as {record.reason}, which nothing shows"
