"""Doubt that a key or a look at the conversation can settle, and clocks that step meanwhile."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from tests.engine.stage import Stage

from angelia.model.outcomes import LookUp, Refused, Unconfirmed
from angelia.platforms.base import Capabilities
from angelia.testing.fakes import Arrives, Held, Script

UNCONFIRMED = "♻️ Recovered reply — the platform did not confirm it, so it may be a duplicate:\n\n"
RESTARTED = "♻️ Recovered reply — the gateway restarted while sending this, so it may be a duplicate:\n\n"
KEYED = Capabilities(text_limit=4096, key_window_s=180, call_limit_s=30)
READS = Capabilities(text_limit=4096, read_back=True)


# -- keys -------------------------------------------------------------------------------------


async def test_a5_the_same_key_within_the_pass_after_one_and_two_seconds(stage: Stage) -> None:
    at: list[int] = []

    def lost(_message: object) -> Arrives:
        at.append(stage.clock.steady)
        return Arrives()

    script: list[Script] = [lost, lost, lost]
    stage.platform(*script, capabilities=KEYED, keyed=True)
    node = await stage.start()
    await node.owe("text")
    await stage.advance(5)
    assert [b - a for a, b in pairwise(at)] == [1000, 2000]
    assert len({m.key for m in stage.talk.calls}) == 1
    await stage.advance(30)
    assert stage.talk.texts == ["text"]
    assert len({m.key for m in stage.talk.calls}) == 1
    assert stage.record().state == "delivered"


async def test_a5_the_same_key_after_a_restart_needs_no_marker(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True), capabilities=KEYED, keyed=True)
    node = await stage.start()
    await node.owe("text")
    await node.kill()
    await stage.advance(100)
    await stage.start()
    assert stage.talk.texts == ["text"]
    assert len({m.key for m in stage.talk.calls}) == 1
    assert stage.record().state == "delivered"


async def test_a5_after_the_window_it_goes_under_a_new_key_with_the_marker(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True), capabilities=KEYED, keyed=True)
    node = await stage.start()
    await node.owe("text")
    await node.kill()
    await stage.clock.jump(151)  # 180 s less the 30 s that one call may take
    await stage.start()
    assert stage.talk.texts == ["text", RESTARTED + "text"]
    assert len({m.key for m in stage.talk.calls}) == 2


# -- reading back -----------------------------------------------------------------------------


async def test_found_by_reading_back_is_delivered_without_a_second_send(stage: Stage) -> None:
    stage.platform(Arrives(), capabilities=READS)
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(40)
    assert stage.talk.texts == ["text"]
    assert (stage.record(id).state, stage.record(id).parts[0].receipt) == ("delivered", "found")
    assert stage.talk.look_ups[0][1] == stage.record(id).attempts[0].started_at


async def test_absent_after_30_s_is_no_longer_in_doubt_and_goes_plain(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event()), capabilities=READS)
    node = await stage.start()
    id = await node.owe("text")
    await node.kill()
    await stage.start()
    await stage.advance(28)
    assert stage.talk.look_ups == []
    await stage.advance(4)
    assert stage.talk.texts == ["text"]
    assert stage.record(id).attempts[0].absent


async def test_k2_a_look_up_that_cannot_tell_is_made_once_per_pass(stage: Stage) -> None:
    stage.platform(otherwise=Unconfirmed("?"), capabilities=READS)
    stage.talk.looks = [LookUp.CANNOT_TELL] * 100
    node = await stage.start()
    await node.owe("text")
    await stage.advance(200)
    await stage.clock.jump(2 * 3600)
    await stage.advance(20)
    assert len(stage.talk.calls) == 3
    assert 2 <= len(stage.talk.look_ups) <= 4
    await stage.clock.jump(24 * 3600)
    await stage.advance(60)
    assert len(stage.talk.look_ups) <= 4


async def test_k2_a_look_up_that_raises_cannot_tell(stage: Stage) -> None:
    stage.platform(Arrives(), capabilities=READS)
    stage.talk.looks = [RuntimeError("history is off")] * 100
    node = await stage.start()
    await node.owe("text")
    await stage.advance(100)
    assert stage.talk.texts == ["text", UNCONFIRMED + "text"]
    assert len(stage.talk.look_ups) == 1


# -- clocks -----------------------------------------------------------------------------------


async def test_l1_a_stepped_civil_clock_neither_shortens_nor_stretches_a_wait(stage: Stage) -> None:
    stage.platform(Refused("no"))
    node = await stage.start()
    await node.owe("text")
    await stage.advance(10)
    stage.clock.step(3 * 3600)
    await stage.advance(10)
    assert len(stage.talk.calls) == 1
    stage.clock.step(-6 * 3600)
    await stage.advance(9)
    assert len(stage.talk.calls) == 1
    await stage.advance(6)
    assert len(stage.talk.calls) == 2
