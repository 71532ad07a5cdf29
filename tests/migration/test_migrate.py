"""Migrations: one version or the next, whoever else is at it; nothing foreign is touched."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from angelia.model.errors import StoreDamagedError, StoreNewerError
from angelia.seams import crash
from angelia.store.connection import integrity_problems, open_connection
from angelia.store.migrate import APPLICATION_ID, migrate, migrations

FIRST = "CREATE TABLE chat (id INTEGER PRIMARY KEY); INSERT INTO chat VALUES (1);"
SECOND = "CREATE TABLE note (id INTEGER PRIMARY KEY, chat REFERENCES chat); INSERT INTO note VALUES (1, 1);"
#: Rebuilds a table that another one refers to, as SQLite wants it for most changes.
THIRD = """
CREATE TABLE chat_new (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT '');
INSERT INTO chat_new (id) SELECT id FROM chat;
DROP TABLE chat;
ALTER TABLE chat_new RENAME TO chat;
"""


def steps(tmp_path: Path, *scripts: str) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir(exist_ok=True)
    for number, script in enumerate(scripts, 1):
        (folder / f"{number:04}-step.sql").write_text(script)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_connection(tmp_path / "state.db")
    yield connection
    connection.close()


def header(connection: apsw.Connection) -> tuple[object, object]:
    return connection.pragma("application_id"), connection.pragma("user_version")


def tables(connection: apsw.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]


def test_all_steps_are_applied_in_order_and_once(store: apsw.Connection, tmp_path: Path) -> None:
    folder = steps(tmp_path, FIRST, SECOND, THIRD)
    assert migrate(store, folder) == 3
    assert header(store) == (APPLICATION_ID, 3)
    assert store.execute("SELECT * FROM chat").fetchall() == [(1, "")]
    assert integrity_problems(store) == []
    assert store.pragma("foreign_keys") == 1, "the references are watched again"
    before = store.total_changes()
    assert migrate(store, folder) == 3
    assert store.total_changes() == before


def test_an_older_store_goes_on_from_where_it_is(store: apsw.Connection, tmp_path: Path) -> None:
    assert migrate(store, steps(tmp_path, FIRST)) == 1
    assert migrate(store, steps(tmp_path, FIRST, SECOND)) == 2
    assert tables(store) == ["chat", "note"]


def test_a_store_that_is_up_to_date_is_not_written(store: apsw.Connection, tmp_path: Path) -> None:
    folder = steps(tmp_path, FIRST)
    migrate(store, folder)
    assert migrate(open_connection(tmp_path / "state.db", read_only=True), folder) == 1


def test_a_newer_store_is_refused(store: apsw.Connection, tmp_path: Path) -> None:
    migrate(store, steps(tmp_path, FIRST))
    store.pragma("user_version", 9)
    with pytest.raises(StoreNewerError, match="version 9, this program knows 1"):
        migrate(store, steps(tmp_path, FIRST))
    assert header(store) == (APPLICATION_ID, 9)
    assert tables(store) == ["chat"]


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE mails (id)",
        "PRAGMA application_id = 252006673",
        "CREATE TABLE mails (id); PRAGMA application_id = 252006673",
        "PRAGMA user_version = 1",
    ],
)
def test_a_file_of_another_program_is_refused(store: apsw.Connection, tmp_path: Path, theirs: str) -> None:
    store.execute(theirs)
    before = (header(store), tables(store))
    with pytest.raises(StoreDamagedError, match=r"state\.db is a database of another program"):
        migrate(store, steps(tmp_path, FIRST))
    assert (header(store), tables(store)) == before


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ("CREATE TABLE note (id); CREATE TABEL oops (id)", apsw.SQLError),
        ("CREATE TABLE note (id); COMMIT", ValueError),
        ("CREATE TABLE note (id REFERENCES chat); INSERT INTO note VALUES (99)", ValueError),
    ],
)
def test_a_bad_step_leaves_the_version_before_it(
    store: apsw.Connection, tmp_path: Path, bad: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        migrate(store, steps(tmp_path, FIRST, bad))
    assert header(store) == (APPLICATION_ID, 1)
    assert not store.in_transaction
    assert store.pragma("foreign_keys") == 1
    if "COMMIT" not in bad:
        assert tables(store) == ["chat"]


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["0001-a.sql", "0003-c.sql"], "number 0002 is missing"),
        (["0002-b.sql"], "number 0001 is missing"),
        (["0001-a.sql", "0001-b.sql"], "number 0002 is missing"),
        (["0001-a.sql", "2-b.sql"], "is not called"),
        ([], "no migrations"),
    ],
)
def test_files_with_gaps_or_odd_names_are_refused(tmp_path: Path, names: list[str], complaint: str) -> None:
    for name in names:
        (tmp_path / name).write_text(FIRST)
    with pytest.raises(ValueError, match=complaint):
        migrations(tmp_path)


def test_two_programs_that_start_together_do_the_work_once(tmp_path: Path) -> None:
    folder = steps(tmp_path, *(f"CREATE TABLE t{n} (id); INSERT INTO t{n} VALUES ({n})" for n in range(12)))
    ready = threading.Barrier(4)
    told: list[object] = []

    def program() -> None:
        connection = open_connection(tmp_path / "state.db")
        ready.wait(10)
        try:
            told.append(migrate(connection, folder))
        except Exception as error:  # the test names it below
            told.append(error)

    programs = [threading.Thread(target=program) for _ in range(4)]
    for each in programs:
        each.start()
    for each in programs:
        each.join(30)
    assert told == [12] * 4
    store = open_connection(tmp_path / "state.db")
    assert [store.execute(f"SELECT count(*) FROM t{n}").get for n in range(12)] == [1] * 12


class Killed(BaseException):
    """A death at a crash point."""


@pytest.mark.parametrize(("point", "version"), [("migrate.before_commit", 0), ("migrate.after_commit", 1)])
def test_a_death_leaves_one_version_or_the_next(tmp_path: Path, point: str, version: int) -> None:
    def hook(name: str) -> None:
        if name == point:
            raise Killed

    folder = steps(tmp_path, FIRST, SECOND)
    first = open_connection(tmp_path / "state.db")
    crash.install(hook)
    try:
        with pytest.raises(Killed):
            migrate(first, folder)
    finally:
        crash.install(None)
    again = open_connection(tmp_path / "state.db")
    assert again.pragma("user_version") == version
    assert migrate(again, folder) == 2
    assert integrity_problems(again) == []
