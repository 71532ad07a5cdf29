"""The one line that answers the person who got an answer twice, on the real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from angelia.model.messages import NewDelivery, Usage
from angelia.model.outcomes import (
    Accepted,
    LookUp,
    NotSent,
    RateLimited,
    Refused,
    Unconfirmed,
    Unreachable,
)
from angelia.model.plan import Promise
from angelia.model.record import Record
from angelia.model.states import Event, RunEnd
from angelia.seams.clock import Clock
from angelia.store.ledger import Turn, TurnKind
from angelia.store.sqlite import SqliteLedger
from angelia.store.sqlite_operator import mark_delivered, send_again
from angelia.store.views import Timeline, timeline, verdict
from angelia.testing.ledger_desk import Desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    def open_ledger(clock: Clock) -> SqliteLedger:
        return SqliteLedger(tmp_path / "state.db", clock, inline=True)

    desk = Desk(open_ledger)
    yield desk
    await desk.close()


def sqlite(desk: Desk) -> SqliteLedger:
    assert isinstance(desk.ledger, SqliteLedger)
    return desk.ledger


async def story(desk: Desk, name: str) -> Timeline:
    return await sqlite(desk).read(lambda c: timeline(c, name))


async def said(desk: Desk, name: str) -> str:
    return verdict(await story(desk, name))


async def begin(desk: Desk, owner: str, chat: str = "chat") -> Turn:
    turn = await desk.run(await desk.turn(chat), owner)
    assert turn is not None
    return turn


async def answered(desk: Desk, turn: Turn, run: str = "", texts: tuple[str, ...] = ("the answer",)) -> Record:
    told = NewDelivery(f"answer to {turn.id}", turn.lane, texts)
    run = run or f"run of {turn.id}"
    assert await desk.ledger.finish_turn(turn, run, RunEnd.ANSWERED, Usage(7, 9), delivery=told)
    return await desk.ledger.record(told.id)


async def answer(desk: Desk, texts: tuple[str, ...] = ("the answer",)) -> tuple[Record, str]:
    """An answer that one run made, and the owner that is to send it."""
    owner = await desk.owner()
    return await answered(desk, await begin(desk, owner), texts=texts), owner


async def test_one_run_one_delivery(desk: Desk) -> None:
    record, owner = await answer(desk)
    assert (
        await said(desk, record.id)
        == "One model run, not delivered yet: it is owed and waits. You paid once."
    )
    await desk.send(record, owner, Accepted("r"))
    assert await said(desk, record.id) == "One model run, one delivery. You paid once."


async def test_b1_a_crash_between_send_and_receipt_is_told(desk: Desk) -> None:
    record, owner = await answer(desk)
    await desk.claim(record, owner)
    in_flight = await said(desk, record.id)
    assert in_flight == "One model run, one delivery, being sent at this moment. You paid once."
    owner = await desk.restart()
    died = await said(desk, record.id)
    assert died == "One model run, one delivery, not confirmed yet. You paid once."
    await desk.send(record, owner, Accepted("r"))
    assert (
        await said(desk, record.id)
        == "One model run, two deliveries; the second carried the marker. You paid once."
    )


async def test_three_unconfirmed_copies_and_the_end(desk: Desk) -> None:
    record, owner = await answer(desk)
    for _ in range(3):
        record = await desk.send(record, owner, Unconfirmed())
        desk.clock.advance(150)
        owner = await desk.restart()
        record = await desk.look(record)
    record = await desk.send(record, owner, Unconfirmed())
    await desk.ledger.settle(record, Event.TRIES_USED_UP)
    assert await said(desk, record.id) == (
        "One model run, four deliveries; the second, the third and the fourth carried the marker; "
        "the last was never confirmed and was abandoned (tries used up). You paid once."
    )


async def test_calls_under_one_key_are_one_delivery(desk: Desk) -> None:
    desk.promise = Promise(text_limit=4096, key_window_ms=3_600_000)
    record, owner = await answer(desk)
    for _ in range(2):
        claim, opened = await desk.claim(record, owner)
        change, _ = desk.change(opened, Unconfirmed())
        ended = replace(change, opened=None, event=Event.PASS_FAILED, due_at=desk.clock.steady, tries=0)
        await desk.ledger.advance(claim, ended)
    await desk.send(record, owner, Accepted("r"))
    assert await said(desk, record.id) == (
        "One model run, one delivery (three calls under one key cannot be a duplicate). You paid once."
    )


async def test_what_provably_did_not_arrive_is_no_delivery(desk: Desk) -> None:
    record, owner = await answer(desk)
    for outcome in (NotSent(), Refused(), RateLimited(1.0)):
        record = await desk.send(record, owner, outcome)
        assert "not delivered yet" in await said(desk, record.id)
        desk.pass_until_due(record)
        owner = await desk.owner()
    await desk.send(record, owner, Accepted("r"))
    assert await said(desk, record.id) == "One model run, one delivery; it carried the marker. You paid once."


async def test_a_copy_that_a_look_up_did_not_find_is_none(desk: Desk) -> None:
    record, owner = await answer(desk)
    record = await desk.send(record, owner, Unconfirmed())
    await desk.ledger.note_look_up(record, 1, LookUp.ABSENT)
    desk.pass_until_due(record)
    await desk.send(record, await desk.owner(), Accepted("r"))
    assert await said(desk, record.id) == "One model run, one delivery. You paid once."


async def test_parts_that_came_later_are_no_second_copy(desk: Desk) -> None:
    record, owner = await answer(desk, ("one", "two", "three"))
    record = await desk.send(record, owner, Accepted("1"), RateLimited(5.0))
    assert await said(desk, record.id) == (
        "One model run, one delivery, 1 of 3 parts received, the rest is owed. You paid once."
    )
    desk.pass_until_due(record)
    await desk.send(record, await desk.owner(), Accepted("2"), Accepted("3"))
    assert await said(desk, record.id) == (
        "One model run, one delivery in two passes; the second carried the marker. You paid once."
    )


async def test_abandoned_without_a_copy(desk: Desk) -> None:
    record, owner = await answer(desk)
    await desk.send(record, owner, Unreachable("blocked"))
    assert (
        await said(desk, record.id) == "One model run, not delivered: abandoned (unreachable). You paid once."
    )


async def test_a_notice_and_a_command_cost_nothing(desk: Desk) -> None:
    owner = await desk.owner()
    notice = await desk.send(await desk.notice(), owner, Accepted("r"))
    assert await said(desk, notice.id) == "No model run, one delivery. You paid nothing."
    turn = await desk.ledger.open_turn(await desk.turn(kind=TurnKind.COMMAND))
    assert turn is not None
    told = NewDelivery("help", turn.lane, ("help",))
    await desk.ledger.finish_turn(turn, None, RunEnd.ANSWERED, delivery=told)
    await desk.send(await desk.ledger.record("help"), owner, Accepted("r2"))
    assert await said(desk, turn.id) == "No model run, one delivery. You paid nothing."


async def test_b12_an_interrupted_run_is_paid_and_named(desk: Desk) -> None:
    turn = await begin(desk, await desk.owner())
    owner = await desk.restart()
    again = await desk.run(turn.id, owner, "second run")
    assert again is not None
    running = await said(desk, turn.id)
    assert running == (
        "Two model runs (the first was interrupted when its gateway died, the second is still running), "
        "no delivery yet: the answer is being made. You paid twice."
    )
    await desk.send(await answered(desk, again, "second run"), owner, Accepted("r"))
    assert await said(desk, turn.id) == (
        "Two model runs (the first was interrupted when its gateway died), one delivery. You paid twice."
    )


async def test_two_interruptions_are_told_once(desk: Desk) -> None:
    turn = await begin(desk, await desk.owner())
    await desk.run(turn.id, await desk.restart(), "second run")
    owner = await desk.restart()
    await desk.send(await desk.ledger.record(turn.id), owner, Accepted("r"))
    found = await story(desk, turn.id)
    assert (found.matches, found.found) == (1, "delivery")
    assert verdict(found) == (
        "Two model runs (the first was interrupted when its gateway died, the second was interrupted when "
        "its gateway died), one delivery. You paid twice."
    )


async def test_a_fallback_is_a_second_run(desk: Desk) -> None:
    owner = await desk.owner()
    turn = await begin(desk, owner)
    await desk.ledger.next_run(turn, f"run of {turn.id}", Usage(), "503", "fallback", "spare")
    await desk.send(await answered(desk, turn, "fallback"), owner, Accepted("r"))
    assert await said(desk, turn.id) == (
        "Two model runs (the first failed, so another model was asked), one delivery. You paid twice at most."
    )


async def test_a_run_that_failed(desk: Desk) -> None:
    turn = await begin(desk, await desk.owner())
    await desk.ledger.finish_turn(turn, f"run of {turn.id}", RunEnd.ERROR, gave_up="agent failed")
    assert await said(desk, turn.id) == (
        "One model run (which failed), no delivery (agent failed). You paid once at most."
    )


async def test_a_turn_that_waits(desk: Desk) -> None:
    turn = await desk.turn()
    assert await said(desk, turn) == "No model run, no delivery yet: it waits for its turn. You paid nothing."


async def test_what_was_sent_again_on_request_is_one_story(desk: Desk) -> None:
    record, owner = await answer(desk)
    await desk.send(record, owner, Accepted("first receipt"))
    again = await sqlite(desk).operate("operate", lambda c, now: send_again(c, record.id, "again", now))
    await desk.send(again, owner, Accepted("second receipt"))
    expected = "One model run, two deliveries; the second carried the marker. You paid once."
    assert record.turn is not None
    for name in (record.id, "again", "first receipt", "second receipt", record.turn, f"run of {record.turn}"):
        assert await said(desk, name) == expected, name


async def test_an_operators_word_is_told(desk: Desk) -> None:
    record, owner = await answer(desk)
    await desk.send(record, owner, Unconfirmed())
    await sqlite(desk).operate("operate", lambda c, now: mark_delivered(c, record.id, now))
    assert await said(desk, record.id) == (
        "One model run, one delivery; an operator marked it as delivered. You paid once."
    )


@pytest.mark.parametrize("chats", [2, 3])
async def test_of_several_matches_the_newest_is_told(desk: Desk, chats: int) -> None:
    turns = []
    for number in range(chats):
        desk.clock.advance(1)
        turns.append(await desk.turn(f"chat {number}", message_id="42"))
    found = await story(desk, "42")
    assert (found.matches, found.found) == (chats, "inbound message")
    assert found.turn is not None
    assert found.turn.id == turns[-1]
