"""Opening the store file: private, durable, and every error by its name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from angelia.model.errors import StoreDamagedError, StoreUnavailableError
from angelia.store.connection import (
    StoreBusy,
    classify,
    integrity_problems,
    open_connection,
    quick_check,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_the_files_are_private_whatever_the_umask(path: Path, umask: int) -> None:
    connection = open_connection(path)
    connection.execute("CREATE TABLE note (id)")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}


def test_a_mode_that_the_operator_chose_is_left(path: Path) -> None:
    path.touch(0o640)
    path.chmod(0o640)
    open_connection(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_to_a_file_that_is_not_there_yet_is_followed_and_private(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    open_connection(tmp_path / "link.db").close()
    assert stat.S_IMODE((tmp_path / "real.db").stat().st_mode) == 0o600


def test_what_makes_a_commit_durable_is_set(path: Path) -> None:
    connection = open_connection(path)
    found = {name: connection.pragma(name) for name in ("journal_mode", "synchronous", "foreign_keys")}
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    assert connection.pragma("temp_store") == 2
    with pytest.raises(apsw.SQLError):
        connection.execute('SELECT "no_such_column"')


def test_a_store_that_cannot_be_made_durable_is_refused(path: Path) -> None:
    """The dot-file layer has no shared memory, as a network file system has none."""
    with pytest.raises(StoreUnavailableError, match=r"cannot be made durable.*journal_mode=delete"):
        open_connection(path, vfs="unix-dotfile")


def test_read_only_writes_nothing_and_creates_nothing(path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="no store"):
        open_connection(path, read_only=True)
    assert not path.exists()
    open_connection(path).execute("CREATE TABLE note (id)")
    with pytest.raises(apsw.ReadOnlyError):
        open_connection(path, read_only=True).execute("INSERT INTO note VALUES (1)")


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("content", [b"this is no database " * 500, b"SQLite format 3\0" + b"\xff" * 4080])
def test_a_file_that_is_no_database_is_damaged_and_stays(path: Path, content: bytes, read_only: bool) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreDamagedError, match=r"state\.db.*angelia salvage .*state\.db"):
        open_connection(path, read_only=read_only)
    assert path.read_bytes() == content


def test_a_malformed_page_is_found(path: Path) -> None:
    connection = open_connection(path)
    connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text)")
    connection.execute("CREATE INDEX note_text ON note (text)")
    connection.execute(
        "WITH RECURSIVE number(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM number WHERE n < 2000) "
        "INSERT INTO note SELECT n, hex(randomblob(40)) FROM number"
    )
    quick_check(connection)
    assert integrity_problems(connection) == []
    connection.close()
    content = bytearray(path.read_bytes())
    content[4096 * 9 : 4096 * 12] = b"\x55" * 4096 * 3
    path.write_bytes(content)
    connection = open_connection(path)
    with pytest.raises(StoreDamagedError, match="damaged"):
        quick_check(connection)
    assert integrity_problems(connection)


def test_a_reference_to_nothing_is_found(path: Path) -> None:
    connection = open_connection(path)
    connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, parent REFERENCES note)")
    connection.execute("PRAGMA foreign_keys = OFF; INSERT INTO note VALUES (1, 99)")
    assert integrity_problems(connection) == [
        "row 1 of table note refers to a row of note that does not exist"
    ]


@pytest.mark.parametrize("below", ["missing/state.db", "file/state.db", "folder"])
def test_a_place_where_no_store_can_be_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreUnavailableError, match=below.replace(".", r"\.")):
        open_connection(tmp_path / below)


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Root may write everywhere; these tests are about people who may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


def test_a_folder_that_may_not_be_written(tmp_path: Path, ordinary_user: None) -> None:
    if os.getuid() != 0:
        tmp_path.chmod(0o500)
    with pytest.raises(StoreUnavailableError, match=r"state\.db.*Permission denied"):
        open_connection(tmp_path / "state.db")
    if os.getuid() != 0:
        tmp_path.chmod(0o700)


def test_every_trouble_of_sqlite_has_one_name() -> None:
    named: dict[type[apsw.Error], type[Exception]] = {
        apsw.BusyError: StoreBusy,
        apsw.LockedError: StoreBusy,
        apsw.FullError: StoreUnavailableError,
        apsw.IOError: StoreUnavailableError,
        apsw.CantOpenError: StoreUnavailableError,
        apsw.ReadOnlyError: StoreUnavailableError,
        apsw.CorruptError: StoreDamagedError,
        apsw.NotADBError: StoreDamagedError,
    }
    for raised, expected in named.items():
        assert type(classify(raised("x"), "/home/state.db")) is expected
        assert "/home/state.db" in str(classify(raised("x"), "/home/state.db"))
    constraint = apsw.ConstraintError("UNIQUE")
    assert classify(constraint) is constraint


def test_the_text_says_sqlite_s_own_code() -> None:
    error = apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
    assert isinstance(error, apsw.Error)
    assert "SQLITE_IOERR_FSYNC" in str(classify(error))
