"""The raw limit: the very statements our ledger executed, and nothing around them.

No event loop, no threads, no queue, no Python between two statements. The statements are not
written down a second time (they would drift); they are a **tape**, recorded by SQLite's own
trace while the real ledger worked: text and values of each statement in the order of its
execution, ``BEGIN`` and ``COMMIT`` included. Playing it back on a fresh store therefore does the
same work in transactions of the same size and must end in the same rows.

    python -m bench.ledger    --home A --at-once 256 --replies 8192 --tape tape.bin
    python -m bench.raw_limit --home B --tape tape.bin

A tape is a pickle: play only what you recorded yourself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import apsw

from angelia.store.connection import open_connection
from angelia.store.migrate import migrate
from bench.driver import Sample
from bench.tape import Statement, Tape


def play(connection: apsw.Connection, statements: Iterable[Statement]) -> None:
    """Execute the statements; rows that a statement returns are fetched and dropped."""
    execute = connection.execute
    for sql, values in statements:
        for _ in execute(sql, values):
            pass


def measure(home: Path, tape: Tape) -> Sample:
    """Play ``tape`` on a fresh store in ``home``, durably, and time its timed part."""
    connection = open_connection(home / "state.db")  # the ledger's own settings, every one
    migrate(connection)  # on a connection of its own in the ledger, so the tape does not have it
    play(connection, tape.before)
    settings: dict[str, str | int | float] = {
        "journal_mode": str(connection.execute("PRAGMA journal_mode").get),
        "synchronous": int(connection.execute("PRAGMA synchronous").get),
    }
    if settings != {"journal_mode": "wal", "synchronous": 2}:
        raise RuntimeError(f"the tape does not run under the ledger's own settings: {settings}")
    start = time.perf_counter()
    play(connection, tape.timed)
    seconds = time.perf_counter() - start
    connection.close()
    notes: dict[str, str | int | float] = {
        "sqlite": apsw.sqlite_lib_version(),
        **settings,
        "statements_per_reply": round(len(tape.timed) / tape.replies, 2),
        "replies_per_commit": round(tape.replies / tape.commits, 2),
    }
    return Sample("raw", tape.at_once, tape.replies, seconds, notes=notes)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Play back what the ledger executed, as fast as SQLite can.")
    parser.add_argument("--home", type=Path, required=True, help="a fresh, empty folder")
    parser.add_argument("--tape", type=Path, required=True, help="recorded by bench.ledger --tape")
    parser.add_argument("--out", type=Path, help="where the JSON goes (default: standard output)")
    given = parser.parse_args(arguments)
    measure(given.home, Tape.read(given.tape)).write(given.out)


if __name__ == "__main__":
    main(sys.argv[1:])
