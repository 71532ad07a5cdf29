"""Opening a damaged store whose own description of its tables may be damaged, too.

What SQLite calls the schema lies on the first page and on a few others. A store that was made
by the newest schema has them at the places where an empty store has them, since both were made
by the same statements; so pages of an empty store can take their places, and the tables are
found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw

from angelia.model.errors import StoreDamagedError
from angelia.store.connection import close_quietly, open_connection
from angelia.store.durable import remove
from angelia.store.migrate import APPLICATION_ID, migrate
from angelia.store.salvage_reading import shapes_of

page_bytes = 4096
_INTERIOR, _LEAF = 5, 13  # kinds of pages of a table (https://sqlite.org/fileformat2.html, 1.6)


def open_damaged(raw: Path, notes: list[str]) -> apsw.Connection:
    """A connection to ``raw``, a copy of ours, whose tables can be named. ``notes`` is told if
    it took pages of an empty store. Raises ``StoreDamagedError`` if nothing helps."""
    connection = _try(raw)
    if connection is not None:
        return connection
    for with_log in (True, False):
        if not with_log:
            remove(Path(f"{raw}-wal"))  # it may hold the same damaged pages
        if not _graft(raw):
            break
        connection = _try(raw)
        if connection is not None:
            notes.append("the file's description of its tables is damaged; that of an empty store was used")
            return connection
    raise StoreDamagedError(
        "nothing of it can be read: it is no store of Angelia's, or its description of its tables is lost"
    )


def _try(raw: Path) -> apsw.Connection | None:
    try:
        connection = apsw.Connection(str(raw), apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error:
        return None
    try:
        connection.pragma("trusted_schema", False)
        connection.pragma("cell_size_check", True)
        connection.pragma("temp_store", "memory")
        if connection.pragma("application_id") != APPLICATION_ID:
            raise apsw.NotADBError("another program's")
        names = {shape.table for shape in shapes_of(connection)}
        if not {"deliveries", "parts"} <= names:
            raise apsw.CorruptError("tables are missing")
        for name in names:
            connection.execute(f"SELECT 1 FROM {name} LIMIT 0")  # noqa: S608 - a name of our schema
    except apsw.Error:
        close_quietly(connection)
        return None
    return connection


def _graft(raw: Path) -> bool:
    """Put the pages of an empty store's schema in their places. False: it cannot be one of ours."""
    empty = _empty_store(raw.with_name(f"{raw.name}.empty.part"))
    size = raw.stat().st_size
    if size < 3 * page_bytes or int.from_bytes(empty[16:18], "big") != page_bytes:
        return False
    if not _resembles(raw, empty):
        return False
    with raw.open("r+b") as file:
        for number in sorted(set(schema_pages(empty))):
            page = bytearray(empty[(number - 1) * page_bytes : number * page_bytes])
            if number == 1:
                page[28:32] = (size // page_bytes).to_bytes(4, "big")  # pages of the file
                page[32:40] = bytes(8)  # no free pages: what was free is not read
            file.seek((number - 1) * page_bytes)
            file.write(page)
    return True


def _resembles(raw: Path, empty: bytes) -> bool:
    """Whether enough of the schema's text is left to know a store of Angelia's."""
    content = raw.read_bytes()
    words = (
        b"CREATE TABLE deliveries",
        b"CREATE TABLE parts",
        b"deliveries_stay_final",
        b"CREATE TABLE turns",
    )
    return any(word in content for word in words) and len(content) >= len(empty) // 2


def _empty_store(path: Path) -> bytes:
    for ending in ("", "-wal", "-shm"):
        remove(Path(f"{path}{ending}"))
    try:
        connection = open_connection(path)
        try:
            migrate(connection, keep_copy=False)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            connection.pragma("journal_mode", "delete")
        finally:
            close_quietly(connection)
        return path.read_bytes()
    finally:
        for ending in ("", "-wal", "-shm"):
            remove(Path(f"{path}{ending}"))


def schema_pages(content: bytes) -> Iterator[int]:
    """The numbers of the pages that the schema of a sound store lies on."""
    todo = [1]
    while todo:
        number = todo.pop()
        yield number
        page = content[(number - 1) * page_bytes : number * page_bytes]
        head = 100 if number == 1 else 0
        kind, count = page[head], int.from_bytes(page[head + 3 : head + 5], "big")
        array = head + (12 if kind == _INTERIOR else 8)
        cells = [int.from_bytes(page[at : at + 2], "big") for at in range(array, array + 2 * count, 2)]
        if kind == _INTERIOR:
            todo += [int.from_bytes(page[at : at + 4], "big") for at in cells]
            todo.append(int.from_bytes(page[head + 8 : head + 12], "big"))
        elif kind == _LEAF:
            for at in cells:
                yield from _overflow(content, page, at)


def _overflow(content: bytes, page: bytes, at: int) -> Iterator[int]:
    """The pages on which a long row goes on."""
    length, at = _varint(page, at)
    _, at = _varint(page, at)
    most = page_bytes - 35
    if length <= most:
        return
    least = (page_bytes - 12) * 32 // 255 - 23
    local = least + (length - least) % (page_bytes - 4)
    local = local if local <= most else least
    number = int.from_bytes(page[at + local : at + local + 4], "big")
    while number:
        yield number
        start = (number - 1) * page_bytes
        number = int.from_bytes(content[start : start + 4], "big")


def _varint(page: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    value = 0
    for place in range(8):
        byte = page[at + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + place + 1
    return value << 8 | page[at + 8], at + 9
