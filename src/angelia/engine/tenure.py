"""Who we are on record: an owner with a lease, renewed every 5 s.

A lapsed owner never renews, nor does one whose pass ended without its outcome stored: it
becomes a new instance, and what the old one held is taken over like any dead owner's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from angelia.model import limits
from angelia.model.errors import StoreDamagedError, StoreUnavailableError
from angelia.seams.clock import Clock
from angelia.seams.rng import Rng
from angelia.store.ledger import Ledger, OwnerKind, TakenOver

log = structlog.get_logger("angelia")

#: Our own reading of the lease ends a little before the store's does.
_MARGIN_MS = 1_000


class Tenure:
    """The present owner id. ``lock_held``: the OS lock proves every other daemon dead."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        rng: Rng,
        kind: OwnerKind,
        lock_held: bool,
        protected: bool = True,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._rng = rng
        self._kind = kind
        self._lock_held = lock_held
        self._protected = protected
        self._renewed_at = 0
        self._tainted = False
        self.owner = ""
        self._former: list[str] = []
        #: The turns whose runs are going in this process.
        self.live_turns: Callable[[], Sequence[str]] = tuple

    async def begin(self) -> TakenOver:
        """Register as a new start and take over what dead owners left."""
        await self._register(reborn=False)
        return await self.take_over()

    async def take_over(self) -> TakenOver:
        """What owners that are gone held is owed again; committed when this returns."""
        return await self._ledger.take_over(self.owner, self._lock_held, self._protected)

    def alive(self, owner: str) -> bool:
        """Whether ``owner`` is us and our lease is surely still running."""
        age = self._clock.now().steady - self._renewed_at
        return owner == self.owner and not self._tainted and age < limits.lease_ms - _MARGIN_MS

    def taint(self, owner: str) -> None:
        """A pass of ``owner`` ended without its outcome stored."""
        if owner == self.owner:
            self._tainted = True

    async def renew(self) -> None:
        """Prolong the lease, or become a new instance if that is no longer allowed."""
        asked_at = self._clock.now().steady
        if not self._tainted and await self._ledger.renew(self.owner):
            self._renewed_at = asked_at
            await self._inherit()
            return
        log.warning("the lease was lost; going on as a new owner", action="owner.reborn", owner=self.owner)
        await self._register(reborn=True)

    async def _register(self, reborn: bool) -> None:
        old = self.owner
        asked_at = self._clock.now().steady
        owner = self._rng.token()
        await self._ledger.start(owner, self._kind, reborn)
        self.owner, self._renewed_at, self._tainted = owner, asked_at, False
        if old:
            self._former.append(old)
        await self._inherit()

    async def _inherit(self) -> None:
        """What earlier owners of this process left; asked again if the store fails in between."""
        while self._former:
            # A run that is going here is no interruption, whatever became of the lease.
            await self._ledger.adopt(self._former[0], self.owner, self.live_turns())
            await self._ledger.retire(self._former[0])
            del self._former[0]

    async def end(self) -> None:
        """Gone from now on; the next start may take over at once."""
        if not self.owner:
            return
        try:
            await self._ledger.retire(self.owner)
        except (StoreUnavailableError, StoreDamagedError) as error:
            # The lock or the lease tells the next start as much.
            log.warning("the end could not be put on record", action="owner.end", error=str(error))
