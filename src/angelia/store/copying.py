"""A copy of the whole store as it is at one moment, in one file, while others go on writing.

The copy is made by SQLite's own backup in a single step: one read snapshot, which no writer
disturbs and which disturbs no writer, however busy it is; all of the write-ahead log is in it.
The file is private, synced, and complete by itself (no ``-wal`` beside it).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from angelia.model.errors import StoreDamagedError, StoreUnavailableError
from angelia.seams import crash
from angelia.store.connection import classify, close_quietly, integrity_problems, open_connection, patiently
from angelia.store.durable import create_private, free_name, part_of, place_new, remove, sync_file

#: What copies of the store before a migration are called; the number is the schema's version.
BEFORE_MIGRATION = "{store}.v{version}.copy"


def copy_store(source: apsw.Connection, target: Path) -> None:
    """Write what ``source`` sees now into the file ``target``, which is synced when this returns;
    a file that is there is replaced (its folder entry is not synced).

    Raises ``StoreUnavailableError`` (cannot be written, disk full) or ``StoreDamagedError`` (a page
    of the source cannot be read); then there is no ``target``.
    """
    try:
        create_private(target)
        _copy(source, target)
        sync_file(target)
    except OSError as error:
        remove(target)
        raise StoreUnavailableError(f"{target} cannot be written: {error.strerror}") from error
    except BaseException:
        remove(target)
        raise


def _copy(source: apsw.Connection, target: Path) -> None:
    copy = apsw.Connection(str(target), apsw.SQLITE_OPEN_READWRITE)
    try:
        # Nobody sees the file before it is whole and synced, so it needs no journal of its own.
        copy.pragma("journal_mode", "off")
        copy.pragma("synchronous", "off")
        patiently(lambda: _copy_pages(source, copy, target))
        if copy.pragma("journal_mode", "delete") != "delete":
            raise StoreUnavailableError(f"{target} cannot be made a file of its own")
        copy.close()
    except apsw.Error as error:
        raise classify(error, str(target)) from error
    finally:
        close_quietly(copy)


def _copy_pages(source: apsw.Connection, copy: apsw.Connection, target: Path) -> None:
    try:
        with copy.backup("main", source, "main") as pages:
            pages.step(-1)
    except apsw.Error as error:
        on_target = isinstance(error, (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError))
        raise classify(error, str(target) if on_target else source.filename) from error


def check_copy(path: Path) -> int:
    """Open a copy and examine all of it; returns the version of its schema. Changes nothing.

    Raises ``StoreDamagedError`` saying what is wrong, or ``StoreUnavailableError``."""
    connection = open_connection(path, read_only=True)
    try:
        problems = integrity_problems(connection)
        if problems:
            raise StoreDamagedError(f"{path} is damaged: {problems[0]}")
        return int(str(connection.pragma("user_version")))
    except apsw.Error as error:
        raise classify(error, str(path)) from error
    finally:
        close_quietly(connection)


def keep_before_migration(store: str, version: int, open_reader: Callable[[], apsw.Connection]) -> Path:
    """A copy of ``store`` beside it, named with its ``version``; another one is never overwritten.
    Whole, synced and under its name when this returns. The caller keeps writers out meanwhile.

    Raises ``StoreUnavailableError`` or ``StoreDamagedError``; then nothing was changed.
    """
    path = Path(store)
    place = free_name(BEFORE_MIGRATION.format(store=path.name, version=version), path.parent)
    part = part_of(place)
    try:
        reader = open_reader()
        try:
            copy_store(reader, part)
        finally:
            close_quietly(reader)
        crash.point("copy.before_rename")
        place_new(part, place)
    except (StoreUnavailableError, OSError) as error:
        remove(part)
        raise StoreUnavailableError(
            f"the store {store} must be brought from version {version} to a newer one, but the copy that is "
            f"made first cannot be written: {error}. Make room or give the right to write there, then start "
            "again; nothing was changed"
        ) from error
    crash.point("copy.after_rename")
    return place
