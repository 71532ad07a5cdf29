"""Turns: order, one run each, honest ends; commands; interruptions and the drain."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.stage import Stage

from angelia.agents.base import Answer, FallbackError, Question
from angelia.model import notices
from angelia.model.errors import AgentError, StoreUnavailableError
from angelia.model.messages import Reception, Usage
from angelia.platforms.base import Capabilities
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


# -- duplicates -------------------------------------------------------------------------------


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


# -- honest ends ------------------------------------------------------------------------------


async def test_n7_an_agent_error_ends_in_one_short_notice(stage: Stage) -> None:
    stage.agent.script = [AgentError("key revoked")]
    node = await stage.start()
    await node.say("hello")
    await stage.advance(200)
    assert stage.talk.texts == [notices.AGENT_FAILED]
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


# -- interruptions ----------------------------------------------------------------------------


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
