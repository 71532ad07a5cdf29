"""A disk that remembers what a power cut would leave, and that can fail on request.

``PowerLossDisk`` is a file layer (VFS) for the very SQLite that ships. Files live in an
ordinary folder and behave as ever; beside that it keeps, for each file, the bytes that a
successful sync made durable and the writes since. From this ``snapshot()`` gives, at any moment,
the images that could be found after the power came back:

* **kept**: every write reached the disk, synced or not;
* **lost**: only what was synced;
* **torn**: any sector of the unsynced writes may have reached the disk, in any order.

New files exist for sure, and removed ones are gone for sure, only once their folder is synced;
SQLite does that with the first sync of each journal and WAL that it opens. And as on Linux, a failed
sync is final: the writes it was asked for are marked clean, and no later sync saves them, though
every read shows them.

Faults: ``fail("write" | "sync" | "truncate", nth)`` lets the n-th such call from now fail (and,
with ``lasting``, all that follow, until ``heal()``); ``full=True`` says "disk full".
The shared memory of WAL is passed through: it does not survive a power cut anyway.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import apsw

from angelia.seams.rng import Rng

Call = Literal["write", "sync", "truncate"]
Kind = Literal["kept", "lost", "torn"]

KINDS: tuple[Kind, ...] = ("kept", "lost", "torn")
sector_bytes = 512

#: What SQLite's own file layer syncs the folder for, at the first sync after opening.
_SYNCED_WITH_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL

_CODES: dict[Call, int] = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
}


@dataclass(frozen=True, slots=True)
class _Change:
    """One write, or (without data) a truncation to ``offset`` bytes."""

    offset: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.offset :]
            return
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data

    def sectors(self) -> list[_Change]:
        """The pieces that reach the disk whole or not at all."""
        if self.data is None:
            return [self]
        pieces, start, end = [], self.offset, self.offset + len(self.data)
        while start < end:
            stop = min(end, (start // sector_bytes + 1) * sector_bytes)
            pieces.append(_Change(start, self.data[start - self.offset : stop - self.offset]))
            start = stop
        return pieces


@dataclass(slots=True)
class _FileRecord:
    """What is known of one file."""

    durable: bytearray = field(default_factory=bytearray)
    changes: list[_Change] = field(default_factory=list)  # since the last sync that succeeded
    doomed: int = 0  # so many of the changes were given up by a failed sync
    exists: bool = True
    listed: bool = False  # the folder's entry for it is durable

    def synced(self) -> None:
        for change in self.changes[self.doomed :]:
            change.apply(self.durable)
        self.changes.clear()
        self.doomed = 0

    def copy(self) -> _FileRecord:
        return _FileRecord(bytearray(self.durable), list(self.changes), self.doomed, self.exists, self.listed)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment: what every file is known to be, and how often a sync had succeeded."""

    files: dict[str, _FileRecord]
    syncs: int

    def write(self, folder: Path, kind: Kind, rng: Rng) -> None:
        """Put the image of this moment into ``folder``, which must be empty."""
        for path, record in self.files.items():
            content = _image(record, kind, rng)
            if content is not None:
                (folder / os.path.basename(path)).write_bytes(content)


def _image(record: _FileRecord, kind: Kind, rng: Rng) -> bytes | None:
    """The content of one file after the power cut; None if it is not there."""
    by_chance = kind == "torn" and rng.fraction() < 0.5
    if kind == "kept" or by_chance:
        if not record.exists:
            return None
    elif not record.listed:
        return None
    content = bytearray(record.durable)
    for change in record.changes:
        if kind == "kept":
            change.apply(content)
        elif kind == "torn":
            for piece in change.sectors():
                if rng.fraction() < 0.5:
                    piece.apply(content)
    return bytes(content)


class PowerLossDisk(apsw.VFS):
    """The file layer. Open connections with ``vfs=disk.name``; ``close()`` it after them.

    ``watch`` is called, in the thread that does it, after each write, truncation, sync and removal.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.watch: Callable[[str], None] | None = None
        self.syncs = 0
        self._lock = threading.RLock()
        self._files: dict[str, _FileRecord] = {}
        self._fault: tuple[Call, int, bool] | None = None
        self._left = 0
        super().__init__(name, "")

    # -- for the test ------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What a power cut at this moment would meet."""
        with self._lock:
            return Snapshot({path: record.copy() for path, record in self._files.items()}, self.syncs)

    def fail(self, call: Call, nth: int = 1, *, full: bool = False, lasting: bool = False) -> None:
        """Let the ``nth`` such call from now fail; ``lasting``: and all after it."""
        with self._lock:
            self._left = nth
            self._fault = (call, apsw.SQLITE_FULL if full else _CODES[call], lasting)

    def heal(self) -> bool:
        """No more faults. Returns whether the one that was asked for happened."""
        with self._lock:
            happened = self._left <= 0
            self._fault = None
            return happened

    def close(self) -> None:
        """Unregister the layer; all its connections must be closed."""
        self.unregister()

    # -- for the file ------------------------------------------------------------------------

    def record(self, path: str, change: _Change) -> None:
        with self._lock:
            self._files[path].changes.append(change)

    def record_sync(self, path: str, with_folder: bool) -> None:
        with self._lock:
            self._files[path].synced()
            self.syncs += 1
            if with_folder:
                folder = os.path.dirname(path)
                here = [name for name in self._files if os.path.dirname(name) == folder]
                for name in here:
                    if self._files[name].exists:
                        self._files[name].listed = True
                    else:
                        del self._files[name]

    def faulty(self, call: Call, path: str) -> None:
        """Raise if this call is the one that shall fail."""
        with self._lock:
            if self._fault is None or self._fault[0] != call:
                return
            self._left -= 1
            _, code, lasting = self._fault
            if self._left > 0 or (self._left < 0 and not lasting):
                return
            if call == "sync":
                record = self._files[path]
                record.doomed = len(record.changes)
        raise apsw.exception_for(code)

    def passed(self, event: str) -> None:
        if self.watch is not None:
            self.watch(event)

    # -- called by SQLite --------------------------------------------------------------------

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            return super().xOpen(name, flags)  # a temporary file: no power cut leaves it
        with self._lock:
            record = self._files.get(path)
            if record is None:
                # A file that was there before this disk was made is taken as durable; the empty one
                # that the store has just created is not.
                content = Path(path).read_bytes() if os.path.exists(path) else b""
                self._files[path] = _FileRecord(bytearray(content), listed=bool(content))
            elif not record.exists:
                # A new file under the name of a removed one, whose content may yet come back.
                record.exists = True
                record.changes = [_Change(0, None)]
                record.doomed = 0
        return _WatchedFile(self, path, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        with self._lock:
            record = self._files.get(filename)
            if record is not None:
                record.exists = False
                if syncdir or not record.listed:
                    del self._files[filename]
        self.passed("delete")


class _WatchedFile(apsw.VFSFile):
    """One file of the disk."""

    def __init__(
        self, disk: PowerLossDisk, path: str, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._disk = disk
        self._path = path
        self._folder_unsynced = bool(flags[0] & _SYNCED_WITH_FOLDER)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.faulty("write", self._path)
        super().xWrite(data, offset)
        self._disk.record(self._path, _Change(offset, bytes(data)))
        self._disk.passed("write")

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.faulty("truncate", self._path)
        super().xTruncate(newsize)
        self._disk.record(self._path, _Change(newsize, None))
        self._disk.passed("truncate")

    def xSync(self, flags: int) -> None:  # noqa: N802
        # The real sync is left out: the record is this disk's platter, and tests stay quick.
        self._disk.faulty("sync", self._path)
        self._disk.record_sync(self._path, self._folder_unsynced)
        self._folder_unsynced = False
        self._disk.passed("sync")
