"""The ledger on SQLite: the exam of every store, and the rules that its schema keeps by itself."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from angelia.model.outcomes import Accepted, Refused, Unconfirmed
from angelia.seams.clock import Clock, SystemClock
from angelia.store.connection import open_connection
from angelia.store.sqlite import SqliteLedger
from angelia.testing.clock import TestClock
from angelia.testing.ledger_desk import question
from angelia.testing.ledger_exam import QUESTIONS, Desk

#: A RAM disk where there is one: every commit waits for its sync.
RAM = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


@pytest.fixture
def store() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="angelia-exam-", dir=RAM))
    yield folder / "state.db"
    shutil.rmtree(folder)


@pytest.fixture
async def desk(store: Path) -> AsyncIterator[Desk]:
    def open_ledger(clock: Clock) -> SqliteLedger:
        return SqliteLedger(store, clock)

    desk = Desk(open_ledger)
    yield desk
    await desk.close()


@pytest.mark.parametrize("name", sorted(QUESTIONS))
async def test_exam(name: str, desk: Desk) -> None:
    await QUESTIONS[name](desk)


@pytest.mark.parametrize("name", sorted(QUESTIONS))
async def test_exam_inline(name: str, store: Path) -> None:
    """The way the simulation runs it: no threads, each verb in its caller."""
    desk = Desk(lambda clock: SqliteLedger(store, clock, inline=True))
    await QUESTIONS[name](desk)
    await desk.close()


def test_two_questions_of_one_name_are_refused() -> None:
    async def a_claim_needs_a_lease(_: Desk) -> None:
        """A name that is taken."""

    with pytest.raises(ValueError, match="a_claim_needs_a_lease"):
        question(a_claim_needs_a_lease)


# -- the schema keeps the rules against everybody ----------------------------------------------


async def rows_of_every_kind(desk: Desk) -> dict[str, str]:
    """The id of a delivery in each state."""
    owner = await desk.owner()
    pending = await desk.notice("pending")
    failed = await desk.send(await desk.notice("failed"), owner, Refused())
    delivered = await desk.send(await desk.notice("delivered"), owner, Accepted("r"))
    _, attempting = await desk.claim(await desk.notice("attempting"), owner)
    return {
        "pending": pending.id,
        "failed": failed.id,
        "delivered": delivered.id,
        "attempting": attempting.id,
    }


@pytest.mark.parametrize(
    ("of", "statement", "said"),
    [
        ("delivered", "UPDATE deliveries SET state = 'failed', ended_at = NULL WHERE id = ?1", "final"),
        (
            "delivered",
            "UPDATE deliveries SET state = 'abandoned', reason = 'stale' WHERE id = ?1",
            "final",
        ),
        ("attempting", "UPDATE deliveries SET fence = fence - 1 WHERE id = ?1", "fences only grow"),
        ("delivered", "UPDATE deliveries SET fence = 0 WHERE id = ?1", "fences only grow"),
        ("pending", "DELETE FROM deliveries WHERE id = ?1", "never deleted"),
        ("failed", "DELETE FROM deliveries WHERE id = ?1", "never deleted"),
        ("attempting", "DELETE FROM deliveries WHERE id = ?1", "never deleted"),
        (
            "attempting",
            "INSERT INTO attempts (delivery, number, part, revision, fence, owner, start, started_at) "
            "VALUES (?1, 2, 1, 1, 1, 'owner', 1, 1)",
            "UNIQUE constraint failed",
        ),
        ("delivered", "UPDATE parts SET receipt = 'other' WHERE delivery = ?1", "receipt is kept"),
        ("delivered", "UPDATE parts SET receipt = NULL WHERE delivery = ?1", "receipt is kept"),
        ("attempting", "UPDATE deliveries SET owner = NULL WHERE id = ?1", "CHECK"),
        ("pending", "UPDATE deliveries SET owner = 'somebody' WHERE id = ?1", "CHECK"),
        ("pending", "UPDATE deliveries SET state = 'abandoned', ended_at = 1 WHERE id = ?1", "CHECK"),
        ("failed", "UPDATE deliveries SET state = 'delivered' WHERE id = ?1", "CHECK"),
        ("failed", "UPDATE deliveries SET state = 'lost' WHERE id = ?1", "CHECK"),
        ("failed", "UPDATE deliveries SET tries = 4 WHERE id = ?1", "CHECK"),
        ("pending", "UPDATE parts SET text = '' WHERE delivery = ?1", "CHECK"),
        ("pending", "UPDATE deliveries SET written_at = 'yesterday' WHERE id = ?1", "INTEGER"),
    ],
)
async def test_the_schema_refuses(of: str, statement: str, said: str, desk: Desk, store: Path) -> None:
    rows = await rows_of_every_kind(desk)
    before = await desk.ledger.record(rows[of])
    connection = open_connection(store)
    with pytest.raises(apsw.ConstraintError, match=said):
        connection.execute(statement, (rows[of],))
    connection.close()
    assert await desk.ledger.record(rows[of]) == before


async def test_the_schema_keeps_ended_turns_and_keys(desk: Desk, store: Path) -> None:
    turn = await desk.turn()
    desk.clock.advance(24 * 3600)
    assert await desk.run(turn, await desk.owner()) is None
    connection = open_connection(store)
    with pytest.raises(apsw.ConstraintError, match="stays ended"):
        connection.execute("UPDATE turns SET state = 'waiting'")
    with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
        connection.execute(
            "INSERT INTO inbound SELECT NULL, profile, platform, chat, message_id, thread, user, user_name, "
            "text, reply_to, attachments, sent_at, first_seen_at, 'another turn' FROM inbound"
        )
    connection.close()


# -- beyond one process ------------------------------------------------------------------------

CLAIMER = """
import asyncio, sys
from pathlib import Path
from angelia.model.record import Revision
from angelia.seams.clock import SystemClock
from angelia.store.ledger import ClaimAnswer, OwnerKind
from angelia.store.sqlite import SqliteLedger

async def main():
    clock = SystemClock()
    ledger = SqliteLedger(Path(sys.argv[1]), clock)
    owner = sys.argv[2]
    rows = [await ledger.record(f"row{n}") for n in range(int(sys.argv[3]))]
    print("ready", flush=True)
    sys.stdin.readline()
    await ledger.start(owner, OwnerKind.LIBRARY)
    answers = await asyncio.gather(
        *(ledger.claim(row, owner, Revision(1, 1), clock.now().wall) for row in rows)
    )
    print(" ".join(row.id for row, a in zip(rows, answers) if a is ClaimAnswer.GRANTED), flush=True)
    await ledger.close()

asyncio.run(main())
"""


async def test_m4_processes_that_race_for_rows_get_each_row_once(store: Path) -> None:
    """Real processes on one file, released at one moment: each row is somebody's, and one's only."""
    rows, claimers = 60, 3
    desk = Desk(lambda _: SqliteLedger(store, SystemClock()))
    for number in range(rows):
        new = desk.new(f"chat {number}")
        await desk.ledger.enqueue(type(new)(f"row{number}", new.lane, new.texts, origin="notice"))
    pipe = asyncio.subprocess.PIPE
    children = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLAIMER, str(store), f"claimer{n}", str(rows), stdin=pipe, stdout=pipe
        )
        for n in range(claimers)
    ]
    try:
        async with asyncio.timeout(60):
            for child in children:
                assert child.stdout is not None
                assert await child.stdout.readline() == b"ready\n"
            said = await asyncio.gather(*(child.communicate(b"go\n") for child in children))
    finally:
        for child in children:
            if child.returncode is None:
                child.kill()
                await child.wait()
    granted = Counter(name for out, _ in said for name in out.decode().split())
    assert granted == {f"row{number}": 1 for number in range(rows)}
    for number in range(rows):
        record = await desk.ledger.record(f"row{number}")
        assert (record.fence, len(record.attempts)) == (1, 1)
    await desk.close()


async def test_what_a_verb_told_is_found_by_the_next_opening(store: Path) -> None:
    """Committed means committed: the first opening is never closed."""
    clock = TestClock()
    desk = Desk(lambda _: SqliteLedger(store, clock))
    record = await desk.send(await desk.notice(), await desk.owner(), Unconfirmed("time-out"))
    second = SqliteLedger(store, clock)
    assert await second.record(record.id) == record
    await second.close()
    await desk.close()
