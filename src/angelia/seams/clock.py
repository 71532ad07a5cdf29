"""The one place where time enters.

Two readings, both in milliseconds:

* ``wall``: the civil clock, for ages, timestamps and leases. It may step.
* ``steady``: for waits. It starts at the civil time of the process and from then on only
  moves as fast as time passes (suspend included), so a stepped civil clock neither
  shortens nor stretches a wait (guarantees §10, case L1).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
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
    """The machine's clocks. ``speed`` > 1 is for test builds that live through 24 h: all time
    since ``origin`` (seconds since the epoch, the same for all processes of a test) runs that
    much faster, also over a restart."""

    def __init__(self, speed: float = 1.0, origin: float | None = None) -> None:
        self._speed = speed
        self._origin = time.time() if origin is None else origin
        self._steady_start = self._fast(time.time())
        self._boot_start = _boot_seconds()

    def _fast(self, wall: float) -> float:
        return wall if self._speed == 1.0 else self._origin + (wall - self._origin) * self._speed

    def now(self) -> Now:
        elapsed = (_boot_seconds() - self._boot_start) * self._speed
        return Now(int(self._fast(time.time()) * 1000), int((self._steady_start + elapsed) * 1000))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self._speed)


def clock_from(environ: Mapping[str, str]) -> SystemClock:
    """The machine's clock, faster where a test asks for it: ``ANGELIA_TEST_CLOCK_SPEED`` (a
    number) since ``ANGELIA_TEST_CLOCK_ORIGIN`` (seconds since the epoch, the same for all
    processes of the test). Raises ``ValueError`` for anything that is no such number."""
    named = environ.get("ANGELIA_TEST_CLOCK_SPEED", "")
    if not named:
        return SystemClock()
    try:
        speed, origin = float(named), float(environ.get("ANGELIA_TEST_CLOCK_ORIGIN") or "nan")
    except ValueError:
        speed, origin = 0.0, math.nan
    if not (math.isfinite(speed) and speed > 0):
        raise ValueError("ANGELIA_TEST_CLOCK_SPEED: must be a number above 0; it is for tests only")
    return SystemClock(speed, origin if math.isfinite(origin) else None)
