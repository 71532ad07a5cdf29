"""The exam of a ledger, chapter two: inbound, turns, model runs and what they cost."""

from __future__ import annotations

from dataclasses import replace

from angelia.model import limits
from angelia.model.ids import Lane
from angelia.model.messages import NewDelivery, Reception, Usage
from angelia.model.outcomes import Accepted, Moved, RateLimited, Scope, Unreachable
from angelia.model.plan import PassEnd, end_of_pass
from angelia.model.record import Ending as End
from angelia.model.record import Record, Revision, fresh_parts, with_attempt, with_ending, with_receipt
from angelia.model.states import Event, RunEnd, State
from angelia.store.ledger import Turn, TurnKind
from angelia.testing.ledger_desk import ADAPTER, Desk, question, same

HOURS_24 = limits.inbound_fresh_ms / 1000


def answer(turn: Turn, name: str = "", text: str = "the answer") -> NewDelivery:
    return NewDelivery(name or f"answer to {turn.id}", turn.lane, (text,), turn.reply_to)


async def running(desk: Desk, owner: str, chat: str = "chat") -> Turn:
    turn = await desk.run(await desk.turn(chat), owner)
    assert turn is not None
    return turn


async def waiting(desk: Desk) -> list[str]:
    return [turn for turn, _, _ in await desk.ledger.waiting_turns(99)]


@question
async def an_inbound_is_accepted_once(desk: Desk) -> None:
    inbound = desk.inbound("m", text="hello", reply_to="m", thread="t")
    same(await desk.ledger.accept(inbound, "turn"), Reception.ACCEPTED)
    same(await desk.ledger.accept(inbound, "turn"), Reception.ACCEPTED)  # the answer was lost
    same(await desk.ledger.accept(replace(inbound, text="other"), "turn of the replay"), Reception.DUPLICATE)
    same(await waiting(desk), ["turn"])
    seen = await desk.ledger.open_turn("turn")
    assert seen is not None
    same((seen.text, seen.reply_to, seen.lane.thread), ("hello", "m", "t"))
    same(await desk.ledger.open_turn("turn of the replay"), None)


@question
async def the_key_is_profile_platform_chat_and_message(desk: Desk) -> None:
    inbound = desk.inbound("m")
    others = [
        replace(inbound, profile="second bot"),
        replace(inbound, platform="other"),
        replace(inbound, chat="other"),
        replace(inbound, message_id="M"),
    ]
    for number, each in enumerate([inbound, *others]):
        same(await desk.ledger.accept(each, f"turn{number}"), Reception.ACCEPTED)
    same(
        await desk.ledger.accept(replace(inbound, user="somebody", thread="x"), "again"), Reception.DUPLICATE
    )


@question
async def a_duplicate_is_known_by_every_opening(desk: Desk) -> None:
    inbound = desk.inbound("m")
    same(await desk.another().accept(inbound, "turn"), Reception.ACCEPTED)
    same(await desk.ledger.accept(inbound, "other"), Reception.DUPLICATE)


@question
async def an_edit_reaches_a_waiting_turn_only(desk: Desk) -> None:
    owner = await desk.owner()
    inbound = desk.inbound("m", text="frist")
    await desk.ledger.accept(inbound, "turn")
    edited = replace(inbound, text="first")
    same(await desk.ledger.edit(edited), True)
    same(await desk.ledger.edit(edited), True)
    same(await desk.ledger.edit(replace(edited, message_id="unknown")), False)
    turn = await desk.run("turn", owner)
    assert turn is not None
    same(turn.text, "first")
    same(await desk.ledger.edit(replace(inbound, text="too late")), False)
    await desk.ledger.finish_turn(turn, "run of turn", RunEnd.ANSWERED, delivery=answer(turn))
    same(await desk.ledger.edit(replace(inbound, text="too late")), False)
    same(await waiting(desk), [])


@question
async def turns_of_a_conversation_run_one_at_a_time_in_order(desk: Desk) -> None:
    owner = await desk.owner()
    first, second = await desk.turn(), await desk.turn()
    elsewhere, topic = await desk.turn("other"), await desk.turn(thread="topic")
    same(await waiting(desk), [first, elsewhere, topic])
    same(await desk.run(second, owner), None)
    turn = await desk.run(first, owner)
    assert turn is not None
    same(await desk.run(second, owner), None)
    same(await waiting(desk), [elsewhere, topic])
    await desk.ledger.finish_turn(turn, f"run of {first}", RunEnd.ANSWERED, delivery=answer(turn))
    same(await waiting(desk), [second, elsewhere, topic])
    assert await desk.run(second, owner) is not None


@question
async def a_command_waits_for_no_message(desk: Desk) -> None:
    owner = await desk.owner()
    await running(desk, owner)
    command = await desk.turn(kind=TurnKind.COMMAND)
    same(await waiting(desk), [command])
    turn = await desk.ledger.open_turn(command)
    assert turn is not None
    for _ in range(2):
        assert await desk.ledger.finish_turn(turn, None, RunEnd.ANSWERED, delivery=answer(turn))
    other = answer(turn, "another answer")
    same(await desk.ledger.finish_turn(turn, None, RunEnd.ANSWERED, delivery=other), None)
    same(await waiting(desk), [])
    same((await desk.ledger.record(f"answer to {command}")).state, State.PENDING)


@question
async def a_run_started_twice_is_one_run(desk: Desk) -> None:
    owner, other = await desk.owner(), await desk.owner()
    turn = await desk.turn()
    started = await desk.run(turn, owner)
    assert started is not None
    same(await desk.run(turn, owner), started)
    same(await desk.run(turn, owner, "another run"), None)
    same(await desk.run(turn, other), None)
    same(await desk.run(turn, other, "another run"), None)
    same(await desk.run("unknown", owner), None)


@question
async def a_run_needs_a_lease(desk: Desk) -> None:
    owner = await desk.owner()
    turn = await desk.turn()
    desk.clock.advance(limits.lease_ms / 1000)
    same(await desk.run(turn, owner), None)
    same(await desk.run(turn, "nobody"), None)
    same(await waiting(desk), [turn])


@question
async def the_end_of_a_turn_and_its_delivery_are_one_commit(desk: Desk) -> None:
    owner = await desk.owner()
    turn = await running(desk, owner)
    told, run = answer(turn), f"run of {turn.id}"
    for _ in range(2):
        assert await desk.ledger.finish_turn(turn, run, RunEnd.ANSWERED, Usage(3, 5), delivery=told)
    record = await desk.ledger.record(told.id)
    same((record.state, record.turn, record.origin), (State.PENDING, turn.id, "turn"))
    other = answer(turn, "other")
    same(await desk.ledger.finish_turn(turn, "other run", RunEnd.ANSWERED, delivery=other), None)
    lines = await desk.ledger.history(ADAPTER, "chat", 9)
    same([(line.role, line.state) for line in lines], [("user", "answered"), ("assistant", "pending")])


@question
async def what_is_said_of_a_fresh_answer_is_what_is_on_record(desk: Desk) -> None:
    owner = await desk.owner()
    gone, moves, held = [await desk.notice(chat) for chat in ("gone", "old", "held")]
    await desk.send(gone, owner, Unreachable())
    await desk.send(moves, owner, Moved("new"), Accepted("r"))
    await desk.send(held, owner, RateLimited(60.0, Scope.CHAT))
    for chat in ("chat", "gone", "old", "new", "held"):
        turn = await running(desk, owner, chat)
        told, run = answer(turn), f"run of {turn.id}"
        for _ in range(2):
            finished = await desk.ledger.finish_turn(turn, run, RunEnd.ANSWERED, delivery=told)
            assert finished is not None
            if finished.fresh is not None:
                same(finished.fresh, await desk.ledger.record(told.id))


@question
async def an_answer_under_a_lost_claim_is_not_recorded(desk: Desk) -> None:
    """The interrupted turn runs again; the first run's answer must not become a second one."""
    turn = await running(desk, await desk.owner())
    taker = await desk.restart()
    late = await desk.ledger.finish_turn(turn, f"run of {turn.id}", RunEnd.ANSWERED, delivery=answer(turn))
    same(late, None)
    again = await desk.run(turn.id, taker, "second run")
    assert again is not None
    same(again.fence, turn.fence + 1)
    late = await desk.ledger.finish_turn(turn, f"run of {turn.id}", RunEnd.ANSWERED, delivery=answer(turn))
    same(late, None)
    same(await desk.ledger.release_turn(turn, f"run of {turn.id}"), False)
    same(await desk.ledger.next_run(turn, f"run of {turn.id}", Usage(), "503", "third run", "spare"), False)
    assert await desk.ledger.finish_turn(again, "second run", RunEnd.ANSWERED, delivery=answer(again))


@question
async def a_second_interruption_tells_the_person(desk: Desk) -> None:
    turn = await running(desk, await desk.owner())
    taker = await desk.restart()
    same(await waiting(desk), [turn.id])
    assert await desk.run(turn.id, taker, "second run") is not None
    third = await desk.owner()
    taken = await desk.ledger.take_over(third, True)
    same((taken.turns, taken.deliveries), (1, 0))
    same(await waiting(desk), [])
    same(await desk.run(turn.id, third, "third run"), None)
    head = await desk.ledger.head(turn.lane)
    assert head is not None
    same((head.state, head.turn, len(head.parts)), (State.PENDING, turn.id, 1))
    again = await desk.ledger.take_over(third, True)
    same((again.turns, again.deliveries), (0, 0))


@question
async def a_drain_is_no_interruption(desk: Desk) -> None:
    owner = await desk.owner()
    turn_id = await desk.turn()
    for number in range(3):
        turn = await desk.run(turn_id, owner, f"run{number}")
        assert turn is not None
        for _ in range(2):
            same(await desk.ledger.release_turn(turn, f"run{number}"), True)
        same(await waiting(desk), [turn_id])
    assert await desk.run(turn_id, owner, "cut by a crash") is not None
    owner = await desk.restart()
    # Still its first interruption: it runs again.
    assert await desk.run(turn_id, owner, "last run") is not None


@question
async def a_fallback_is_a_second_run_of_the_same_turn(desk: Desk) -> None:
    owner = await desk.owner()
    turn = await running(desk, owner)
    first = f"run of {turn.id}"
    for _ in range(2):
        same(await desk.ledger.next_run(turn, first, Usage(1, 0), "503", "fallback", "spare"), True)
    assert await desk.ledger.finish_turn(turn, "fallback", RunEnd.ANSWERED, delivery=answer(turn))
    same(await desk.ledger.next_run(turn, "fallback", Usage(), "", "third", "spare"), False)


@question
async def an_old_inbound_starts_nothing(desk: Desk) -> None:
    first, second = await desk.turn(), await desk.turn()
    desk.clock.advance(HOURS_24)
    owner = await desk.owner()
    for turn in (first, first, second):
        same(await desk.run(turn, owner), None)
    fresh = await desk.turn()
    same(await waiting(desk), [fresh])
    assert await desk.run(fresh, owner) is not None


@question
async def an_inbound_that_the_platform_kept_for_a_day_starts_nothing(desk: Desk) -> None:
    owner = await desk.owner()
    kept = await desk.turn(sent_at=desk.clock.wall - limits.inbound_fresh_ms)
    same(await desk.run(kept, owner), None)
    same(await waiting(desk), [])
    fresh = await desk.turn(sent_at=desk.clock.wall - limits.inbound_fresh_ms + 1000)
    assert await desk.run(fresh, owner) is not None


@question
async def giving_up_tells_why(desk: Desk) -> None:
    owner = await desk.owner()
    turn = await running(desk, owner)
    run = f"run of {turn.id}"
    for _ in range(2):
        said = await desk.ledger.finish_turn(turn, run, RunEnd.TIMEOUT, delivery=answer(turn), gave_up="late")
        assert said is not None
    lines = await desk.ledger.history(ADAPTER, "chat", 9)
    same([line.state for line in lines], ["gave_up (late)", "pending"])


# -- what was sent while the store could not be written ---------------------------------------


async def sent_unprotected(
    desk: Desk, turn: Turn, ending: End, receipt: str | None
) -> tuple[NewDelivery, Record, PassEnd]:
    """A pass over an answer that the store did not know of yet."""
    told = answer(turn)
    bare = Record(told.id, 0, told.lane, State.ATTEMPTING, desk.clock.wall, fresh_parts(told.texts), fence=1)
    tried = with_attempt(bare, Revision(1, 1), desk.clock.wall)
    tried = with_ending(tried, tried.attempts[0], ending, desk.clock.wall)
    if receipt is not None:
        tried = with_receipt(tried, 1, receipt)
        return told, tried, PassEnd(Event.LAST_PART_ACCEPTED, None, 0)
    return told, tried, end_of_pass(tried, desk.clock.now())


@question
async def an_answer_sent_unprotected_is_committed_with_its_attempts(desk: Desk) -> None:
    owner = await desk.owner()
    for chat, ending, receipt, state in (
        ("one", End.ACCEPTED, "r", State.DELIVERED),
        ("two", End.UNCONFIRMED, None, State.FAILED),
    ):
        turn = await running(desk, owner, chat)
        told, tried, end = await sent_unprotected(desk, turn, ending, receipt)
        for _ in range(2):
            said = await desk.ledger.finish_turn(
                turn, f"run of {turn.id}", RunEnd.ANSWERED, delivery=told, sent=(tried, end)
            )
            assert said is not None
        found = await desk.ledger.record(told.id)
        same((found.state, found.fence, [a.ending for a in found.attempts]), (state, 1, [ending]))
        same(found.part(1).receipt, receipt)
    # What may have arrived goes out again marked, never plain.
    desk.pass_until_due(found)
    same(desk.revision(await desk.look(found)).marker, True)


@question
async def an_answer_split_while_unprotected_keeps_its_parts(desk: Desk) -> None:
    turn = await running(desk, await desk.owner())
    told, tried, _ = await sent_unprotected(desk, turn, End.TOO_LONG, None)
    whole, halves = tried.parts[0], ("the ", "answer")
    children = [
        replace(whole, number=n, position=whole.position + n, text=text, parent=1)
        for n, text in enumerate(halves, 2)
    ]
    parts = (replace(whole, replaced=True), *children)
    tried = replace(tried, parts=parts, fence=1)
    for part in (2, 3):
        tried = with_attempt(tried, Revision(part, 1), desk.clock.wall)
        tried = with_ending(tried, tried.attempts[-1], End.ACCEPTED, desk.clock.wall)
        tried = with_receipt(tried, part, f"r{part}")
    sent = (tried, PassEnd(Event.LAST_PART_ACCEPTED, None, 0))
    run = f"run of {turn.id}"
    assert await desk.ledger.finish_turn(turn, run, RunEnd.ANSWERED, delivery=told, sent=sent)
    found = await desk.ledger.record(told.id)
    same((found.state, [p.receipt for p in found.live_parts]), (State.DELIVERED, ["r2", "r3"]))


# -- conversations and histories ---------------------------------------------------------------


async def exchange(desk: Desk, owner: str, text: str, reply: str) -> str:
    turn_id = await desk.turn(text=text)
    turn = await desk.run(turn_id, owner)
    assert turn is not None
    desk.clock.advance(1)
    told = answer(turn, text=reply)
    await desk.ledger.finish_turn(turn, f"run of {turn_id}", RunEnd.ANSWERED, delivery=told)
    await desk.send(await desk.ledger.record(told.id), owner, Accepted("r"))
    desk.clock.advance(1)
    return turn_id


@question
async def a_new_conversation_sees_no_earlier_line(desk: Desk) -> None:
    owner = await desk.owner()
    lane = Lane(*ADAPTER, "chat")
    await exchange(desk, owner, "one", "1")
    await exchange(desk, owner, "two", "2")
    before = await desk.turn(text="three")
    lines = await desk.ledger.conversation(lane, before, 9)
    same([line.text for line in lines], ["one", "1", "two", "2"])
    same([line.text for line in await desk.ledger.conversation(lane, before, 2)], ["two", "2"])
    old = await desk.ledger.open_turn(before)
    await desk.ledger.new_conversation(lane)
    after = await desk.turn(text="four")
    same(await desk.ledger.conversation(lane, after, 9), [])
    new = await desk.ledger.open_turn(after)
    assert old is not None
    assert new is not None
    same(old.conversation == new.conversation, False)
    # The person still sees everything.
    lines = await desk.ledger.history(ADAPTER, "chat", 99)
    same([line.text for line in lines], ["one", "1", "two", "2", "three", "four"])


@question
async def chats_are_listed_by_activity(desk: Desk) -> None:
    await desk.turn("first", text="  a\n question ")
    desk.clock.advance(1)
    await desk.turn("second", text="b")
    desk.clock.advance(1)
    await desk.turn("first", text="c")
    found = await desk.ledger.chats(ADAPTER, 9)
    same([(chat.chat, chat.title) for chat in found], [("first", "a question"), ("second", "b")])


@question
async def a_history_keeps_the_order_of_arrival_within_a_millisecond(desk: Desk) -> None:
    for text in ("one", "two", "three"):
        await desk.turn(text=text)
        await desk.notice(texts=(f"reply {text}",))
    lines = await desk.ledger.history(ADAPTER, "chat", 9)
    same([line.text for line in lines if line.role == "user"], ["one", "two", "three"])
    replies = [line.text for line in lines if line.role == "assistant"]
    same(replies, ["reply one", "reply two", "reply three"])
