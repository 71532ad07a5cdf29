"""The one writer of the store: one connection, one thread, one queue, group commit.

A verb of the ledger is a plain function that is given the connection. The thread takes
all waiting verbs, runs them in one transaction, commits once, and only then tells the
callers. So one sync of the disk pays for many verbs, and a lone verb waits for nobody.

What it promises:

* **Told means committed.** No caller hears a result before the commit that holds it.
* **One faulty verb harms nobody else.** A batch in which a verb raises is rolled back and
  its verbs run again, each in a transaction of its own; only the faulty one fails.
* **Trouble fails the whole batch cleanly**: disk full, failed write, failed sync; the
  connection is opened anew for the next one.
* **After a failed sync nothing is appended to that WAL.** The system has marked its unsynced
  bytes as clean: they are read, but never reach the disk, and whatever is appended behind them
  is lost with them however well it is synced. To close and reopen is not enough, worse: the
  recovery would find the refused commit. So first the good part of the WAL is moved into the
  database file and the WAL is emptied (a checkpoint on the very connection that failed);
  until that succeeds, every verb is refused. A WAL found at the start is emptied, too.
* **Busy is no trouble**: a store locked by another process is asked again for a while.

Verbs may therefore run several times before they are told; they keep their results to
themselves until they return. A crash before the commit leaves nothing of the batch, a
crash after it leaves all of it. One doubt remains that no program can remove: a commit
that failed at its sync was refused, yet if the process dies before the WAL could be emptied,
the next start may find it whole. That is why every verb is repeatable by id.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from angelia.model import limits
from angelia.model.errors import StoreDamagedError, StoreUnavailableError
from angelia.seams import blocking, crash
from angelia.store.connection import StoreBusy, classify, close_quietly, patiently
from angelia.store.worker import Job, Worker

T = TypeVar("T")

jobs_at_once_max = 512  # verbs in one transaction: bounds the wait and the work that is redone


class _FaultyJob(Exception):
    """One job of a batch raised by itself. The batch is rolled back already."""

    def __init__(self, job: Job, error: BaseException) -> None:
        super().__init__(job.verb)
        self.job = job
        self.error = error


class Writer:
    """Runs store verbs in committed transactions.

    ``open`` gives a writable connection; it is called when the first verb comes and after
    each trouble. With ``inline`` there is no thread: each verb runs in its caller, in a
    transaction of its own (simulation). ``patience_s``: how long a locked store is asked
    again, on ``monotonic`` and with ``pause`` between.
    """

    def __init__(
        self,
        open: Callable[[], apsw.Connection],
        *,
        inline: bool = False,
        patience_s: float = limits.store_patience_s,
        most_at_once: int = jobs_at_once_max,
        monotonic: Callable[[], float] = blocking.monotonic,
        pause: Callable[[float], None] = blocking.pause,
    ) -> None:
        self._open = open
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._pause = pause
        self._connection: apsw.Connection | None = None
        self._wal_is_suspect = False
        self._wal_pages = 0
        self._wal_pages_most = 0
        self._trouble: str | None = None
        self._closed = False
        self._worker = (
            None
            if inline
            else Worker("angelia-writer", self._serve, self._discard, most_at_once, self._checkpoint)
        )

    @property
    def trouble(self) -> str | None:
        """The last failure of the store that no successful commit has followed yet."""
        return self._trouble

    async def run(self, verb: str, work: Callable[[apsw.Connection], T]) -> T:
        """Run ``work`` in a transaction; its result is on record when this returns.

        Raises what ``work`` raises (nothing of it is on record then), or
        ``StoreUnavailableError``, ``StoreDamagedError``. A cancelled caller's work may
        still be committed. ``verb`` names the crash points around the commit.
        """
        if self._worker is None:
            return self._inline(verb, work)
        return await self._worker.run(verb, work)

    def run_blocking(self, verb: str, work: Callable[[apsw.Connection], T]) -> T:
        """As ``run``, for a caller without an event loop."""
        if self._worker is None:
            return self._inline(verb, work)
        return self._worker.run_blocking(verb, work)

    async def close(self) -> None:
        """Commit what waits, then close the connection. May be called again."""
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

    # -- in the caller (simulation) ----------------------------------------------------------

    def _inline(self, verb: str, work: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise StoreUnavailableError("the store is closed")
        try:
            result: T = self._committed([Job(verb, work)])[0]
        except _FaultyJob as faulty:
            error = faulty.error
        else:
            self._checkpoint()
            return result
        raise error

    # -- in the thread -----------------------------------------------------------------------

    def _serve(self, jobs: list[Job]) -> list[Any]:
        """Settle a batch: results in order, errors on their jobs."""
        try:
            return self._committed(jobs)
        except _FaultyJob as faulty:
            if len(jobs) == 1:
                faulty.job.error = faulty.error
                return [None]
        except Exception as error:
            for job in jobs:
                job.error = _own_copy(error)
            return [None] * len(jobs)
        return self._one_by_one(jobs)

    def _one_by_one(self, jobs: list[Job]) -> list[Any]:
        results: list[Any] = []
        down: BaseException | None = None
        for job in jobs:
            if down is None:
                results += self._serve([job])
                if isinstance(job.error, StoreUnavailableError):
                    down = job.error  # the next ones would only wait as long for the same answer
            else:
                job.error = _own_copy(down)
                results.append(None)
        return results

    def _committed(self, jobs: list[Job]) -> list[Any]:
        """The results of all jobs, after the one commit that holds them.

        Raises ``_FaultyJob`` for one that raised by itself, or the store's trouble.
        """
        try:
            return patiently(
                lambda: self._attempt(jobs),
                patience_s=self._patience_s,
                monotonic=self._monotonic,
                pause=self._pause,
                stop=lambda: self._closed,
            )
        except (StoreUnavailableError, StoreDamagedError) as error:
            self._trouble = str(error)
            raise

    def _attempt(self, jobs: list[Job]) -> list[Any]:
        """One transaction. Whatever it raises, nothing of it is left open."""
        connection = self._connected()
        try:
            connection.execute("BEGIN IMMEDIATE")
            results = self._results(connection, jobs)
            if crash.armed():
                for job in jobs:
                    crash.point(f"{job.verb}.before_commit")
            self._commit(connection, jobs)
        except apsw.Error as error:
            named = classify(error, connection.filename)
            self._undo(connection, named, suspect=isinstance(error, apsw.IOError))
            raise named from error
        except BaseException as error:
            self._undo(connection, error, suspect=isinstance(error, StoreUnavailableError))
            raise
        self._trouble = None
        if crash.armed():
            for job in jobs:
                crash.point(f"{job.verb}.after_commit")
        return results

    def _results(self, connection: apsw.Connection, jobs: list[Job]) -> list[Any]:
        results: list[Any] = []
        add = results.append
        job = jobs[0]
        try:
            for job in jobs:
                add(job.work(connection))
        except BaseException as error:
            if _is_trouble(error, alone=len(jobs) == 1):
                raise
            raise _FaultyJob(job, error) from error
        if not connection.in_transaction:
            raise RuntimeError(f"a store verb ended the transaction of {[job.verb for job in jobs]}")
        return results

    def _commit(self, connection: apsw.Connection, jobs: list[Job]) -> None:
        try:
            connection.execute("COMMIT")
        except apsw.ConstraintError as error:
            # A deferred foreign key speaks up only here. In a batch nobody knows whose it is:
            # run alone, the guilty verb is the one whose commit fails.
            raise _FaultyJob(jobs[0], error) from error

    def _undo(self, connection: apsw.Connection, error: BaseException, *, suspect: bool) -> None:
        """Leave no transaction open, and after trouble no connection that may lie."""
        broken = isinstance(error, (StoreUnavailableError, StoreDamagedError))
        broken = broken and not isinstance(error, StoreBusy)
        try:
            if connection.in_transaction:  # a full disk has often rolled back by itself
                connection.execute("ROLLBACK")
        except apsw.Error:
            broken = True
        if broken and suspect:
            self._wal_is_suspect = True
            with contextlib.suppress(Exception):  # while the disk stays broken, the next batch tries again
                self._renew(connection)
        elif broken:
            self._discard()

    # -- the connection ----------------------------------------------------------------------

    def _connected(self) -> apsw.Connection:
        """A connection on which a commit can be believed."""
        if self._connection is not None and self._wal_is_suspect:
            self._renew(self._connection)
        if self._connection is None:
            try:
                connection = self._open()
            except apsw.Error as error:
                raise classify(error) from error
            self._wal_pages = 0
            self._wal_pages_most = int(str(connection.pragma("wal_autocheckpoint")))
            # Instead of SQLite's own: a checkpoint inside COMMIT makes callers wait for it.
            connection.set_wal_hook(self._note_wal_pages)
            try:
                # A WAL left by a process that died after a failed sync. Busy: others are at work,
                # so it is no such one.
                with contextlib.suppress(StoreBusy):
                    _empty_wal(connection)
            except BaseException:
                close_quietly(connection)
                raise
            self._connection = connection
        return self._connection

    def _renew(self, connection: apsw.Connection) -> None:
        """Empty a suspect WAL, then open anew. Raises if the disk is still in trouble."""
        _empty_wal(connection)
        self._wal_is_suspect = False
        self._discard()

    def _note_wal_pages(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move a long WAL into the database file, once the callers have been told.

        A failure loses nothing: the pages stay in the WAL and are written again next time.
        """
        if not 0 < self._wal_pages_most <= self._wal_pages or self._connection is None:
            return
        self._wal_pages = 0  # known again after the next commit
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            if not isinstance(named := classify(error, self._connection.filename), StoreBusy):
                self._trouble = str(named)

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            close_quietly(connection)


def _empty_wal(connection: apsw.Connection) -> None:
    """Move all committed pages into the database file and cut the WAL to nothing."""
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.Error as error:
        raise classify(error, connection.filename) from error


def _is_trouble(error: BaseException, *, alone: bool) -> bool:
    """Whether an error raised inside a verb is the store's, not the verb's.

    Damage in a batch counts as the verb's: run alone, those that touch sound pages succeed.
    """
    named = classify(error) if isinstance(error, apsw.Error) else error
    return isinstance(named, StoreUnavailableError) or (alone and isinstance(named, StoreDamagedError))


def _own_copy(error: BaseException) -> BaseException:
    """One exception object per caller: a shared one would collect all their tracebacks."""
    if isinstance(error, (StoreUnavailableError, StoreDamagedError)):
        copy = type(error)(*error.args)
        copy.__cause__ = error.__cause__
        return copy
    return error
