"""The data of the first released schema in the newest program.

``first_schema.sql`` holds what a store of version 1 held, row by row; it was written once, by
``python -m tests.migration.house``, and is not written anew after the release: a program that
cannot read it any more cannot read what people have.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from angelia.model.outcomes import Accepted
from angelia.model.plan import next_step
from angelia.model.states import State
from angelia.store import views
from angelia.store.connection import integrity_problems, open_connection
from angelia.store.invariants import problems
from angelia.store.ledger import OwnerKind
from angelia.store.migrate import migrate, migrations
from angelia.store.sqlite import SqliteLedger
from angelia.testing.clock import TestClock
from angelia.testing.ledger_desk import PROMISE, Desk

ROWS = Path(__file__).with_name("first_schema.sql")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store as version 1 left it."""
    path = tmp_path / "state.db"
    connection = open_connection(path)
    assert migrate(connection, up_to=1) == 1
    connection.execute("BEGIN; " + ROWS.read_text(encoding="utf-8") + "COMMIT;").fetchall()
    connection.close()
    return path


def test_there_is_a_row_in_every_state(store: Path) -> None:
    connection = open_connection(store, read_only=True)
    found = {row[0] for row in connection.execute("SELECT DISTINCT state FROM deliveries")}
    assert found == {state.value for state in State}
    turns = {row[0] for row in connection.execute("SELECT DISTINCT state FROM turns")}
    assert turns >= {"waiting", "running", "answered"}
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        if not str(table).startswith("sqlite_"):
            assert connection.execute(f"SELECT count(*) FROM {table}").get, f"{table} has rows"
    connection.close()


async def test_the_newest_program_reads_and_goes_on_with_all_of_it(store: Path) -> None:
    clock = TestClock()
    before = open_connection(store, read_only=True)
    ids = {str(row[0]): str(row[1]) for row in before.execute("SELECT id, state FROM deliveries")}
    texts = before.execute("SELECT delivery, number, text, receipt FROM parts ORDER BY 1, 2").fetchall()
    before.close()
    ledger = SqliteLedger(store, clock)
    try:
        assert await ledger.read(lambda c: int(str(c.pragma("user_version")))) == len(migrations())
        assert await ledger.read(integrity_problems) == []
        assert await ledger.read(lambda c: problems(c, clock.wall)) == []
        after = await ledger.read(
            lambda c: c.execute("SELECT delivery, number, text, receipt FROM parts ORDER BY 1, 2").fetchall()
        )
        assert after == texts
        for delivery, state in ids.items():
            record = await ledger.record(delivery)
            assert record.state == state
            next_step(record, PROMISE, clock.now())
            story = await ledger.read(partial(views.timeline, name=delivery, now=clock.now()))
            assert delivery in [one.view.id for one in story.deliveries]
        await ledger.start("a new gateway", OwnerKind.DAEMON)
        taken = await ledger.take_over("a new gateway", lock_held=True)
        assert (taken.deliveries, taken.turns) == (1, 1)
        assert await ledger.read(lambda c: problems(c, clock.wall)) == []
    finally:
        await ledger.close()


async def test_what_it_owes_can_be_sent(store: Path) -> None:
    desk = Desk(lambda clock: SqliteLedger(store, clock))
    try:
        owner = "a new gateway"
        await desk.ledger.start(owner, OwnerKind.DAEMON)
        await desk.ledger.take_over(owner, lock_held=True)
        reader = open_connection(store, read_only=True)
        found = views.list_deliveries(reader, desk.clock.now(), state="pending")
        reader.close()
        assert found
        for view in found:
            record = await desk.ledger.record(view.id)
            if record.due_at is not None and record.due_at <= desk.clock.steady:
                sent = await desk.send(record, owner, *(Accepted(str(n)) for n in range(view.parts)))
                assert sent.state is State.DELIVERED
    finally:
        await desk.close()
