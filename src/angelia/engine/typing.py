"""The typing indicator while a run is going: best effort, never in the way of a rate limit."""

from __future__ import annotations

import asyncio

import structlog

from angelia.engine.changes import limit_for
from angelia.engine.roster import Connection, Roster
from angelia.model.errors import AngeliaError
from angelia.model.ids import AdapterId, Lane
from angelia.model.outcomes import RateLimited, Scope
from angelia.seams.clock import Clock
from angelia.store.ledger import Ledger

log = structlog.get_logger("angelia")

_REFRESH_S = 4.0


class Typing:
    """Shows that somebody is at work, on platforms that can."""

    def __init__(self, ledger: Ledger, clock: Clock, roster: Roster) -> None:
        self._ledger = ledger
        self._clock = clock
        self._roster = roster
        #: Limits on the typing call alone; nothing else needs to know them.
        self._own_limit: dict[AdapterId, int] = {}

    def begin(self, lane: Lane) -> asyncio.Task[None] | None:
        """Show the indicator until the returned task is cancelled (``None``: there is none to show)."""
        connection = self._roster.get(lane.adapter)
        if connection is None or not connection.adapter.capabilities.typing:
            return None
        return asyncio.create_task(self._show(lane), name=f"typing {lane}")

    async def _show(self, lane: Lane) -> None:
        shown = False
        try:
            while True:
                connection = self._roster.get(lane.adapter)
                if connection is None or not connection.adapter.capabilities.typing:
                    return
                shown = await self._call(connection, lane, True) or shown
                await self._clock.sleep(_REFRESH_S)
        except AngeliaError as error:
            log.debug("no typing indicator", action="typing.failed", error=str(error))
        except Exception:
            log.exception("a typing call raised", action="typing.raised", lane=str(lane))
        finally:
            if shown:
                await self._end(lane)

    async def _end(self, lane: Lane) -> None:
        connection = self._roster.get(lane.adapter)
        if connection is None:
            return
        try:
            await self._call(connection, lane, False)
        except Exception as error:
            log.debug("the typing indicator stays", action="typing.failed", error=str(error))

    async def _call(self, connection: Connection, lane: Lane, active: bool) -> bool:
        """One call, unless a rate limit holds it: then it is dropped, not queued."""
        now = self._clock.now().steady
        if max(await self._ledger.held_until(lane), self._own_limit.get(lane.adapter, 0)) > now:
            return False
        outcome = await connection.adapter.typing(lane, active)
        if isinstance(outcome, RateLimited):
            limit = limit_for(outcome, lane.chat, self._clock.now())
            if limit.scope is Scope.METHOD:
                self._own_limit[lane.adapter] = limit.until
            else:
                await self._ledger.hold(lane.adapter, limit)
        return True
