"""A small house in one store: rows of every table in every state, made by the ledger itself.

``furnish`` fills a ledger; ``dump`` writes what it holds as INSERT statements, which is how
``first_schema.sql`` came to be (``python -m tests.migration.house``).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import apsw

from angelia.model.messages import NO_USAGE, Usage
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    ContentFault,
    Moved,
    NotSent,
    RateLimited,
    Refused,
    Scope,
    Unconfirmed,
    Unreachable,
)
from angelia.model.states import Event, RunEnd
from angelia.seams.clock import Clock
from angelia.store import sqlite_operator as orders
from angelia.store.ledger import OwnerKind
from angelia.store.sqlite import SqliteLedger
from angelia.testing.ledger_desk import Desk


async def furnish(desk: Desk) -> None:
    """Something of everything, with clocks that do not move by themselves."""
    ledger = desk.ledger
    assert isinstance(ledger, SqliteLedger)
    gone = await desk.owner()
    await ledger.retire(gone)
    owner = await desk.owner()
    await desk.notice("pending", texts=("one", "two", "three"))
    await desk.claim(await desk.notice("attempting", texts=("ä", "ö" * 700)), owner)
    await desk.send(await desk.notice("refused"), owner, Refused("no"))
    await desk.send(await desk.notice("unconfirmed"), owner, Unconfirmed("timeout"))
    await desk.send(await desk.notice("partly", texts=("one", "two")), owner, Accepted("r1"), Unconfirmed())
    await desk.send(await desk.notice("not sent"), owner, NotSent("refused connection"))
    await desk.send(await desk.notice("limited"), owner, RateLimited(20.0, Scope.CHAT))
    await desk.send(await desk.notice("delivered"), owner, Accepted("r2"))
    await desk.send(
        await desk.notice("split", texts=("x" * 600,)),
        owner,
        BadContent(ContentFault.TOO_LONG),
        Accepted("a"),
        Accepted("b"),
    )
    await desk.send(await desk.notice("moved"), owner, Moved("moved to"), Accepted("r3"))
    await desk.send(await desk.notice("unreachable"), owner, Unreachable("blocked"))
    cancelled = await desk.notice("cancelled")
    await ledger.operate("operate", lambda c, now: orders.cancel(c, cancelled.id, now))
    again = desk.new_id("again")
    await ledger.operate("operate", lambda c, now: orders.send_again(c, cancelled.id, again, now))
    marked = await desk.send(await desk.notice("marked"), owner, Refused())
    await ledger.operate("operate", lambda c, now: orders.mark_delivered(c, marked.id, now))
    stale = await desk.notice("stale")
    await ledger.settle(stale, Event.GREW_STALE)
    await _turns(desk, owner)
    await ledger.start(desk.new_id("library"), OwnerKind.LIBRARY)


async def _turns(desk: Desk, owner: str) -> None:
    answered = await desk.run(await desk.turn("asked"), owner)
    assert answered is not None
    new = desk.new("asked", texts=("the answer " * 30,))
    usage = Usage(12, 34, "model")
    await desk.ledger.finish_turn(answered, f"run of {answered.id}", RunEnd.ANSWERED, usage, "", new)
    failed = await desk.run(await desk.turn("failed run"), owner)
    assert failed is not None
    sorry = desk.new("failed run", texts=("sorry",))
    await desk.ledger.finish_turn(failed, f"run of {failed.id}", RunEnd.ERROR, NO_USAGE, "boom", sorry)
    await desk.ledger.new_conversation(answered.lane)
    await desk.run(await desk.turn("running", text="why? " * 100), owner)
    await desk.turn("waiting")


def dump(path: Path) -> str:
    """Every row of a store as one INSERT statement a line; the pulse, which is chance, left out."""
    connection = apsw.Connection(str(path))
    lines = []
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    ).fetchall()
    for (table,) in tables:
        if table == "pulse":
            continue
        columns = [row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        for row in connection.execute(f"SELECT {', '.join(columns)} FROM {table}"):
            values = ", ".join(apsw.format_sql_value(value) for value in row)
            lines.append(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values});")
    connection.close()
    return "\n".join(lines) + "\n"


async def _rows() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"

        def opened(clock: Clock) -> SqliteLedger:
            return SqliteLedger(path, clock, inline=True)

        desk = Desk(opened)
        await furnish(desk)
        await desk.close()
        return dump(path)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(asyncio.run(_rows()), encoding="utf-8")
