"""The typing indicator while a run is going: best effort, never in the way of a rate limit."""

from __future__ import annotations

import asyncio

import structlog

from angelia.engine.changes import limit_for
from angelia.engine.roster import Roster
from angelia.model.errors import AngeliaError
from angelia.model.ids import Lane
from angelia.model.outcomes import RateLimited
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

    def begin(self, lane: Lane) -> asyncio.Task[None]:
        """Show the indicator until the returned task is cancelled."""
        return asyncio.create_task(self._show(lane), name=f"typing {lane}")

    async def _show(self, lane: Lane) -> None:
        shown = False
        try:
            while True:
                connection = self._roster.get(lane.adapter)
                if connection is None or not connection.adapter.capabilities.typing:
                    return
                if await self._ledger.held_until(lane) <= self._clock.now().steady:
                    outcome = await connection.adapter.typing(lane, True)
                    shown = True
                    if isinstance(outcome, RateLimited):
                        limit = limit_for(outcome, lane.chat, self._clock.now())
                        await self._ledger.hold(lane.adapter, limit)
                await self._clock.sleep(_REFRESH_S)
        except AngeliaError as error:
            log.debug("no typing indicator", action="typing.failed", error=str(error))
        finally:
            connection = self._roster.get(lane.adapter)
            if shown and connection is not None:
                await connection.adapter.typing(lane, False)
