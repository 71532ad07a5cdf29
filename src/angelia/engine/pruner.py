"""Forgets what nobody needs any more: final rows after 7 days. Owed rows are never touched."""

from __future__ import annotations

from angelia.engine.attaching import Spool
from angelia.engine.service import Loop
from angelia.model import limits
from angelia.seams.clock import Clock
from angelia.store.ledger import Ledger


class Pruner:
    """Prunes at the start and then every ten minutes."""

    def __init__(self, ledger: Ledger, clock: Clock, spool: Spool | None = None) -> None:
        self._ledger = ledger
        self._spool = spool
        self._loop = Loop("pruner", self._round, limits.prune_every_s, clock)

    def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    async def _round(self) -> None:
        await self._ledger.prune()
        if self._spool is not None:
            # A file that is named only from now on has been touched, so it is not old.
            await self._spool.forget(await self._ledger.files_named())
