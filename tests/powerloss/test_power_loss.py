"""What a power cut leaves, and what a failing disk may not do.

Every acknowledged verb is in every image that could be found after the cut, and no verb is half
there. The last two tests are canaries: a store that is *not* synced must be caught.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from angelia.model.errors import StoreUnavailableError
from angelia.seams.rng import SeededRng
from angelia.store.connection import integrity_problems, open_connection
from angelia.store.writer import Writer
from angelia.testing.power_loss import KINDS, Call, Kind, PowerLossDisk, Snapshot

images_max = 450  # per test


class Trial:
    """A store on the disk, its writer, and who was told what."""

    def __init__(self, tmp_path: Path, disk: PowerLossDisk, synchronous: str = "full") -> None:
        self.path = tmp_path / "disk" / "state.db"
        self.path.parent.mkdir()
        self.images = tmp_path / "images"
        self.images.mkdir()
        self.disk = disk
        self.synchronous = synchronous
        self.opened = 0
        self.rng = SeededRng(20)
        self.acknowledged: list[int] = []
        self.refused: list[int] = []
        self.checkpoint_pages = 10  # so that checkpoints are cut, too
        self.writer = Writer(self.open)
        self.next_image = 0

    def open(self) -> apsw.Connection:
        self.opened += 1
        connection = open_connection(self.path, vfs=self.disk.name)
        connection.pragma("synchronous", self.synchronous)
        connection.pragma("wal_autocheckpoint", self.checkpoint_pages)
        return connection

    async def start(self) -> None:
        await self.writer.run(
            "make",
            lambda connection: (
                connection.execute(
                    "CREATE TABLE half (id INTEGER, side TEXT, filling TEXT, PRIMARY KEY (id, side))"
                ).get
            ),
        )

    async def add(self, number: int) -> None:
        def work(connection: apsw.Connection) -> int:
            for side in ("left", "right"):
                connection.execute("INSERT INTO half VALUES (?, ?, ?)", (number, side, "x" * 700))
            return number

        try:
            assert await self.writer.run("add", work) == number
        except StoreUnavailableError:
            self.refused.append(number)
        else:
            self.acknowledged.append(number)

    async def at_rest(self) -> None:
        """Wait until the checkpoint that may follow the last verb is done, too."""
        with contextlib.suppress(StoreUnavailableError):
            await self.writer.run("nothing", lambda connection: None)

    def found(self, snapshot: Snapshot, kind: Kind) -> list[int]:
        """The verbs in one image of the moment; asserts that it is sound and none is half there."""
        folder = self.images / str(self.next_image)
        self.next_image += 1
        folder.mkdir()
        snapshot.write(folder, kind, self.rng)
        try:
            return self.verbs_in(folder)
        finally:
            shutil.rmtree(folder)

    def verbs_in(self, folder: Path) -> list[int]:
        if not (folder / "state.db").exists():
            return []
        connection = apsw.Connection(str(folder / "state.db"))
        connection.pragma("synchronous", "off")  # an image is looked at once, then thrown away
        assert integrity_problems(connection) == []
        if not connection.table_exists("main", "half"):
            return []
        rows = connection.execute("SELECT id, count(*) FROM half GROUP BY id").fetchall()
        connection.close()
        assert all(sides == 2 for _, sides in rows)
        return [int(str(number)) for number, _ in rows]

    def missing(self, moments: list[tuple[set[int], Snapshot]]) -> list[tuple[int, Kind, set[int]]]:
        """The images that lack an acknowledged verb."""
        faults = []
        for index, (acknowledged, snapshot) in enumerate(moments):
            kind = KINDS[index % len(KINDS)]
            lacking = acknowledged - set(self.found(snapshot, kind))
            if lacking:
                faults.append((index, kind, lacking))
        return faults


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerLossDisk]:
    disk = PowerLossDisk(f"power-loss-{tmp_path.name}")
    yield disk
    disk.close()


async def watched(trial: Trial, callers: int, each: int) -> list[tuple[set[int], Snapshot]]:
    """Work with ``callers`` at once; the moments after each write, sync, truncation, removal."""
    moments: list[tuple[set[int], Snapshot]] = []

    def look(event: str) -> None:
        acknowledged = set(trial.acknowledged)  # read first: what was told before this moment
        moments.append((acknowledged, trial.disk.snapshot()))

    async def caller(first: int) -> None:
        for number in range(first, first + each):
            await trial.add(number)

    trial.disk.watch = look
    await trial.start()
    await asyncio.gather(*(caller(100 * index) for index in range(callers)))
    await trial.writer.close()  # checkpoints and removes the WAL
    trial.writer = Writer(trial.open)  # and begins another
    await caller(90_000)
    trial.disk.watch = None
    moments.append((set(trial.acknowledged), trial.disk.snapshot()))
    await trial.writer.close()
    return moments


@pytest.mark.parametrize(("callers", "each"), [(1, 12), (8, 6)])
async def test_every_acknowledged_verb_survives_every_power_cut(
    tmp_path: Path, disk: PowerLossDisk, callers: int, each: int
) -> None:
    trial = Trial(tmp_path, disk)
    moments = await watched(trial, callers, each)
    assert trial.refused == []
    assert len(trial.acknowledged) == (callers + 1) * each
    step = max(1, len(moments) // images_max + (len(moments) % images_max > 0))
    chosen = moments[::step] + moments[-3:] * 3
    assert len(chosen) > 100, "too few moments to mean anything"
    assert trial.missing(chosen) == []


async def test_canary_a_store_that_is_not_synced_is_caught(tmp_path: Path, disk: PowerLossDisk) -> None:
    trial = Trial(tmp_path, disk, synchronous="normal")
    assert trial.missing((await watched(trial, 1, 12))[:images_max]), "NORMAL must lose something here"


async def nth_fault(trial: Trial, call: Call, nth: int, full: bool, together: bool) -> tuple[bool, int]:
    """Verbs before, during and after one fault; whether it happened, and how often it was reopened."""
    await trial.start()
    for number in range(3):
        await trial.add(number)
    assert trial.refused == []
    before = trial.opened
    await trial.at_rest()
    trial.disk.fail(call, nth, full=full)
    if together:
        await asyncio.gather(*(trial.add(number) for number in range(10, 18)))
    else:
        for number in range(10, 18):
            await trial.add(number)
    await trial.at_rest()
    happened = trial.disk.heal()
    at_the_fault = trial.disk.snapshot()
    for kind in KINDS:
        assert set(trial.acknowledged) <= set(trial.found(at_the_fault, kind))
    for number in range(20, 24):
        await trial.add(number)
    assert set(range(20, 24)) <= set(trial.acknowledged), "once the disk is sound, all goes on"
    assert trial.writer.trouble is None
    return happened, trial.opened - before


FAULTS: list[tuple[Call, bool]] = [("write", False), ("write", True), ("sync", False), ("truncate", False)]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("call", "full"), FAULTS)
@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8, 13])
async def test_the_nth_failing_call_is_told_and_later_commits_are_there(
    tmp_path: Path, disk: PowerLossDisk, call: Call, full: bool, nth: int, together: bool
) -> None:
    trial = Trial(tmp_path, disk)
    happened, reopened = await nth_fault(trial, call, nth, full, together)
    assert bool(trial.refused) <= happened
    if trial.refused:
        assert reopened >= 1, "nothing may be committed on the connection that failed"
    end = trial.disk.snapshot()
    for kind in KINDS:
        found = set(trial.found(end, kind))
        assert set(trial.acknowledged) <= found
        assert not set(trial.refused) & found, "what was refused did not come back later"
    await trial.writer.close()


@pytest.mark.parametrize(("call", "full"), [("write", False), ("write", True), ("sync", False)])
async def test_a_first_failing_call_is_met_by_a_commit(
    tmp_path: Path, disk: PowerLossDisk, call: Call, full: bool
) -> None:
    """So that the test above cannot pass by never failing anything."""
    trial = Trial(tmp_path, disk)
    trial.checkpoint_pages = 0  # none that could meet the fault instead
    assert (await nth_fault(trial, call, 1, full, False))[0]
    assert trial.refused == [10]
    await trial.writer.close()


async def test_a_full_disk_refuses_the_whole_batch_until_there_is_room(
    tmp_path: Path, disk: PowerLossDisk
) -> None:
    trial = Trial(tmp_path, disk)
    await trial.start()
    await trial.add(1)
    disk.fail("write", full=True, lasting=True)
    await asyncio.gather(*(trial.add(number) for number in range(10, 30)))
    assert sorted(trial.refused) == list(range(10, 30))
    assert "SQLITE_FULL" in (trial.writer.trouble or "")
    assert trial.found(disk.snapshot(), "kept") == [1]
    assert disk.heal()
    await asyncio.gather(*(trial.add(number) for number in range(10, 30)))
    assert trial.writer.trouble is None
    assert trial.found(disk.snapshot(), "lost") == [1, *range(10, 30)]
    await trial.writer.close()


async def test_a_sync_that_keeps_failing_acknowledges_nothing(tmp_path: Path, disk: PowerLossDisk) -> None:
    trial = Trial(tmp_path, disk)
    await trial.start()
    await trial.add(1)
    disk.fail("sync", lasting=True)
    for number in range(10, 16):
        await trial.add(number)
    assert trial.acknowledged == [1]
    assert trial.found(disk.snapshot(), "lost") == [1]
    assert disk.heal()
    before = trial.opened
    await trial.add(20)
    assert trial.opened == before + 1, "the WAL was emptied and the file opened anew before this commit"
    for kind in KINDS:
        found = trial.found(disk.snapshot(), kind)
        assert found == [1, 20], "what was refused neither came back nor took a later commit with it"
    await trial.writer.close()


async def test_a_wal_found_at_the_start_is_emptied_before_the_first_commit(
    tmp_path: Path, disk: PowerLossDisk
) -> None:
    trial = Trial(tmp_path, disk)
    await trial.start()
    for number in range(3):
        await trial.add(number)
    found = tmp_path / "found"
    found.mkdir()
    disk.snapshot().write(found, "kept", trial.rng)
    wal = found / "state.db-wal"
    assert wal.stat().st_size > 0
    writer = Writer(lambda: open_connection(found / "state.db"))
    await writer.run("nothing", lambda connection: None)
    assert wal.stat().st_size == 0
    await writer.close()
    assert trial.verbs_in(found) == [0, 1, 2]
    await trial.writer.close()


def test_canary_the_disk_forgets_what_a_failed_sync_gave_up(tmp_path: Path, disk: PowerLossDisk) -> None:
    """The trap itself: after a failed sync the next one succeeds and the bytes are still lost."""
    disk.fail("sync")
    (tmp_path / "store").touch()  # SQLite gives a WAL the mode of its store
    path = tmp_path / "store-wal"
    flags = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    file = disk.xOpen(str(path), [flags, 0])
    file.xWrite(b"first", 0)
    with pytest.raises(apsw.IOError):
        file.xSync(0)
    file.xWrite(b"second", 100)
    file.xSync(0)
    assert file.xRead(5, 0) == b"first", "every reader sees it"
    file.xClose()
    images = {kind: image_of(disk, tmp_path, kind) for kind in KINDS}
    assert images["lost"] == bytes(100) + b"second"


def image_of(disk: PowerLossDisk, tmp_path: Path, kind: Kind) -> bytes:
    folder = tmp_path / kind
    folder.mkdir()
    disk.snapshot().write(folder, kind, SeededRng(1))
    return (folder / "store-wal").read_bytes()


def test_a_new_file_is_there_for_sure_only_once_synced(tmp_path: Path, disk: PowerLossDisk) -> None:
    flags = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    (tmp_path / "store").touch()
    file = disk.xOpen(str(tmp_path / "store-wal"), [flags, 0])
    file.xWrite(b"first", 0)
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    disk.snapshot().write(before, "lost", SeededRng(1))
    assert list(before.iterdir()) == []
    file.xSync(0)
    after.mkdir()
    disk.snapshot().write(after, "lost", SeededRng(1))
    assert (after / "store-wal").read_bytes() == b"first"
    file.xClose()
