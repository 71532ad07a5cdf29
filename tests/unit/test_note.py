"""The home's note of its store: whom it takes for an old copy, and whom never."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from angelia.gateway.home import Home, create_home
from angelia.gateway.note import Note, UnreadableNoteError, looks_old, read_note, write_note
from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import Lane
from angelia.model.messages import NewDelivery
from angelia.store.ledger import OwnerKind, Pulse
from angelia.store.sqlite import SqliteLedger
from angelia.testing.clock import TestClock


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create_home(tmp_path / "home")


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


async def owing(home: Home, clock: TestClock) -> SqliteLedger:
    """A ledger that owes one delivery and was used by one gateway."""
    ledger = SqliteLedger(home.store, clock, inline=True)
    await ledger.enqueue(NewDelivery("d", Lane("p", "web", "c"), ("x",)))
    await ledger.start("a gateway", OwnerKind.DAEMON)
    return ledger


async def is_parked(home: Home, ledger: SqliteLedger, clock: TestClock) -> bool:
    """Whether a start parks what the ledger owes."""
    note = Note(home, ledger, clock)
    await note.start()
    await note.stop()
    return (await ledger.record("d")).parked


@pytest.mark.parametrize("synced", [True, False])
def test_what_is_written_is_read(home: Home, synced: bool) -> None:
    assert read_note(home) is None
    write_note(home, Pulse("s", 3), synced=synced)
    write_note(home, Pulse("s", 4), synced=synced)
    assert read_note(home) == Pulse("s", 4)
    assert stat.S_IMODE(home.note.stat().st_mode) == 0o600
    assert [path.name for path in home.path.iterdir()] == [home.note.name]


@pytest.mark.parametrize(
    ("noted", "old"),
    [
        (Pulse("s", 7), False),
        (Pulse("s", 6), False),  # killed before the note was written
        (Pulse("s", 8), True),
        (Pulse("another", 1), True),
        (None, True),  # used by a gateway, but not by one of this home
    ],
)
def test_whom_a_note_takes_for_an_old_copy(home: Home, noted: Pulse | None, old: bool) -> None:
    if noted is not None:
        write_note(home, noted, synced=True)
    assert looks_old(home, Pulse("s", 7)) is old


def test_a_store_that_no_gateway_used_is_no_copy(home: Home) -> None:
    assert not looks_old(home, Pulse("s", 0))


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b'{"store": "s"}', b"\xff\xfe"])
async def test_a_torn_note_holds_nothing_back(home: Home, clock: TestClock, torn: bytes) -> None:
    home.note.write_bytes(torn)
    with pytest.raises(UnreadableNoteError):
        read_note(home)
    ledger = await owing(home, clock)
    assert await is_parked(home, ledger, clock) is False
    assert read_note(home) == await ledger.pulse()
    await ledger.close()


async def test_a_store_behind_its_note_is_parked_once(home: Home, clock: TestClock) -> None:
    ledger = await owing(home, clock)
    mine = await ledger.pulse()
    write_note(home, Pulse(mine.store, mine.beats + 5), synced=True)
    assert await is_parked(home, ledger, clock) is True
    assert (await ledger.pulse()).beats > mine.beats + 5
    await ledger.release(None)
    assert await is_parked(home, ledger, clock) is False
    await ledger.close()


async def test_another_store_is_parked_and_is_the_homes_from_then_on(home: Home, clock: TestClock) -> None:
    ledger = await owing(home, clock)
    write_note(home, Pulse("another", 1000), synced=True)
    assert await is_parked(home, ledger, clock) is True
    assert await ledger.pulse() == Pulse("another", 1001)
    await ledger.release(None)
    assert await is_parked(home, ledger, clock) is False
    await ledger.close()


async def test_the_end_of_a_gateway_is_noted(home: Home, clock: TestClock) -> None:
    ledger = SqliteLedger(home.store, clock, inline=True)
    note = Note(home, ledger, clock)
    await note.start()
    born = read_note(home)
    await ledger.start("a gateway", OwnerKind.DAEMON)
    await ledger.retire("a gateway")
    await note.stop()
    assert born is not None
    assert read_note(home) == Pulse(born.store, born.beats + 2)
    await ledger.close()


async def test_without_its_first_note_no_gateway_starts(home: Home, clock: TestClock) -> None:
    """At the next start a used store without a note would be taken for a copy."""
    ledger = SqliteLedger(home.store, clock, inline=True)
    (home.path / "pulse.json.part").mkdir()
    with pytest.raises(StoreUnavailableError, match=r"pulse\.json"):
        await Note(home, ledger, clock).start()
    await ledger.close()


async def test_a_note_that_cannot_be_renewed_stops_nobody(home: Home, clock: TestClock) -> None:
    ledger = await owing(home, clock)
    write_note(home, await ledger.pulse(), synced=True)
    (home.path / "pulse.json.part").mkdir()
    assert await is_parked(home, ledger, clock) is False
    await ledger.close()
