"""The one reader of the store: a thread with a read-only connection, beside the writer.

In WAL mode a reader waits for no writer and no writer for it. Each piece of work sees one
snapshot, however many statements it makes; what was committed before it began is in it.
Nothing can be written here: the connection is opened read-only and says so again with
``query_only``. After trouble the connection is opened anew for the next caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from angelia.model import limits
from angelia.model.errors import StoreDamagedError, StoreUnavailableError
from angelia.seams import blocking
from angelia.store.connection import StoreBusy, classify, close_quietly, patiently
from angelia.store.worker import Job, Worker

T = TypeVar("T")

questions_at_once_max = 64  # answered before the event loops are woken


class Reader:
    """Answers questions about the store. ``inline``: in the caller, no thread (simulation)."""

    def __init__(
        self,
        open: Callable[[], apsw.Connection],
        *,
        inline: bool = False,
        patience_s: float = limits.store_patience_s,
        monotonic: Callable[[], float] = blocking.monotonic,
        pause: Callable[[float], None] = blocking.pause,
    ) -> None:
        self._open = open
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._pause = pause
        self._connection: apsw.Connection | None = None
        self._closed = False
        self._worker = (
            None if inline else Worker("angelia-reader", self._serve, self._discard, questions_at_once_max)
        )

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """What ``work`` finds in one snapshot of the store.

        Raises what ``work`` raises, or ``StoreUnavailableError``, ``StoreDamagedError``.
        """
        if self._worker is None:
            return self._answer(work)
        return await self._worker.run("a question", work)

    def run_blocking(self, work: Callable[[apsw.Connection], T]) -> T:
        """As ``run``, for a caller without an event loop."""
        if self._worker is None:
            return self._answer(work)
        return self._worker.run_blocking("a question", work)

    async def close(self) -> None:
        """Answer what waits, then close the connection. May be called again."""
        if self._worker is None:
            self.close_blocking()
        else:
            await asyncio.to_thread(self.close_blocking)

    def close_blocking(self) -> None:
        """As ``close``, for a caller without an event loop."""
        self._closed = True
        if self._worker is None:
            self._discard()
        else:
            self._worker.close_blocking()

    def _serve(self, jobs: list[Job]) -> list[Any]:
        results: list[Any] = []
        for job in jobs:
            try:
                results.append(self._answer(job.work, asked_before_the_end=True))
            except BaseException as error:
                job.error = error
                results.append(None)
        return results

    def _answer(self, work: Callable[[apsw.Connection], T], *, asked_before_the_end: bool = False) -> T:
        if self._closed and not asked_before_the_end:
            raise StoreUnavailableError("the store is closed")
        return patiently(
            lambda: self._attempt(work),
            patience_s=self._patience_s,
            monotonic=self._monotonic,
            pause=self._pause,
            stop=lambda: self._closed,
        )

    def _attempt(self, work: Callable[[apsw.Connection], T]) -> T:
        connection = self._connected()
        try:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")  # nothing was written; this ends the snapshot
        except apsw.Error as error:
            named = classify(error, connection.filename)
            if named is error:
                raise
            if not isinstance(named, StoreBusy):
                self._discard()
            raise named from error
        except (StoreUnavailableError, StoreDamagedError):
            self._discard()
            raise

    def _connected(self) -> apsw.Connection:
        if self._connection is None:
            try:
                self._connection = self._open()
            except apsw.Error as error:
                raise classify(error) from error
        return self._connection

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            close_quietly(connection)
