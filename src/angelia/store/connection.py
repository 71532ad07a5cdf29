"""Opening the SQLite file of the store, and what its errors mean.

Every connection of the house is opened here. It promises:

* the file is private: created with mode 0600, whatever the umask; SQLite gives its
  ``-wal`` and ``-shm`` the mode of the file they belong to;
* an acknowledged commit survives a power cut: WAL with ``synchronous=FULL``, both read
  back after they were set, because SQLite answers a refused pragma by staying silent;
* an error has one of the names of ``model.errors``: busy, unavailable, damaged.

A crash while a new store is opened leaves an empty file or one without tables; the next
start goes on from there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TypeVar

import apsw

from angelia.model import limits
from angelia.model.errors import StoreDamagedError, StoreUnavailableError
from angelia.seams import blocking

T = TypeVar("T")

busy_timeout_ms = 20  # SQLite's own wait; the patience is ours (``patiently``)
statements_cached = 512  # prepared statements kept per connection: more than the house has
wal_pages_before_checkpoint = 4000  # 16 MB: rarer checkpoints, still a small file to recover
wal_bytes_kept = 64 * 1024 * 1024  # a WAL that a long reader let grow is cut back to this
open_patience_s = 5.0  # only the first switch to WAL can meet a lock here
pause_first_s = 0.001
pause_most_s = 0.1


class StoreBusy(StoreUnavailableError):
    """Another process is writing to the store. Asked again for a while before it is told."""


_BUSY = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)
_DAMAGED = (apsw.CorruptError, apsw.NotADBError)
_UNAVAILABLE = (
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.NoMemError,
    apsw.InterruptError,
    apsw.ConnectionClosedError,
)


def classify(error: apsw.Error, path: str = "") -> Exception:
    """The house's error for one of SQLite's.

    What is no trouble of the store (a constraint, wrong SQL) is returned as it came.
    ``path`` names the file in the text.
    """
    store = f"the store {path}" if path else "the store"
    if isinstance(error, _BUSY):
        return StoreBusy(f"{store} is locked by another process: {_said(error)}")
    if isinstance(error, _DAMAGED):
        return StoreDamagedError(f"{store} is damaged: {_said(error)}. {advice(path)}")
    if isinstance(error, _UNAVAILABLE):
        return StoreUnavailableError(f"{store} cannot be used now: {_said(error)}")
    return error


def advice(path: str) -> str:
    """What to do about a damaged store."""
    return f"Keep the file; `angelia salvage {path or 'FILE'}` puts every readable row into a new store"


def _said(error: apsw.Error) -> str:
    """SQLite's text with the name of its code, which says more (``SQLITE_IOERR_FSYNC``)."""
    extended: int = getattr(error, "extendedresult", 0)
    name = apsw.mapping_extended_result_codes.get(extended) or apsw.mapping_result_codes.get(extended)
    return f"{error} ({name})" if name else str(error)


def patiently(
    attempt: Callable[[], T],
    *,
    patience_s: float = limits.store_patience_s,
    monotonic: Callable[[], float] = blocking.monotonic,
    pause: Callable[[float], None] = blocking.pause,
    stop: Callable[[], bool] = lambda: False,
) -> T:
    """Call ``attempt`` again, with growing small pauses, while it raises ``StoreBusy``.

    After ``patience_s``, or at once when ``stop`` says so, the ``StoreBusy`` is raised.
    ``attempt`` must have undone its work before it raises.
    """
    try:
        return attempt()
    except StoreBusy:
        deadline = monotonic() + patience_s
    wait_s = pause_first_s
    while True:
        pause(wait_s)
        wait_s = min(wait_s * 2, pause_most_s)
        try:
            return attempt()
        except StoreBusy:
            if stop() or monotonic() >= deadline:
                raise


def open_connection(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    vfs: str | None = None,
    patience_s: float = open_patience_s,
) -> apsw.Connection:
    """Open the store at ``path``; create it, private and empty, if it is to be written.

    ``vfs`` names another SQLite file layer (the power-loss tests have one). Raises
    ``StoreUnavailableError`` (cannot be opened, created or written; locked beyond
    ``patience_s``) or ``StoreDamagedError`` (no database, malformed); both name the path.
    """
    real = os.path.realpath(path)
    if read_only:
        if not os.path.exists(real):
            raise StoreUnavailableError(f"there is no store at {real}")
    else:
        _create_private(real)
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    try:
        connection = apsw.Connection(real, flags, vfs, statements_cached)
    except apsw.Error as error:
        raise classify(error, real) from error
    try:
        patiently(lambda: _prepare(connection, real, read_only), patience_s=patience_s)
    except BaseException:
        connection.close(True)
        raise
    return connection


def _create_private(path: str) -> None:
    """Create the file with mode 0600 before SQLite would, with the mode of the umask.

    A file that exists is not even opened: closing a descriptor drops every lock that this
    process holds on that file, also those of its other SQLite connections.
    """
    if os.path.lexists(path):
        return
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return  # another process was quicker, and took the same care
    except OSError as error:
        raise StoreUnavailableError(f"cannot create the store {path}: {error.strerror}") from error
    try:
        os.fchmod(descriptor, 0o600)  # an umask may have taken even the owner's bits
    finally:
        os.close(descriptor)


def _prepare(connection: apsw.Connection, path: str, read_only: bool) -> None:
    """Set up one connection; may be repeated."""
    try:
        connection.set_busy_timeout(busy_timeout_ms)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)  # a mistyped column is no string
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        connection.pragma("trusted_schema", False)
        connection.pragma("cell_size_check", True)
        connection.pragma("temp_store", "memory")  # no answer's text in a world-readable /tmp
        connection.pragma("foreign_keys", True)
        connection.pragma("schema_version")  # reads the header: a file that is no database fails here
        if read_only:
            connection.pragma("query_only", True)
            return
        if connection.readonly("main"):
            raise StoreUnavailableError(f"the store {path} is read-only for this user")
        mode = connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.pragma("fullfsync", True)  # macOS keeps a plain fsync in the drive's cache
        level = connection.pragma("synchronous")
        connection.pragma("wal_autocheckpoint", wal_pages_before_checkpoint)
        connection.pragma("journal_size_limit", wal_bytes_kept)
    except apsw.Error as error:
        raise classify(error, path) from error
    if mode != "wal" or level != 2 or connection.pragma("foreign_keys") != 1:
        raise StoreUnavailableError(
            f"the store {path} cannot be made durable here (journal_mode={mode}, synchronous={level}); "
            "a network file system is the usual reason"
        )


def close_quietly(connection: apsw.Connection) -> None:
    """Close a connection that may be broken; nobody waits for its last words."""
    with contextlib.suppress(Exception):
        connection.close(True)


def quick_check(connection: apsw.Connection) -> None:
    """Raise ``StoreDamagedError`` if a look at every page finds the file malformed.

    For the start: it reads the whole file once, without comparing indexes with their tables.
    """
    problems = _answers(connection, "PRAGMA quick_check(1)")
    if problems:
        raise StoreDamagedError(
            f"the store {connection.filename} is damaged: {problems[0]}. {advice(connection.filename)}"
        )


def integrity_problems(connection: apsw.Connection) -> list[str]:
    """Everything that SQLite finds wrong with the file, in words; empty if it is sound.

    Raises ``StoreUnavailableError`` if the file cannot be read at all.
    """
    problems = _answers(connection, "PRAGMA integrity_check")
    if problems:
        return problems  # on a malformed file the references say nothing more
    try:
        rows = connection.execute("PRAGMA foreign_key_check").fetchall()
    except apsw.Error as error:
        return [_said_damaged(error, connection)]
    return [
        f"row {row_id} of table {table} refers to a row of {parent} that does not exist"
        for table, row_id, parent, _ in rows
    ]


def _answers(connection: apsw.Connection, check: str) -> list[str]:
    try:
        found = [str(row[0]) for row in connection.execute(check)]
    except apsw.Error as error:
        return [_said_damaged(error, connection)]
    return [] if found == ["ok"] else found


def _said_damaged(error: apsw.Error, connection: apsw.Connection) -> str:
    """The text of an error that means damage; any other trouble is raised."""
    named = classify(error, connection.filename)
    if isinstance(named, StoreDamagedError):
        return _said(error)
    raise named from error
