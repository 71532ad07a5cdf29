"""Where a measurement is written, and what that disk does for a promise.

A ledger that commits durably is as fast as the disk's flush, so every figure is printed with
the file system it was measured on and the time of one ``fdatasync``.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

#: File systems that forget everything when the power goes: a figure on one says little.
VOLATILE = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system under a folder and the latency of appending 4 KiB and flushing, in ms."""

    file_system: str
    fdatasync_p50_ms: float
    fdatasync_p99_ms: float

    @property
    def durable(self) -> bool:
        return self.file_system not in VOLATILE


def file_system_of(folder: Path) -> str:
    """The type of the file system that holds ``folder`` (``unknown`` off Linux)."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    target = folder.resolve()
    best, kind = -1, "unknown"
    for line in lines:
        point, file_system = line.split()[1:3]
        mount = Path(point.replace("\\040", " "))
        if target.is_relative_to(mount) and len(mount.parts) >= best:
            best, kind = len(mount.parts), file_system
    return kind


def measure_disk(folder: Path, flushes: int = 200) -> Disk:
    """Append and flush ``flushes`` pages in ``folder`` and take the file away again."""
    path = folder / "fdatasync.probe"
    page = os.urandom(4096)
    times: list[float] = []
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    try:
        for _ in range(flushes):
            start = time.perf_counter()
            os.write(handle, page)
            os.fdatasync(handle)
            times.append((time.perf_counter() - start) * 1000)
    finally:
        os.close(handle)
        path.unlink()
    cuts = statistics.quantiles(times, n=100)
    return Disk(file_system_of(folder), round(statistics.median(times), 3), round(cuts[98], 3))
