"""A store that cannot be written: nothing is acknowledged, nothing is sent twice, nothing is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import apsw
import pytest
from tests.engine.stage import Node, Stage

from angelia.agents.base import FallbackError
from angelia.model import notices
from angelia.model.errors import StoreUnavailableError
from angelia.model.messages import Reception
from angelia.model.outcomes import BadCredential, NotSent, RateLimited, Unconfirmed
from angelia.store import sqlite
from angelia.store.connection import open_connection
from angelia.testing.fakes import Arrives, Held
from angelia.testing.manual_clock import at_rest


def everything(_verb: str) -> bool:
    return True


def nothing(_verb: str) -> bool:
    return False


async def test_an_inbound_that_cannot_be_stored_is_not_acknowledged_and_not_seen(stage: Stage) -> None:
    node = await stage.start()
    node.faults.down = everything
    with pytest.raises(StoreUnavailableError):
        await node.say("hello", id="M")
    node.faults.down = nothing
    assert await node.say("hello", id="M") is Reception.ACCEPTED
    assert stage.agent.runs == 1


async def test_e7_an_inbound_whose_commit_was_not_heard_of_is_answered_once(stage: Stage) -> None:
    node = await stage.start()
    node.faults.loses.add("accept")
    with pytest.raises(StoreUnavailableError):
        await node.say("hello", id="M")
    assert await node.say("hello", id="M") is Reception.DUPLICATE  # the platform tries again
    await stage.advance(2)
    assert stage.talk.texts == ["You said: hello"]


async def test_h1_an_outcome_that_cannot_be_stored_is_kept_and_nothing_is_sent_again(stage: Stage) -> None:
    node = await stage.start()
    node.faults.down = lambda verb: verb == "advance"
    id = await node.owe("text")
    await stage.advance(8)
    assert stage.record(id).state == "attempting"
    node.faults.down = nothing
    await stage.advance(2)
    assert (stage.record(id).state, stage.talk.texts) == ("delivered", ["text"])


async def test_h3_a_store_that_is_gone_for_ten_minutes_costs_no_extra_send(stage: Stage) -> None:
    node = await stage.start()
    ended = lambda verb: verb not in ("head", "record", "due_lanes", "waiting_turns")  # noqa: E731
    free = asyncio.Event()
    stage.talk.script = [Held(free)]
    id = await node.owe("text")
    node.faults.down = ended
    free.set()
    await stage.advance(600)
    assert stage.record(id).state == "attempting"
    node.faults.down = nothing
    await stage.advance(20)
    assert (stage.record(id).state, len(stage.talk.calls)) == ("delivered", 1)


async def test_h3_killed_before_the_outcome_was_stored_there_is_one_labelled_copy_a_start(
    stage: Stage,
) -> None:
    node = await stage.start()
    node.faults.down = lambda verb: verb == "advance"
    await node.owe("text")
    for _ in range(3):
        await node.kill()
        node = stage.node()
        node.faults.down = lambda verb: verb in ("advance", "claim")
        await node.start()
        await stage.advance(5)
    assert stage.talk.texts == ["text"]  # where no attempt can be recorded, none is made
    await node.kill()
    await stage.start()
    await stage.advance(40)
    assert len(stage.talk.texts) == 2
    assert "may be a duplicate" in stage.talk.texts[1]


async def test_no_redelivery_starts_without_a_store(stage: Stage) -> None:
    stage.platform(Unconfirmed("?"))
    node = await stage.start()
    await node.owe("text")
    node.faults.down = everything
    await stage.advance(120)
    assert len(stage.talk.calls) == 1
    node.faults.down = nothing
    await stage.advance(10)
    assert len(stage.talk.calls) == 2


async def test_a_claim_whose_commit_was_not_heard_of_leaves_no_row_behind(stage: Stage) -> None:
    node = await stage.start()
    node.faults.loses.add("claim")
    id = await node.owe("text")
    await stage.advance(5)
    assert stage.talk.texts == ["text"]
    assert (stage.record(id).state, len(stage.record(id).attempts)) == ("delivered", 1)


async def test_an_outcome_whose_commit_was_not_heard_of_is_stored_once(stage: Stage) -> None:
    node = await stage.start()
    node.faults.loses.add("advance")
    id = await node.owe("one", "two")
    await stage.advance(5)
    assert stage.talk.texts == ["one", "two"]
    assert stage.record(id).state == "delivered"


async def test_an_answer_whose_commit_was_not_heard_of_is_owed_once(stage: Stage) -> None:
    node = await stage.start()
    node.faults.loses.add("finish_turn")
    await node.say("hello")
    await stage.advance(5)
    assert (stage.talk.texts, stage.agent.runs) == (["You said: hello"], 1)


async def test_h1_an_answer_just_made_is_kept_and_goes_out_protected(stage: Stage) -> None:
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("hello")
    node.faults.down = everything
    stage.agent.gate.set()
    await stage.advance(50)
    assert stage.talk.calls == []
    node.faults.down = nothing
    await stage.advance(12)
    assert stage.talk.texts == ["You said: hello"]
    assert (stage.agent.runs, stage.record().state) == (1, "delivered")


async def _down_for(stage: Stage, node: Node, seconds: float) -> None:
    """An answer is made while the store is gone, and the store stays gone."""
    stage.agent.gate.clear()
    await node.say("hello")
    node.faults.down = everything
    stage.agent.gate.set()
    await stage.advance(seconds)


async def test_h1_after_60_s_it_is_sent_unprotected_and_said_loudly(stage: Stage) -> None:
    node = await stage.start()
    await _down_for(stage, node, 59)
    assert stage.talk.calls == []
    await stage.advance(2)
    assert stage.talk.texts == ["You said: hello"]
    assert stage.logged("answer.unprotected")
    await stage.advance(60)
    assert len(stage.talk.calls) == 1


async def test_once_the_store_is_back_the_attempt_is_committed_with_the_answer(stage: Stage) -> None:
    node = await stage.start()
    await _down_for(stage, node, 70)
    node.faults.down = nothing
    await stage.advance(60)
    assert (stage.talk.texts, stage.agent.runs) == (["You said: hello"], 1)
    record = stage.record()
    assert (record.state, [a.ending for a in record.attempts]) == ("delivered", ["accepted"])
    assert stage.ask("SELECT unprotected FROM deliveries") == [(1,)]


async def test_the_lease_that_lapsed_meanwhile_is_no_reason_to_pay_twice(stage: Stage) -> None:
    """The take-over waits for the kept answer, whichever of the two loops comes first."""
    node = await stage.start()
    await _down_for(stage, node, 70)
    node.faults.down = lambda verb: verb == "finish_turn"  # the lease loop comes first
    await stage.advance(10)
    node.faults.down = nothing
    await stage.advance(60)
    assert (stage.talk.texts, stage.agent.runs) == (["You said: hello"], 1)
    assert stage.turns() == [("answered", "")]


async def test_an_unprotected_send_in_doubt_is_repeated_with_the_marker_and_never_plain(stage: Stage) -> None:
    stage.platform(Arrives())
    node = await stage.start()
    await _down_for(stage, node, 70)
    node.faults.down = nothing
    await stage.advance(60)
    assert len(stage.talk.texts) == 2
    assert "may be a duplicate" in stage.talk.texts[1]
    assert stage.record().state == "delivered"


async def test_an_unprotected_send_that_left_nothing_is_tried_again(stage: Stage) -> None:
    stage.platform(NotSent("refused"), NotSent("refused"))
    node = await stage.start()
    await _down_for(stage, node, 70)
    assert stage.talk.texts == ["You said: hello"]
    node.faults.down = nothing
    await stage.advance(20)
    assert (len(stage.talk.texts), stage.record().state) == (1, "delivered")


async def test_an_answer_kept_until_the_end_of_the_drain_has_a_last_chance(stage: Stage) -> None:
    node = await stage.start()
    node.faults.down = lambda verb: verb == "finish_turn"
    await node.say("hello")
    await stage.advance(70)  # sent unprotected by now
    node.faults.down = lambda _verb: False
    for task in node.tasks:
        if task.get_name().startswith("turns "):
            task.cancel()
    await at_rest()
    assert (stage.turns(), stage.runs()) == ([("answered", "")], ["answered"])
    await stage.advance(60)
    assert (stage.talk.texts, stage.agent.runs) == (["You said: hello"], 1)


async def test_unprotected_keeps_a_rate_limit_that_is_on_record(stage: Stage) -> None:
    stage.platform(RateLimited(200))
    node = await stage.start()
    await node.owe("news")
    node.faults.down = lambda verb: verb == "finish_turn"
    await node.say("hello")
    await stage.advance(150)
    assert len(stage.talk.calls) == 1
    node.faults.down = lambda _verb: False
    await stage.advance(100)
    assert stage.talk.texts[1:] == ["You said: hello"]


async def test_unprotected_waits_for_an_adapter_and_is_owed_if_none_comes(stage: Stage) -> None:
    node = await stage.start()
    node.disconnect()
    await _down_for(stage, node, 90)
    node.faults.down = nothing
    await stage.advance(10)
    assert (stage.record().state, stage.record().attempts) == ("pending", ())
    await node.connect()
    assert stage.talk.texts == ["You said: hello"]


async def test_a_kept_answer_is_committed_before_any_claim(stage: Stage) -> None:
    node = await stage.start()
    await _down_for(stage, node, 5)
    node.faults.down = lambda verb: verb == "finish_turn"
    await node.owe("other", chat="d")
    await stage.advance(10)
    assert stage.talk.calls == []
    node.faults.down = nothing
    await stage.advance(12)
    assert sorted(stage.talk.texts) == ["You said: hello", "other"]


async def test_a_crash_before_that_commit_is_the_one_documented_hole(stage: Stage) -> None:
    node = await stage.start()
    await _down_for(stage, node, 70)
    await node.kill()
    await stage.start()
    assert (stage.talk.texts, stage.agent.runs) == (["You said: hello"] * 2, 2)


async def test_a_real_full_disk_loses_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    full = False

    def opened(path: str, **how: Any) -> apsw.Connection:
        connection = open_connection(path, **how)
        if full and not how.get("read_only"):
            connection.pragma("max_page_count", connection.pragma("page_count"))
        return connection

    monkeypatch.setattr(sqlite, "open_connection", opened)
    node = await stage.start()
    stage.agent.gate.clear()
    await node.say("x" * 20_000, chat="c")
    full = True
    node.faults.ledger._writer._discard()
    with pytest.raises(StoreUnavailableError):
        await node.say("y" * 200_000, chat="d", id="M")
    assert node.faults.ledger.trouble
    stage.agent.gate.set()
    await stage.advance(10)
    assert stage.talk.calls == []  # the answer of 20 kB does not fit, either
    full = False
    node.faults.ledger._writer._discard()
    await stage.advance(15)
    assert "".join(stage.talk.texts).count("x") == 20_000
    assert await node.say("again", chat="d", id="M") is Reception.ACCEPTED
    assert stage.agent.runs == 2


# -- the ledger switched off -------------------------------------------------------------------


async def test_switched_off_a_reply_is_sent_and_not_recorded(stage: Stage) -> None:
    node = await stage.start(protected=False)
    await node.say("hello")
    assert stage.talk.texts == ["You said: hello"]
    assert stage.records() == []
    assert (stage.turns(), stage.runs()) == ([("answered", "")], ["answered"])


async def test_switched_off_the_turn_is_closed_before_the_first_byte(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True))
    node = await stage.start(protected=False)
    await node.say("hello")
    assert stage.turns() == [("answered", "")]
    await node.kill()
    await stage.start(protected=False)
    await stage.advance(60)
    assert (stage.talk.texts, stage.agent.runs) == (["You said: hello"], 1)


async def test_switched_off_rows_already_owed_stay_untouched(stage: Stage) -> None:
    stage.platform(RateLimited(5))
    node = await stage.start()
    await node.owe("owed")
    await node.kill()
    before = stage.record()
    node = await stage.start(protected=False)
    await stage.advance(120)
    await stage.clock.jump(25 * 3600)
    await stage.advance(10)
    assert replace(stage.record(), newest_start=before.newest_start) == before
    assert len(stage.talk.calls) == 1
    await node.kill()
    await stage.start()
    await stage.advance(7)
    assert stage.record().reason == "stale"  # it aged meanwhile


async def test_switched_off_a_lost_reply_is_said_loudly_and_never_repeated(stage: Stage) -> None:
    stage.platform(Unconfirmed("503"))
    node = await stage.start(protected=False)
    await node.say("hello")
    await stage.advance(200)
    assert len(stage.talk.calls) == 1
    assert stage.logged("answer.lost")


async def test_switched_off_a_replayed_inbound_is_still_a_duplicate(stage: Stage) -> None:
    node = await stage.start(protected=False)
    await node.say("hello", id="M")
    assert await node.say("hello", id="M") is Reception.DUPLICATE
    await node.say("/help")
    assert stage.talk.texts == ["You said: hello", notices.HELP]


async def test_a_loop_survives_a_store_that_comes_and_goes(stage: Stage) -> None:
    node = await stage.start()
    for _ in range(5):
        node.faults.down = everything
        await stage.advance(3)
        node.faults.down = nothing
        await stage.advance(3)
    await node.say("hello")
    await stage.advance(10)
    await at_rest()
    assert stage.talk.texts == ["You said: hello"]


async def test_switched_off_a_refused_credential_still_stops_the_adapter(stage: Stage) -> None:
    stage.platform(otherwise=BadCredential("revoked"))
    node = await stage.start(protected=False)
    told: list[str] = []
    node.engine.roster.on_bad_credential = lambda adapter, detail: told.append(f"{adapter}: {detail}")
    await node.say("one")
    await node.say("two")
    assert (told, len(stage.talk.calls)) == (["bot/talk: revoked"], 1)


async def test_a_stop_while_the_store_cannot_be_written_ends_in_order(stage: Stage) -> None:
    node = await stage.start()
    node.faults.down = lambda verb: verb == "retire"
    await node.stop()
    assert stage.logged("owner.end")
    await stage.start()


async def test_a_failed_run_waits_for_the_store_and_is_not_made_again(stage: Stage) -> None:
    """The first model failed and is on the bill; only the second one runs when the store is back."""
    stage.agent.script = [FallbackError("429"), "the second model's answer"]
    node = await stage.start()
    node.faults.down = lambda verb: verb == "next_run"
    await node.say("hello")
    await stage.advance(5)
    assert stage.talk.texts == []
    node.faults.down = lambda _verb: False
    await stage.advance(3)
    assert stage.talk.texts == ["the second model's answer"]
    assert (stage.agent.runs, stage.runs()) == (2, ["fallback", "answered"])


async def test_a_wait_without_end_costs_no_unprotected_answer(stage: Stage) -> None:
    """What a platform says may be absurd; it is bounded before it becomes a time."""
    stage.platform(RateLimited(float("inf")))
    node = await stage.start()
    node.faults.down = lambda verb: verb == "finish_turn"
    await node.say("hello")
    await stage.advance(70)
    assert len(stage.talk.calls) == 1
    node.faults.down = lambda _verb: False
    await stage.advance(5)
    (record,) = stage.records()
    assert (record.state, record.due_at is not None) == ("failed", True)
