"""The copy of a store that is made before its migration: exact, synced, never in the way of another,
and without it nothing is touched."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from angelia.model.errors import StoreUnavailableError
from angelia.seams import crash
from angelia.store.connection import open_connection
from angelia.store.copying import check_copy
from angelia.store.migrate import migrate

FIRST = "CREATE TABLE chat (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO chat VALUES (1, 'one');"
SECOND = "ALTER TABLE chat RENAME COLUMN name TO title; UPDATE chat SET title = 'changed';"
THIRD = "DROP TABLE chat;"


def steps(tmp_path: Path, *scripts: str) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir(exist_ok=True)
    for number, script in enumerate(scripts, 1):
        (folder / f"{number:04}-step.sql").write_text(script)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_connection(tmp_path / "state.db")
    migrate(connection, steps(tmp_path, FIRST))
    yield connection
    connection.close()


def copies(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.glob("state.db.*"))


def test_a_new_store_needs_no_copy(store: apsw.Connection, tmp_path: Path) -> None:
    assert copies(tmp_path) == []


def test_the_copy_is_what_the_first_step_found(store: apsw.Connection, tmp_path: Path) -> None:
    assert migrate(store, steps(tmp_path, FIRST, SECOND, THIRD)) == 3
    copy = tmp_path / "state.db.v1.copy"
    assert copies(tmp_path) == [copy.name], "one copy, whatever the number of steps"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert check_copy(copy) == 1
    kept = open_connection(copy, read_only=True)
    assert kept.execute("SELECT id, name FROM chat").fetchall() == [(1, "one")]
    kept.close()


def test_another_copy_is_never_overwritten(store: apsw.Connection, tmp_path: Path) -> None:
    (tmp_path / "state.db.v1.copy").write_text("somebody's")
    migrate(store, steps(tmp_path, FIRST, SECOND))
    assert (tmp_path / "state.db.v1.copy").read_text() == "somebody's"
    assert copies(tmp_path) == ["state.db.v1-2.copy", "state.db.v1.copy"]
    assert check_copy(tmp_path / "state.db.v1-2.copy") == 1


def test_a_full_disk_is_a_refusal_and_nothing_is_changed(store: apsw.Connection, tmp_path: Path) -> None:
    store.execute("INSERT INTO chat (name) VALUES (?)", ("long " * 20_000,))
    folder = steps(tmp_path, FIRST, SECOND)
    program = (
        "import sys; from pathlib import Path\n"
        "from angelia.model.errors import StoreUnavailableError\n"
        "from angelia.store.connection import open_connection\n"
        "from angelia.store.migrate import migrate\n"
        "try: migrate(open_connection(sys.argv[1]), Path(sys.argv[2]))\n"
        "except StoreUnavailableError as error: print(error)\n"
    )
    ended = subprocess.run(
        ["prlimit", "--fsize=50000", sys.executable, "-c", program, str(tmp_path / "state.db"), str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "the copy that is made first cannot be written" in ended.stdout, ended.stderr
    assert copies(tmp_path) == []
    assert store.pragma("user_version") == 1
    assert store.execute("SELECT count(*) FROM chat WHERE name IS NOT NULL").get == 2


def test_where_no_copy_can_be_made_nothing_is_changed(store: apsw.Connection, tmp_path: Path) -> None:
    (tmp_path / "state.db.v1.copy.part").mkdir()  # in the way of the unfinished copy
    with pytest.raises(StoreUnavailableError, match="nothing was changed"):
        migrate(store, steps(tmp_path, FIRST, SECOND))
    assert store.pragma("user_version") == 1
    assert not store.in_transaction


class Killed(BaseException):
    """A death at a crash point."""


@pytest.mark.parametrize(
    ("point", "left"),
    [("copy.before_rename", []), ("copy.after_rename", ["state.db.v1.copy"])],
)
def test_a_death_leaves_no_half_copy_under_its_name(tmp_path: Path, point: str, left: list[str]) -> None:
    first = open_connection(tmp_path / "state.db")
    migrate(first, steps(tmp_path, FIRST))
    folder = steps(tmp_path, FIRST, SECOND)

    def hook(name: str) -> None:
        if name == point:
            raise Killed

    crash.install(hook)
    try:
        with pytest.raises(Killed):
            migrate(first, folder)
    finally:
        crash.install(None)
    assert [name for name in copies(tmp_path) if not name.endswith(".part")] == left
    again = open_connection(tmp_path / "state.db")
    assert again.pragma("user_version") == 1
    assert migrate(again, folder) == 2
    assert [check_copy(tmp_path / name) for name in copies(tmp_path)] == [1] * len(copies(tmp_path))
    assert not any(name.endswith(".part") for name in copies(tmp_path))
