"""Bringing the schema of a store up to date.

Migrations are files ``0001-what-it-does.sql``, ``0002-…`` without gaps. Each is applied in a
transaction of its own, together with the number in ``user_version``: a crash leaves the store
at one version or the next, never between. Two programs that start at the same moment wait for
each other and find the work done. Files are never changed once released; a mistake is
repaired by the next one.

Before the first step on a store that holds anything a copy is made beside it and synced
(``store/copying.py``), under the same lock that keeps writers out until the step is committed:
so the copy is exactly what the step found.

``application_id`` says whose file it is. A file of another program, and a store written by a
newer Angelia, are refused before anything is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from importlib.resources.abc import Traversable

import apsw

from angelia.model.errors import StoreDamagedError, StoreNewerError
from angelia.seams import crash
from angelia.store.connection import classify, open_connection, patiently
from angelia.store.copying import keep_before_migration
from angelia.store.queries import dialect_folder

crash.verb_points("migrate", "the next version of the schema")

APPLICATION_ID = 0x416E6765  # "Ange", in the file's header

_FILE = re.compile(r"(?P<version>\d{4})-[a-z0-9-]+\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: the version it leads to, its file, its SQL."""

    version: int
    file: str
    script: str


def migrations(folder: Traversable | None = None) -> list[Migration]:
    """All steps in order. Raises ``ValueError`` for a gap, a double number or an odd name."""
    folder = dialect_folder().joinpath("migrations") if folder is None else folder
    found: list[Migration] = []
    for entry in folder.iterdir():
        if not entry.name.endswith(".sql"):
            continue
        name = _FILE.fullmatch(entry.name)
        if not name:
            raise ValueError(f"migration {entry.name!r} is not called 0001-what-it-does.sql")
        found.append(Migration(int(name["version"]), entry.name, entry.read_text(encoding="utf-8")))
    found.sort(key=lambda step: step.version)
    for number, step in enumerate(found, 1):
        if step.version != number:
            raise ValueError(f"migration {step.file!r} stands where number {number:04} is missing")
    if not found:
        raise ValueError(f"no migrations in {folder}")
    return found


def migrate(
    connection: apsw.Connection,
    folder: Traversable | None = None,
    *,
    keep_copy: bool = True,
    up_to: int | None = None,
) -> int:
    """Apply what is missing; returns the version, which is committed.

    Nothing is written to a store that is up to date. ``keep_copy``: a store that holds anything
    is copied first; without the copy it is not touched. ``up_to``: no further than to this
    version. Raises ``StoreNewerError`` (a newer program wrote it), ``StoreDamagedError`` (not
    Angelia's), ``StoreUnavailableError`` (cannot be written, locked beyond ``store_patience_s``, no
    room for the copy); steps before the failed one stay applied.
    """
    steps = migrations(folder)[:up_to]
    try:
        while (version := patiently(lambda: _seen_version(connection, len(steps)))) < len(steps):
            patiently(partial(_next_step, connection, steps, version if keep_copy else 0))
            keep_copy = False  # the later steps are ours: the copy of the first is what was found
    except apsw.Error as error:
        raise classify(error, connection.filename) from error
    return version


def _seen_version(connection: apsw.Connection, newest: int) -> int:
    """``_version`` in one snapshot: another program may be migrating at this moment."""
    _begin(connection, "BEGIN")
    try:
        return _version(connection, newest)
    except apsw.Error as error:
        raise classify(error, connection.filename) from error
    finally:
        connection.execute("ROLLBACK")


def _version(connection: apsw.Connection, newest: int) -> int:
    """The schema's version. Refuses a foreign file and a newer store."""
    owner = connection.pragma("application_id")
    version = int(str(connection.pragma("user_version")))
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if owner != APPLICATION_ID and (owner != 0 or version != 0 or tables != 0):
        raise StoreDamagedError(
            f"{connection.filename} is a database of another program, not a store of Angelia's; "
            "nothing was changed"
        )
    if version > newest:
        raise StoreNewerError(
            f"the store {connection.filename} has version {version}, this program knows {newest}: "
            "upgrade this program; nothing was changed"
        )
    return version


def _next_step(connection: apsw.Connection, steps: list[Migration], to_be_copied: int) -> None:
    """Apply one step, or none if another program was quicker; that one has made the copy, too."""
    # Rebuilding a table that others refer to needs the references unwatched; the pragma does
    # nothing inside a transaction, hence here. They are checked before the commit instead.
    connection.pragma("foreign_keys", False)
    try:
        _begin(connection, "BEGIN IMMEDIATE")
        version = _version(connection, len(steps))  # read again, now that nobody else can write
        if version == len(steps):
            return
        if version and version == to_be_copied:
            _keep_copy(connection, version)
        _apply(connection, steps[version])
        crash.point("migrate.before_commit")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.pragma("foreign_keys", True)
    crash.point("migrate.after_commit")


def _keep_copy(connection: apsw.Connection, version: int) -> None:
    """The writer's lock is ours and nothing was written under it yet: a reader sees the store."""
    store = connection.filename
    keep_before_migration(
        store, version, lambda: open_connection(store, read_only=True, vfs=connection.open_vfs)
    )


def _begin(connection: apsw.Connection, how: str) -> None:
    try:
        connection.execute(how)
    except apsw.Error as error:
        raise classify(error, connection.filename) from error


def _apply(connection: apsw.Connection, step: Migration) -> None:
    connection.execute(step.script).fetchall()
    if not connection.in_transaction:
        raise ValueError(f"migration {step.file!r} ends the transaction it is given")
    broken = connection.execute("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise ValueError(f"migration {step.file!r} leaves rows that refer to nothing: {broken[:3]}")
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", step.version)
