"""Our ledger as ``bench.ledger`` drives it: the real ``SqliteLedger``, threads and all.

A reply takes the three verbs that the engine calls for an answer with one part: ``enqueue`` (on
record), ``claim`` (attempting, the first attempt in flight) and ``advance`` with the receipt
(delivered). Between the last two lies the send, here one turn of the event loop, as for the
peer. Owner, lease, fences, revisions and attempts are all written: nothing is left out that a
real reply puts on record. Planning is the engine's work, not the ledger's, and not timed here.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw

from angelia.model.ids import Claim, Lane
from angelia.model.messages import NewDelivery
from angelia.model.record import Attempt, Ending, Revision
from angelia.model.states import Event
from angelia.seams.clock import SystemClock
from angelia.seams.rng import SystemRng
from angelia.store.ledger import Advance, AdvanceAnswer, ClaimAnswer, OwnerKind
from angelia.store.sqlite import SqliteLedger
from bench.driver import reply_text

#: As many conversations as the peer's measurement has.
_CONVERSATIONS = 1000

#: The lease is prolonged as often as the engine does it (guarantees §6).
_RENEW_EVERY_S = 5.0


class SqliteSubject:
    """An open store with one living owner."""

    def __init__(self, ledger: SqliteLedger, clock: SystemClock, owner: str) -> None:
        self._ledger = ledger
        self._clock = clock
        self._rng = SystemRng()
        self._owner = owner
        self._renewing = asyncio.create_task(self._renew())

    async def reply(self, number: int) -> None:
        ledger, wall = self._ledger, self._clock.now().wall
        lane = Lane("default", "webhook", f"chat-{number % _CONVERSATIONS}", "")
        record = await ledger.enqueue(NewDelivery(self._rng.token(), lane, (reply_text(number),)))
        granted = await ledger.claim(record, self._owner, Revision(part=1, number=1), wall)
        if granted is not ClaimAnswer.GRANTED:
            raise RuntimeError(f"reply {number} was not claimed: {granted}")
        claim = Claim(record.id, self._owner, record.fence + 1)
        attempt = Attempt(number=1, part=1, revision=1, fence=claim.fence, started_at=wall)
        await asyncio.sleep(0)  # the send
        change = Advance(
            Event.LAST_PART_ACCEPTED,
            attempt=attempt,
            ending=Ending.ACCEPTED,
            ended_at=self._clock.now().wall,
            receipt=str(number),
        )
        settled = await ledger.advance(claim, change)
        if settled is not AdvanceAnswer.DONE:
            raise RuntimeError(f"reply {number} was not settled: {settled}")

    async def delivered(self) -> int:
        def count(connection: apsw.Connection) -> int:
            complete = connection.execute(
                "SELECT count(*) FROM deliveries d JOIN parts p ON p.delivery = d.id"
                " JOIN attempts a ON a.delivery = d.id"
                " WHERE d.state = 'delivered' AND p.receipt IS NOT NULL AND a.ending = 'accepted'"
            ).get
            return int(complete)

        return await self._ledger.read(count)

    async def close(self) -> None:
        self._renewing.cancel()
        await asyncio.gather(self._renewing, return_exceptions=True)
        await self._ledger.close()

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(_RENEW_EVERY_S)
            if not await self._ledger.renew(self._owner):
                raise RuntimeError("the lease lapsed in the middle of a measurement")


async def open_ledger(home: Path) -> SqliteSubject:
    """A fresh store in ``home``, opened as the gateway opens it, with this process as its owner."""
    clock = SystemClock()
    ledger = SqliteLedger(home / "state.db", clock)
    owner = SystemRng().token()
    await ledger.start(owner, OwnerKind.DAEMON)
    return SqliteSubject(ledger, clock, owner)
