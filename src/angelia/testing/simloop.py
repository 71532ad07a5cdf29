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
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

from angelia.seams.clock import Now
from angelia.testing.clock import BEGINNING_MS

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
    """One callback of a process, run only while that process runs."""

    __slots__ = ("arguments", "callback", "context", "handle", "loop", "process")

    def __init__(
        self,
        loop: SimLoop,
        process: Process,
        callback: Callable[..., Any],
        arguments: tuple[Any, ...],
        context: contextvars.Context,
    ) -> None:
        self.loop, self.process, self.context = loop, process, context
        self.callback, self.arguments = callback, arguments
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if not self.process.alive or (self.handle is not None and self.handle.cancelled()):
            return
        if self.process.frozen:
            self.process.hold(self)
            return
        self.callback(*self.arguments)

    def again(self) -> None:
        asyncio.SelectorEventLoop.call_soon(self.loop, self, context=self.context)


class _Numbered:
    """Walks of sets depend on hashes; these come from a counter."""

    number: int

    def __hash__(self) -> int:
        return self.number


class _Task(_Numbered, asyncio.Task[Any]):
    __hash__ = _Numbered.__hash__


class _Future(_Numbered, asyncio.Future[Any]):
    __hash__ = _Numbered.__hash__


class _Jumps(selectors.SelectSelector):
    """Never waits: it moves the loop's time instead. No file ever becomes ready here."""

    loop: SimLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits for something that nobody will do")
        self.loop.now_s += max(0.0, timeout)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    """Virtual time in seconds from 0. Not for threads, sockets or processes."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._numbers = itertools.count(1)
        self._begun: dict[_Task, Coroutine[Any, Any, Any]] = {}
        jumps = _Jumps()
        jumps.loop = self
        super().__init__(jumps)
        self._clock_resolution = 1e-6  # two timers closer than this fire together

    def time(self) -> float:
        return self.now_s

    def create_future(self) -> asyncio.Future[Any]:
        future = _Future(loop=self)
        future.number = next(self._numbers)
        return future

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        # A set of the base class would hash the task before it has its number.
        _Task.number = next(self._numbers)
        task = _Task(coro, loop=self, name=name, context=context)
        task.number = _Task.number
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._begun[task] = coro
        task.add_done_callback(self._forget, context=contextvars.Context())
        return task

    def _forget(self, task: Any) -> None:
        self._begun.pop(task, None)

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context
        process = context.get(_here)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        call = _Call(self, process, callback, args, context)
        call.handle = super().call_soon(call, context=context)
        return call.handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        process = context.get(_here)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        call = _Call(self, process, callback, args, context)
        handle = super().call_at(when, call, context=context)
        call.handle = handle
        return handle

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), Killed):
            super().call_exception_handler(context)

    def bury(self) -> None:
        """End of the world: close what never ended, so that nothing speaks up later."""
        for coroutine in list(self._begun.values()):
            with contextlib.suppress(BaseException):
                coroutine.close()
        self._begun.clear()


async def lapse(seconds: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)


class CivilTime:
    """The wall clock of one machine: it may be set forwards or backwards."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._set_by_ms = 0
        #: The sum of all steps, whatever their direction (milliseconds).
        self.stepped_ms = 0

    def step(self, seconds: float) -> None:
        self._set_by_ms += round(seconds * 1000)
        self.stepped_ms += abs(round(seconds * 1000))

    def passed(self) -> int:
        """Milliseconds that really passed since the beginning."""
        return round(self._loop.time() * 1000)

    def wall(self) -> int:
        return BEGINNING_MS + self.passed() + self._set_by_ms


class SimClock:
    """The clocks of one process on a machine: its steady one is set at its start and then only
    moves as fast as time passes. ``skew_ms``: by how much its wall clock is ahead."""

    def __init__(self, civil: CivilTime, skew_ms: int = 0) -> None:
        self._civil = civil
        self.skew_ms = skew_ms
        self._steady_ahead = civil.wall() + skew_ms - civil.passed()

    def now(self) -> Now:
        return Now(self._civil.wall() + self.skew_ms, self._civil.passed() + self._steady_ahead)

    async def sleep(self, seconds: float) -> None:
        await lapse(max(0.0, seconds))
