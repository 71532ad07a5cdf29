"""Where the rows of a simulated world lie: in memory for most worlds, in a file for some.

Everybody in a world lives in one thread and works inline, so no two transactions ever overlap:
one connection tells the same story as many. In memory the ledger's statements, constraints,
triggers and rollbacks are the real ones; only the system calls are missing, which were more
than a third of a world's price. What only a file can show (several connections, the WAL, an
opening that migrates and checks) is shown by the worlds of the kind "file".

The schema is migrated once per process and copied into each world.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import apsw
from tests.simulation.witness import TRIGGERS

from angelia.seams.clock import Clock
from angelia.store.connection import open_connection
from angelia.store.migrate import migrate
from angelia.store.reader import Reader
from angelia.store.sqlite import SqliteLedger
from angelia.store.writer import Writer


class _Shared(apsw.Connection):
    """The one connection of a world in memory; nobody but the world closes it."""

    def close(self, force: bool = False) -> None:
        if self.in_transaction:
            self.execute("ROLLBACK")


@functools.cache
def _template() -> apsw.Connection:
    """An empty store of this version, with the witness's triggers."""
    connection = _in_memory(apsw.Connection(":memory:"))
    migrate(connection)
    connection.execute(TRIGGERS).fetchall()
    return connection


def _in_memory(connection: apsw.Connection) -> apsw.Connection:
    """What ``open_connection`` sets and what means something without a file."""
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    connection.pragma("trusted_schema", False)
    connection.pragma("temp_store", "memory")
    connection.pragma("foreign_keys", True)
    return connection


class _LedgerInMemory(SqliteLedger):
    """The real verbs on a connection that is open already."""

    def __init__(self, connection: apsw.Connection, clock: Clock) -> None:
        self.path = Path(":memory:")
        self._clock = clock
        self._writer = Writer(lambda: connection, inline=True)
        self._reader = Reader(lambda: connection, inline=True)


class WorldStore:
    """The rows of one world. ``look``: a connection for checkers, which only read."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._shared: apsw.Connection | None = None
        self._other: apsw.Connection | None = None
        if path is None:
            self._shared = _Shared(":memory:", statementcachesize=512)
            with self._shared.backup("main", _template(), "main") as copy:
                while not copy.done:
                    copy.step()
            self.look = _in_memory(self._shared)
            return
        connection = open_connection(path)
        migrate(connection)
        connection.execute(TRIGGERS).fetchall()
        connection.close()
        self.look = open_connection(path, read_only=True)

    def ledger(self, clock: Clock) -> SqliteLedger:
        """One more opening of the store."""
        if self._path is None:
            return _LedgerInMemory(self.look, clock)
        ledger = SqliteLedger(self._path, clock, inline=True)
        ledger._writer = Writer(self.open, inline=True, patience_s=0.0, pause=lambda _: None)
        return ledger

    def open(self) -> apsw.Connection:
        """A connection that does not wait in real time for a lock of another one."""
        connection = open_connection(str(self._path))
        connection.set_busy_timeout(0)
        return connection

    def hinder(self) -> str:
        """What a store really meets: no room for one more page or, in a file, the lock of another
        process. Returns which; lasts until ``heal``."""
        if self._shared is None:
            self._other = open_connection(str(self._path))
            self._other.execute("BEGIN IMMEDIATE")
            return "locked by another process"
        self._shared.pragma("max_page_count", self._shared.pragma("page_count"))
        return "out of space"

    def heal(self) -> None:
        if self._shared is not None:
            self._shared.pragma("max_page_count", 1_000_000)
        elif self._other is not None:
            self._other.close()
            self._other = None

    def ask(self, sql: str, given: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self.look.execute(sql, given).fetchall()

    def close(self) -> None:
        """Once all its ledgers are closed."""
        self.heal()
        if self._shared is None:
            self.look.close()
        else:
            apsw.Connection.close(self._shared, True)
