"""A clock whose sleepers wake when the test says so: half a minute and a day cost nothing.

``testing.clock`` is for code that only reads the time. Here ``sleep`` really waits, until
``advance`` has moved the time past its end: sleepers wake one after another, at their own
times, and everything that they set in motion comes to rest before the time moves on. So the
loops of an engine run as they would in a day of real time, in the same order every time.

That holds for what runs in the event loop. What a thread or a socket does is waited for by
the condition that it brings about (``testing.fakes`` has events for that).
"""

from __future__ import annotations

import asyncio
import heapq
from typing import Any

from angelia.seams.clock import Now
from angelia.testing.clock import BEGINNING_MS

#: More rounds of the event loop than any test needs: who needs more never comes to rest.
_ROUNDS_MOST = 20_000


async def at_rest() -> None:
    """Return when nothing in the event loop can go on by itself: all wait for time, for an
    event, or for the world outside. Raises ``AssertionError`` if that never happens."""
    loop: Any = asyncio.get_running_loop()
    ready = getattr(loop, "_ready", None)
    for done in range(_ROUNDS_MOST):
        await asyncio.sleep(0)
        if (ready is None and done > 200) or (ready is not None and not ready):
            return
    raise AssertionError("the event loop does not come to rest")


class ManualClock:
    """Both readings in milliseconds since the epoch; see ``seams.clock``."""

    def __init__(self, wall: int = BEGINNING_MS, steady: int | None = None) -> None:
        self.wall = wall
        self.steady = wall if steady is None else steady
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> Now:
        return Now(self.wall, self.steady)

    async def sleep(self, seconds: float) -> None:
        """Wait until ``seconds`` have been let pass."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        end = self.steady + max(1, round(seconds * 1000))
        heapq.heappush(self._sleepers, (end, self._count, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass; who sleeps wakes at the proper time, in order."""
        await at_rest()
        end = self.steady + round(seconds * 1000)
        while self._sleepers and self._sleepers[0][0] <= end:
            self._pass_until(max(self._sleepers[0][0], self.steady))
            self._wake()
            await at_rest()
        self._pass_until(end)
        await at_rest()

    async def jump(self, seconds: float) -> None:
        """``seconds`` pass at once, unseen by everybody, as in a suspended machine; then all
        who have slept long enough wake together."""
        self._pass_until(self.steady + round(seconds * 1000))
        self._wake()
        await at_rest()

    def step(self, seconds: float) -> None:
        """The civil clock is set, forwards or (negative) backwards; no time passes."""
        self.wall += round(seconds * 1000)

    def reboot(self) -> None:
        """A new process: its steady time starts at the civil time of now."""
        self.steady = self.wall

    def _pass_until(self, steady: int) -> None:
        passed = max(0, steady - self.steady)
        self.steady += passed
        self.wall += passed

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self.steady:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)
