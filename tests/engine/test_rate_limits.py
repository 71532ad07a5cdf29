"""A platform's wait: kept as long as it said, in its scope, over connections and restarts."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from tests.engine.stage import Stage

from angelia.model.ids import AdapterId
from angelia.model.outcomes import Accepted, Outcome, RateLimited, Scope
from angelia.platforms.base import Capabilities
from angelia.store.ledger import Limit
from angelia.testing.fakes import Held, ScriptedAdapter

LIMITED = "♻️ Recovered reply — the platform's rate limit delayed this:\n\n"
TYPES = Capabilities(text_limit=4096, typing=True)


async def test_c1_one_call_after_the_platform_s_own_wait_and_none_before(stage: Stage) -> None:
    stage.platform(RateLimited(30))
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(29)
    assert len(stage.talk.calls) == 1
    await stage.advance(2)
    assert stage.talk.texts == [LIMITED + "text"]
    assert "may be a duplicate" not in stage.talk.texts[0]
    assert stage.record(id).state == "delivered"


async def test_c2_a_reconnect_inside_the_penalty_changes_nothing_and_none_is_needed(stage: Stage) -> None:
    stage.platform(RateLimited(171))
    node = await stage.start()
    await node.owe("text")
    await stage.advance(20)
    await node.connect()
    await node.connected("c")
    await stage.advance(150)
    assert len(stage.talk.calls) == 1
    await stage.advance(2)
    assert len(stage.talk.calls) == 2


async def test_c3_a_penalty_spans_a_restart_without_starting_over(stage: Stage) -> None:
    stage.platform(RateLimited(600))
    node = await stage.start()
    id = await node.owe("text")
    began = stage.clock.steady
    await stage.advance(60)
    await node.kill()
    await stage.clock.jump(10)
    await stage.start()
    await stage.advance(20)
    assert (len(stage.talk.calls), stage.record(id).tries) == (1, 0)
    await stage.clock.jump(began / 1000 + 599 - stage.clock.steady / 1000)
    await stage.advance(0.5)
    assert len(stage.talk.calls) == 1
    await stage.advance(15)  # the jump cost the lease: a new one comes within 5 s
    assert len(stage.talk.calls) == 2


async def test_c6_a_chat_limit_holds_all_its_threads_and_no_other_chat(stage: Stage) -> None:
    stage.platform(RateLimited(117))
    node = await stage.start()
    await node.owe("first", thread="1")
    await node.owe("second", thread="2")
    await node.owe("elsewhere", chat="d")
    assert stage.talk.texts == ["elsewhere"]
    await stage.advance(116)
    assert len(stage.talk.calls) == 2
    await stage.advance(4)
    assert stage.talk.texts == ["elsewhere", LIMITED + "first", "second"]


async def test_c6_the_model_runs_while_its_chat_is_held(stage: Stage) -> None:
    stage.platform(RateLimited(117))
    node = await stage.start()
    await node.owe("held")
    await node.say("question")
    assert stage.agent.ended == 1
    assert stage.record().state == "pending"
    await stage.advance(120)
    assert stage.talk.texts == [LIMITED + "held", "You said: question"]


async def test_c10_a_bot_limit_holds_every_chat_of_the_bot_and_no_other_bot(stage: Stage) -> None:
    other = AdapterId("bot", "other")
    stage.adapters[other] = ScriptedAdapter()
    stage.platform(RateLimited(50, Scope.BOT))
    node = await stage.start()
    for number in range(4):
        await node.owe(f"n{number}", chat=f"c{number}")
    await node.owe("free", adapter=other)
    await stage.advance(48)
    assert len(stage.talk.calls) == 1
    assert stage.adapters[other].texts == ["free"]
    await stage.advance(10)
    assert [text.removeprefix(LIMITED) for text in stage.talk.texts] == ["n0", "n1", "n2", "n3"]


async def test_after_a_shared_limit_rows_go_one_at_a_time_until_one_is_accepted(stage: Stage) -> None:
    proof = asyncio.Event()
    stage.platform(RateLimited(50, Scope.BOT), Held(proof))
    node = await stage.start()
    for number in range(4):
        await node.owe(f"n{number}", chat=f"c{number}")
    await stage.advance(55)
    assert len(stage.talk.calls) == 2  # the oldest alone tries
    proof.set()
    await stage.advance(2)
    assert len(stage.talk.calls) == 5


async def test_c11_a_limit_of_another_call_holds_no_message(stage: Stage) -> None:
    """A limit on registering commands, say."""
    node = await stage.start()
    until = stage.clock.steady + 490_000
    await node.engine.ledger.hold(AdapterId("bot", "talk"), Limit(Scope.METHOD, "set_commands", until))
    await node.owe("text")
    assert stage.talk.texts == ["text"]


async def test_c7_no_call_of_any_kind_inside_the_penalty(stage: Stage) -> None:
    stage.platform(RateLimited(50), capabilities=TYPES)
    node = await stage.start()
    await node.owe("held")
    stage.agent.gate.clear()
    for session in range(5):
        await node.say("question", thread=f"t{session}")
    await stage.advance(20)
    stage.agent.gate.set()
    await stage.advance(29)
    assert (len(stage.talk.calls), stage.talk.typings) == (1, [])
    await stage.advance(5)
    assert stage.talk.texts[0] == LIMITED + "held"
    assert len(stage.talk.texts) == 6


async def test_typing_that_is_limited_holds_the_message_too(stage: Stage) -> None:
    stage.platform(capabilities=TYPES)
    stage.talk.on_typing = lambda _lane, active: RateLimited(30) if active else None
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("question")
    assert len(stage.talk.typings) == 1
    stage.agent.gate.set()
    await stage.advance(29)
    assert (len(stage.talk.typings), stage.talk.calls) == (1, [])
    await stage.advance(2)
    assert stage.talk.texts == ["You said: question"]


async def test_a_limit_on_typing_alone_holds_typing_alone(stage: Stage) -> None:
    stage.platform(capabilities=TYPES)
    stage.talk.on_typing = lambda _lane, _active: RateLimited(30, Scope.METHOD, "typing")
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("question")
    await stage.advance(20)
    assert len(stage.talk.typings) == 1
    stage.agent.gate.set()
    await stage.advance(1)
    assert stage.talk.texts == ["You said: question"]


async def test_typing_is_shown_while_a_run_goes_on_and_then_ended(stage: Stage) -> None:
    stage.platform(capabilities=TYPES)
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("question")
    await stage.advance(9)
    assert [active for _, active in stage.talk.typings] == [True, True, True]
    stage.agent.gate.set()
    await stage.advance(20)
    assert [active for _, active in stage.talk.typings] == [True, True, True, False]


async def test_typing_that_raises_harms_no_answer(stage: Stage) -> None:
    def burst(_lane: object, _active: bool) -> Outcome | None:
        raise RuntimeError("a bug in an adapter")

    stage.platform(capabilities=TYPES)
    stage.talk.on_typing = burst
    node = await stage.start()
    await node.say("question")
    await stage.advance(5)
    assert stage.talk.texts == ["You said: question"]


async def test_a_rate_limited_row_may_use_all_three_by_timer(stage: Stage) -> None:
    at: list[int] = []

    def limited(_message: object) -> RateLimited:
        at.append(stage.clock.steady)
        return RateLimited(1)

    stage.platform(limited, limited, limited, limited)
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(200)
    pauses = [round((b - a) / 1000) for a, b in pairwise(at)]
    assert (pauses, stage.record(id).reason) == ([1, 30, 120], "tries_used_up")


async def test_f2_a_limit_in_the_middle_of_a_reply_goes_on_there_and_counts_nothing(stage: Stage) -> None:
    stage.platform(Accepted("1"), Accepted("2"), RateLimited(20))
    node = await stage.start()
    id = await node.owe("one", "two", "three", "four")
    await stage.advance(22)
    line = "♻️ Recovered reply — the platform's rate limit delayed this, continuing with part 3 of 4:"
    assert stage.talk.texts == ["one", "two", f"{line}\n\nthree", "four"]
    assert stage.record(id).tries == 0


async def test_c13_a_burst_of_twelve_to_one_chat_arrives_complete_and_in_order(stage: Stage) -> None:
    last = 0

    def one_a_second(_message: object) -> RateLimited | Accepted:
        nonlocal last
        if stage.clock.steady - last < 1000:
            return RateLimited(3)
        last = stage.clock.steady
        return Accepted("ok")

    stage.platform(otherwise=one_a_second)
    node = await stage.start()
    for number in range(12):
        await node.owe(f"n{number}")
    await stage.advance(120)
    assert [text.rsplit("\n", 1)[-1] for text in stage.talk.texts] == [f"n{number}" for number in range(12)]


async def test_c5_a_long_penalty_freezes_no_other_platform_at_start(stage: Stage) -> None:
    other = AdapterId("bot", "other")
    stage.adapters[other] = ScriptedAdapter()
    stage.platform(otherwise=RateLimited(5827))
    node = await stage.node().start(connect=False)
    await node.owe("held")
    await node.kill()
    for _ in range(2):
        node = await stage.start()
        await node.say("hello", adapter=other)
        await stage.advance(3)
        await node.stop()
    assert stage.adapters[other].texts == ["You said: hello"] * 2
    assert len(stage.talk.calls) == 1
