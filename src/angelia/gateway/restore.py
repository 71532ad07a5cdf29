"""``angelia restore``: a backup, or a store that was kept somewhere, becomes the home's store.

Everything is made ready beside the present store: unpacked, compared, examined, migrated,
parked. Only then one rename puts it in place; the store that was there keeps a name of its
own and is never deleted. A crash leaves the old store or the new one, whole.

What the restored store owes may have been sent since it was copied: it is parked and asks
first (``store/parking.py``), unless the operator says that it shall be sent.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from angelia.gateway import archive
from angelia.gateway.home import Home, HomeLock, create_home
from angelia.gateway.note import UnreadableNoteError, read_note, write_note
from angelia.model.errors import (
    AngeliaError,
    NotPossibleError,
    StoreDamagedError,
    StoreNewerError,
    StoreUnavailableError,
)
from angelia.seams import crash
from angelia.seams.clock import clock_from
from angelia.store import parking, pulse
from angelia.store.connection import (
    StoreBusy,
    advice,
    classify,
    close_quietly,
    open_connection,
    patiently,
    quick_check,
)
from angelia.store.copying import check_copy, copy_store
from angelia.store.durable import (
    create_private,
    free_name,
    part_of,
    place_over,
    remove,
    sync_file,
    sync_folder,
)
from angelia.store.ledger import Parked, Pulse
from angelia.store.migrate import migrate

_SIDES = ("-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did. ``parked``: deliveries that ask first; ``released``: those that go out
    at the next start, marked; ``turns``: messages that were waiting or being answered and were
    given up. ``aside``: where the store that was there is now."""

    parked: int
    released: int
    turns: int
    spooled: int
    missing: tuple[str, ...]
    settings: tuple[str, ...]
    aside: Path | None


def restore(home_path: Path, source: Path, *, force: bool = False, send_owed: bool = False) -> Restored:
    """Make ``source`` the store of the home, which is made if it is not there. ``force``: also
    where there is a store; that one is put aside. Synced and in place when this returns.

    Raises ``HomeLockedError`` (a gateway runs), ``NotPossibleError`` (a store is there; no backup),
    ``ConfigError``, ``StoreDamagedError``, ``StoreNewerError`` or ``StoreUnavailableError``; then the
    home has the store that it had.
    """
    crash.install_from_environment()
    source = source.absolute()
    _readable(source)
    home = create_home(home_path)
    with HomeLock(home):
        if _has_store(home) and not force:
            raise NotPossibleError(
                f"{home.store} exists, and it may owe answers; with --force it is put aside, not deleted"
            )
        if os.path.realpath(source) == os.path.realpath(home.store):
            raise NotPossibleError(f"{source} is the store of this home already")
        try:
            return _restore(home, source, send_owed)
        except OSError as error:
            raise StoreUnavailableError(
                f"{error.filename or home.path} cannot be written: {error.strerror or error}; the home has "
                "the store that it had"
            ) from error


def _readable(source: Path) -> None:
    try:
        with source.open("rb"):
            return
    except OSError as error:
        raise NotPossibleError(f"{source} cannot be read: {error.strerror}") from None


def _has_store(home: Home) -> bool:
    return home.store.exists() and home.store.stat().st_size > 0


def _restore(home: Home, source: Path, send_owed: bool) -> Restored:
    part = part_of(home.store)
    noted = _noted(home)
    with _cleared(part):
        spooled, missing, settings = 0, tuple[str, ...](), tuple[str, ...]()
        if archive.is_bare_store(source):
            _take_store(source, part)
        else:
            manifest = archive.examine(source)
            missing = manifest.missing
            spooled, settings = _unpack(home, source, part)
        with _called(source, part):
            check_copy(part)
            done, released = _make_ready(part, noted, send_owed)
        crash.point("restore.before_aside")
        aside = _put_aside(home)
        crash.point("restore.before_rename")
        place_over(part, home.store)
        crash.point("restore.after_rename")
    # Without it the next start parks the store once more, which is the safe side.
    with contextlib.suppress(OSError):
        write_note(home, done.pulse, synced=True)
    crash.point("restore.after_note")
    return Restored(
        0 if send_owed else done.deliveries, released, done.turns, spooled, missing, settings, aside
    )


def _noted(home: Home) -> Pulse | None:
    """How far the life of the home's store has come, by its note and by itself."""
    noted = mine = None
    with contextlib.suppress(UnreadableNoteError):
        noted = read_note(home)
    if _has_store(home):
        with contextlib.suppress(AngeliaError, apsw.Error):
            reader = open_connection(home.store, read_only=True)
            try:
                mine = pulse.read(reader)
            finally:
                close_quietly(reader)
    if noted is not None and mine is not None and mine.store == noted.store:
        return max(noted, mine, key=lambda one: one.beats)
    return noted or mine


@contextmanager
def _cleared(part: Path) -> Iterator[None]:
    """What a crash left under the name of the new store is gone, and so is ours after trouble."""

    def clear() -> None:
        for ending in ("", *_SIDES):
            remove(Path(f"{part}{ending}"))

    clear()
    try:
        yield
    except BaseException:
        clear()
        raise


@contextmanager
def _called(source: Path, part: Path) -> Iterator[None]:
    """What is wrong with the new store is told of the file that it came from."""
    try:
        yield
    except (StoreDamagedError, StoreNewerError) as error:
        said = str(error).replace(str(part), str(source))
        more = f". {advice(str(source))}" if isinstance(error, StoreDamagedError) else ""
        raise type(error)(f"{said}{more}") from error


def _take_store(source: Path, part: Path) -> None:
    """A store that is no archive: its write-ahead log, if it has one beside it, is read, too."""
    reader = open_connection(source, read_only=True)
    try:
        copy_store(reader, part)
    finally:
        close_quietly(reader)


def _unpack(home: Home, source: Path, part: Path) -> tuple[int, tuple[str, ...]]:
    """The store into ``part``, spooled files into the spool, settings where the home has none.
    Returns how many spooled files there were, and which settings were written."""
    spooled, settings = 0, []
    places = {archive.CONFIG: home.config, archive.DOTENV: home.dotenv}
    for member in archive.members(source):
        if member.name == archive.STORE:
            _write(member, part)
        elif member.spooled:
            spooled += 1
            _spool(home, member)
        elif member.name in places and not os.path.lexists(places[member.name]):
            beside = part_of(places[member.name])
            _write(member, beside)
            place_over(beside, places[member.name])
            settings.append(member.name)
    return spooled, tuple(settings)


def _write(member: archive.Member, path: Path) -> str:
    """The bytes of a member in a private, synced file; returns their SHA-256."""
    create_private(path)
    with path.open("r+b") as file:
        digest = member.copy_to(file)
        file.flush()
        os.fsync(file.fileno())
    return digest


def _spool(home: Home, member: archive.Member) -> None:
    place = home.spool / member.spooled
    if place.exists() and place.stat().st_size == member.size:
        os.utime(place)  # young again: whoever forgets what is old leaves it
        return
    home.spool.mkdir(mode=0o700, exist_ok=True)
    beside = home.spool / f".{member.spooled}.part"
    if _write(member, beside) != member.spooled:
        remove(beside)
        raise NotPossibleError(f"{member.name} of the backup is damaged; nothing was restored")
    crash.point("restore.before_spool")
    place_over(beside, place)


def _make_ready(part: Path, noted: Pulse | None, send_owed: bool) -> tuple[Parked, int]:
    """Bring the new store up to date, park or release what it owes, and make it one synced file.
    Returns what was parked (all that is parked now) and how many were released."""
    clock = clock_from(os.environ)
    connection = open_connection(part)
    try:
        migrate(connection, keep_copy=False)
        connection.execute("BEGIN IMMEDIATE")
        done = parking.park(connection, noted, clock.now())
        waiting = parking.count(connection)
        released = len(parking.release(connection, None, clock.now())) if send_owed else 0
        connection.execute("COMMIT")
        _fold(connection)
    except apsw.Error as error:
        raise classify(error, str(part)) from error
    finally:
        close_quietly(connection)
    sync_file(part)
    return Parked(waiting, done.turns, done.pulse), released


def _fold(connection: apsw.Connection) -> None:
    """Move the write-ahead log into the file, which is complete by itself from then on."""

    def attempt() -> None:
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            mode = connection.pragma("journal_mode", "delete")
        except apsw.Error as error:
            raise classify(error, connection.filename) from error
        if mode != "delete":
            raise StoreBusy(f"the store {connection.filename} is used by another process")

    patiently(attempt)


def _put_aside(home: Home) -> Path | None:
    """Give the present store a second name, under which it is complete; it stays in its place.
    ``None``: there is no store."""
    if not _has_store(home):
        _put_sides_aside(home)
        return None
    aside = free_name(f"{home.store.name}.replaced", home.path)
    try:
        connection = open_connection(home.store)
        try:
            quick_check(connection)  # what is damaged is not written to
            _fold(connection)
        finally:
            close_quietly(connection)
    except StoreDamagedError:
        # It cannot be folded: its log gets the new name with it, before it is taken away.
        for ending in ("", *_SIDES):
            _second_name(Path(f"{home.store}{ending}"), Path(f"{aside}{ending}"))
        sync_folder(home.path)
        for ending in _SIDES:
            remove(Path(f"{home.store}{ending}"))
        return aside
    _second_name(home.store, aside)
    sync_folder(home.path)
    return aside


def _put_sides_aside(home: Home) -> None:
    """The log of a store that is not there any more would be taken for the new one's."""
    for ending in _SIDES:
        file = Path(f"{home.store}{ending}")
        if file.exists():
            _second_name(file, free_name(f"{home.store.name}{ending}.replaced", home.path))
            remove(file)
    sync_folder(home.path)


def _second_name(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except FileNotFoundError:
        return
    except OSError:  # a file system without second names
        create_private(name)
        with file.open("rb") as source, name.open("r+b") as target:
            while data := source.read(1024 * 1024):
                target.write(data)
            target.flush()
            os.fsync(target.fileno())
