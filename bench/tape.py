"""A tape of what a store really executed, recorded by SQLite's own trace.

A benchmark of "the same SQL" that writes the SQL down a second time measures something else
as soon as the first copy changes. So nothing is written down: every statement text and its
values are recorded while the real ledger works, ``BEGIN`` and ``COMMIT`` included.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

Statement = tuple[str, Any]

_ENDS_OF_TRANSACTION = ("COMMIT", "END", "RELEASE")


@dataclass(slots=True)
class Tape:
    """What one connection executed: ``before`` the clock started (settings, schema, warm-up)
    and while it ran."""

    at_once: int
    replies: int
    before: list[Statement] = field(default_factory=list)
    timed: list[Statement] = field(default_factory=list)

    @property
    def commits(self) -> int:
        return sum(sql.lstrip().upper().startswith(_ENDS_OF_TRANSACTION) for sql, _ in self.timed)

    def write(self, path: Path) -> None:
        path.write_bytes(pickle.dumps(self))

    @classmethod
    def read(cls, path: Path) -> Tape:
        tape = pickle.loads(path.read_bytes())
        if not isinstance(tape, cls):
            raise TypeError(f"{path.name} is not a tape")
        return tape


class Recorder:
    """Listens on every connection that this process opens from now on.

    ``tape`` keeps the one that committed most, which is the ledger's writer: readers beside it
    are no part of the limit.
    """

    def __init__(self) -> None:
        self._heard: list[list[Statement]] = []
        self._marks: list[int] = []

    def listen(self) -> None:
        """Hook into APSW; call before the ledger is opened."""
        apsw.connection_hooks.append(self._opened)

    def mark(self) -> None:
        """The clock starts now: what follows is the timed part."""
        self._marks = [len(statements) for statements in self._heard]

    def tape(self, at_once: int, replies: int) -> Tape:
        """The writer's tape. Call while the ledger is still open, before it cleans up."""
        timed = [
            Tape(at_once, replies, statements[:mark], statements[mark:])
            for statements, mark in zip(self._heard, self._marks, strict=False)
        ]
        tape = max(timed, key=lambda candidate: candidate.commits)
        if not tape.commits:
            raise RuntimeError("nothing was committed while the tape ran")
        return tape

    def _opened(self, connection: apsw.Connection) -> None:
        statements: list[Statement] = []
        self._heard.append(statements)

        def heard(_cursor: object, sql: str, values: Any) -> bool:
            statements.append((sql, values))
            return True

        connection.exec_trace = heard
