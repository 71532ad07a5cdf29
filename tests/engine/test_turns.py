"""Turns: order, one run each, honest ends, and what a person can tell the gateway itself."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.stage import Stage

from angelia.agents.base import Answer, FallbackError
from angelia.model import notices
from angelia.model.errors import AgentError
from angelia.model.messages import Reception, Usage
from angelia.testing.fakes import Held
from angelia.testing.manual_clock import at_rest


async def test_a_message_is_one_run_and_one_answer(stage: Stage) -> None:
    node = await stage.start()
    assert await node.say("hello") is Reception.ACCEPTED
    assert stage.talk.texts == ["You said: hello"]
    assert (stage.agent.runs, stage.turns(), stage.runs()) == (1, [("answered", "")], ["answered"])


async def test_i4_turns_of_a_conversation_run_one_at_a_time_in_order(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    for number in range(1, 6):
        await node.say(f"n{number}")
    assert stage.agent.runs == 1
    stage.agent.gate.set()
    await stage.advance(3)
    assert [q.text for q in stage.agent.questions] == [f"n{number}" for number in range(1, 6)]
    assert stage.talk.texts == [f"You said: n{number}" for number in range(1, 6)]
    assert stage.agent.busy_most == 1


async def test_two_conversations_run_at_once(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("a", chat="c")
    await node.say("b", chat="d")
    await node.say("c", chat="c", thread="t")
    assert stage.agent.busy_most == 3


async def test_b11_the_same_answer_twice_is_two_deliveries(stage: Stage) -> None:
    stage.agent.script = ["Done.", "Done."]
    node = await stage.start()
    await node.say("one")
    await node.say("two")
    assert stage.talk.texts == ["Done.", "Done."]
    assert len({record.id for record in stage.records()}) == 2


# -- honest ends ------------------------------------------------------------------------------


async def test_n7_an_agent_error_ends_in_one_short_notice(stage: Stage) -> None:
    stage.agent.script = [AgentError("key revoked")]
    node = await stage.start()
    await node.say("hello")
    await stage.advance(200)
    assert stage.talk.texts == [notices.AGENT_FAILED]
    assert (stage.turns(), stage.runs()) == ([("answered", "error")], ["error"])


async def test_an_agent_that_cancels_itself_is_paid_once_and_ends_in_a_notice(stage: Stage) -> None:
    """Some libraries let a cancellation of their own escape: that is neither a stop nor a drain."""
    stage.agent.script = [asyncio.CancelledError(), asyncio.CancelledError()]
    node = await stage.start()
    await node.say("hello")
    await stage.advance(30)
    assert (stage.talk.texts, stage.agent.runs) == ([notices.AGENT_FAILED], 1)
    assert (stage.turns(), stage.runs()) == ([("answered", "error")], ["error"])


async def test_an_agent_that_raises_anything_ends_in_a_notice(stage: Stage) -> None:
    stage.agent.script = [ZeroDivisionError("a bug")]
    node = await stage.start()
    await node.say("hello")
    assert stage.talk.texts == [notices.AGENT_FAILED]
    await node.say("and now?")
    assert stage.talk.texts[1] == "You said: and now?"


@pytest.mark.parametrize("empty", ["", " \n\t", "\x00"])
async def test_f8_an_empty_answer_ends_in_a_notice(stage: Stage, empty: str) -> None:
    stage.agent.script = [empty]
    node = await stage.start()
    await node.say("hello")
    if empty == "\x00":
        assert stage.talk.texts == ["\ufffd"]  # something was said; it is shown as what it is
    else:
        assert (stage.talk.texts, stage.runs()) == ([notices.AGENT_SAID_NOTHING], ["empty"])


async def test_an_agent_that_takes_too_long_is_cut_and_the_person_told(stage: Stage) -> None:
    stage.agent.timeout_s = 0.01
    stage.agent.gate.clear()
    node = await stage.start()
    await node.say("hello")
    await stage.talk.arrivals(1)
    assert stage.talk.texts == [notices.AGENT_TIMED_OUT]
    assert (stage.runs(), stage.agent.cut) == (["timeout"], 1)


async def test_a_fallback_is_a_second_recorded_run_of_the_same_turn(stage: Stage) -> None:
    paid = Answer("second model", Usage(10, 20, "small"))
    stage.agent.script = [FallbackError("429"), paid]
    node = await stage.start()
    await node.say("hello")
    assert stage.talk.texts == ["second model"]
    assert [q.attempt for q in stage.agent.questions] == [0, 1]
    assert sorted(str(end) for end in stage.runs()) == ["answered", "fallback"]
    paid_for = "SELECT model, input_tokens, output_tokens FROM model_runs WHERE ending = 'answered'"
    assert stage.ask(paid_for) == [("small", 10, 20)]


async def test_a_second_fallback_is_an_error_and_no_third_run(stage: Stage) -> None:
    stage.agent.script = [FallbackError("429"), FallbackError("429")]
    node = await stage.start()
    await node.say("hello")
    assert (stage.talk.texts, stage.agent.runs) == ([notices.AGENT_FAILED], 2)


async def test_j4_a_splitter_that_raises_loses_no_answer_and_harms_no_other_run(stage: Stage) -> None:
    def split(text: str, limit: int | None = None) -> list[str]:
        if "poison" in text:
            raise RuntimeError("never advances")
        return [text]

    stage.talk.split = split  # type: ignore[method-assign]
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("good", chat="d")
    stage.agent.gate.set()
    await node.say("poison", chat="c")
    await stage.advance(20)
    assert sorted(stage.talk.texts) == ["You said: good", "You said: poison"]
    assert stage.agent.runs == 2


async def test_history_reaches_the_agent_and_ends_with_new(stage: Stage) -> None:
    stage.agent.history_messages = 10
    node = await stage.start()
    await node.say("one")
    await node.say("two")
    assert [(e.role, e.text) for e in stage.agent.questions[1].history] == [
        ("user", "one"),
        ("assistant", "You said: one"),
    ]
    await node.say("/new")
    await node.say("three")
    assert list(stage.agent.questions[2].history) == []
    assert stage.agent.questions[2].conversation != stage.agent.questions[0].conversation
    assert notices.NEW_CONVERSATION in stage.talk.texts


# -- commands ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", "/!")
async def test_help_is_answered_without_a_run(stage: Stage, sign: str) -> None:
    node = await stage.start()
    await node.say(f"{sign}help")
    assert (stage.talk.texts, stage.agent.runs) == ([notices.HELP], 0)


async def test_what_only_begins_like_a_command_is_a_message(stage: Stage) -> None:
    node = await stage.start()
    await node.say("/newspaper please")
    await node.say("!new and more")
    assert stage.agent.runs == 2


@pytest.mark.parametrize("sign", "/!")
async def test_stop_ends_the_run_and_nothing_of_it_is_sent(stage: Stage, sign: str) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("long story")
    await node.say(f"{sign}stop")
    stage.agent.gate.set()
    await stage.advance(10)
    assert stage.talk.texts == [notices.STOPPED]
    assert (stage.agent.cut, stage.runs()) == (1, ["stopped"])
    await node.say("next")
    assert stage.talk.texts[-1] == "You said: next"


async def test_stop_with_nothing_running_says_so(stage: Stage) -> None:
    node = await stage.start()
    await node.say("/stop")
    assert stage.talk.texts == [notices.NOTHING_TO_STOP]


async def test_stop_ends_one_run_and_the_next_waiting_message_is_answered(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("first")
    await node.say("second")
    await node.say("/stop")
    stage.agent.gate.set()
    await stage.advance(3)
    assert stage.talk.texts == [notices.STOPPED, "You said: second"]


async def test_a_stop_that_comes_too_late_is_no_stop_of_a_later_run(stage: Stage) -> None:
    """The run has ended and its answer is being stored: there is nothing to stop any more,
    and the next run, cut by a drain, must not count as stopped by its person."""
    node = await stage.start()
    node.faults.gates["finish_turn"] = stored = asyncio.Event()
    await node.say("first")
    assert not node.engine.turner.stop(node.inbound().lane)
    del node.faults.gates["finish_turn"]
    stored.set()
    await at_rest()
    stage.agent.gate.clear()
    await node.say("second")
    await node.stop()
    assert stage.turns()[-1] == ("waiting", "")


async def test_why_answers_who_got_an_answer_twice(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True))
    node = await stage.start()
    await node.say("hello")
    await node.kill()
    node = await stage.start()
    assert len(stage.talk.texts) == 2
    await node.say("/why")
    assert stage.talk.texts[-1].startswith("One model run, two deliveries;")
    assert stage.agent.runs == 1


async def test_why_without_an_answer_says_so(stage: Stage) -> None:
    node = await stage.start()
    await node.say("!why")
    assert stage.talk.texts == [notices.NOTHING_TO_EXPLAIN]


async def test_n6_an_edit_replaces_the_text_of_a_waiting_turn_and_starts_nothing_later(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("running", id="1")
    await node.say("waits", id="9")
    edit = node.engine.receiver.edit
    assert await edit(node.inbound("edited", id="9"))
    assert await edit(node.inbound("edited twice", id="9"))
    assert not await edit(node.inbound("too late", id="1"))
    stage.agent.gate.set()
    await stage.advance(3)
    assert not await edit(node.inbound("much too late", id="9"))
    assert await node.say("waits", id="9") is Reception.DUPLICATE
    await stage.advance(3)
    assert [q.text for q in stage.agent.questions] == ["running", "edited twice"]


async def test_an_inbound_older_than_24_hours_starts_nothing(stage: Stage) -> None:
    node = await stage.start()
    await node.say("of yesterday", sent_at=stage.clock.wall - 25 * 3600 * 1000)
    assert (stage.agent.runs, stage.turns()) == (0, [("gave_up", "expired")])
