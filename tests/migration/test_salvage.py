"""Salvage: a real store, damaged page by page in several ways, and what comes out of each.

Whatever the damage: the damaged file stays as it is, the new store is sound, keeps every rule,
holds no row that the old one did not, and loses no more than what lay on the damaged page.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from tests.migration.house import furnish

from angelia.model.errors import StoreDamagedError
from angelia.model.notices import PART_LOST
from angelia.model.outcomes import Accepted
from angelia.model.states import RunEnd
from angelia.seams.clock import Clock
from angelia.seams.rng import SeededRng
from angelia.store.connection import integrity_problems, open_connection
from angelia.store.invariants import problems
from angelia.store.rows import load_record
from angelia.store.salvage import Salvaged, salvage
from angelia.store.sqlite import SqliteLedger
from angelia.testing.clock import TestClock
from angelia.testing.ledger_desk import Desk

PAGE = 4096
RAM = "/dev/shm" if Path("/dev/shm").is_dir() else None
Rows = dict[str, set[tuple[object, ...]]]

#: How a page is damaged.
DAMAGES: dict[str, Callable[[bytes, SeededRng], bytes]] = {
    "zeros": lambda page, rng: bytes(PAGE),
    "noise": lambda page, rng: bytes(int(rng.fraction() * 256) for _ in range(PAGE)),
    "half": lambda page, rng: page[: PAGE // 2] + bytes(PAGE // 2),
}


@pytest.fixture(scope="module")
def whole() -> Iterator[Path]:
    """A sound store of some hundred pages, complete in one file."""
    folder = Path(tempfile.mkdtemp(prefix="angelia-salvage-", dir=RAM))
    path = folder / "state.db"
    _build(path)
    yield path
    shutil.rmtree(folder)


def _build(path: Path) -> None:
    async def build() -> None:
        def opened(clock: Clock) -> SqliteLedger:
            return SqliteLedger(path, clock, inline=True)

        desk = Desk(opened)
        await furnish(desk)
        owner = await desk.owner()
        for number in range(60):
            turn = await desk.run(await desk.turn(f"chat {number % 9}", text="question " * 40), owner)
            assert turn is not None
            new = desk.new(
                f"chat {number % 9}", texts=("answer " * 60, "rest " * 1200 if number % 7 == 0 else ".")
            )
            await desk.ledger.finish_turn(turn, f"run of {turn.id}", RunEnd.ANSWERED, delivery=new)
            if number % 3:
                await desk.send(
                    await desk.look(await desk.ledger.record(new.id)), owner, Accepted("r"), Accepted("s")
                )
        await desk.close()

    asyncio.run(build())
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "delete")
    connection.close()


def rows_of(path: Path) -> Rows:
    """Every row by its table, without what salvage changes on purpose."""
    connection = open_connection(path, read_only=True)
    found: Rows = {}
    for table, columns in (
        ("turns", "id, profile, platform, chat, thread, kind, received_at"),
        ("inbound", "id, chat, message_id, text, turn"),
        ("model_runs", "rowid, id, turn, started_at"),
        ("deliveries", "seq, id, turn, chat, written_at"),
        ("parts", "delivery, number, text, receipt"),
        ("revisions", "delivery, part, number, text"),
        ("attempts", "delivery, number, part, revision, started_at"),
        ("owners", "id, kind"),
        ("chats", "profile, platform, chat"),
        ("conversations", "profile, platform, chat, number"),
        ("waits", "profile, platform, scope, subject"),
    ):
        found[table] = set(connection.execute(f"SELECT {columns} FROM {table}").fetchall())
    connection.close()
    return found


def salvaged(damaged: Path) -> tuple[Salvaged, Path]:
    before = damaged.read_bytes()
    target = damaged.with_name("new.db")
    target.unlink(missing_ok=True)
    report = salvage(damaged, target, TestClock().now())
    assert damaged.read_bytes() == before
    assert {path.name for path in damaged.parent.glob("*.part*")} == set()
    return report, target


def check(target: Path) -> None:
    """The new store is sound, keeps the rules and can be worked with."""
    connection = open_connection(target, read_only=True)
    try:
        assert integrity_problems(connection) == []
        assert _serious(problems(connection, TestClock().wall)) == []
        for (delivery,) in connection.execute("SELECT id FROM deliveries").fetchall():
            record = load_record(connection, str(delivery))
            assert record.parked == (record.state in ("pending", "failed"))
            assert record.state != "attempting"
            assert record.live_parts or record.state in ("delivered", "abandoned")
        assert connection.execute("SELECT count(*) FROM turns WHERE state IN ('waiting', 'running')").get == 0
    finally:
        connection.close()


#: What a lost row of a settled matter leaves: the doctor tells of it until it is pruned.
_TELLS_OF_A_LOSS = ("has no receipt", "has no parts", "of its model runs made the answer", "were interrupted")


def _serious(found: list[str]) -> list[str]:
    return [one for one in found if not any(said in one for said in _TELLS_OF_A_LOSS)]


def damage(whole: Path, folder: Path, number: int, how: str) -> Path:
    content = bytearray(whole.read_bytes())
    page = bytes(content[(number - 1) * PAGE : number * PAGE])
    content[(number - 1) * PAGE : number * PAGE] = DAMAGES[how](page, SeededRng(number))
    damaged = folder / "damaged.db"
    damaged.write_bytes(content)
    return damaged


def pages(whole: Path) -> int:
    return whole.stat().st_size // PAGE


def test_a_sound_store_comes_out_whole(whole: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    shutil.copy(whole, damaged)
    report, target = salvaged(damaged)
    assert report.whole
    assert report.notes == ()
    before, after = rows_of(damaged), rows_of(target)
    asked = {(row[0], row[2]) for row in after["deliveries"] - before["deliveries"]}
    assert all(delivery == turn or turn for delivery, turn in asked), "only notices for open turns are new"
    for table in before:
        assert before[table] <= after[table], table
    check(target)


@pytest.mark.parametrize("how", sorted(DAMAGES))
def test_every_page_damaged_in_turn(whole: Path, how: str) -> None:
    """At each page of the store; the pages of the tables are those that cost rows."""
    before = rows_of(whole)
    total = sum(len(rows) for rows in before.values())
    folder = Path(tempfile.mkdtemp(prefix="angelia-salvage-", dir=RAM))
    cost: list[int] = []
    try:
        for number in range(1, pages(whole) + 1):
            report, target = salvaged(damage(whole, folder, number, how))
            check(target)
            after = rows_of(target)
            lost = {table: before[table] - after[table] for table in before}
            strange = {
                row
                for table in ("deliveries", "turns", "inbound", "model_runs")
                for row in after[table] - before[table]
                if table != "deliveries" and how != "half"
            }
            if not report.notes:
                assert strange == set(), (number, strange)
            cost.append(sum(len(rows) for rows in lost.values()))
            told = not report.whole or bool(report.notes)
            assert told or cost[-1] == 0, f"page {number}: rows are lost and nobody was told"
    finally:
        shutil.rmtree(folder)
    assert len(cost) > 60
    assert cost.count(0) > len(cost) // 4, "indexes hold no rows, free pages neither"
    assert sorted(cost)[len(cost) * 9 // 10] < total // 6, "a page costs what lay on it"
    assert any(cost), "the damage did damage"


def test_many_pages_damaged_at_once(whole: Path, tmp_path: Path) -> None:
    rng = SeededRng(7)
    content = bytearray(whole.read_bytes())
    for number in range(14, pages(whole)):
        if rng.fraction() < 0.3:
            content[number * PAGE : (number + 1) * PAGE] = bytes(PAGE)
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(content)
    report, target = salvaged(damaged)
    assert not report.whole
    check(target)
    assert rows_of(target)["deliveries"]


def test_the_log_beside_it_is_read_too(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    shutil.copy(whole, path)
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute(
        "UPDATE parts SET text = 'in the log' WHERE delivery = (SELECT min(delivery) FROM parts)"
    )
    damaged = tmp_path / "damaged.db"
    shutil.copy(path, damaged)
    shutil.copy(f"{path}-wal", f"{damaged}-wal")
    connection.close()
    _, target = salvaged(damaged)
    assert {row[2] for row in rows_of(target)["parts"]} >= {"in the log"}


@pytest.mark.parametrize(
    "content", [b"", b"not a database at all", b"SQLite format 3\x00" + bytes(5000), bytes(9000)]
)
def test_what_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(content)
    with pytest.raises(StoreDamagedError):
        salvage(damaged, tmp_path / "new.db", TestClock().now())
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.db"]


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    other = apsw.Connection(str(tmp_path / "damaged.db"))
    other.execute("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)")
    other.close()
    with pytest.raises(StoreDamagedError):
        salvage(tmp_path / "damaged.db", tmp_path / "new.db", TestClock().now())


def test_an_existing_file_is_never_overwritten(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "new.db").write_text("mine")
    with pytest.raises(FileExistsError):
        salvage(whole, tmp_path / "new.db", TestClock().now())
    assert (tmp_path / "new.db").read_text() == "mine"


def test_an_owed_delivery_that_lost_its_text_says_so(whole: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    shutil.copy(whole, damaged)
    connection = apsw.Connection(str(damaged))
    owed = [row[0] for row in connection.execute("SELECT id FROM deliveries WHERE state = 'pending'")]
    connection.execute("DELETE FROM parts WHERE delivery = ?", (owed[0],))
    connection.execute("DELETE FROM parts WHERE delivery = ? AND number = 1", (owed[1],))
    connection.close()
    report, target = salvaged(damaged)
    reader = open_connection(target, read_only=True)
    for delivery in owed[:2]:
        assert load_record(reader, str(delivery)).live_parts[0].text == PART_LOST
        assert any(str(delivery) in note for note in report.notes)
    reader.close()


def test_texts_of_lost_deliveries_are_told(whole: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    shutil.copy(whole, damaged)
    connection = apsw.Connection(str(damaged))
    connection.execute("DROP TRIGGER deliveries_owed_stay")
    (lost,) = connection.execute("SELECT id FROM deliveries WHERE state = 'pending' LIMIT 1").fetchone() or (
        "",
    )
    connection.execute("DELETE FROM deliveries WHERE id = ?", (lost,))
    connection.close()
    report, target = salvaged(damaged)
    assert any(str(lost) in note and "all but its text" in note for note in report.notes)
    check(target)
