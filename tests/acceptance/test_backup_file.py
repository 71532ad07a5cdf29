"""The file that a backup writes, what is refused as one, and what a death in between leaves."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import stat
import sys
import tarfile
from pathlib import Path

import apsw
import pytest
from tests.acceptance.daemon import Home
from tests.acceptance.keeping import done, names_in, notify, refused, states
from tests.acceptance.record import deliveries, problems

from angelia.model.ids import Lane
from angelia.model.messages import NewDelivery
from angelia.seams.clock import SystemClock
from angelia.store.copying import check_copy
from angelia.store.spool import FileSpool
from angelia.store.sqlite import SqliteLedger


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def second(tmp_path: Path) -> Home:
    """A home on a fresh machine."""
    return Home(tmp_path / "second")


# -- the file ------------------------------------------------------------------------------------


async def test_a_backup_overwrites_nothing_unasked(home: Home, tmp_path: Path) -> None:
    assert "no home here" in await refused(home, 78, "backup", tmp_path / "b")
    home.configure()
    assert "nothing to back up" in await refused(home, 1, "backup", tmp_path / "b")
    await notify(home, "x")
    file = tmp_path / "b"
    file.write_text("mine")
    assert "--force" in await refused(home, 1, "backup", file)
    assert file.read_text() == "mine"
    await done(home, "backup", file, "--force")
    assert tarfile.is_tarfile(file)
    await refused(home, 1, "backup", tmp_path)
    await refused(home, 75, "backup", tmp_path / "nowhere" / "b")
    before = home.store.read_bytes()
    for own in ("state.db", "state.db-wal", "config.yaml", ".env", "gateway.lock", "pulse.json"):
        assert "belongs to the home" in await refused(home, 1, "backup", home.path / own, "--force")
    assert home.store.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["b", "home"]


async def test_settings_are_in_it_only_if_asked_for(home: Home, second: Home, tmp_path: Path) -> None:
    home.configure()
    (home.path / ".env").write_text("TOKEN=secret\n")
    await notify(home, "x")
    await done(home, "backup", tmp_path / "plain")
    with tarfile.open(tmp_path / "plain") as plain:
        assert plain.getnames() == ["state.db", "manifest.json"]
    await done(home, "backup", tmp_path / "full", "--settings")
    with tarfile.open(tmp_path / "full") as full:
        assert full.getnames() == ["state.db", "config.yaml", ".env", "manifest.json"]
    out = await done(second, "restore", tmp_path / "full")
    assert "wrote config.yaml" in out
    assert (second.path / "config.yaml").read_bytes() == (home.path / "config.yaml").read_bytes()
    assert stat.S_IMODE((second.path / ".env").stat().st_mode) == 0o600
    (second.path / "config.yaml").write_text("# mine\n")
    await done(second, "restore", tmp_path / "full", "--force")
    assert (second.path / "config.yaml").read_text() == "# mine\n"


async def test_a_backup_that_was_cut_or_changed_is_refused_and_nothing_is_touched(
    home: Home, second: Home, tmp_path: Path
) -> None:
    home.configure()
    await notify(home, "x")
    file = tmp_path / "b"
    await done(home, "backup", file)
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(b"\x0d", 4096) + 1] ^= 0xFF
    for bad in (whole[: len(whole) // 2], whole[:700], bytes(flipped), b"", b"not a backup", whole[1024:]):
        file.write_bytes(bad)
        await refused(second, 1, "restore", file)
        assert sorted(path.name for path in second.path.glob("state.db*")) == []
    await refused(second, 1, "restore", tmp_path / "nowhere")
    file.write_bytes(whole)
    await done(second, "restore", file)
    assert states(second) == ["parked"]


async def test_names_in_an_archive_are_no_paths(home: Home, second: Home, tmp_path: Path) -> None:
    home.configure()
    await notify(home, "x")
    file = tmp_path / "b"
    await done(home, "backup", file)
    with tarfile.open(file, "a") as archive:
        for name in ("../evil", "spool/../../evil", str(tmp_path / "evil"), "spool/" + "0" * 63 + "/"):
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"evil"))
        link = tarfile.TarInfo("spool/" + "0" * 64)
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    await done(second, "restore", file)
    assert not (tmp_path / "evil").exists()
    assert not (second.path / "spool").exists()


async def test_a_bare_store_with_its_log_is_restored_whole(home: Home, second: Home, tmp_path: Path) -> None:
    home.configure()
    delivery = await notify(home, "x")
    kept = tmp_path / "kept"
    kept.mkdir()
    connection = apsw.Connection(str(home.store))  # while it is open, the log stays
    connection.execute("UPDATE parts SET text = 'only in the log'")
    shutil.copy(home.store, kept / "state.db")
    shutil.copy(f"{home.store}-wal", kept / "state.db-wal")
    connection.close()
    await done(second, "restore", kept / "state.db")
    (found,) = deliveries(second)
    assert (found.id, found.text, found.parked) == (delivery, "only in the log", True)


async def test_h4_h5_a_damaged_store_gives_no_backup_and_is_salvaged(home: Home, tmp_path: Path) -> None:
    home.configure()
    ids = [await notify(home, "long " * 400, f"c{number}") for number in range(6)]
    connection = apsw.Connection(str(home.store))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'deliveries_due'").get
    connection.close()
    content = bytearray(home.store.read_bytes())
    content[(int(str(page)) - 1) * 4096 : int(str(page)) * 4096] = os.urandom(4096)
    home.store.write_bytes(content)
    said = await refused(home, 78, "backup", tmp_path / "b")
    assert "angelia salvage" in said
    assert not (tmp_path / "b").exists()
    assert "angelia salvage" in await refused(home, 78, "run")
    out = await done(home, "salvage", home.store)
    assert "nothing was lost" in out  # an index is no row
    assert home.store.read_bytes() == bytes(content)
    await done(home, "restore", home.path / "state.db.salvaged", "--force")
    assert {one.id for one in deliveries(home)} == set(ids)
    assert set(states(home)) == {"parked"}
    assert (home.path / "state.db.replaced").read_bytes() == bytes(content)
    assert problems(home) == []


async def test_a_full_disk_is_a_clear_refusal(home: Home, tmp_path: Path) -> None:
    """The limit on the size of files hits the command as a full disk would."""
    home.configure()
    for number in range(3):
        await notify(home, "long " * 4000, f"c{number}")
    file = tmp_path / "b"
    before = home.store.read_bytes()
    for words in (
        ("backup", str(file)),
        ("restore", str(home.store), "--force"),
        ("salvage", str(home.store)),
    ):
        limited = Home(home.path if words[0] != "restore" else tmp_path / "other", home.environ)
        process = await asyncio.create_subprocess_exec(
            "prlimit",
            "--fsize=20000",
            sys.executable,
            "-m",
            "angelia",
            *words,
            env=limited.environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(30):
            _, err = await process.communicate()
        assert (process.returncode, b"Traceback" in err) == (75, False), (words, err)
    assert home.store.read_bytes() == before
    assert not file.exists()
    assert not (tmp_path / "other" / "state.db").exists()
    assert [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".part")] == []


async def test_the_log_of_a_store_that_is_gone_is_put_aside(home: Home, second: Home, tmp_path: Path) -> None:
    """Beside a new store it would be taken for that one's log."""
    home.configure()
    delivery = await notify(home, "x")
    await done(home, "backup", tmp_path / "b")
    second.configure()
    connection = apsw.Connection(str(second.store))
    connection.pragma("journal_mode", "wal")
    connection.execute("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)")
    stray = second.path / "state.db-wal"
    log = stray.read_bytes()
    connection.close()
    second.store.unlink()
    stray.write_bytes(log)
    await done(second, "restore", tmp_path / "b")
    assert [one.id for one in deliveries(second)] == [delivery]
    assert (second.path / "state.db-wal.replaced").read_bytes() == log
    assert problems(second) == []


async def test_a_damaged_or_newer_copy_is_refused_under_its_own_name(
    home: Home, second: Home, tmp_path: Path
) -> None:
    home.configure()
    await notify(home, "x" * 9000)
    copy = tmp_path / "copy.db"
    connection = apsw.Connection(str(home.store))
    connection.execute("VACUUM INTO ?", (str(copy),))
    connection.close()
    content = copy.read_bytes()
    newer = bytearray(content)
    newer[60:64] = (9999).to_bytes(4, "big")  # user_version
    copy.write_bytes(newer)
    assert f"{copy} has version 9999" in await refused(second, 78, "restore", copy)
    copy.write_bytes(content[:4096] + bytes(4096) + content[8192:])
    said = await refused(second, 78, "restore", copy)
    assert f"angelia salvage {copy}" in said
    assert ".part" not in said
    assert not second.store.exists()


# -- deaths --------------------------------------------------------------------------------------


async def test_a_death_in_a_backup_leaves_none_or_a_whole_one(home: Home, tmp_path: Path) -> None:
    home.configure()
    await notify(home, "x")
    file = tmp_path / "b"
    deaths = 0
    for point in range(1, 10):
        ended = await home.run("backup", str(file), "--force", ANGELIA_CRASH_AT=str(point))
        if ended.code == 0:
            break
        deaths += 1
        assert ended.code == -9, ended.err
        if file.exists():
            assert names_in(file) == ["state.db", "manifest.json"]
    assert deaths == 2
    assert [name for name in os.listdir(tmp_path) if name.endswith(".part")] == []


async def test_a_death_in_a_restore_leaves_the_old_store_or_the_new_one(home: Home, tmp_path: Path) -> None:
    home.configure()
    old = await notify(home, "in the backup")
    file = tmp_path / "b"
    await done(home, "backup", file)
    await done(home, "deliveries", "cancel", old)
    new = await notify(home, "written since")
    seen = set()
    deaths = 0
    for point in range(1, 12):
        ended = await home.run("restore", str(file), "--force", ANGELIA_CRASH_AT=str(point))
        found = {one.id: one.parked for one in deliveries(home)}
        seen.add(tuple(sorted(found)))
        assert found in ({old: False, new: False}, {old: True}), (point, found)
        assert check_copy(home.store) == 1
        if ended.code == 0:
            break
        assert ended.code == -9, ended.err
        deaths += 1
    assert deaths >= 4
    assert len(seen) == 2
    assert any(
        new in {str(row[0]) for row in apsw.Connection(str(path)).execute("SELECT id FROM deliveries")}
        for path in home.path.glob("*.replaced")
    ), "what was there has a name of its own"
    assert list(home.path.glob("*.part")) == []


# -- attachments ---------------------------------------------------------------------------------


async def test_spooled_files_go_with_it_and_missing_ones_are_told(
    home: Home, second: Home, tmp_path: Path
) -> None:
    home.configure()
    spool = FileSpool(home.path / "spool")
    kept = spool.keep_now(b"a picture", "a.png", "image/png", 1000)
    gone = spool.keep_now(b"a lost one", "b.png", "image/png", 1000)
    ledger = SqliteLedger(home.store, SystemClock())
    lane = Lane("default", "webhook", "c")
    await ledger.enqueue(NewDelivery("d1", lane, ("look",), attachments=((kept, ""), (gone, ""))))
    await ledger.close()
    spool.path(gone).unlink()
    (home.path / "spool" / ".half").write_bytes(b"being written")
    file = tmp_path / "b"
    ended = await home.run("backup", str(file))
    assert ended.code == 0
    assert "1 spooled file" in ended.out
    assert gone.file in ended.err
    with tarfile.open(file) as archive:
        assert archive.getnames() == ["state.db", f"spool/{kept.file}", "manifest.json"]
    ended = await second.run("restore", str(file))
    assert ended.code == 0
    assert gone.file in ended.err
    restored = second.path / "spool" / kept.file
    assert restored.read_bytes() == b"a picture"
    assert stat.S_IMODE(restored.stat().st_mode) == 0o600
    assert states(second) == ["parked"]
