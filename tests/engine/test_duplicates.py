"""One inbound, one turn, however often and by whichever way the platform brings it."""

from __future__ import annotations

import asyncio

from tests.engine.stage import Stage

from angelia.model import notices
from angelia.model.messages import Reception
from angelia.testing.fakes import Held


async def test_e1_a_replayed_id_starts_nothing(stage: Stage) -> None:
    node = await stage.start()
    await node.say("hello", id="M")
    await stage.advance(40)
    assert await node.say("hello", id="M") is Reception.DUPLICATE
    assert (stage.agent.runs, len(stage.talk.calls)) == (1, 1)


async def test_e3_a_replay_after_a_restart_starts_nothing(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True))
    node = await stage.start()
    await node.say("hello", id="M")
    await node.kill()
    node = await stage.start()
    assert await node.say("hello", id="M") is Reception.DUPLICATE
    await stage.advance(60)
    assert (stage.agent.runs, len(stage.talk.texts)) == (1, 2)


async def test_e4_e5_an_id_repeated_for_a_day_is_answered_once(stage: Stage) -> None:
    node = await stage.start()
    for hour in range(24):
        await node.say("hello", id="M")
        if hour == 3:
            await node.kill()
            node = await stage.start()
        await stage.clock.jump(3600)
    assert stage.agent.runs == 1


async def test_e19_copies_that_arrive_together_make_one_run(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    with node.as_me():
        copies = [node.engine.receiver.receive(node.inbound("hello", id="M")) for _ in range(3)]
        answers = await asyncio.gather(*copies)
    await stage.advance(20)
    await node.say("hello", id="M")
    stage.agent.gate.set()
    await stage.advance(2)
    assert sorted(answers) == ["accepted", "duplicate", "duplicate"]
    assert stage.agent.runs == 1


async def test_e12_backfill_and_replay_make_one_run_in_either_order(stage: Stage) -> None:
    node = await stage.start()
    other = await stage.start()
    await node.say("hello", id="M")
    assert await other.say("hello", id="M") is Reception.DUPLICATE
    assert await other.say("again", id="N") is Reception.ACCEPTED
    assert await node.say("again", id="N") is Reception.DUPLICATE
    await stage.advance(3)
    assert stage.agent.runs == 2


async def test_e17_dedup_goes_by_id_and_not_by_time(stage: Stage) -> None:
    node = await stage.start()
    for at in (10, 50):
        await node.say(f"at {at}", id=f"m{at}", sent_at=stage.clock.wall + at)
    for at in (10, 30, 50):
        await node.say(f"at {at}", id=f"m{at}", sent_at=stage.clock.wall + at)
    assert [q.text for q in stage.agent.questions] == ["at 10", "at 50", "at 30"]


async def test_e21_the_same_text_under_a_new_id_is_a_message_of_its_own(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("hello", id="a")
    await node.say("hello", id="b")
    stage.agent.gate.set()
    await stage.advance(2)
    assert stage.talk.texts == ["You said: hello"] * 2


async def test_e9_a_replayed_command_is_not_acted_on_twice(stage: Stage) -> None:
    node = await stage.start()
    await node.say("/new", id="R")
    await node.kill()
    node = await stage.start()
    for _ in range(3):
        assert await node.say("/new", id="R") is Reception.DUPLICATE
        await stage.clock.jump(600)
    await node.say("/new", id="another")
    assert stage.talk.texts == [notices.NEW_CONVERSATION] * 2
    assert stage.ask("SELECT number FROM conversations") == [(3,)]


async def test_o3_what_was_handled_before_a_graceful_stop_is_not_handled_after_it(stage: Stage) -> None:
    node = await stage.start()
    await node.say("hello", id="33")
    await node.stop()
    node = await stage.start()
    assert await node.say("hello", id="33") is Reception.DUPLICATE
    await stage.advance(5)
    assert stage.agent.runs == 1
