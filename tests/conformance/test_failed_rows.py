"""A failed row that several saw due is claimed by one of them, and nobody beside it.

At a start the sweep, the timer, a connection and a second gateway may all have read the same
failed row before one of them claims it. The exam asks this of pending rows; here it is asked of
failed ones (the canary ``07-failed-row-claimable-during-its-boot-send``).
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from angelia.model.outcomes import Accepted, Unconfirmed
from angelia.model.record import Record
from angelia.model.states import State
from angelia.store.ledger import ClaimAnswer
from angelia.store.sqlite import SqliteLedger
from angelia.testing.ledger_exam import Desk

RAM = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
GATEWAYS = 5


@pytest.fixture(params=[False, True], ids=["threads", "inline"])
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    folder = Path(tempfile.mkdtemp(prefix="angelia-failed-rows-", dir=RAM))
    desk = Desk(lambda clock: SqliteLedger(folder / "state.db", clock, inline=request.param))
    yield desk
    await desk.close()
    shutil.rmtree(folder)


async def failed_and_due(desk: Desk) -> Record:
    """A row whose first send ended in doubt, and whose time has come."""
    record = await desk.send(await desk.notice(), await desk.owner(), Unconfirmed("time-out"))
    assert record.state is State.FAILED
    desk.pass_until_due(record)
    return record


async def test_who_saw_it_failed_does_not_claim_it_while_another_sends_it(desk: Desk) -> None:
    seen = await failed_and_due(desk)
    first, second = await desk.owner(), await desk.owner()
    claim, claimed = await desk.claim(seen, first)
    assert await desk.try_claim(seen, second) is ClaimAnswer.CHANGED, "claimed while another sends it"
    assert await desk.look(seen) == claimed
    delivered = await desk.end(claim, claimed, Accepted("r"))
    assert delivered.state is State.DELIVERED
    assert await desk.try_claim(seen, second) is ClaimAnswer.CHANGED
    assert await desk.look(seen) == delivered


async def test_of_many_gateways_that_saw_it_failed_exactly_one_is_granted(desk: Desk) -> None:
    seen = await failed_and_due(desk)
    owners = [await desk.owner() for _ in range(GATEWAYS)]
    openings = [desk.another() for _ in owners]
    answers = await asyncio.gather(
        *(desk.try_claim(seen, owner, at) for owner, at in zip(owners, openings, strict=True))
    )
    counted = Counter(answers)
    assert counted == {ClaimAnswer.GRANTED: 1, ClaimAnswer.CHANGED: GATEWAYS - 1}, "claimed by several"
    left = await desk.look(seen)
    assert (left.state, left.fence, len(left.attempts)) == (State.ATTEMPTING, seen.fence + 1, 2)


async def test_after_its_pass_it_is_claimed_only_as_it_is_now(desk: Desk) -> None:
    seen = await failed_and_due(desk)
    again = await desk.send(seen, await desk.owner(), Unconfirmed("time-out"))
    desk.pass_until_due(again)
    other = await desk.owner()
    assert await desk.try_claim(seen, other) is ClaimAnswer.CHANGED
    assert await desk.try_claim(again, other) is ClaimAnswer.GRANTED
