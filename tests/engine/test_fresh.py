"""What was written a moment ago need not be read back; whatever changed since, the claim sees it."""

from __future__ import annotations

import asyncio

from tests.engine.stage import BOT, Stage

from angelia.model.ids import Lane
from angelia.model.messages import NewDelivery
from angelia.model.outcomes import Refused
from angelia.model.states import Event


async def test_an_answer_goes_out_without_being_read_back(stage: Stage) -> None:
    node = await stage.start()
    node.faults.calls.clear()
    await node.say("hi")
    assert stage.talk.texts == ["You said: hi"]
    assert [verb for verb in node.faults.calls if verb in ("finish_turn", "head", "claim", "advance")] == [
        "finish_turn",
        "claim",
        "advance",
    ]


async def test_a_fresh_answer_does_not_overtake_what_waits_before_it(stage: Stage) -> None:
    stage.platform(Refused("no"))
    node = await stage.start()
    await node.owe("first")
    await node.say("hi")
    assert stage.talk.texts == []
    await stage.advance(31)
    assert stage.talk.texts == ["first", "You said: hi"]


async def test_what_was_cancelled_between_commit_and_claim_is_not_sent(stage: Stage) -> None:
    node = await stage.start()
    new = NewDelivery("d", Lane(*BOT, "c"), ("hello",), origin="notice")
    with node.as_me():
        record = await node.engine.ledger.enqueue(new)
        await node.engine.ledger.settle(record, Event.CANCELLED)
        node.engine.lanes.hint(record.lane, record)
    await stage.advance(5)
    assert stage.talk.calls == []


async def test_several_fresh_ones_of_a_busy_lane_all_go_out_in_order(stage: Stage) -> None:
    node = await stage.start()
    with node.as_me():
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                new = NewDelivery(f"d{number}", Lane(*BOT, "c"), (f"n{number}",), origin="notice")
                group.create_task(node.engine.enqueue(new))
    await node.say("hi")
    assert stage.talk.texts == [*(f"n{number}" for number in range(5)), "You said: hi"]
