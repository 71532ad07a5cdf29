"""A simulated world: gateways on one store, platforms, people, and the troubles of one seed.

First comes the safety phase, in which everything of the mixture may happen, at any time and
to anybody. Then the liveness phase: the troubles end, the platforms accept, one gateway starts
anew, some time passes, and nothing may be left open. One seed gives one trace.
"""

from __future__ import annotations

import asyncio
import contextvars
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.simulation.checkers import flaws_of, open_rows
from tests.simulation.dice import Dice
from tests.simulation.mixture import Mixture, draw
from tests.simulation.node import Node
from tests.simulation.people import Operator, Said, User
from tests.simulation.platform import SimPlatform
from tests.simulation.store import WorldStore
from tests.simulation.story import Story, overheard
from tests.simulation.witness import Witness

from angelia.model import markers
from angelia.model.ids import AdapterId, Lane
from angelia.seams import crash
from angelia.testing.checks import recovery_problems
from angelia.testing.simloop import CivilTime, Killed, Process, SimClock, SimLoop, lapse

#: Long enough for every wait that the platforms of these worlds order, and for a third try.
SETTLE_S = 900.0


class World:
    """See the module. ``look`` is a read-only connection for checkers."""

    def __init__(self, seed: int, loop: SimLoop, folder: Path, mixture: Mixture | None = None) -> None:
        self.seed, self.loop = seed, loop
        self.mixture = mixture or draw(seed)
        self.path = folder / "state.db"
        self.civil = CivilTime(loop)
        self.witness = Witness(self)
        self.dice = Dice(seed, "world")
        self.crash_dice = Dice(seed, "crash points")
        self.rehearsal_dice = Dice(seed, "rehearsals")
        self.operator = Operator(self)
        self.nodes: list[Node] = []
        self.said: dict[str, Said] = {}
        self.calm = False
        self.awake = asyncio.Event()
        self.awake.set()
        self.down_until = 0.0
        self.reads_fail = False
        self.hindered = False
        self.deaths = 0
        self._numbers = 0
        self.context = contextvars.copy_context()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.store = WorldStore(self.path if self.mixture.in_file else None)
        self.look = self.store.look
        platforms = [SimPlatform(self, f"p{i}", kind) for i, kind in enumerate(self.mixture.platforms, 1)]
        self.platforms: dict[AdapterId, SimPlatform] = {one.id: one for one in platforms}

    # -- what everybody may use --------------------------------------------------------------

    def ask(self, sql: str, *given: Any) -> list[tuple[Any, ...]]:
        return self.look.execute(sql, given).fetchall()

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something of the world, outside every process."""
        task = self.loop.create_task(coroutine, context=self.context)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.witness.flaw(f"the world itself failed: {task.exception()!r}")

    def store_is_down(self, writes: bool) -> bool:
        return self.loop.time() < self.down_until and (writes or self.reads_fail)

    # -- births and deaths -------------------------------------------------------------------

    def start_node(self) -> None:
        self._numbers += 1
        if self.calm or self.rehearsal_dice.chance(0.15):
            self._rehearse()
        node = Node(self, self._numbers)
        self.nodes.append(node)
        self.witness.note(node.name, "is started")
        node.start()

    def _rehearse(self) -> None:
        """Invariant 10, on a copy of the store as the next start would find it."""
        if self.ask("SELECT 1 FROM deliveries WHERE state = 'attempting' LIMIT 1"):
            self.witness.reach("recovery rehearsed with a row in flight")
        now = SimClock(self.civil).now()
        for sentence in recovery_problems(self.look, now, self.mixture.lock, apart=("sim_log",)):
            self.witness.flaw(sentence)

    def kill(self, node: Node, quiet: bool = False) -> None:
        """Nothing of it goes on; its files are closed by the system."""
        if not node.process.alive:
            return
        node.process.kill()
        self.nodes.remove(node)
        if not quiet:
            self.deaths += 1
            self.witness.note(node.name, "DIES")
        self.begin(node.ledger.close())
        if not self.calm:
            self.begin(self._replace())

    async def _replace(self) -> None:
        await lapse(self.dice.pick((0.0, 0.5, 5.0, 20.0, 60.0)))
        await self.awake.wait()
        if not self.calm and len(self.nodes) < self.mixture.nodes:
            self.start_node()

    def crash_point(self, name: str) -> None:
        """The hook of ``seams.crash``: the process that passes may end here."""
        process = Process.here()
        node = next((one for one in self.nodes if one.process is process), None)
        if node is None or self.calm or not self.crash_dice.chance(self.mixture.crash_point_p):
            return
        self.witness.note(node.name, f"at {name}")
        self.witness.reach("killed at a crash point")
        self.kill(node)
        raise Killed

    # -- troubles ----------------------------------------------------------------------------

    async def _now_and_then(self, every_s: float, trouble: Callable[[], Awaitable[None]]) -> None:
        while every_s and not self.calm:
            await lapse(self.dice.between(0.2, 1.8) * every_s)
            await self.awake.wait()
            if not self.calm:
                await trouble()

    def _any_node(self) -> Node | None:
        return self.dice.pick(self.nodes) if self.nodes else None

    async def _kill_one(self) -> None:
        if (node := self._any_node()) is not None:
            self.kill(node)

    async def _stop_one(self) -> None:
        if (node := self._any_node()) is not None and node.ready:
            node.stop()

    async def _freeze_one(self) -> None:
        node = self._any_node()
        if node is None or node.process.frozen:
            return
        self.stall(node, self.dice.pick((0.5, 3.0, 14.0, 16.0, 25.0, 60.0)))

    def stall(self, node: Node, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        self.witness.note(node.name, f"stands still for {seconds} s")
        node.process.freeze()
        self.begin(self._thaw(node, seconds))

    async def _thaw(self, node: Node, after_s: float) -> None:
        await lapse(after_s)
        await self.awake.wait()
        if node.process.alive and node.process.frozen:
            self.witness.note(node.name, "goes on")
            node.process.thaw()

    async def _step(self) -> None:
        seconds = self.dice.pick((-7200.0, -30.0, -3.0, 3.0, 30.0, 7200.0))
        self.witness.note("clock", f"is set by {seconds} s")
        self.witness.reach(f"clock set {'back' if seconds < 0 else 'ahead'}")
        self.civil.step(seconds)

    async def _store_down(self) -> None:
        seconds = self.dice.pick((0.5, 4.0, 20.0, 90.0, 90.0))
        self.reads_fail = self.dice.chance(0.3)
        if self.dice.chance(self.mixture.full_p):
            if not self.hindered:
                self.begin(self._hinder(seconds))
            return
        self.witness.note("store", f"is unavailable for {seconds} s")
        self.down_until = max(self.down_until, self.loop.time() + seconds)

    async def _hinder(self, seconds: float) -> None:
        """A store that refuses by itself, in the middle of a verb."""
        self.hindered = True
        self.witness.note("store", f"is {self.store.hinder()} for {seconds} s")
        end = self.loop.time() + seconds
        while self.loop.time() < end and not self.calm:
            await lapse(0.5)
        self.store.heal()
        self.hindered = False

    async def _lose_adapter(self) -> None:
        node = self._any_node()
        if node is None or not node.adapters:
            return
        adapter = self.dice.pick(list(node.adapters.values()))
        if self.dice.chance(0.3):
            adapter.platform.down_until = self.loop.time() + self.dice.between(1, 60)
        self.witness.note(node.name, f"loses its connection to {adapter.platform.id}")
        if adapter.host is not None:
            node.inside(adapter.host.lost, "reset")

    async def _absent(self) -> None:
        platform = self.dice.pick(list(self.platforms.values()))
        chat = f"c{self.dice.whole(1, self.mixture.chats)}"
        if chat not in platform.absent:
            self.witness.note(platform.id.platform, f"nobody is present in {chat}")
            platform.absent.add(chat)
            self.begin(self._present(platform, chat, self.dice.between(1, 60)))

    async def _present(self, platform: SimPlatform, chat: str, after_s: float) -> None:
        await lapse(after_s)
        platform.absent.discard(chat)
        self.witness.note(platform.id.platform, f"somebody is present in {chat}")
        for node in self.nodes:
            adapter = node.adapters.get(platform.id)
            if adapter is not None and adapter.host is not None and self.dice.chance(0.8):
                node.inside(adapter.host.connected, chat)

    async def _long_gap(self) -> None:
        """Hours in which nothing runs: the power is off, or the machine is suspended."""
        mixture = self.mixture
        self.awake.clear()
        self.witness.note("world", f"{mixture.gap} for {mixture.gap_s} s")
        self.witness.reach(f"gap: {mixture.gap}")
        if mixture.gap == "down":
            for node in list(self.nodes):
                self.kill(node)
        else:
            for node in self.nodes:
                node.process.freeze()
        await lapse(mixture.gap_s)
        self.awake.set()
        for node in list(self.nodes):
            node.process.thaw()
        if not self.nodes:
            self.start_node()
        await lapse(self.dice.between(1, 40))

    # -- the story ---------------------------------------------------------------------------

    async def run(self) -> None:
        crash.install(self.crash_point if self.mixture.crash_point_p else None)
        mixture, every = self.mixture, self._now_and_then
        self.witness.note("world", f"seed {self.seed}: {mixture}")
        for _ in range(mixture.nodes):
            self.start_node()
        number = 0
        for platform in self.platforms.values():
            for chat in range(1, mixture.chats + 1):
                thread = "t" if self.dice.chance(0.3) else ""
                number += 1
                self.begin(User(self, platform, Lane(*platform.id, f"c{chat}", thread), number).live())
        for every_s, trouble in (
            (mixture.kill_every_s, self._kill_one),
            (mixture.stop_every_s, self._stop_one),
            (mixture.freeze_every_s, self._freeze_one),
            (mixture.step_every_s, self._step),
            (mixture.down_every_s, self._store_down),
            (mixture.loss_every_s, self._lose_adapter),
            (mixture.absent_every_s, self._absent),
            (mixture.operator_every_s, self.operator.act),
        ):
            self.begin(every(every_s, trouble))
        await lapse(mixture.length_s)
        if mixture.gap:
            await self._long_gap()
        await self._settle_down()

    async def _settle_down(self) -> None:
        """The liveness phase."""
        self.calm = True
        self.down_until = 0.0
        while self.hindered:
            await lapse(0.5)
        self.witness.note("world", "the troubles end")
        for platform in self.platforms.values():
            platform.absent.clear()
            platform.revoked_until = platform.down_until = 0.0
        for node in list(self.nodes):
            if node.process.frozen:
                node.process.thaw()
        await lapse(0.5)
        if self.nodes and (self.mixture.lock or self.dice.chance(0.5)):
            node = self.nodes[0]
            self.kill(node) if self.dice.chance(0.5) or not node.ready else node.stop()
            while node.process.alive:
                await lapse(1)
        self.start_node()
        end = self.loop.time() + SETTLE_S
        while self.loop.time() < end and (self._unheard() or open_rows(self)):
            await lapse(5)
        for left in self._unheard() + open_rows(self):
            self.witness.flaw(f"8: {left} although all troubles ended {SETTLE_S} s ago")
        for sentence in flaws_of(self):
            self.witness.flaw(sentence)

    def _unheard(self) -> list[str]:
        return [f"{said.id} is not acknowledged" for said in self.said.values() if not said.acked]

    def close(self) -> None:
        crash.install(None)
        for node in list(self.nodes):
            node.process.kill()
            node.ledger._writer.close_blocking()
            node.ledger._reader.close_blocking()
        self.store.close()


def play(seed: int, mixture: Mixture | None = None) -> Story:
    """The whole story of one seed."""
    ram = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="angelia-sim-", dir=ram if ram.is_dir() else None))
    loop = SimLoop()  # type: ignore[abstract]  # what worlds need of a loop it has
    unexpected: list[str] = []
    with overheard(unexpected):
        try:
            story: Story = loop.run_until_complete(_live(seed, loop, folder, mixture))
            story.flaws += [f"an exception was logged: {one}" for one in unexpected]
            story.flaws += [f"nobody heard of a failure: {one}" for one in loop.complaints]
            return story
        finally:
            crash.install(None)
            loop.bury()
            loop.close()
            shutil.rmtree(folder, ignore_errors=True)


async def _live(seed: int, loop: SimLoop, folder: Path, mixture: Mixture | None) -> Story:
    world = World(seed, loop, folder, mixture)
    try:
        await world.run()
        deliveries = world.ask("SELECT count(*) FROM sim_log WHERE what = 'd' AND old IS NULL")[0][0]
    finally:
        world.close()
    witness = world.witness
    arrived = [one for platform in world.platforms.values() for one in platform.arrived]
    return Story(
        seed,
        witness.flaws,
        witness.notes,
        dict(witness.reached),
        loop.time(),
        world.deaths,
        len(arrived),
        deliveries,
        witness.redeliveries,
        sum(one.text.startswith(markers.OPENING) for one in arrived),
    )
