"""``angelia backup``: everything that a home knows, in one file, while the gateway runs.

The store is copied first, in one snapshot; a spooled file is on the disk before anything on
record names it, so whatever the snapshot names is there, unless it was forgotten meanwhile.
The archive is written under another name, synced, read back and compared, and only then given
its own. A crash leaves a ``….part`` that the next backup to the same place takes over.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO

import apsw

from angelia.gateway import archive
from angelia.gateway.home import Home, open_home
from angelia.gateway.operator import check_version
from angelia.model.errors import NotPossibleError, StoreDamagedError, StoreUnavailableError, TryAgainError
from angelia.seams import crash
from angelia.seams.clock import clock_from
from angelia.store.connection import close_quietly, open_connection
from angelia.store.copying import check_copy, copy_store
from angelia.store.durable import part_of, place_new, place_over, remove
from angelia.store.migrate import migrations
from angelia.store.sqlite_reading import files_named


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What a backup holds. ``missing``: files that the store names and that were not there."""

    file: Path
    size: int
    spooled: int
    missing: tuple[str, ...]
    settings: tuple[str, ...]


def back_up(home_path: Path, target: Path, *, force: bool = False, settings: bool = False) -> BackedUp:
    """Write a backup of the home to ``target`` (0600), verified when this returns; ``force``: over
    a file that is there. ``settings``: with ``config.yaml`` and ``.env``.

    Raises ``NotPossibleError`` (no store, ``target`` is there), ``TryAgainError`` (another backup is
    writing there), ``StoreUnavailableError`` (no room, not writable) or ``StoreDamagedError``;
    then ``target`` is as it was.
    """
    crash.install_from_environment()
    home = open_home(home_path)
    target = target.absolute()
    _refuse(home, target, force)
    part, copy = part_of(target), target.with_name(f"{target.name}.db.part")
    try:
        with _alone(part, target) as file:
            try:
                schema = _copy(home, copy)
                found = _write(home, target, file, copy, schema, settings)
            finally:
                remove(copy)
            _verify(part)
            crash.point("backup.before_rename")
            if force:
                place_over(part, target)
            else:
                place_new(part, target)
    except FileExistsError:
        remove(part)
        raise NotPossibleError(
            f"{target} was made by somebody else meanwhile; nothing was overwritten"
        ) from None
    except OSError as error:
        raise StoreUnavailableError(
            f"{target} cannot be written: {error.strerror or error}; no backup was made"
        ) from error
    crash.point("backup.after_rename")
    return found


def _refuse(home: Home, target: Path, force: bool) -> None:
    if not home.store.exists() or home.store.stat().st_size == 0:
        raise NotPossibleError(f"{home.path} has no store yet: there is nothing to back up")
    own = {home.config, home.dotenv, home.lock, home.note, home.store}
    own |= {Path(f"{home.store}{ending}") for ending in ("-wal", "-shm")}
    if os.path.realpath(target) in {os.path.realpath(one) for one in own}:
        raise NotPossibleError(f"{target} belongs to the home itself; choose another name")
    if os.path.isdir(target):
        raise NotPossibleError(f"{target} is a folder; name a file in it")
    if os.path.lexists(target) and not force:
        raise NotPossibleError(f"{target} exists; choose another name, or overwrite it with --force")


@contextmanager
def _alone(part: Path, target: Path) -> Iterator[IO[bytes]]:
    """The unfinished file, empty and private, for us alone; it is gone after any trouble."""
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TryAgainError(f"another backup is being written to {target} at this moment") from None
        try:
            os.fchmod(descriptor, 0o600)
            file.truncate(0)
            yield file
        except BaseException:
            remove(part)
            raise


def _copy(home: Home, copy: Path) -> int:
    """A copy of the store as it is now, examined; returns the version of its schema."""
    reader = open_connection(home.store, read_only=True)
    try:
        check_version(reader, home.store)
        copy_store(reader, copy)
    finally:
        close_quietly(reader)
    try:
        return check_copy(copy)
    except StoreDamagedError as error:
        said = str(error).replace(f"{copy} is damaged", f"the store {home.store} is damaged")
        raise StoreDamagedError(
            f"{said}. No backup was made, an older one is worth keeping; `angelia salvage {home.store}` "
            "reads what can be read"
        ) from error


def _write(home: Home, target: Path, file: IO[bytes], copy: Path, schema: int, settings: bool) -> BackedUp:
    writing = archive.Writing(file)
    with copy.open("rb") as source:
        writing.add(archive.STORE, source, copy.stat().st_size)
    named = _named(copy, schema)
    kept = {
        name
        for name in archive.spooled_files(home.spool)
        if _add(writing, archive.SPOOL + name, home.spool / name)
    }
    asked = ((archive.CONFIG, home.config), (archive.DOTENV, home.dotenv)) if settings else ()
    told = tuple(name for name, path in asked if _add(writing, name, path))
    missing = tuple(sorted(named - kept))
    now = clock_from(os.environ).now().wall
    writing.finish(archive.Manifest(now, version("angelia"), schema, missing, writing.sha256))
    file.flush()
    os.fsync(file.fileno())
    return BackedUp(target, file.tell(), len(kept), missing, told)


def _named(copy: Path, schema: int) -> set[str]:
    """The spooled files that the copy's rows name; an older schema is not asked."""
    if schema != len(migrations()):
        return set()
    connection = open_connection(copy, read_only=True)
    try:
        return set(files_named(connection))
    except apsw.Error:
        return set()
    finally:
        close_quietly(connection)


def _add(writing: archive.Writing, name: str, path: Path) -> bool:
    """Put a file into the archive; False if it is gone by now."""
    try:
        source = path.open("rb")
    except FileNotFoundError:
        return False
    with source:
        writing.add(name, source, os.fstat(source.fileno()).st_size)
    return True


def _verify(part: Path) -> None:
    """What lies on the disk is what was written. The store in it was examined before."""
    try:
        archive.examine(part)
    except NotPossibleError as error:
        raise StoreUnavailableError(f"the disk gave back something else than was written: {error}") from error
