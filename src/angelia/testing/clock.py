"""A clock that is set by hand: the civil reading and the steady one, each by itself.

Nothing here waits. ``advance`` lets time pass on both, ``step`` moves the civil clock alone
(as an administrator or NTP would), ``reboot`` anchors the steady one anew, as a new process
does (see ``seams.clock``).
"""

from __future__ import annotations

import asyncio

from angelia.seams.clock import Now

#: 14 November 2023; any time will do, as long as 24 h before it is not negative.
BEGINNING_MS = 1_700_000_000_000


class TestClock:
    """Both readings in milliseconds since the epoch."""

    __test__ = False  # pytest: this is no test case

    def __init__(self, wall: int = BEGINNING_MS, steady: int | None = None) -> None:
        self.wall = wall
        self.steady = wall if steady is None else steady

    def now(self) -> Now:
        return Now(self.wall, self.steady)

    def advance(self, seconds: float) -> None:
        """``seconds`` pass."""
        self.wall += int(seconds * 1000)
        self.steady += int(seconds * 1000)

    def step(self, seconds: float) -> None:
        """The civil clock is set, forwards or (negative) backwards; no time passes."""
        self.wall += int(seconds * 1000)

    def reboot(self) -> None:
        """A new process: its steady time starts at the civil time of now."""
        self.steady = self.wall

    async def sleep(self, seconds: float) -> None:
        """Who sleeps lets the time pass."""
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)
