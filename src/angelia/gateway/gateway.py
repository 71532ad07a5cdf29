"""The gateway: configuration made alive. Lock, open and check the store, take over, connect,
open; and the same backwards.

It can be embedded; ``run`` is what the command line does with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from functools import partial

import structlog
from aiohttp import web

from angelia.engine.engine import Engine
from angelia.gateway.access import Access
from angelia.gateway.commands import Commands, is_command
from angelia.gateway.config import Config
from angelia.gateway.home import Home, HomeLock
from angelia.gateway.links import Links
from angelia.gateway.note import Note
from angelia.gateway.registry import AGENTS, PLATFORMS, Context
from angelia.gateway.server import Server
from angelia.gateway.supervisor import Supervisor
from angelia.model.errors import AngeliaError
from angelia.model.ids import AdapterId, Lane
from angelia.platforms.base import Adapter, Capabilities
from angelia.platforms.text import split as split_text
from angelia.seams.clock import Clock, SystemClock
from angelia.seams.rng import Rng, SystemRng
from angelia.store.ledger import OwnerKind
from angelia.store.spool import FileSpool
from angelia.store.sqlite import SqliteLedger

log = structlog.get_logger("angelia")

#: How long the start waits for adapters before it says that it is ready without them.
_FIRST_TRIES_S = 5.0


def adapter_builders(config: Config, context: Context) -> dict[AdapterId, Callable[[], Adapter]]:
    """How to build an instance of every configured adapter."""
    return {
        AdapterId(profile.name, platform.name): partial(
            PLATFORMS[platform.name].build,
            AdapterId(profile.name, platform.name),
            platform.settings,
            context,
        )
        for profile in config.profiles.values()
        for platform in profile.platforms.values()
    }


class Gateway:
    """One gateway on one home. Raises ``HomeLockedError``, ``ConfigError`` or the errors of the
    store from the constructor, which takes the lock and opens the store."""

    def __init__(self, config: Config, clock: Clock | None = None, rng: Rng | None = None) -> None:
        self.config = config
        self._clock = clock or SystemClock()
        self._rng = rng or SystemRng()
        context = Context(self._clock, self._rng, config.listen.host, config.home)
        home = Home(config.home)
        self._builders = adapter_builders(config, context)
        self._splitters = {adapter_id: build() for adapter_id, build in self._builders.items()}
        self.agents = {
            profile.name: AGENTS[profile.agent_kind].build(profile.agent, context)
            for profile in config.profiles.values()
        }
        self._phase = "starting"
        self._lock = HomeLock(home)
        try:
            self.ledger = SqliteLedger(home.store, self._clock)
            self._note = Note(home, self.ledger, self._clock)
            self.engine = self._engine()
            links = Links(home.path, home.spool, self._clock, self._rng)
            listen = config.listen
            self.server = Server(listen.host, listen.port, self._health, links, config.public_url)
            self.supervisor = Supervisor(self.engine, self.server, Access(config), self._builders)
        except BaseException:
            self._lock.release()
            raise

    def _engine(self) -> Engine:
        engine = Engine(
            self.ledger,
            self._clock,
            self._rng,
            self.agents,
            self.split,
            kind=OwnerKind.DAEMON,
            lock_held=True,
            is_command=is_command,
            protected=self.config.delivery_ledger,
            spool=FileSpool(Home(self.config.home).spool),
            capabilities=self.capabilities,
        )
        engine.turner.on_command = Commands(engine, self.ledger).answer
        return engine

    @property
    def address(self) -> str:
        """Where the HTTP server listens, e.g. ``http://127.0.0.1:8787/``; "" before."""
        return self.server.address

    def capabilities(self, lane: Lane) -> Capabilities | None:
        """What the platform of a lane can take, whether or not its adapter is connected."""
        adapter = self._splitters.get(lane.adapter)
        return None if adapter is None else adapter.capabilities

    def split(self, lane: Lane, text: str) -> list[str]:
        """``text`` cut for the platform of a lane, whether or not its adapter is connected."""
        adapter = self._splitters.get(lane.adapter)
        return adapter.split(text) if adapter is not None else split_text(text, 4096)

    async def start(self, any_port: bool = False) -> None:
        """Listen, take over, connect. When this returns inbound is accepted by every adapter
        that is up; the others go on trying. If it raises, everything is given back."""
        try:
            await self._start(any_port)
        except BaseException:
            with contextlib.suppress(AngeliaError):  # a store in trouble cannot say goodbye
                await self.stop()
            raise

    async def _start(self, any_port: bool) -> None:
        for warning in self.config.warnings:
            log.warning(warning, action="config.warning")
        if not self.config.delivery_ledger:
            log.warning(
                "delivery_ledger is false: a reply in flight at a crash is LOST and never repeated",
                action="ledger.off",
            )
        for adapter_id, adapter in self._splitters.items():
            self.server.declare(adapter_id, adapter)
        await self.server.start(any_port)
        await self._note.start()
        taken = await self.engine.start()
        if taken.deliveries or taken.turns:
            log.info(
                "recovered what an earlier gateway had left",
                action="start.taken_over",
                deliveries=taken.deliveries,
                turns=taken.turns,
            )
        self.engine.receiver.open = True
        self.supervisor.start()
        await self.supervisor.first_tries(_FIRST_TRIES_S)
        self._phase = "running"
        self._lock.publish(self.address, self._clock.now().wall)

    async def stop(self) -> None:
        """Drain and close: no new inbound; turns get 30 s, sends 10 s. Committed state only.
        Stopping what has stopped does nothing."""
        if self._phase in ("draining", "stopped"):
            return
        self._phase = "draining"
        self.supervisor.close_doors()
        try:
            await self.engine.stop()
        finally:
            await self._note.stop()
            await self.supervisor.stop()
            await self.server.stop()
            for agent in self.agents.values():
                await agent.close()
            await self.ledger.close()
            self._lock.release()
            self._phase = "stopped"

    async def run(self, on_ready: Callable[[str], None], any_port: bool = False) -> None:
        """Start, tell ``on_ready`` the address, and serve until SIGTERM or SIGINT."""
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked.set)
        await self.start(any_port)
        on_ready(self.address)
        await asked.wait()
        log.info("stopping", action="stop.begin")
        await self.stop()
        log.info("stopped", action="stop.end")

    async def _health(self, _request: web.Request) -> web.StreamResponse:
        """200 when the store is writable, the take-over is committed and inbound accepts."""
        reasons = [] if self._phase == "running" else [f"the gateway is {self._phase}"]
        # What is kept in memory waits for the store, also if another write has just succeeded.
        if self.ledger.trouble or self.engine.sender.kept or self.engine.answers.kept:
            reasons.append("the store cannot be written")
        ready = not reasons
        reasons += [
            f"{adapter_id} is {condition.state}"
            if condition.state != "up"
            else f"{adapter_id}: {condition.reason}"
            for adapter_id, condition in self.supervisor.conditions.items()
            if condition.state != "up" or condition.reason
        ]
        body = {"status": "ok" if ready else "unavailable", "reasons": reasons}
        return web.json_response(body, status=200 if ready else 503)
