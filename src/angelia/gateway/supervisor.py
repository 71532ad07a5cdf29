"""Keeps adapters connected: a lost one is replaced by a new instance, for ever, with growing
pauses. One that is down blocks no other. A revoked credential stops only its adapter; its
owed rows wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from angelia.engine.engine import Engine
from angelia.gateway.access import Access
from angelia.gateway.host import AdapterHost
from angelia.gateway.server import Server
from angelia.model import limits
from angelia.model.errors import BadCredentialError
from angelia.model.ids import AdapterId
from angelia.platforms.base import Adapter

log = structlog.get_logger("angelia")

#: A connection that lived this long starts again with the shortest pause.
_STABLE_MS = 60_000
_CONNECT_LIMIT_S = 30.0
_STOP_LIMIT_S = 10.0
_GAP_CHECK_S = 5.0


@dataclass(slots=True)
class Condition:
    """How an adapter is, for health and status: "up", "down", "connecting", "bad credential"."""

    state: str = "connecting"
    reason: str = ""


class Supervisor:
    """``build`` makes a new instance of an adapter."""

    def __init__(
        self,
        engine: Engine,
        server: Server,
        access: Access,
        adapters: dict[AdapterId, Callable[[], Adapter]],
    ) -> None:
        self._engine = engine
        self._server = server
        self._access = access
        self._build = adapters
        self._tasks: list[asyncio.Task[None]] = []
        self._hosts: dict[AdapterId, AdapterHost] = {}
        self._stopping = asyncio.Event()
        self._condemned: set[AdapterId] = set()
        self.conditions = {adapter_id: Condition() for adapter_id in adapters}
        self._settled = {adapter_id: asyncio.Event() for adapter_id in adapters}
        engine.roster.on_bad_credential = self._bad_credential

    def start(self) -> None:
        """Connect all adapters side by side."""
        self._tasks = [asyncio.create_task(self._keep(one), name=f"adapter {one}") for one in self._build]
        self._tasks.append(asyncio.create_task(self._watch_for_gaps(), name="gaps"))

    async def first_tries(self, patience_s: float) -> None:
        """Wait, at most ``patience_s``, until every adapter is up or has said why it is not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                for settled in self._settled.values():
                    await settled.wait()

    def close_doors(self) -> None:
        """No new inbound from now on."""
        for host in self._hosts.values():
            host.close()

    async def stop(self) -> None:
        """Disconnect all adapters; returns when each has stopped."""
        self._stopping.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, adapter_id: AdapterId) -> None:
        pause_s = limits.reconnect_first_s
        while not self._stopping.is_set():
            began = self._engine.clock.now().steady
            try:
                await self._one_life(adapter_id)
            except BadCredentialError as error:
                self._bad_credential(adapter_id, str(error))
            except Exception as error:
                self._say(adapter_id, "down", f"{error}" or type(error).__name__)
            if self._stopping.is_set() or adapter_id in self._condemned:
                return
            if self._engine.clock.now().steady - began > _STABLE_MS:
                pause_s = limits.reconnect_first_s
            await self._wait(pause_s)
            pause_s = min(pause_s * 2, limits.reconnect_most_s)

    async def _one_life(self, adapter_id: AdapterId) -> None:
        """From the building of one instance to its end."""
        adapter = self._build[adapter_id]()
        host = AdapterHost(adapter_id, self._engine, self._access, self._server)
        host.on_trouble = partial(self._troubled, adapter_id)
        self._hosts[adapter_id] = host
        try:
            async with asyncio.timeout(_CONNECT_LIMIT_S):
                await adapter.start(host)
            self._engine.roster.install(adapter_id, adapter)
            await self._engine.rescuer.connected(adapter_id)
            if adapter_id not in self._condemned:  # by the first of its owed rows
                host.open = True
                self._server.install(adapter_id, adapter)
                self._say(adapter_id, "up", host.trouble)
            await self._until_broken(host)
            if not self._stopping.is_set() and adapter_id not in self._condemned:
                self._say(adapter_id, "down", host.broken_reason)
        finally:
            host.close()
            self._server.remove(adapter_id)
            self._engine.roster.remove(adapter_id, adapter)
            with contextlib.suppress(TimeoutError):  # one that hangs must not block its successor
                async with asyncio.timeout(_STOP_LIMIT_S):
                    await adapter.stop()

    async def _until_broken(self, host: AdapterHost) -> None:
        waiting = [asyncio.ensure_future(event.wait()) for event in (host.broken, self._stopping)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _bad_credential(self, adapter_id: AdapterId, detail: str) -> None:
        """This adapter stops, in both directions, until the next start."""
        self._condemned.add(adapter_id)
        self._engine.roster.remove(adapter_id)
        self._say(adapter_id, "bad credential", detail)
        if adapter_id in self._hosts:
            self._hosts[adapter_id].close()
            self._hosts[adapter_id].lost(detail)

    def _troubled(self, adapter_id: AdapterId, reason: str) -> None:
        """It stays up; health and status show the reason."""
        if self.conditions[adapter_id].state == "up":
            self.conditions[adapter_id] = Condition("up", reason)

    def _say(self, adapter_id: AdapterId, state: str, reason: str) -> None:
        self.conditions[adapter_id] = Condition(state, reason)
        self._settled[adapter_id].set()
        tell = log.info if state == "up" else log.error if state == "bad credential" else log.warning
        tell(f"{adapter_id} is {state}", action="adapter." + state.replace(" ", "_"), reason=reason)

    async def _wait(self, seconds: float) -> None:
        sleeping = asyncio.ensure_future(self._engine.clock.sleep(seconds))
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for one in (sleeping, stopping):
            one.cancel()
        await asyncio.gather(sleeping, stopping, return_exceptions=True)

    async def _watch_for_gaps(self) -> None:
        """After a suspend the sockets are half dead: rebuild the adapters first."""
        before = self._engine.clock.now().steady
        while not self._stopping.is_set():
            await self._wait(_GAP_CHECK_S)
            now = self._engine.clock.now().steady
            if now - before > _GAP_CHECK_S * limits.SECOND_MS + limits.suspend_gap_ms:
                log.warning(
                    "time has passed unseen; rebuilding the adapters", action="clock.gap", ms=now - before
                )
                for host in self._hosts.values():
                    host.lost("the machine was suspended")
            before = now
