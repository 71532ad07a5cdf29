"""What brings owed rows back: a start, the timer, a connection. All end at one gate.

The rescuer only finds lanes and turns and hints at them; whether anything is sent is decided
by the plan and the claim, as for every other send. Polling the store is the truth; hints
only make it fast.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from angelia.engine.lanes import Lanes
from angelia.engine.roster import Roster
from angelia.engine.service import Loop
from angelia.engine.tenure import Tenure
from angelia.model import limits
from angelia.model.ids import AdapterId, Lane
from angelia.model.states import Event
from angelia.seams.clock import Clock
from angelia.store.ledger import Ledger, TurnKind

log = structlog.get_logger("angelia")

#: How many lanes, turns and stale rows one round looks at; the next round sees the rest.
_LOOK_AT_MOST = 500


class Rescuer:
    """Polls for due lanes and waiting turns, renews the lease, takes over, settles the stale."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        tenure: Tenure,
        roster: Roster,
        lanes: Lanes,
        on_turn: Callable[[str, Lane, TurnKind], None],
        kept: Callable[[], int],
        protected: bool = True,
    ) -> None:
        self._ledger = ledger
        self._tenure = tenure
        self._roster = roster
        self._lanes = lanes
        self._on_turn = on_turn
        self._kept = kept
        self._protected = protected
        self._poll = Loop("rescuer", self._round, limits.poll_every_s, clock)
        self._lease = Loop("lease", self._hold, limits.lease_renew_every_s, clock)
        self.turns_open = True

    def start(self) -> None:
        self._poll.start()
        self._lease.start()

    def hint(self) -> None:
        """Something may be due now."""
        self._poll.hint()

    async def stop(self) -> None:
        await self._poll.stop()
        await self._lease.stop()

    async def connected(self, adapter: AdapterId, chat: str | None = None) -> None:
        """A connection came up: what was not sent for want of one is due now, and what is due
        is queued in its lanes when this returns. Nothing waits for the sends."""
        if not self._protected:
            return  # rows already owed stay untouched and age
        await self._ledger.connected(adapter, chat)
        await self._queue((adapter,))

    async def _queue(self, adapters: tuple[AdapterId, ...]) -> None:
        for lane in await self._ledger.due_lanes(adapters, _LOOK_AT_MOST):
            self._lanes.hint(lane)

    async def _round(self) -> None:
        await self._queue(self._roster.up)
        if self.turns_open:
            for turn, lane, kind in await self._ledger.waiting_turns(_LOOK_AT_MOST):
                self._on_turn(turn, lane, kind)

    async def _hold(self) -> None:
        if self._kept():
            return  # outcomes and answers are stored first: none of ours is taken for a dead one's
        await self._tenure.renew()
        taken = await self._tenure.take_over()
        if taken.deliveries or taken.turns:
            log.warning(
                "took over what an owner that is gone had left",
                action="owner.taken_over",
                deliveries=taken.deliveries,
                turns=taken.turns,
            )
            self.hint()
        if not self._protected:
            return  # rows already owed stay untouched and age
        for record in await self._ledger.stale(_LOOK_AT_MOST):
            if await self._ledger.settle(record, Event.GREW_STALE):
                log.error("a reply grew stale and was abandoned", action="delivery.stale", delivery=record.id)
