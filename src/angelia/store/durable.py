"""Putting a finished file in its place, so that neither a crash nor a power cut leaves half of it.

A file is written under another name (``….part``), synced, and then given its own: whoever finds
the name finds the whole file. A part that a crash left behind is taken over by the next try.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def part_of(place: Path) -> Path:
    """The name under which a file is written that will be called ``place``."""
    return place.with_name(f"{place.name}.part")


def create_private(path: Path) -> None:
    """Make an empty file with mode 0600, whatever the umask; what a crash left there is removed.

    Raises ``OSError``."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """The bytes of ``path`` survive a power cut when this returns. Raises ``OSError``."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """The names in the folder ``path`` survive a power cut when this returns. Raises ``OSError``."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def place_new(part: Path, place: Path) -> None:
    """Give a synced ``part`` the name ``place``, which nobody has yet.

    Raises ``FileExistsError`` if somebody has it now, or another ``OSError``."""
    try:
        os.link(part, place)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names
        if os.path.lexists(place):
            raise FileExistsError(f"{place} exists") from None
        part.rename(place)
    else:
        part.unlink()
    sync_folder(place.parent)


def place_over(part: Path, place: Path) -> None:
    """Give a synced ``part`` the name ``place``; a file of that name is gone in the same moment.
    Raises ``OSError``."""
    part.replace(place)
    sync_folder(place.parent)


def free_name(first: str, folder: Path) -> Path:
    """``first``, or ``first`` with a number before its ending, as no file in ``folder`` is called."""
    stem, dot, ending = first.rpartition(".")
    place, number = folder / first, 1
    while os.path.lexists(place):
        number += 1
        place = folder / f"{stem}-{number}{dot}{ending}"
    return place


def remove(path: Path) -> None:
    """Remove a file of ours that is of no use any more; one that is gone is no error."""
    with contextlib.suppress(OSError):
        path.unlink()
