"""Each verb of the ledger is one transaction: no death finds half of it on record.

The exam of every ledger asks what a verb left behind when it returned. Here the process dies
right after the first commit that a verb makes, or just before it, and the next opening must
find all of the verb or nothing (the canary ``02-two-commits-where-one-is-needed``).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from angelia.model.messages import Usage
from angelia.model.outcomes import Accepted
from angelia.model.states import RunEnd, State
from angelia.seams import crash
from angelia.store.sqlite import SqliteLedger
from angelia.testing.ledger_desk import ADAPTER
from angelia.testing.ledger_exam import Desk
from angelia.testing.ledger_exam_turns import answer, running

RAM = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class DiedError(Exception):
    """The process is gone."""


@pytest.fixture
def store() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="angelia-one-commit-", dir=RAM))
    yield folder / "state.db"
    shutil.rmtree(folder)


@contextmanager
def dies_at(end: str) -> Iterator[None]:
    """The process dies at the next point whose name ends so."""

    def look(name: str) -> None:
        if name.endswith(end):
            raise DiedError(name)

    crash.install(look)
    try:
        yield
    finally:
        crash.install(None)


async def death(verb: Callable[[], Awaitable[object]], end: str) -> None:
    with dies_at(end), pytest.raises(DiedError):
        await verb()


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        ("before_commit", [("user", "running")]),
        ("after_commit", [("user", "answered"), ("assistant", "pending")]),
    ],
)
async def test_an_answer_and_its_delivery_are_both_on_record_or_neither(
    store: Path, end: str, lines: list[tuple[str, str]]
) -> None:
    desk = Desk(lambda clock: SqliteLedger(store, clock, inline=True))
    turn = await running(desk, await desk.owner())
    told, run = answer(turn), f"run of {turn.id}"
    await death(lambda: desk.ledger.finish_turn(turn, run, RunEnd.ANSWERED, Usage(3, 5), delivery=told), end)
    found = await desk.another().history(ADAPTER, "chat", 9)
    assert [(line.role, line.state) for line in found] == lines, "half of an answer is on record"
    await desk.close()


@pytest.mark.parametrize(
    ("end", "state", "attempts"), [("before_commit", State.PENDING, 0), ("after_commit", State.ATTEMPTING, 1)]
)
async def test_a_claim_and_its_attempt_are_both_on_record_or_neither(
    store: Path, end: str, state: State, attempts: int
) -> None:
    desk = Desk(lambda clock: SqliteLedger(store, clock, inline=True))
    owner, record = await desk.owner(), await desk.notice()
    await death(lambda: desk.try_claim(record, owner), end)
    left = await desk.another().record(record.id)
    assert (left.state, len(left.attempts)) == (state, attempts), "half of a claim is on record"
    await desk.close()


@pytest.mark.parametrize(("end", "received", "attempts"), [("before_commit", 0, 1), ("after_commit", 1, 2)])
async def test_a_receipt_and_the_next_attempt_are_both_on_record_or_neither(
    store: Path, end: str, received: int, attempts: int
) -> None:
    desk = Desk(lambda clock: SqliteLedger(store, clock, inline=True))
    owner, record = await desk.owner(), await desk.ledger.enqueue(desk.new("chat", "", ("one", "two")))
    claim, record = await desk.claim(record, owner)
    change, going_on = desk.change(record, Accepted("r"))
    assert going_on is not None
    await death(lambda: desk.ledger.advance(claim, change), end)
    left = await desk.another().record(record.id)
    receipts = sum(part.receipt is not None for part in left.parts)
    assert (receipts, len(left.attempts)) == (received, attempts), "half of an outcome is on record"
    await desk.close()
