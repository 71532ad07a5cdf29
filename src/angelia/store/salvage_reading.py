"""Reading a table around what cannot be read.

A table with row numbers is read upwards until a page fails, then downwards until one fails; the
gap between is halved, and each half read the same way, until what is left are rows that cannot
be read. A table that is sorted by its key is read from both ends, and what lies between is
asked for by the keys that other tables know.

Row numbers must rise and keys must not repeat: a page that points to a wrong place would
otherwise be read for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apsw

Row = tuple[Any, ...]

#: Tables of SQLite itself are not ours to copy.
_TABLES = (
    "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
)
#: How many pieces of an unreadable gap are tried; a store has about a hundred rows a page.
_PIECES_MOST = 200_000
#: How far behind a failure rows are looked for where nobody can tell where a table ends.
_DISTANCE_MOST = 2**40


@dataclass(frozen=True, slots=True)
class Shape:
    """A table: its columns, and the key it is sorted by ("" : by row number)."""

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    numbered: bool

    def common(self, other: Shape) -> Shape:
        """This table with only the columns that ``other`` has, too."""
        return replace(self, columns=tuple(c for c in self.columns if c in other.columns))

    @property
    def listed(self) -> str:
        return ", ".join(self.columns)

    @property
    def insert(self) -> str:
        """Row number first, where the table has one."""
        names = f"rowid, {self.listed}" if self.numbered else self.listed
        marks = ", ".join("?" * (len(self.columns) + self.numbered))
        return f"INSERT INTO {self.table} ({names}) VALUES ({marks})"  # noqa: S608 - names of our schema


def shapes_of(conn: apsw.Connection) -> list[Shape]:
    """The tables of a store, in the order in which they were made. Raises ``apsw.Error``."""
    shapes = []
    for name, sql in conn.execute(_TABLES).fetchall():
        columns = conn.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
        key = tuple(str(c) for c, place in sorted(columns, key=lambda one: int(str(one[1]))) if place)
        numbered = "WITHOUT ROWID" not in str(sql).upper()
        shapes.append(Shape(str(name), tuple(str(c) for c, _ in columns), key, numbered))
    return shapes


def read_all(old: apsw.Connection, new: apsw.Connection, shape: Shape, lost: list[str]) -> Iterator[Row]:
    """Every readable row, in the order of the statement ``shape.insert``; ``lost`` is told what
    could not be read. ``new`` holds what was read of the tables before this one."""
    if shape.numbered:
        yield from _numbered(old, shape, lost)
    else:
        yield from _sorted(old, new, shape, lost)


# -- tables with row numbers -------------------------------------------------------------------


class _Numbered:
    """The reading of one such table. ``sound``: the newest walk met no failure; ``last``: the
    number of the row that it came to."""

    def __init__(self, conn: apsw.Connection, shape: Shape) -> None:
        self._conn = conn
        self._shape = shape
        self.pieces = 0
        self.sound = False
        self.last = 0

    def walk(self, low: int, high: int, way: str, *, from_the_end: bool = False) -> Iterator[Row]:
        """The rows between two numbers, one way, until a page fails. ``from_the_end``: they are
        walked to, not looked for, which a damaged page may misdirect."""
        sql = f"SELECT rowid, {self._shape.listed} FROM {self._shape.table} NOT INDEXED "  # noqa: S608
        bounds: Row = () if from_the_end else (low, high)
        sql += f"{'WHERE rowid BETWEEN ? AND ? ' if bounds else ''}ORDER BY rowid {way}"
        self.sound, self.last = False, low - 1 if way == "ASC" else high + 1
        try:
            for row in self._conn.execute(sql, bounds):
                number = row[0]
                if not isinstance(number, int) or not low <= number <= high:
                    return
                if (number <= self.last) if way == "ASC" else (number >= self.last):
                    return
                self.last = number
                yield row
        except (apsw.Error, UnicodeDecodeError):
            return
        self.sound = True


def _numbered(conn: apsw.Connection, shape: Shape, lost: list[str]) -> Iterator[Row]:
    reading = _Numbered(conn, shape)
    yield from reading.walk(1, _HIGHEST, "ASC", from_the_end=True)
    if reading.sound:
        return
    low = reading.last + 1
    yield from reading.walk(low, _HIGHEST, "DESC", from_the_end=True)
    high = reading.last - 1
    if high == _HIGHEST:
        # Where the table ends nobody can tell: pages behind the first bad one may be cut off.
        last = _last_readable(reading, low)
        if last is None:
            lost.append(f"all rows from number {low} on")
            return
        high = last
        lost.append(f"perhaps rows behind number {high}")
    found = 0
    for row in _gap(reading, low, high, lost):
        found += 1
        yield row
    if found <= high - low:
        lost.append(f"of the {high - low + 1} numbers {low} to {high} only {found} led to a row")


_HIGHEST = 2**62


def _last_readable(reading: _Numbered, low: int) -> int | None:
    """The greatest row number that a look at growing distances can read, if any."""
    step, found = 1, None
    while step < _DISTANCE_MOST:
        for way in ("DESC", "ASC"):
            for row in reading.walk(low + step - 1, low + 2 * step - 2, way):
                found = max(row[0], found or 0)
        step *= 2
    return found


def _gap(reading: _Numbered, low: int, high: int, lost: list[str]) -> Iterator[Row]:
    """What is readable between two failures, by halves."""
    holes: list[tuple[int, int]] = []
    todo = [(low, high)]
    while todo:
        first, last = todo.pop()
        if first > last:
            continue
        reading.pieces += 1
        yield from reading.walk(first, last, "ASC")
        if reading.sound:
            continue
        first = reading.last + 1
        yield from reading.walk(first, last, "DESC")
        last = reading.last - 1
        if first == last or reading.pieces > _PIECES_MOST:
            holes.append((first, last))
        elif first < last:
            middle = (first + last) // 2
            todo += [(middle + 1, last), (first, middle)]
    lost += _in_words(holes)


def _in_words(holes: list[tuple[int, int]]) -> list[str]:
    joined: list[list[int]] = []
    for first, last in sorted(holes):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return [f"row {a}" if a == b else f"up to {b - a + 1} rows, numbers {a} to {b}" for a, b in joined]


# -- tables that are sorted by their key ---------------------------------------------------------

#: The keys that other tables know, for each such table; asked for in what was salvaged already.
_KNOWN_KEYS: dict[str, str] = {
    "chats": "SELECT profile, platform, chat FROM turns UNION SELECT profile, platform, chat FROM deliveries",
    "conversations": "SELECT DISTINCT profile, platform, chat, thread FROM turns",
    "waits": "SELECT DISTINCT profile, platform FROM deliveries",
    "revisions": "SELECT id FROM deliveries UNION SELECT delivery FROM parts",
    "attempts": "SELECT id FROM deliveries UNION SELECT delivery FROM parts",
}


def _sorted(old: apsw.Connection, new: apsw.Connection, shape: Shape, lost: list[str]) -> Iterator[Row]:
    seen: set[Row] = set()
    places = [shape.columns.index(column) for column in shape.key if column in shape.columns]

    def fresh(rows: list[Row]) -> Iterator[Row]:
        for row in rows:
            key = tuple(row[place] for place in places)
            if key not in seen:
                seen.add(key)
                yield row

    for way in ("ASC", "DESC"):
        order = ", ".join(f"{column} {way}" for column in shape.key)
        sql = f"SELECT {shape.listed} FROM {shape.table} ORDER BY {order}"  # noqa: S608
        rows, sound = _until_failure(old, sql, (), places)
        yield from fresh(rows)
        if sound:
            return
    unreadable = 0
    known = new.execute(_KNOWN_KEYS[shape.table]).fetchall() if shape.table in _KNOWN_KEYS else []
    for key in known:
        where = " AND ".join(f"{column} = ?" for column in shape.key[: len(key)])
        sql = f"SELECT {shape.listed} FROM {shape.table} WHERE {where}"  # noqa: S608
        rows, sound = _until_failure(old, sql, key, places)
        yield from fresh(rows)
        unreadable += not sound
    lost.append(
        f"rows between its readable ends; of {len(known)} keys that other tables know, {unreadable} led to "
        "what cannot be read"
    )


def _until_failure(
    conn: apsw.Connection, sql: str, bindings: Row, places: list[int]
) -> tuple[list[Row], bool]:
    found: list[Row] = []
    keys: set[Row] = set()
    try:
        for row in conn.execute(sql, bindings):
            key = tuple(row[place] for place in places)
            if key in keys:
                return found, False
            keys.add(key)
            found.append(row)
    except (apsw.Error, UnicodeDecodeError):
        return found, False
    return found, True
