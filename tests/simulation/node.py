"""One gateway process of a simulated world, and its gate to the store.

The engine, the supervisor and the chat commands are the real ones, and so is the ledger on
its file. The gate between them adds what a store may do to its callers: take its time before
and after a commit (so that a death finds every place between two awaits), be unavailable, and
commit without its answer ever coming back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from tests.simulation.dice import Dice
from tests.simulation.people import SimAgent
from tests.simulation.platform import SimAdapter
from tests.simulation.witness import Look

from angelia.engine.engine import Engine
from angelia.gateway.access import Access
from angelia.gateway.commands import Commands, is_command
from angelia.gateway.server import Server
from angelia.gateway.supervisor import Supervisor
from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import AdapterId, Lane
from angelia.platforms.text import split
from angelia.store.connection import StoreBusy
from angelia.store.ledger import Ledger, OwnerKind
from angelia.store.sqlite import VERBS, SqliteLedger
from angelia.testing.simloop import Killed, Process, SimClock, lapse

if TYPE_CHECKING:
    from tests.simulation.world import World


class Gate:
    """The ledger as a gateway sees it."""

    def __init__(self, node: Node, ledger: SqliteLedger) -> None:
        self._node, self._ledger = node, ledger
        self._verbs: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in self._verbs:
            real = getattr(self._ledger, name)
            self._verbs[name] = self._gated(name, real) if asyncio.iscoroutinefunction(real) else real
        return self._verbs[name]

    def _gated(self, name: str, real: Any) -> Any:
        node, world = self._node, self._node.world
        writes = name in VERBS

        async def verb(*given: Any, **named: Any) -> Any:
            await node.outside()
            await self._pause()
            if world.store_is_down(writes):
                raise StoreUnavailableError(f"{name}: the disk is full")
            untouched = None if node.protected else world.witness.ledger_off(node, name, given)
            try:
                result = await real(*given, **named)
            except StoreUnavailableError as error:
                world.witness.reach(f"store {'busy' if isinstance(error, StoreBusy) else 'full'} in earnest")
                raise
            world.witness.verb(node, name, given, named, result)
            if untouched is not None:
                untouched()
            if writes and not world.calm and node.dice.chance(world.mixture.lost_commit_p):
                world.witness.reach("answer of a commit lost")
                if name == "renew":
                    world.witness.reach("lease renewed without an answer")
                world.witness.note(node.name, f"the answer of {name} is lost")
                raise StoreUnavailableError(f"{name}: the answer was lost")
            if not world.calm and node.dice.chance(world.mixture.stall_p):
                world.stall(node, node.dice.pick((3.0, 14.5, 17.0, 40.0)))
                await lapse(0)
            await self._pause()
            return result

        return verb

    async def _pause(self) -> None:
        if self._node.dice.chance(self._node.world.mixture.pause_p):
            await lapse(self._node.dice.pick((0.0, 0.001, 0.02, 0.4)))


class _NoServer:
    """No HTTP here; the supervisor is content with somebody who listens."""

    def install(self, *_: Any) -> None: ...

    def remove(self, *_: Any) -> None: ...


class _Everybody:
    def allows(self, *_: Any) -> bool:
        return True


class Node:
    """One process with one engine."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.name = f"n{number}"
        self.process = Process(self.name)
        self.dice = Dice(world.seed, self.name)
        self.clock = SimClock(world.civil)
        self.adapters: dict[AdapterId, SimAdapter] = {}
        self.ended = False
        self.ready = False
        self.claims: dict[str, Any] = {}  # what the witness knows of this node's claims
        self.looked = Look(-1.0, 0, 0)
        self.ledger = world.store.ledger(self.clock)
        self.gate = cast(SqliteLedger, Gate(self, self.ledger))
        self.agent = SimAgent(self)
        off = world.mixture.ledger_off
        #: The setting gateway.delivery_ledger of this gateway's configuration.
        self.protected = not off or (off == "at times" and (world.calm or self.dice.chance(0.5)))
        lock = world.mixture.lock
        self.engine = Engine(
            cast(Ledger, self.gate),
            self.clock,
            self.dice.rng,
            {"bot": self.agent},
            self._split,
            kind=OwnerKind.DAEMON if lock else OwnerKind.LIBRARY,
            lock_held=lock,
            is_command=is_command,
            protected=self.protected,
        )
        self.engine.turner.on_command = Commands(self.engine, self.gate).answer
        self.supervisor = Supervisor(
            self.engine,
            cast(Server, _NoServer()),
            cast(Access, _Everybody()),
            {one.id: self._builder(one.id) for one in world.platforms.values()},
        )

    def _builder(self, adapter_id: AdapterId) -> Callable[[], SimAdapter]:
        return lambda: SimAdapter(self.world.platforms[adapter_id], self)

    def _split(self, lane: Lane, text: str) -> list[str]:
        return split(text, self.world.platforms[lane.adapter].text_limit, len)

    async def outside(self) -> None:
        """The border of the process: what is dead never comes through it."""
        if not self.process.alive:
            await asyncio.get_running_loop().create_future()

    @property
    def runs(self) -> bool:
        return self.process.alive and not self.process.frozen

    async def _start(self) -> None:
        try:
            taken = await self.engine.start()
        except StoreUnavailableError:
            self.world.witness.note(self.name, "cannot start: the store is unavailable")
            self.world.kill(self)
            await self.outside()
        self.world.witness.note(self.name, f"started, took over {taken.deliveries}, {taken.turns}")
        self.engine.receiver.open = True
        self.supervisor.start()
        self.ready = True

    def start(self) -> None:
        self._watch(self._start())

    def stop(self) -> None:
        """SIGTERM."""
        self.world.witness.note(self.name, "SIGTERM")
        self.ready = False
        self._watch(self._stop())

    async def _stop(self) -> None:
        self.supervisor.close_doors()
        try:
            await self.engine.stop()
        except StoreUnavailableError:
            self.world.witness.note(self.name, "stopping without a store")
        await self.supervisor.stop()
        self.world.witness.note(self.name, "exit 0")
        self.world.witness.reach("drained")
        self.world.kill(self, quiet=True)
        await self.outside()

    def _watch(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Something whose failure is a bug."""

        def look(task: asyncio.Task[Any]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, Killed):
                self.world.witness.flaw(f"{self.name} failed: {error!r}")

        self.process.begin(coroutine).add_done_callback(look, context=self.world.context)

    def inside(self, work: Callable[..., Any], *given: Any) -> None:
        """Something that the outside does to the process (an event on a socket)."""
        if self.process.alive:
            self.process.context.run(work, *given)
