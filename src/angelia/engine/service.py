"""The start/stop contract of the loops, and the one way in which they survive trouble.

A loop does its work when it is hinted and, because hints may be lost, at a fixed pace. An
error ends one round, never the loop. Stopping is cooperative: the round in progress ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog

from angelia.model.errors import StoreUnavailableError
from angelia.seams.clock import Clock

log = structlog.get_logger("angelia")


async def wait_within(clock: Clock, tasks: Iterable[asyncio.Task[Any]], seconds: float) -> None:
    """Wait until all ``tasks`` have ended, but no longer than ``seconds`` of ``clock``."""
    waiting = {task for task in tasks if not task.done()}
    if not waiting:
        return
    limit: asyncio.Task[Any] = asyncio.create_task(clock.sleep(seconds))
    try:
        while waiting and not limit.done():
            await asyncio.wait({*waiting, limit}, return_when=asyncio.FIRST_COMPLETED)
            waiting = {task for task in waiting if not task.done()}
    finally:
        limit.cancel()


class Loop:
    """Calls ``work`` every ``every_s`` seconds, and at once when hinted, until stopped."""

    def __init__(self, name: str, work: Callable[[], Awaitable[None]], every_s: float, clock: Clock) -> None:
        self._name = name
        self._work = work
        self._every_s = every_s
        self._clock = clock
        self._hinted = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._name)

    def hint(self) -> None:
        """There may be something to do now."""
        self._hinted.set()

    async def stop(self) -> None:
        """Returns when the round in progress has ended."""
        self._stopping = True
        self._hinted.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self._stopping:
            self._hinted.clear()
            try:
                await self._work()
            except StoreUnavailableError as error:
                log.warning(
                    "the store cannot be used now",
                    action="store.unavailable",
                    loop=self._name,
                    error=str(error),
                )
            except Exception:
                log.exception("a round of a loop failed", action="loop.failed", loop=self._name)
            if not self._stopping:
                await self._pause()

    async def _pause(self) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(self._every_s))
        hinted = asyncio.ensure_future(self._hinted.wait())
        try:
            await asyncio.wait({sleeping, hinted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (sleeping, hinted):
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
