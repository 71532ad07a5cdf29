"""Every readable row of a damaged store, put into a new one.

The damaged file is never opened by SQLite: its bytes, and those of its write-ahead log, are
copied first, as far as the disk gives them. The copy is read table by table, around what
cannot be read (``salvage_reading.py``), and each row is offered to a new, empty store of the
same version, whose constraints decide; what it refuses is reported and left out. Then
``salvage_mending.py`` closes the holes that would make the new store say something untrue, and
everything owed is parked: with holes in it, nobody knows what was sent.

What a damaged page holds that still looks like rows cannot be told from rows; the checks of
the new store (types, states, uniqueness) are all that stands against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from angelia.model.errors import StoreUnavailableError
from angelia.seams import crash
from angelia.seams.clock import Now
from angelia.store import parking
from angelia.store.connection import classify, close_quietly, integrity_problems, open_connection
from angelia.store.durable import create_private, part_of, place_new, remove, sync_file
from angelia.store.migrate import migrate, migrations
from angelia.store.salvage_mending import mend
from angelia.store.salvage_reading import Shape, read_all, shapes_of
from angelia.store.salvage_schema import open_damaged

_CHUNK = 64 * 1024
_SIDES = ("-wal", "-shm")
_PAGE_BYTES = 4096


@dataclass(slots=True)
class TableReport:
    """What became of one table. ``lost``: which rows could not be read, in words; ``refused``: why
    the new store did not take rows, and how many."""

    table: str
    kept: int = 0
    lost: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What a salvage found. ``notes``: what was wrong with the file itself, and what was mended."""

    file: Path
    tables: tuple[TableReport, ...]
    notes: tuple[str, ...]
    parked: int

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return not any(table.lost or table.refused for table in self.tables)


def salvage(damaged: Path, target: Path, now: Now) -> Salvaged:
    """Read what can be read of ``damaged``, which is not changed, into the new store ``target``
    (0600, synced when this returns).

    Raises ``FileExistsError`` (``target`` is there), ``StoreDamagedError`` (nothing of it can be
    read, or it is no store of Angelia's) or ``StoreUnavailableError``; then there is no ``target``.
    """
    raw, part = target.with_name(f"{target.name}.raw.part"), part_of(target)
    if target.exists() or target.is_symlink():
        raise FileExistsError(f"{target} exists")
    try:
        _clear(raw, part)
        notes = _copy_bytes(damaged, raw)
        report = _into(raw, part, target, now, notes)
        crash.point("salvage.before_rename")
        place_new(part, target)
    except FileExistsError:
        _clear(raw, part)
        raise
    except OSError as error:
        _clear(raw, part)
        raise StoreUnavailableError(f"{error.filename or target}: {error.strerror or error}") from error
    except BaseException:
        _clear(raw, part)
        raise
    _clear(raw)
    crash.point("salvage.after_rename")
    return report


def _clear(*files: Path) -> None:
    for file in files:
        for ending in ("", *_SIDES):
            remove(Path(f"{file}{ending}"))


# -- the bytes ---------------------------------------------------------------------------------


def _copy_bytes(damaged: Path, raw: Path) -> list[str]:
    """A copy of the file and its log, with zeros for what the disk does not give."""
    notes = []
    for ending in ("", "-wal"):
        source = Path(f"{damaged}{ending}")
        if ending and not source.exists():
            continue
        missing = _copy_around(source, Path(f"{raw}{ending}"))
        if missing:
            notes.append(f"the disk does not give back {missing} bytes of {source}")
    return notes


def _copy_around(source: Path, copy: Path) -> int:
    """Copy block by block; returns how many bytes could not be read."""
    create_private(copy)
    missing = 0
    with source.open("rb", buffering=0) as given, copy.open("r+b") as taken:
        size = given.seek(0, 2)
        for offset in range(0, size, _CHUNK):
            want = min(_CHUNK, size - offset)
            block, lost = _block(lambda at, n: (given.seek(at), given.read(n))[1], offset, want)
            taken.write(block)
            missing += lost
    return missing


def _block(read: Callable[[int, int], bytes | None], offset: int, want: int) -> tuple[bytes, int]:
    """One block; page by page where the disk complains."""
    try:
        data = read(offset, want) or b""
        return data.ljust(want, b"\x00"), want - len(data)
    except OSError:
        if want <= _PAGE_BYTES:
            return bytes(want), want
    pieces, lost = b"", 0
    for at in range(offset, offset + want, _PAGE_BYTES):
        piece, gone = _block(read, at, min(_PAGE_BYTES, offset + want - at))
        pieces, lost = pieces + piece, lost + gone
    return pieces, lost


# -- the rows ----------------------------------------------------------------------------------


def _into(raw: Path, part: Path, target: Path, now: Now, notes: list[str]) -> Salvaged:
    old = open_damaged(raw, notes)
    try:
        version = _version_of(old, notes)
        new = open_connection(part)
        try:
            migrate(new, up_to=version, keep_copy=False)
            tables = _move_rows(old, new)
            migrate(new, keep_copy=False)
            new.execute("BEGIN IMMEDIATE")
            notes += mend(new)
            parking.park(new, None, now)
            parked = parking.count(new)
            new.execute("COMMIT")
            problems = integrity_problems(new)
            if problems:
                raise StoreUnavailableError(f"the new store is not sound: {problems[0]}")
            new.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            new.pragma("journal_mode", "delete")
        except apsw.Error as error:
            raise classify(error, str(part)) from error
        finally:
            close_quietly(new)
    finally:
        close_quietly(old)
    sync_file(part)
    return Salvaged(target, tuple(tables), tuple(notes), parked)


def _version_of(old: apsw.Connection, notes: list[str]) -> int:
    newest = len(migrations())
    version = int(str(old.pragma("user_version")))
    if 1 <= version <= newest:
        return version
    notes.append(f"the file says that its version is {version}, which cannot be; it is read as {newest}")
    return newest


def _move_rows(old: apsw.Connection, new: apsw.Connection) -> list[TableReport]:
    """All tables of the new store, one transaction each."""
    there = {shape.table: shape for shape in shapes_of(old)}
    reports = []
    for shape in shapes_of(new):
        report = TableReport(shape.table)
        reports.append(report)
        source = there.get(shape.table)
        if source is None:
            report.lost.append("the whole table: the file does not name it")
            continue
        _move_table(old, new, source.common(shape), report)
    return reports


def _move_table(old: apsw.Connection, new: apsw.Connection, shape: Shape, report: TableReport) -> None:
    new.execute("BEGIN IMMEDIATE")
    if shape.table == "pulse":
        new.execute("DELETE FROM pulse")
    changed = 0
    for row in read_all(old, new, shape, report.lost):
        try:
            new.execute(shape.insert, row)
            report.kept += 1
            changed += any(isinstance(value, str) and "\x00" in value for value in row)
        except (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError) as error:
            report.refused[str(error)] += 1
    if changed:  # no text of ours has zeros in it (model/messages.py, well_formed)
        report.lost.append(f"parts of the text of {changed} rows that were kept")
    if shape.table == "pulse" and not report.kept:
        new.execute("INSERT INTO pulse VALUES (1, lower(hex(randomblob(10))), 1)")
    new.execute("COMMIT")
