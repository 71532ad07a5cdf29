"""Runs that are cut: by a death, by a drain, by an agent that refuses to end."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.stage import Stage

from angelia.agents.base import Question
from angelia.model import notices
from angelia.model.errors import StoreUnavailableError
from angelia.platforms.base import Capabilities
from angelia.testing.fakes import Held
from angelia.testing.manual_clock import at_rest


async def test_e22_a_run_that_died_runs_again_once(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("hello")
    await node.kill()
    stage.agent.gate.set()
    await stage.start()
    assert stage.talk.texts == ["You said: hello"]
    assert sorted(str(end) for end in stage.runs()) == ["answered", "interrupted"]


async def test_after_a_second_death_the_person_is_told_to_send_it_again(stage: Stage) -> None:
    stage.agent.gate.clear()
    node = await stage.start()
    await node.say("hello")
    await node.kill()
    node = await stage.start()
    await node.kill()
    await stage.start()
    await stage.advance(2)
    assert stage.talk.texts == [notices.INTERRUPTED_TWICE]
    assert (stage.agent.runs, stage.runs()) == (2, ["interrupted", "interrupted"])


async def test_b12_a_death_with_the_answer_on_record_runs_nothing_again(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True))
    node = await stage.start()
    await node.say("count")
    await node.kill()
    await stage.start()
    await stage.advance(60)
    assert stage.agent.runs == 1
    assert len(stage.talk.texts) == 2
    assert "may be a duplicate" in stage.talk.texts[1]


async def test_b18_a_turn_that_ran_again_answers_through_the_ledger(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("hello")
    await node.kill()
    stage.agent.gate.set()
    await stage.start()
    assert [record.origin for record in stage.records()] == ["turn"]


async def test_o2_a_drain_that_cuts_a_turn_is_no_interruption(stage: Stage) -> None:
    stage.agent.gate.clear()
    node = await stage.start()
    await node.say("hello")
    for _ in range(3):
        await node.stop()
        node = await stage.start()
    stage.agent.gate.set()
    await stage.advance(2)
    assert stage.talk.texts == ["You said: hello"]
    assert sorted(str(end) for end in stage.runs()) == ["answered", "drained", "drained", "drained"]
    assert stage.ask("SELECT interruptions FROM turns") == [(0,)]


async def test_o1_a_drain_lets_turns_and_sends_finish(stage: Stage) -> None:
    free = asyncio.Event()
    stage.platform(Held(free))
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("hello")
    with node.as_me():
        stopping = asyncio.ensure_future(node.engine.stop())
    await stage.advance(20)
    stage.agent.gate.set()
    await stage.advance(5)
    free.set()
    await stage.advance(1)
    assert stopping.done()
    assert stage.talk.texts == ["You said: hello"]
    assert stage.record().state == "delivered"


async def test_o1_a_draining_gateway_takes_no_inbound(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("hello")
    with node.as_me():
        stopping = asyncio.ensure_future(node.engine.stop())
    await at_rest()
    with pytest.raises(StoreUnavailableError):
        await node.say("too late", id="late")
    stage.agent.gate.set()
    await stage.advance(2)
    assert stopping.done()
    assert stage.ask("SELECT count(*) FROM inbound WHERE message_id = 'late'") == [(0,)]


async def test_b7_an_answer_finished_during_the_drain_is_on_record_whatever_follows(stage: Stage) -> None:
    stage.platform(otherwise=Held(asyncio.Event()))
    stage.agent.gate.clear()
    node = await stage.start()
    await node.owe("hangs", chat="c")
    await node.say("hello", chat="c")
    with node.as_me():
        stopping = asyncio.ensure_future(node.engine.stop())
    stage.agent.gate.set()
    await stage.advance(30)
    assert stopping.done()
    assert stage.record().state == "pending"
    await node.kill()
    stage.talk.otherwise = None
    await stage.start()
    await stage.advance(35)
    assert stage.talk.texts[-1] == "You said: hello"  # plain: it was never tried


async def test_o1_a_send_that_hangs_beyond_the_drain_is_in_doubt_after_it(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True))
    node = await stage.start()
    await node.owe("text")
    began = stage.clock.steady
    await node.stop()
    assert stage.clock.steady - began <= 13_000
    assert stage.record().state == "attempting"
    await stage.start()
    assert len(stage.talk.texts) == 2
    assert "may be a duplicate" in stage.talk.texts[1]


async def test_o7_a_stop_does_not_wait_for_a_penalty_and_leaves_its_row_alone(stage: Stage) -> None:
    from angelia.model.outcomes import RateLimited

    stage.platform(RateLimited(600))
    node = await stage.start()
    await node.owe("text")
    await stage.advance(100)
    before = stage.record()
    began = stage.clock.steady
    await node.stop()
    assert stage.clock.steady - began < 5_000
    assert stage.record() == before


async def test_o7_what_was_claimed_but_not_sent_when_the_drain_ends_is_released_plain(stage: Stage) -> None:
    node = await stage.start()
    node.faults.gates["claim"] = committed = asyncio.Event()
    id = await node.owe("text")
    assert stage.record(id).state == "attempting"
    with node.as_me():
        stopping = asyncio.ensure_future(node.engine.stop())
    await stage.advance(10.5)
    committed.set()
    await stage.advance(3)
    assert stopping.done()
    assert (stage.record(id).state, stage.record(id).attempts) == ("pending", ())
    await node.kill()
    await stage.start()
    assert stage.talk.texts == ["text"]


async def test_an_agent_that_refuses_to_end_does_not_hold_the_stop(stage: Stage) -> None:
    async def stubborn(_question: Question) -> str:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    over = asyncio.Event()
    stage.agent.script = [stubborn]
    node = await stage.start()
    await node.say("hello")
    began = stage.clock.steady
    await node.stop()
    assert stage.clock.steady - began <= 52_000
    assert stage.turns() == [("waiting", "")]
    over.set()
    await at_rest()
    await stage.start()
    await stage.advance(2)
    assert stage.talk.texts == ["You said: hello"]
    assert stage.ask("SELECT interruptions FROM turns") == [(0,)]


async def test_o4_many_waiting_messages_are_all_answered(stage: Stage) -> None:
    stage.platform(capabilities=Capabilities(text_limit=64))
    node = await stage.start()
    stage.agent.gate.clear()
    for number in range(60):
        await node.say(f"n{number}", chat=f"c{number % 3}")
    await node.kill()
    stage.agent.gate.set()
    await stage.start()
    await stage.advance(30)
    assert sorted(stage.talk.texts) == sorted(f"You said: n{number}" for number in range(60))
