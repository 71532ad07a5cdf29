"""The invariants of every ring of tests, checked against the store and the platform's own truth.

A fake platform remembers what it accepted, outside the process that is killed (``Arrived``);
no checker may ask the gateway what it sent. ``problems_of`` is everything; each problem is a
sentence that names the invariant's number in ``testing.md``.
``recovery_problems`` is the tenth: what a start finds, the next start finds again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apsw

from angelia.model import markers
from angelia.model.record import DOUBTFUL, Ending, Part, Record, Revision, Role, lineage
from angelia.model.states import State
from angelia.seams.clock import Now
from angelia.store import sqlite_owners as owners
from angelia.store.invariants import problems
from angelia.store.ledger import OwnerKind
from angelia.store.rows import SQL, load_record, many
from angelia.store.sqlite_operator import MARKED


@dataclass(frozen=True, slots=True)
class Arrived:
    """One message as the platform took it: what went to the person. A repeat that the platform
    recognised by its key is no arrival."""

    key: str
    text: str
    chat: str = ""

    @property
    def names(self) -> tuple[str, int, int]:
        """Delivery, part and revision, as the key names them."""
        delivery, part, revision = self.key.rsplit(".", 2)
        return delivery, int(part), int(revision)


def problems_of(conn: apsw.Connection, wall: int, arrived: Sequence[Arrived] | None = None) -> list[str]:
    """Everything that is wrong. ``arrived`` in the order of arrival; without it only what the
    store shows is checked. ``wall``: now, in milliseconds."""
    found = problems(conn, wall)
    records = [load_record(conn, row[0]) for row in many(conn, SQL.every_delivery)]
    found.extend(order_problems(records))
    if arrived is not None:
        found.extend(truth_problems(conn, records, arrived))
    return found


def order_problems(records: Iterable[Record]) -> Iterator[str]:
    """Invariant 7: in a lane, nothing later began before something earlier was through, unless
    that rested or was parked. Only the third redelivery rests; a chat that moved has mixed its lanes."""
    lanes: dict[object, list[Record]] = defaultdict(list)
    for record in records:
        if record.attempts and record.moves == 0:
            lanes[record.lane].append(record)
    for rows in lanes.values():
        rows.sort(key=lambda record: record.seq)
        for place, earlier in enumerate(rows):
            if earlier.tries >= 2 or earlier.parked or earlier.released:
                continue
            last = max(a.started_at for a in earlier.attempts)
            for later in rows[place + 1 :]:
                if min(a.started_at for a in later.attempts) < last:
                    yield f"7: delivery {later.id} overtook {earlier.id}, which did not rest"


def truth_problems(
    conn: apsw.Connection, records: Sequence[Record], arrived: Sequence[Arrived]
) -> Iterator[str]:
    """Invariants 3, 4 and 5: the record and the platform tell the same."""
    known = {record.id: record for record in records}
    by_part: dict[tuple[str, int], list[Arrived]] = defaultdict(list)
    for message in arrived:
        delivery, part, _ = message.names
        record = known.get(delivery)
        if record is None:
            yield f"4: {message.key} arrived, but no such delivery is on record"
            continue
        revision = _revision(record, message)
        if revision is None:
            yield f"4: {message.key} arrived, but its bytes are not on record"
            continue
        if message.text != (record.part(part).text if revision.text is None else revision.text):
            yield f"4: {message.key} arrived with other bytes than those on record"
        if revision.role is Role.CONTENT:
            by_part[delivery, part].append(message)
    for record in records:
        yield from _missing(record, by_part)
        yield from _copies(record, by_part)
        yield from _first_send_is_plain(record, by_part)


def _revision(record: Record, message: Arrived) -> Revision | None:
    _, part, number = message.names
    return next((r for r in record.revisions if (r.part, r.number) == (part, number)), None)


def _of(record: Record, part: Part, by_part: dict[tuple[str, int], list[Arrived]]) -> list[Arrived]:
    """What arrived of a part and of what it was split from."""
    return [m for number in sorted(lineage(record, part)) for m in by_part.get((record.id, number), [])]


def _missing(record: Record, by_part: dict[tuple[str, int], list[Arrived]]) -> Iterator[str]:
    if record.state is not State.DELIVERED or record.reason == MARKED:
        return
    for part in record.live_parts:
        if not _of(record, part, by_part):
            yield f"3: delivery {record.id} is delivered, but part {part.number} never arrived"


def _copies(record: Record, by_part: dict[tuple[str, int], list[Arrived]]) -> Iterator[str]:
    for part in record.live_parts:
        copies = _of(record, part, by_part)
        numbers = set(lineage(record, part))
        doubts = [
            a
            for a in record.attempts
            if a.part in numbers and (a.ending is None or a.ending is Ending.ACCEPTED or a.ending in DOUBTFUL)
        ]
        if len(copies) > len(doubts):
            yield (
                f"4: part {part.number} of delivery {record.id} arrived {len(copies)} times with "
                f"{len(doubts)} attempts that may have brought it"
            )
        for copy in copies[1:]:
            revision = _revision(record, copy)
            if revision is not None and not revision.doubt:
                yield f"4: {copy.key} is a copy, but carries no marker with its doubt"


def _first_send_is_plain(record: Record, by_part: dict[tuple[str, int], list[Arrived]]) -> Iterator[str]:
    """Invariant 5: what was claimed once, and neither re-routed nor asked for, carries no marker."""
    if record.fence != 1 or record.requested or record.rerouted or record.inherited_doubt:
        return
    if any(a.ending in DOUBTFUL for a in record.attempts):
        return
    for part in record.parts:
        for message in by_part.get((record.id, part.number), []):
            if message.text.startswith(markers.OPENING):
                yield f"5: {message.key} was sent once and for the first time, but carries a marker"


def contents(conn: apsw.Connection, *, but: Iterable[str] = ()) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the store by table, in the order of their keys; ``but``: not of these tables."""
    left_out = set(but)
    names = [
        str(name)
        for (name,) in many(conn, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        if name not in left_out and not str(name).startswith("sqlite_")
    ]
    return {
        name: sorted(many(conn, f'SELECT * FROM "{name}"'), key=repr)  # noqa: S608 - names of the schema
        for name in names
    }


def copy_of(conn: apsw.Connection) -> apsw.Connection:
    """A copy of the store in memory, on which anything may be tried."""
    copy = apsw.Connection(":memory:")
    with copy.backup("main", conn, "main") as backup:
        while not backup.done:
            backup.step()
    copy.pragma("foreign_keys", True)
    return copy


def recovery_problems(
    conn: apsw.Connection, now: Now, lock_held: bool, apart: Iterable[str] = ()
) -> list[str]:
    """Invariant 10, tried on a copy: a start that takes over, again and as yet another start,
    changes nothing that the first one has not changed. ``apart``: tables of the test's own."""
    copy = copy_of(conn)
    but = {"owners", "pulse", *apart}
    try:
        owners.start(copy, "first recovery", OwnerKind.DAEMON, False, now)
        owners.take_over(copy, "first recovery", lock_held, True, now)
        once = contents(copy, but=but)
        again = owners.take_over(copy, "first recovery", lock_held, True, now)
        found = [] if (again.deliveries, again.turns) == (0, 0) else [f"10: a second take-over took {again}"]
        found += _differences("taking over twice", once, contents(copy, but=but))
        owners.retire(copy, "first recovery", now)
        owners.start(copy, "second recovery", OwnerKind.DAEMON, False, now)
        owners.take_over(copy, "second recovery", lock_held, True, now)
        return found + _differences("a second start", once, contents(copy, but=but))
    finally:
        copy.close()


def _differences(
    what: str, once: dict[str, list[tuple[object, ...]]], twice: dict[str, list[tuple[object, ...]]]
) -> list[str]:
    return [
        f"10: {what} changes {table}: {[row for row in twice[table] if row not in rows][:1]}"
        for table, rows in once.items()
        if twice[table] != rows
    ]
