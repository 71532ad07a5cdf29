"""An event loop in which time is a number, and processes that can die between two awaits.

Nothing here ever waits: when nobody can go on, the time jumps to the next scheduled call. A
day costs as much as the calls made in it, and one seed gives one order of events: ready calls
run in the order in which they were made, timers by their time and then by their age, and sets
of tasks are walked in the order of their creation, not of their addresses.

A ``Process`` is a name in the context of all that is begun in it. ``kill`` is kill -9: no step
of its tasks runs any more, so no ``finally`` and no ``except`` either. ``freeze`` is SIGSTOP,
``thaw`` SIGCONT: what fell due meanwhile happens then, late and in order. To stop a process
in the middle of a step (at a crash point), kill it and raise ``Killed``: whatever the clean-up
code on the way out tries to await never comes back. What a process asks of the world outside
must be gated there with ``alive`` (see ``tests/simulation``); its synchronous code is its own.

The loop is written out here instead of being derived from asyncio's: that one's selector, its
handles in layers and its heap of compared objects were a third of what a simulated world cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from angelia.seams.clock import Now
from angelia.testing.clock import BEGINNING_MS

T = TypeVar("T")

_here: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Killed(BaseException):
    """Unwinds the one step in which a process died; nothing may catch it."""


class Process:
    """Something that lives, stands still, and dies as a whole."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        #: How often it went on after standing still.
        self.thaws = 0
        self.thawed_at = -10.0  # the loop's time of the latest
        self.context = contextvars.copy_context()
        self.context.run(_here.set, self)
        self._held: list[_Call] = []

    @staticmethod
    def here() -> Process | None:
        """The process whose code asks, if any."""
        return _here.get()

    def kill(self) -> None:
        """Nothing of it ever runs again."""
        self.alive = False
        self._held.clear()

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        """It goes on; what fell due meanwhile comes first."""
        self.frozen = False
        self.thaws += 1
        self.thawed_at = asyncio.get_running_loop().time()
        held, self._held = self._held, []
        for call in held:
            call.again()

    def begin(self, coroutine: Coroutine[Any, Any, Any], name: str = "") -> asyncio.Task[Any]:
        """A task of this process."""
        loop = asyncio.get_running_loop()
        return loop.create_task(coroutine, name=name or self.name, context=self.context)

    def hold(self, call: _Call) -> None:
        self._held.append(call)


class _Call:
    """One callback: the handle that asyncio's own code cancels, and whose process it is."""

    __slots__ = ("arguments", "callback", "context", "gone", "loop", "process")

    def __init__(
        self,
        loop: SimLoop,
        callback: Callable[..., Any],
        arguments: tuple[Any, ...],
        context: contextvars.Context,
    ) -> None:
        self.loop, self.context = loop, context
        self.callback, self.arguments = callback, arguments
        self.process: Process | None = context.get(_here)
        self.gone = False

    def cancel(self) -> None:
        self.gone = True

    def cancelled(self) -> bool:
        return self.gone

    def again(self) -> None:
        self.loop.ready.append(self)


class _Numbered:
    """Walks of sets depend on hashes; these come from a counter."""

    number: int

    def __hash__(self) -> int:
        return self.number


class _Task(_Numbered, asyncio.Task[Any]):
    __hash__ = _Numbered.__hash__


class _Future(_Numbered, asyncio.Future[Any]):
    __hash__ = _Numbered.__hash__


#: Two timers closer than this fire together (seconds).
_TOGETHER_S = 1e-6


class SimLoop(asyncio.AbstractEventLoop):
    """Virtual time in seconds from 0. Not for threads, sockets or processes."""

    #: Asked for every future: a type is the cheapest callable that says no.
    get_debug = bool

    def __init__(self) -> None:
        self.now_s = 0.0
        #: What runs next, in order.
        self.ready: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count(1)
        self._begun: list[_Task] = []
        #: What failed without anybody waiting for it.
        self.complaints: list[str] = []
        self._tidy_at = 256
        self._running = False
        self._stopped = False

    # -- what asyncio asks of a loop ---------------------------------------------------------

    def time(self) -> float:
        return self.now_s

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        future = _Future(loop=self)
        future.number = next(self._numbers)
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        # A set of the base class would hash the task before it has its number.
        _Task.number = number = next(self._numbers)
        task = _Task(coro, loop=self, name=name or "task", context=context)
        task.number = number
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._begun.append(task)
        if len(self._begun) >= self._tidy_at:
            self._begun = [one for one in self._begun if not one.done()]
            self._tidy_at = 256 + 2 * len(self._begun)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> _Call:
        call = _Call(self, callback, args, contextvars.copy_context() if context is None else context)
        self.ready.append(call)
        return call

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> _Call:
        call = _Call(self, callback, args, contextvars.copy_context() if context is None else context)
        heapq.heappush(self._timers, (when, next(self._numbers), call))
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> _Call:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Something failed and nobody waits for it: the death of a process, or a bug of the test."""
        error = context.get("exception")
        if not isinstance(error, Killed):
            self.complaints.append(f"{context.get('message')}: {error!r}")

    # -- running -----------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        """The result of a coroutine, after as much virtual time as it takes."""
        task = self.create_task(future)
        task.add_done_callback(self._stop)
        self._running, self._stopped = True, False
        asyncio._set_running_loop(self)
        try:
            while not self._stopped:
                self._round()
        finally:
            asyncio._set_running_loop(None)
            self._running = False
        return task.result()

    def _stop(self, _: Any) -> None:
        self._stopped = True

    def _round(self) -> None:
        """What is ready now; if nothing is, the time jumps to the next timer."""
        ready, timers = self.ready, self._timers
        while timers and timers[0][2].gone:
            heapq.heappop(timers)
        if not ready:
            if not timers:
                raise RuntimeError("everybody waits for something that nobody will do")
            self.now_s = max(self.now_s, timers[0][0])
        together = self.now_s + _TOGETHER_S
        while timers and timers[0][0] < together:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            call = ready.popleft()
            process = call.process
            if call.gone or (process is not None and not process.alive):
                continue
            if process is not None and process.frozen:
                process.hold(call)
                continue
            with contextlib.suppress(Killed):  # the step in which a process died
                call.context.run(call.callback, *call.arguments)

    def close(self) -> None:
        self.ready.clear()
        self._timers.clear()

    def bury(self) -> None:
        """End of the world: close what never ended, so that nothing speaks up later. What the
        dead begin on their way out is closed, too; it must not land in another loop."""
        asyncio._set_running_loop(self)
        try:
            for _ in range(100):
                begun, self._begun = self._begun, []
                for task in begun:
                    if not task.done():
                        with contextlib.suppress(BaseException):
                            task.get_coro().close()
                if not self._begun:
                    return
        finally:
            asyncio._set_running_loop(None)


async def lapse(seconds: float) -> None:
    """Let virtual time pass."""
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    timer = loop.call_later(seconds, _over, future)
    try:
        await future
    finally:
        timer.cancel()


def _over(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)


class CivilTime:
    """The wall clock of one machine: it may be set forwards or backwards."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        #: How far it is ahead of the time that really passed (milliseconds).
        self.set_by_ms = 0
        #: The sum of all steps, whatever their direction (milliseconds).
        self.stepped_ms = 0

    def step(self, seconds: float) -> None:
        self.set_by_ms += round(seconds * 1000)
        self.stepped_ms += abs(round(seconds * 1000))

    def passed(self) -> int:
        """Milliseconds that really passed since the beginning."""
        return round(self._loop.now_s * 1000)

    def wall(self) -> int:
        return BEGINNING_MS + self.passed() + self.set_by_ms


class SimClock:
    """The clocks of one process on a machine: its steady one is set at its start and then only
    moves as fast as time passes. ``skew_ms``: by how much its wall clock is ahead."""

    def __init__(self, civil: CivilTime, skew_ms: int = 0) -> None:
        self._civil = civil
        self.skew_ms = skew_ms
        self._steady_ahead = civil.wall() + skew_ms - civil.passed()

    def now(self) -> Now:
        civil = self._civil
        passed = civil.passed()
        return Now(
            BEGINNING_MS + passed + civil.set_by_ms + self.skew_ms,
            passed + self._steady_ahead,
        )

    async def sleep(self, seconds: float) -> None:
        await lapse(max(0.0, seconds))
