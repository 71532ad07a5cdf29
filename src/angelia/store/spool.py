"""The spool: the bytes of attachments, each under the name of its own content.

A file is written beside its place, synced, renamed, and its folder synced, before anything on
record names it; so what a record names was there when it was committed. What no record names
any more, and nobody has touched for a day, is removed.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import threading
from collections.abc import Collection
from pathlib import Path

from angelia.model.errors import MediaError, StoreUnavailableError
from angelia.model.limits import DAY_MS, SECOND_MS
from angelia.model.media import Attachment, kind_of, shown_name

_CHUNK = 1024 * 1024


class FileSpool:
    """A folder with mode 0700, made when it is first needed. Implements ``engine.attaching.Spool``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: A file that is found again and one that is removed must not be the same at that moment.
        self._lock = threading.Lock()

    def path(self, attachment: Attachment) -> Path:
        return self.folder / attachment.file

    async def keep(self, source: Path | bytes, name: str, mime: str, most: int) -> Attachment:
        return await asyncio.to_thread(self.keep_now, source, name, mime, most)

    def keep_now(self, source: Path | bytes, name: str, mime: str, most: int) -> Attachment:
        """``keep``, in this thread."""
        data = source if isinstance(source, bytes) else _read(source, most)
        if not data:
            raise MediaError(f"the file {name} is empty")
        if len(data) > most:
            raise MediaError(f"the file {name} has more than {most} bytes", too_large=True)
        digest = hashlib.sha256(data).hexdigest()
        shown = shown_name(name)
        known = mime or mimetypes.guess_type(shown)[0] or "application/octet-stream"
        with self._lock:
            self._write(digest, data)
        return Attachment(digest, kind_of(known), shown, known, len(data))

    def _write(self, digest: str, data: bytes) -> None:
        place = self.folder / digest
        try:
            if place.exists() and place.stat().st_size == len(data):
                os.utime(place)  # young again: whoever forgets what is old leaves it
                return
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = self.folder / f".{digest}"
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.rename(place)
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise StoreUnavailableError(f"{self.folder}: {error.strerror}") from error

    async def forget(self, named: Collection[str]) -> int:
        return await asyncio.to_thread(self.forget_now, named)

    def forget_now(self, named: Collection[str]) -> int:
        """Remove what is not ``named`` and has not been touched for a day; how many files."""
        removed = 0
        with self._lock:
            if not self.folder.is_dir():
                return 0
            mark = self.folder / ".now"  # its time is that of the clock that the others' times are of
            mark.touch(mode=0o600)
            before = mark.stat().st_mtime - DAY_MS / SECOND_MS
            for file in self.folder.iterdir():
                if file.stat().st_mtime < before and file.name not in named:
                    file.unlink()
                    removed += 1
        return removed


def _read(source: Path, most: int) -> bytes:
    """The bytes of a plain file, not more than one beyond ``most``."""
    try:
        if not source.is_file():  # not a device, not a pipe that nobody writes
            raise MediaError(f"{source} is no file")
        with source.open("rb") as file:
            pieces, size = [], 0
            while size <= most and (piece := file.read(_CHUNK)):
                pieces.append(piece)
                size += len(piece)
            return b"".join(pieces)
    except (OSError, ValueError) as error:
        raise MediaError(f"{source}: {error}") from error
