"""The reader: one snapshot per question, no writing, opened anew after trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from angelia.model.errors import StoreDamagedError, StoreUnavailableError, UnknownIdError
from angelia.store.connection import open_connection
from angelia.store.reader import Reader


class Opener:
    """Opens the store for reading, and counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened = 0

    def __call__(self) -> apsw.Connection:
        self.opened += 1
        return open_connection(self.path, read_only=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_connection(tmp_path / "state.db")
    connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY); INSERT INTO note VALUES (1)")
    yield connection
    connection.close()


def count(connection: apsw.Connection) -> int:
    return int(str(connection.execute("SELECT count(*) FROM note").get))


@pytest.mark.parametrize("inline", [False, True])
async def test_a_question_sees_what_was_committed_before_it(store: apsw.Connection, inline: bool) -> None:
    reader = Reader(Opener(Path(store.filename)), inline=inline)
    assert await reader.run(count) == 1
    store.execute("INSERT INTO note VALUES (2)")
    assert reader.run_blocking(count) == 2
    await reader.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        await reader.run(count)


async def test_a_question_of_two_statements_sees_one_snapshot(store: apsw.Connection) -> None:
    reader = Reader(Opener(Path(store.filename)), inline=True)

    def twice(connection: apsw.Connection) -> tuple[int, int]:
        before = count(connection)
        store.execute("INSERT INTO note VALUES (2)")  # the writer does not wait for us either
        return before, count(connection)

    assert await reader.run(twice) == (1, 1)
    assert await reader.run(count) == 2


async def test_nothing_can_be_written_here(store: apsw.Connection) -> None:
    reader = Reader(Opener(Path(store.filename)))
    with pytest.raises(StoreUnavailableError, match="readonly"):
        await reader.run(lambda connection: connection.execute("DELETE FROM note").get)
    assert await reader.run(count) == 1
    await reader.close()


async def test_a_question_s_own_error_travels_unchanged(store: apsw.Connection) -> None:
    opener = Opener(Path(store.filename))
    reader = Reader(opener)

    def unknown(connection: apsw.Connection) -> int:
        raise UnknownIdError("no such id")

    answers = await asyncio.gather(reader.run(unknown), reader.run(count), return_exceptions=True)
    assert isinstance(answers[0], UnknownIdError)
    assert answers[1] == 1
    with pytest.raises(apsw.SQLError):
        await reader.run(lambda connection: connection.execute("SELECT nothing").get)
    assert opener.opened == 1
    await reader.close()


@pytest.mark.parametrize(
    ("raised", "named"),
    [
        (apsw.IOError("disk I/O error"), StoreUnavailableError),
        (apsw.CorruptError("malformed"), StoreDamagedError),
    ],
)
async def test_after_trouble_the_file_is_opened_anew(
    store: apsw.Connection, raised: apsw.Error, named: type[Exception]
) -> None:
    opener = Opener(Path(store.filename))
    reader = Reader(opener)

    def trouble(connection: apsw.Connection) -> int:
        raise raised

    with pytest.raises(named, match=r"state\.db"):
        await reader.run(trouble)
    assert await reader.run(count) == 1
    assert opener.opened == 2
    await reader.close()


async def test_a_missing_store_is_named_and_found_later(tmp_path: Path) -> None:
    reader = Reader(Opener(tmp_path / "none.db"))
    with pytest.raises(StoreUnavailableError, match=r"there is no store at .*none\.db"):
        await reader.run(count)
    assert not (tmp_path / "none.db").exists(), "a question creates no store"
    open_connection(tmp_path / "none.db").execute("CREATE TABLE note (id)")
    assert await reader.run(count) == 0
    await reader.close()
