"""Order, lanes and parts: what goes out when nothing is wrong, and what waits for whom."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from tests.engine.stage import BOT, Stage

from angelia.model import limits
from angelia.model.ids import AdapterId, Lane
from angelia.model.messages import NewDelivery, Outgoing
from angelia.model.outcomes import Accepted, BadContent, NotSent, RateLimited, Refused
from angelia.platforms.base import Capabilities
from angelia.testing.fakes import Arrives, Held, ScriptedAdapter


async def test_a_notice_goes_out_once_and_plain(stage: Stage) -> None:
    node = await stage.start()
    id = await node.owe("hello")
    await stage.advance(60)
    assert stage.talk.texts == ["hello"]
    record = stage.record(id)
    assert (record.state, record.parts[0].receipt, len(record.attempts)) == ("delivered", "r1", 1)


async def test_f1_three_parts_go_out_in_order_each_with_its_receipt(stage: Stage) -> None:
    node = await stage.start()
    id = await node.owe("one", "two", "three")
    assert [(m.text, m.part, m.parts) for m in stage.talk.seen] == [
        ("one", 1, 3),
        ("two", 2, 3),
        ("three", 3, 3),
    ]
    assert [part.receipt for part in stage.record(id).parts] == ["r1", "r2", "r3"]
    assert len({m.key for m in stage.talk.calls}) == 3


async def test_i2_rows_of_one_millisecond_keep_the_order_in_which_they_were_written(stage: Stage) -> None:
    node = await stage.node().start(connect=False)
    for number in range(10):
        await node.owe(f"n{number}")
    await node.connect()
    await stage.advance(5)
    assert stage.talk.texts == [f"n{number}" for number in range(10)]


async def test_i1_a_row_that_waits_is_not_overtaken_in_its_lane(stage: Stage) -> None:
    stage.platform(Refused("no"))
    node = await stage.start()
    await node.owe("first")
    await node.owe("second")
    await node.owe("other chat", chat="d")
    assert stage.talk.texts == ["other chat"]
    await stage.advance(31)
    assert stage.talk.texts == ["other chat", "first", "second"]


async def test_i1_a_resting_row_is_overtaken_and_says_so_when_it_comes(stage: Stage) -> None:
    stage.platform(*[Refused("no")] * 3)
    node = await stage.start()
    await node.owe("first")
    await stage.advance(29)
    assert len(stage.talk.calls) == 1
    await stage.advance(1 + 121)
    assert len(stage.talk.calls) == 3
    await node.owe("second")
    assert stage.talk.texts == ["second"]
    await node.stop()
    await stage.start()
    await stage.advance(121)
    assert stage.talk.texts[0] == "second"
    assert stage.talk.texts[1].startswith("♻️ Recovered reply — this was delayed:")


async def test_i1_a_final_row_frees_its_lane_at_once(stage: Stage) -> None:
    stage.platform(BadContent(), BadContent())
    node = await stage.start()
    await node.owe("rejected")
    await node.owe("next")
    assert stage.talk.texts == ["next"]
    assert [record.state for record in stage.records()] == ["abandoned", "delivered"]


async def test_a_hung_send_delays_no_other_lane(stage: Stage) -> None:
    free = asyncio.Event()
    stage.platform(Held(free))
    node = await stage.start()
    await node.owe("hangs")
    await node.owe("waits behind it")
    await node.owe("other thread", thread="t")
    await node.owe("other chat", chat="d")
    assert stage.talk.texts == ["other thread", "other chat"]
    free.set()
    await stage.advance(2)
    assert stage.talk.texts == ["other thread", "other chat", "hangs", "waits behind it"]


async def test_a_hung_platform_delays_no_other_platform(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "sends_at_once_max", 8)
    other = AdapterId("bot", "other")
    stage.adapters[other] = ScriptedAdapter()
    never = asyncio.Event()
    stage.platform(otherwise=Held(never))
    node = await stage.start()
    for number in range(12):  # more than one adapter may have in flight
        await node.owe("hangs", chat=f"c{number}")
    assert len(stage.talk.calls) == 8
    await node.owe("goes", adapter=other)
    assert stage.adapters[other].texts == ["goes"]


async def test_who_waits_for_a_free_call_has_not_claimed_its_row(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease is checked before the first byte: a slot that comes half a minute later is no
    reason to trust an old look at it, and a death leaves no doubt about what never left."""
    monkeypatch.setattr(limits, "sends_at_once_max", 8)
    free = asyncio.Event()
    stage.platform(*[Held(free)] * 8)
    node = await stage.start()
    for number in range(9):
        await node.owe("text", chat=f"c{number}")
    assert stage.record().state == "pending"
    free.set()
    await stage.advance(2)
    assert len(stage.talk.calls) == 9
    assert {record.state for record in stage.records()} == {"delivered"}


async def test_b15_an_adapter_that_is_down_is_not_called_and_costs_no_try(stage: Stage) -> None:
    node = await stage.node().start(connect=False)
    id = await node.owe("patience")
    await stage.advance(30)
    await stage.clock.jump(40 * 60)
    await stage.advance(30)
    assert stage.talk.calls == []
    assert (stage.record(id).state, stage.record(id).attempts) == ("pending", ())
    await node.connect()
    assert stage.talk.texts == ["patience"]  # plain, however late
    assert len(stage.record(id).attempts) == 1


async def test_nobody_present_means_no_call_until_somebody_comes(stage: Stage) -> None:
    stage.talk.absent_chats.add("c")
    node = await stage.start()
    id = await node.owe("knock")
    await stage.advance(100)
    assert stage.talk.calls == []
    assert stage.record(id).state == "pending"
    stage.talk.absent_chats.clear()
    await node.connected("other")
    assert stage.talk.calls == []
    await node.connected("c")
    assert stage.talk.texts == ["knock"]


async def test_presence_is_found_out_by_polling_if_the_hint_is_lost(stage: Stage) -> None:
    stage.talk.absent_chats.add("c")
    node = await stage.start()
    await node.owe("knock")
    await stage.advance(100)
    stage.talk.absent_chats.clear()
    await stage.advance(31)
    assert stage.talk.texts == ["knock"]


async def test_not_sent_grows_from_one_second_to_thirty(stage: Stage) -> None:
    at: list[int] = []

    def refused(_message: Outgoing) -> NotSent:
        at.append(stage.clock.steady)
        return NotSent("refused")

    stage.platform(otherwise=refused)
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(130)
    pauses = [round((b - a) / 1000) for a, b in pairwise(at)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    record = stage.record(id)
    assert (record.state, record.attempts, record.tries) == ("pending", (), 0)


async def test_not_sent_is_brought_forward_by_a_connection_and_stays_plain(stage: Stage) -> None:
    stage.platform(*[NotSent("refused")] * 6)
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(40)
    assert len(stage.talk.calls) == 6
    await node.connected()
    assert stage.talk.texts == ["text"]
    assert len(stage.record(id).attempts) == 1


async def test_f10_a_second_part_not_sent_goes_on_with_that_part(stage: Stage) -> None:
    stage.platform(Accepted("a"), NotSent("refused"))
    node = await stage.start()
    id = await node.owe("one", "two")
    await stage.advance(2)
    assert stage.talk.texts[0] == "one"
    assert stage.talk.texts[1].startswith(
        "♻️ Recovered reply — this was delayed, continuing with part 2 of 2:"
    )
    assert [part.receipt for part in stage.record(id).parts] == ["a", "r3"]


async def test_a7_owing_the_same_id_twice_is_owing_it_once(stage: Stage) -> None:
    node = await stage.start()
    with node.as_me():
        for _ in range(2):
            await node.engine.enqueue(NewDelivery("same", Lane(*BOT, "c"), ("X",), origin="notice"))
    await stage.advance(200)
    assert stage.talk.texts == ["X"]


async def test_an_adapter_that_raises_has_taught_nothing(stage: Stage) -> None:
    def burst(_message: object) -> Accepted:
        raise RuntimeError("a bug in an adapter")

    stage.platform(burst)
    node = await stage.start()
    id = await node.owe("text")
    assert stage.record(id).attempts[0].ending == "unconfirmed"
    await stage.advance(31)
    assert stage.talk.texts[0].startswith("♻️")


async def test_an_adapter_that_answers_with_no_outcome_has_taught_nothing(stage: Stage) -> None:
    wrong: Any = None
    stage.platform(lambda _message: wrong)
    node = await stage.start()
    owner = node.engine.tenure.owner
    id = await node.owe("hello")
    assert (stage.record(id).state, stage.record(id).attempts[0].ending) == ("failed", "unconfirmed")
    await stage.advance(31)
    assert (stage.record(id).state, node.engine.tenure.owner) == ("delivered", owner)


async def test_a_detail_that_cannot_be_stored_harms_no_row(stage: Stage) -> None:
    stage.platform(Refused("lone \ud800 and \x00"), RateLimited(float("nan")))
    node = await stage.start()
    id = await node.owe("hello")
    await stage.advance(100)
    assert (stage.record(id).state, len(stage.talk.seen)) == ("delivered", 1)


async def test_g1_thread_and_reply_anchor_come_back_with_a_redelivery(stage: Stage) -> None:
    stage.platform(Arrives())
    node = await stage.start()
    await node.owe("text", thread="5", reply_to="77")
    await stage.advance(31)
    assert [(m.thread, m.reply_to) for m in stage.talk.seen] == [("5", "77"), ("5", "77")]


async def test_j8_a_marker_that_does_not_fit_is_a_message_of_its_own(stage: Stage) -> None:
    stage.platform(Arrives(), capabilities=Capabilities(text_limit=90))
    node = await stage.start()
    full = "x" * 90
    await node.owe(full)
    await stage.advance(31)
    first, line, again = stage.talk.texts
    assert (first, again) == (full, full)
    assert line == "♻️ Recovered reply — the platform did not confirm it, so it may be a duplicate:"
