"""The ledger of hermes-agent 0.19.0, measured as its own gateway calls it.

Runs with the Python of the peer's virtual environment, from the repository root:
``python -m bench.hermes_worker --home DIR --at-once 16 --replies 300``. What its gateway does
around one final reply was read in ``gateway/platforms/base.py`` of that release:

1. on the event loop, without a worker thread: ``ledger_enabled()`` (reads the configuration),
   ``compute_obligation_id``, ``record_obligation``, ``mark_attempting``;
2. the send is awaited (here: nothing, one turn of the loop);
3. on the event loop again: ``mark_delivered``.

Three ways to run, so that nobody has to take our choice on trust:

* ``gateway``: exactly that, on a ``state.db`` as its gateway has it, with its session
  database open. **This is the one our figures are compared with.**
* ``bare``: its verbs alone at their best: no configuration gate, and a ``state.db`` that holds
  nothing else. (Every ledger call opens a connection of its own, which reads the schema of
  the whole file, so the session tables cost it about a third.)
* ``threads``: as ``gateway`` without the gate, each verb through ``asyncio.to_thread``, as other
  releases call it.

In the peer's favour in all of them: a ``config.yaml`` exists, so that its configuration cache
can work, and the run stays below its 500-row cap, beyond which each reply also pays for
deleting an old row.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.driver import WARM_UP_REPLIES, Sample, drive, reply_text

WAYS = ("gateway", "bare", "threads")

#: The peer's own cap on rows; a measurement stays below it.
ROWS_MAX = 500


def _session_key(number: int) -> str:
    return f"agent:main:webhook:dm:chat-{number % 1000}"


def inline_reply(ledger: Any, gated: bool) -> Callable[[int], Awaitable[None]]:
    """The calls of 0.19.0: on the event loop, one after the other."""

    async def reply(number: int) -> None:
        if gated and not ledger.ledger_enabled():
            raise RuntimeError("the peer's ledger is switched off: this would measure nothing")
        text, session_key = reply_text(number), _session_key(number)
        obligation = ledger.compute_obligation_id(session_key, f"message-{number}", text)
        ledger.record_obligation(
            obligation_id=obligation,
            session_key=session_key,
            platform="webhook",
            chat_id=f"chat-{number % 1000}",
            thread_id=None,
            content=text,
        )
        ledger.mark_attempting(obligation)
        await asyncio.sleep(0)  # the send
        ledger.mark_delivered(obligation)

    return reply


def threaded_reply(ledger: Any) -> Callable[[int], Awaitable[None]]:
    """The same verbs, each through a worker thread, as other releases call them."""

    async def reply(number: int) -> None:
        text, session_key = reply_text(number), _session_key(number)
        obligation = ledger.compute_obligation_id(session_key, f"message-{number}", text)
        await asyncio.to_thread(
            ledger.record_obligation,
            obligation_id=obligation,
            session_key=session_key,
            platform="webhook",
            chat_id=f"chat-{number % 1000}",
            thread_id=None,
            content=text,
        )
        await asyncio.to_thread(ledger.mark_attempting, obligation)
        await asyncio.sleep(0)  # the send
        await asyncio.to_thread(ledger.mark_delivered, obligation)

    return reply


def measure(home: Path, way: str, replies: int, at_once: int) -> Sample:
    """Measure on a fresh ``home`` and check that every reply ended as delivered."""
    (home / "config.yaml").write_text("gateway:\n  delivery_ledger: true\n", encoding="utf-8")
    os.environ["HERMES_HOME"] = str(home)
    # Imported late: the peer resolves its home while it is imported.
    import hermes_state  # type: ignore[import-not-found,unused-ignore]
    from gateway import delivery_ledger as ledger  # type: ignore[import-not-found,unused-ignore]

    sessions = None if way == "bare" else hermes_state.SessionDB()
    reply = threaded_reply(ledger) if way == "threads" else inline_reply(ledger, gated=way == "gateway")
    try:
        sample = asyncio.run(drive(f"hermes-{way}", reply, replies, at_once))
    finally:
        if sessions is not None:
            sessions.close()
    with ledger._connect() as connection:  # its own way to open, so its own settings are read
        rows = dict(connection.execute("SELECT state, COUNT(*) FROM delivery_obligations GROUP BY state"))
        synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
        journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if rows != {"delivered": replies + WARM_UP_REPLIES}:
        raise RuntimeError(f"the peer's ledger does not hold what was measured: {rows}")
    sample.notes = {"sqlite": sqlite3.sqlite_version, "journal_mode": journal, "synchronous": synchronous}
    return sample


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--home", type=Path, required=True, help="a fresh, empty folder")
    parser.add_argument("--at-once", type=int, required=True)
    parser.add_argument("--replies", type=int, required=True)
    parser.add_argument("--way", choices=WAYS, default=WAYS[0])
    parser.add_argument("--out", type=Path, help="where the JSON goes (default: standard output)")
    given = parser.parse_args(arguments)
    if given.replies + WARM_UP_REPLIES > ROWS_MAX:
        parser.error(f"at most {ROWS_MAX - WARM_UP_REPLIES} replies: the peer deletes rows beyond {ROWS_MAX}")
    measure(given.home, given.way, given.replies, given.at_once).write(given.out)


if __name__ == "__main__":
    main(sys.argv[1:])
