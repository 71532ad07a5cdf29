"""The whole ledger on a disk that loses its power, beside a shadow that has none to lose.

Every verb is done twice, with the same ids at the same time: on the store whose file lies on a
``PowerLossDisk``, and on a shadow in memory. So at any moment it is known what the store must
hold, row for row: after each write, sync, truncation and removal images are built (kept, lost,
torn), and each must be exactly the shadow as it was after the last acknowledged verb, or after
the one that was under way. No acknowledged verb is missing then, none is half there, none came
from nowhere. Each image is also opened as a start would open it.

Faults come from the same seed: the n-th write, sync or truncation fails, once or for a while, or
the disk is full. A verb then raises the named error or is on record; what was refused is not
there afterwards, and the same verb asked again, with the same ids, succeeds.

One seed is one workload, one sequence of faults and one choice of images.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
from tests.powerloss.workload import Verb, Workload

from angelia.model.errors import StoreUnavailableError
from angelia.seams.clock import Clock
from angelia.seams.rng import SeededRng
from angelia.store.connection import integrity_problems, open_connection, quick_check
from angelia.store.invariants import problems
from angelia.store.migrate import migrate
from angelia.store.reader import Reader
from angelia.store.sqlite import SqliteLedger
from angelia.store.writer import Writer
from angelia.testing.checks import contents, copy_of, recovery_problems
from angelia.testing.clock import TestClock
from angelia.testing.power_loss import KINDS, Call, PowerLossDisk, Snapshot

RAM = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
VERBS_OF_A_WORLD = 40
CALLS: tuple[Call, ...] = ("write", "sync", "truncate")


class Placed(SqliteLedger):
    """The real verbs on connections that are opened as the test says."""

    def __init__(self, clock: Clock, writer: Any, reader: Any) -> None:
        self.path = Path()
        self._clock = clock
        self._writer = Writer(writer, inline=True)
        self._reader = Reader(reader, inline=True)


class _Shadow(apsw.Connection):
    """Its ledger opens and closes it as it likes; the rows stay."""

    def close(self, force: bool = False) -> None: ...


def digest(connection: apsw.Connection) -> str:
    """All rows of a store in one word. Its birth id is drawn by the store itself and left out."""
    return hashlib.md5(repr(contents(connection, but=("pulse",))).encode(), usedforsecurity=False).hexdigest()


@dataclass
class Told:
    """What one world was good for."""

    seed: int
    images: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    verbs: int = 0
    refused: int = 0
    flaws: list[str] = field(default_factory=list)


class PowerLossWorld:
    """See the module. ``images_of_a_verb``: how many of its moments are looked at."""

    def __init__(
        self, seed: int, images_of_a_verb: int = 6, synchronous: str = "full", faulty: bool = True
    ) -> None:
        self.told = Told(seed)
        self.rng = SeededRng(seed)
        self.clock = TestClock()
        self.synchronous = synchronous
        self.faulty = faulty
        self.images_of_a_verb = images_of_a_verb
        self.folder = Path(tempfile.mkdtemp(prefix="angelia-power-", dir=RAM))
        (self.folder / "disk").mkdir()
        self.path = self.folder / "disk" / "state.db"
        self.disk = PowerLossDisk(f"power-loss-{seed}-{self.folder.name}")
        start = self._open()
        migrate(start)
        self.shadow_rows = _Shadow(":memory:")
        with self.shadow_rows.backup("main", start, "main") as copy:
            copy.step()
        start.close()
        self.shadow_rows.pragma("foreign_keys", True)
        self.shadow = Placed(self.clock, lambda: self.shadow_rows, lambda: self.shadow_rows)
        self.ledger = Placed(self.clock, self._open, lambda: open_connection(self.path, read_only=True))
        self.moments: list[tuple[str, Snapshot]] = []
        self.workload = Workload(self.rng, self.clock)

    def _open(self) -> apsw.Connection:
        connection = open_connection(self.path, vfs=self.disk.name)
        connection.pragma("synchronous", self.synchronous)
        connection.pragma("wal_autocheckpoint", 12)  # so that checkpoints are cut, too
        return connection

    def chance(self, probability: float) -> bool:
        return self.rng.fraction() < probability

    def pick(self, choices: Any) -> Any:
        return choices[int(self.rng.fraction() * len(choices))]

    def play(self) -> Told:
        try:
            asyncio.run(self._live())
        finally:
            self.disk.close()
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.told

    async def _live(self) -> None:
        try:
            self.disk.watch = self._notice
            for _ in range(VERBS_OF_A_WORLD):
                verb = await self.workload.next_verb(self.shadow)
                await self._step(verb)
                if self.chance(0.03):
                    await self._reopen()
            self.disk.watch = None
            self.disk.heal()
        finally:
            await self.ledger.close()
            await self.shadow.close()
            apsw.Connection.close(self.shadow_rows, True)

    async def _reopen(self) -> None:
        """A clean stop: the last close folds the log into the file and removes it."""
        before = digest(self.shadow_rows)
        await self.ledger.close()
        self._look({before})
        self.ledger = Placed(self.clock, self._open, lambda: open_connection(self.path, read_only=True))

    def _notice(self, event: str) -> None:
        self.moments.append((event, self.disk.snapshot()))

    # -- one verb ----------------------------------------------------------------------------

    async def _step(self, verb: Verb) -> None:
        """Do a verb on both; look at what a power cut could have left at its moments."""
        before = digest(self.shadow_rows)
        kept = copy_of(self.shadow_rows)
        expected = await verb.work(self.shadow)
        after = digest(self.shadow_rows)
        fault = self._plan_fault()
        try:
            answer = await verb.work(self.ledger)
        except StoreUnavailableError:
            self.told.refused += 1
            if not fault:
                self._flaw(f"{verb.name} was refused on a sound disk")
            self._look({before, after})
            self._heal(fault)
            await self._live_rows(f"{verb.name} was refused", before)
            answer = await self._again(verb, kept)
            self._look({before, after})
        else:
            self._heal(fault)
            self._look({before, after})
        self.told.verbs += 1
        if answer != expected:
            self._flaw(f"{verb.name} answered {answer!r}, the shadow {expected!r}")
        # From here on the verb is acknowledged: no image may lack it.
        await self._live_rows(f"{verb.name} was acknowledged", after)
        self._notice("acknowledged")
        self._look({after}, all_of_them=True)
        kept.close()

    async def _again(self, verb: Verb, kept: apsw.Connection) -> Any:
        """Once the disk is sound, the same verb with the same ids goes through."""
        try:
            return await verb.work(self.ledger)
        except StoreUnavailableError as error:
            self._flaw(f"{verb.name} was refused again on a disk that is sound: {error}")
            with self.shadow_rows.backup("main", kept, "main") as copy:
                copy.step()
            raise

    async def _live_rows(self, when: str, expected: str) -> None:
        """What everybody sees who asks the open store."""
        if await self.ledger.read(digest) != expected:
            self._flaw(f"{when}, but the open store does not hold what it must")

    def _plan_fault(self) -> str:
        if not self.faulty or not self.chance(0.2):
            return ""
        call = self.pick(CALLS)
        full = call == "write" and self.chance(0.5)
        lasting = self.chance(0.3)
        nth = self.pick((1, 1, 1, 2, 2, 3, 5, 8))
        self.disk.fail(call, nth, full=full, lasting=lasting)
        return f"{'disk full' if full else call}{', lasting' if lasting else ''}"

    def _heal(self, fault: str) -> None:
        if fault and self.disk.heal():
            self.told.faults[fault] += 1

    # -- images ------------------------------------------------------------------------------

    def _look(self, allowed: set[str], all_of_them: bool = False) -> None:
        """Images of some of the moments since the last look, each of a kind."""
        moments, self.moments = self.moments, []
        while not all_of_them and len(moments) > self.images_of_a_verb:
            moments.pop(int(self.rng.fraction() * len(moments)))
        for event, snapshot in moments:
            kind = self.pick(KINDS)
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            snapshot.write(folder, kind, self.rng)
            self.told.images[kind] += 1
            for sentence in self._wrong_with(folder, allowed):
                self._flaw(f"{kind} image after {event}: {sentence}")
            shutil.rmtree(folder)

    def _wrong_with(self, folder: Path, allowed: set[str]) -> list[str]:
        """Open the image as a start does."""
        path = folder / "state.db"
        if not path.exists():
            return ["there is no store"]
        connection = apsw.Connection(str(path))
        try:
            connection.pragma("synchronous", "off")  # looked at once, then thrown away
            connection.pragma("foreign_keys", True)
            found = integrity_problems(connection)
            if found:
                return found
            migrate(connection)
            quick_check(connection)
            if digest(connection) not in allowed:
                found.append("its rows are neither those before the verb nor those after it")
            found += problems(connection, self.clock.wall)
            if self.chance(0.1):
                found += recovery_problems(connection, self.clock.now(), True)
            return found
        except Exception as error:
            return [f"it cannot be opened: {error!r}"]
        finally:
            connection.close()

    def _flaw(self, sentence: str) -> None:
        self.told.flaws.append(f"verb {self.told.verbs + 1}: {sentence}")


def play(seed: int, **options: Any) -> Told:
    """The whole world of one seed."""
    return PowerLossWorld(seed, **options).play()
