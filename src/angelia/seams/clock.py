"""The one place where time enters.

Two readings, both in milliseconds:

* ``wall``: the civil clock, for ages, timestamps and leases. It may step.
* ``steady``: for waits. It starts at the civil time of the process and from then on only
  moves as fast as time passes (suspend included), so a stepped civil clock neither
  shortens nor stretches a wait (guarantees §10, case L1).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Now:
    """One reading of both clocks, in milliseconds since the epoch."""

    wall: int
    steady: int


class Clock(Protocol):
    """What the rest of the house may ask about time."""

    def now(self) -> Now: ...

    async def sleep(self, seconds: float) -> None: ...


def _boot_seconds() -> float:
    """Seconds that pass while suspended, too, where the system can tell."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()  # pragma: no cover - other systems


class SystemClock:
    """The machine's clocks. ``speed`` > 1 is for test builds that live through 24 h."""

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed
        self._wall_start = time.time()
        self._boot_start = _boot_seconds()

    def now(self) -> Now:
        elapsed = (_boot_seconds() - self._boot_start) * self._speed
        wall = time.time()
        if self._speed != 1.0:
            wall = self._wall_start + (wall - self._wall_start) * self._speed
        return Now(int(wall * 1000), int((self._wall_start + elapsed) * 1000))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self._speed)
