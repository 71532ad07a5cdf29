"""One thread that serves a queue of jobs, and tells the callers.

SQLite calls block, so they live in a thread of their own: one for the writer, one for the
reader. This file is the desk between asyncio and that thread:

* the thread takes **all** waiting jobs at once (bounded) and hands them to ``serve``;
* the answers of a batch wake each event loop **once**, which is what makes a batch cheap;
* a job is told exactly one thing, also when ``serve`` itself fails: the thread never ends
  silently, and a caller who no longer listens harms nobody;
* what was put before the end is served; what comes after it is refused.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from angelia.model.errors import StoreUnavailableError

T = TypeVar("T")


class Job:
    """One piece of work with the place where its caller waits."""

    __slots__ = ("answer", "error", "loop", "verb", "work")

    def __init__(
        self,
        verb: str,
        work: Callable[[apsw.Connection], Any],
        loop: asyncio.AbstractEventLoop | None = None,
        answer: asyncio.Future[Any] | concurrent.futures.Future[Any] | None = None,
    ) -> None:
        self.verb = verb
        self.work = work
        self.loop = loop  # None: a thread waits
        self.answer = answer  # where the caller waits; None: it runs the job itself
        self.error: BaseException | None = None


class Worker:
    """The thread and its queue. ``serve`` returns the result of each job, in order.

    ``serve`` may instead put an ``error`` on single jobs. ``after_telling`` runs once the callers of
    a batch know, ``at_end`` runs last; both in the thread.
    """

    def __init__(
        self,
        name: str,
        serve: Callable[[list[Job]], list[Any]],
        at_end: Callable[[], None],
        most_at_once: int,
        after_telling: Callable[[], None] = lambda: None,
    ) -> None:
        self._serve = serve
        self._at_end = at_end
        self._after_telling = after_telling
        self._most_at_once = most_at_once
        self._waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.closing = False
        self._ended = False
        # A daemon thread: a program that forgets to close must still be able to exit.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, verb: str, work: Callable[[apsw.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._put(Job(verb, work, loop, answer))
        return await answer

    def run_blocking(self, verb: str, work: Callable[[apsw.Connection], T]) -> T:
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"{verb}: a job cannot wait for another job of its own thread")
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._put(Job(verb, work, None, answer))
        return answer.result()

    def close_blocking(self) -> None:
        """Serve what waits, end the thread. May be called again."""
        self.closing = True
        self._waiting.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _put(self, job: Job) -> None:
        if self.closing:
            raise StoreUnavailableError("the store is closed")
        self._waiting.put(job)
        if self._ended:  # the thread ended between the two lines: nobody else empties the queue
            self._refuse_leftovers()

    def _run(self) -> None:
        try:
            while self._round():
                pass
        finally:
            self.closing = True
            try:
                self._at_end()
            finally:
                self._ended = True
                self._refuse_leftovers()

    def _round(self) -> bool:
        """Serve one batch; False at the end."""
        take = self._waiting.get_nowait
        first = self._waiting.get()
        if first is None:
            return False
        jobs = [first]
        goes_on = True
        with contextlib.suppress(queue.Empty):
            while len(jobs) < self._most_at_once:
                job = take()
                if job is None:
                    goes_on = False
                    break
                jobs.append(job)
        try:
            results = self._serve(jobs)
        except BaseException as error:  # whatever it was, the callers hear of it and the thread lives on
            for job in jobs:
                job.error = error
            results = [None] * len(jobs)
        _tell_all(jobs, results)
        self._after_telling()
        return goes_on

    def _refuse_leftovers(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._waiting.get_nowait()
                if job is not None:
                    job.error = StoreUnavailableError("the store is closed")
                    _tell_all([job], [None])


def _tell_all(jobs: list[Job], results: list[Any]) -> None:
    """Tell every caller; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[tuple[Job, Any]]] = {}
    for told in zip(jobs, results, strict=True):
        loop = told[0].loop
        if loop in by_loop:
            by_loop[loop].append(told)
        else:
            by_loop[loop] = [told]
    for loop, share in by_loop.items():
        if loop is None:
            _tell(share)
        else:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there
                loop.call_soon_threadsafe(_tell, share)


def _tell(share: list[tuple[Job, Any]]) -> None:
    for job, result in share:
        answer = job.answer
        if answer is None or answer.done():  # the caller was cancelled; the work is on record all the same
            continue
        if job.error is None:
            answer.set_result(result)
        else:
            answer.set_exception(_sayable(job.verb, job.error))


def _sayable(verb: str, error: BaseException) -> Exception:
    """An error that may be raised in another thread.

    ``SystemExit``, ``CancelledError`` or ``StopIteration`` would end the caller's loop or be
    misread by it; they arrive as the bug in the verb that they are.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"the store verb {verb} raised {error!r}")
    wrapped.__cause__ = error
    return wrapped
