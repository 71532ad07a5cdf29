"""The exam of a ledger, chapter four: lanes, rate limits, chats that moved or cannot be reached."""

from __future__ import annotations

from dataclasses import replace

from angelia.model import limits
from angelia.model.ids import AdapterId, Lane
from angelia.model.outcomes import (
    Accepted,
    Moved,
    NotSent,
    RateLimited,
    Refused,
    Scope,
    Unconfirmed,
    Unreachable,
)
from angelia.model.record import Record
from angelia.model.states import Event, Reason, State
from angelia.store.ledger import AdvanceAnswer, ClaimAnswer, Limit
from angelia.testing.ledger_desk import ADAPTER, Desk, question, same


async def due(desk: Desk, *adapters: AdapterId) -> list[str]:
    lanes = await desk.ledger.due_lanes(adapters or (ADAPTER,), 99)
    return [lane.chat for lane in lanes]


# -- lanes -----------------------------------------------------------------------------------


@question
async def a_lane_goes_in_the_order_of_writing(desk: Desk) -> None:
    owner = await desk.owner()
    first, second = await desk.notice(), await desk.notice()
    same(await desk.try_claim(second, owner), ClaimAnswer.BEHIND)
    claim, opened = await desk.claim(first, owner)
    same(await desk.try_claim(second, owner), ClaimAnswer.BEHIND)
    failed = await desk.end(claim, opened, Refused())
    same(failed.state, State.FAILED)
    same(await desk.try_claim(second, owner), ClaimAnswer.BEHIND)
    head = await desk.ledger.head(first.lane)
    same(head, failed)
    same(await due(desk), [])
    desk.pass_until_due(failed)
    owner = await desk.owner()
    same(await due(desk), ["chat"])
    await desk.send(failed, owner, Accepted("r"))
    same(await desk.try_claim(second, owner), ClaimAnswer.GRANTED)


@question
async def only_a_resting_row_is_overtaken(desk: Desk) -> None:
    owner = await desk.owner()
    first, second = await desk.notice(), await desk.notice()
    failed = await desk.send(first, owner, Refused())
    same(await desk.ledger.defer(failed, None), True)
    head = await desk.ledger.head(first.lane)
    assert head is not None
    same(head.id, second.id)
    await desk.send(second, owner, Accepted("r"))
    found = await desk.look(failed)
    same((found.overtaken, found.due_at), (True, None))


@question
async def lanes_do_not_wait_for_each_other(desk: Desk) -> None:
    owner = await desk.owner()
    await desk.claim(await desk.notice("one"), owner)
    await desk.notice("one")
    for chat, thread in (("two", ""), ("one", "topic")):
        same(await desk.try_claim(await desk.notice(chat, thread), owner), ClaimAnswer.GRANTED)


@question
async def what_waits_behind_another_does_not_fill_the_list(desk: Desk) -> None:
    """Else a poll that looks at n lanes would starve all the others."""
    owner = await desk.owner()
    for number in range(3):
        first = await desk.notice(f"stuck {number}")
        await desk.notice(f"stuck {number}")
        await desk.send(first, owner, Refused())
    await desk.notice("free")
    same([lane.chat for lane in await desk.ledger.due_lanes([ADAPTER], 1)], ["free"])
    same(await due(desk, AdapterId("bot", "other")), [])
    same(await due(desk, AdapterId("bot", "other"), ADAPTER), ["free"])


# -- rate limits -----------------------------------------------------------------------------


def limited(wait_s: float, scope: Scope = Scope.CHAT, method: str = "") -> RateLimited:
    return RateLimited(wait_s, scope, method)


@question
async def a_limit_holds_its_scope_and_nothing_else(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.send(await desk.notice("held"), owner, limited(100))
    until = desk.clock.steady + 100_000
    same((record.state, record.due_at, record.held_until), (State.FAILED, until, until))
    same(await desk.ledger.held_until(record.lane), until)
    same(await desk.ledger.held_until(Lane(*ADAPTER, "held", "any topic")), until)
    same(await desk.ledger.held_until(Lane(*ADAPTER, "free")), 0)
    same(await desk.try_claim(await desk.notice("held", "topic"), owner), ClaimAnswer.HELD)
    same(await desk.try_claim(await desk.notice("free"), owner), ClaimAnswer.GRANTED)


@question
async def a_limit_of_the_bot_holds_all_its_chats(desk: Desk) -> None:
    owner = await desk.owner()
    await desk.send(await desk.notice("one"), owner, limited(10, Scope.BOT))
    same(await desk.try_claim(await desk.notice("two"), owner), ClaimAnswer.HELD)
    stranger = await desk.ledger.enqueue(replace(desk.new(), lane=Lane("bot", "other", "one")))
    same(await desk.try_claim(stranger, owner), ClaimAnswer.GRANTED)


@question
async def a_limit_of_another_method_holds_no_send(desk: Desk) -> None:
    owner = await desk.owner()
    until = desk.clock.steady + 60_000
    await desk.ledger.hold(ADAPTER, Limit(Scope.METHOD, "setMyCommands", until))
    same(await desk.try_claim(await desk.notice("one"), owner), ClaimAnswer.GRANTED)
    same(await desk.ledger.held_until(Lane(*ADAPTER, "one")), 0)
    await desk.ledger.hold(ADAPTER, Limit(Scope.METHOD, "send", until))
    same(await desk.try_claim(await desk.notice("two"), owner), ClaimAnswer.HELD)


@question
async def a_limit_is_never_shortened(desk: Desk) -> None:
    lane = Lane(*ADAPTER, "chat")
    until = desk.clock.steady + 60_000
    for each in (until, until, until - 50_000):
        await desk.ledger.hold(ADAPTER, Limit(Scope.CHAT, "chat", each))
        same(await desk.ledger.held_until(lane), until)
    await desk.ledger.hold(ADAPTER, Limit(Scope.CHAT, "chat", until + 1))
    same(await desk.ledger.held_until(lane), until + 1)
    await desk.ledger.connected(ADAPTER, None)
    await desk.restart()
    same(await desk.ledger.held_until(lane), until + 1)


@question
async def after_a_limit_rows_go_one_at_a_time_until_one_is_accepted(desk: Desk) -> None:
    owner = await desk.owner()
    first = await desk.send(await desk.notice("one"), owner, limited(5, Scope.BOT))
    second, third = await desk.notice("two"), await desk.notice("three")
    desk.pass_until_due(first)
    same(await desk.try_claim(third, owner), ClaimAnswer.BEHIND)
    same(await desk.try_claim(second, owner), ClaimAnswer.BEHIND)
    claim, opened = await desk.claim(first, owner)
    same(await desk.try_claim(second, owner), ClaimAnswer.BEHIND)
    await desk.end(claim, opened, Unconfirmed())
    # Not accepted: still one at a time, the next oldest that is due.
    same(await desk.try_claim(third, owner), ClaimAnswer.BEHIND)
    claim, opened = await desk.claim(second, owner)
    same(await desk.try_claim(third, owner), ClaimAnswer.BEHIND)
    await desk.end(claim, opened, Accepted("r"))
    same(await desk.try_claim(third, owner), ClaimAnswer.GRANTED)
    same(await desk.try_claim(await desk.notice("four"), owner), ClaimAnswer.GRANTED)


@question
async def a_row_that_waits_in_its_own_lane_holds_nobody_after_a_limit(desk: Desk) -> None:
    owner = await desk.owner()
    waits = await desk.send(await desk.notice("one"), owner, limited(1, Scope.BOT))
    await desk.notice("one")  # due, but behind the first of its lane
    other = await desk.notice("two")
    desk.pass_until_due(waits)
    waits = await desk.send(waits, owner, Refused())
    same(waits.state, State.FAILED)
    same(await desk.try_claim(other, owner), ClaimAnswer.GRANTED)


@question
async def a_limit_still_running_is_not_proved_over(desk: Desk) -> None:
    owner = await desk.owner()
    claim, opened = await desk.claim(await desk.notice("one"), owner)
    until = desk.clock.steady + 60_000
    await desk.ledger.hold(ADAPTER, Limit(Scope.CHAT, "one", until))
    await desk.end(claim, opened, Accepted("it was in flight"))
    same(await desk.ledger.held_until(Lane(*ADAPTER, "one")), until)


@question
async def a_limited_row_survives_a_restart_inside_its_wait(desk: Desk) -> None:
    """Case C3: the penalty spans a restart."""
    record = await desk.send(await desk.notice(), await desk.owner(), limited(3000))
    desk.clock.advance(60)
    owner = await desk.restart()
    found = await desk.look(record)
    same((found.due_at, found.tries, found.held_until), (record.due_at, 0, record.due_at))
    same(await desk.try_claim(found, owner), ClaimAnswer.HELD)


# -- connections -----------------------------------------------------------------------------


@question
async def a_connection_brings_forward_what_was_not_sent(desk: Desk) -> None:
    owner = await desk.owner()
    offline = await desk.send(await desk.notice("offline"), owner, NotSent("no route"))
    backoff = await desk.send(await desk.notice("backoff"), owner, Refused())
    limit = await desk.send(await desk.notice("limit"), owner, limited(60))
    later = await desk.notice("later")
    same(await desk.ledger.defer(later, desk.clock.steady + 9000), True)
    absent = await desk.notice("absent")
    same(await desk.ledger.defer(absent, desk.clock.steady + 9000, offline=True), True)
    same(await desk.ledger.connected(AdapterId("bot", "other"), None), 0)
    same(await desk.ledger.connected(ADAPTER, "offline"), 1)
    same(await desk.ledger.connected(ADAPTER, None), 1)
    same(await desk.ledger.connected(ADAPTER, None), 0)
    for row in (offline, absent):
        same((await desk.look(row)).due_at, desk.clock.steady)
    same((await desk.look(backoff)).due_at, backoff.due_at)
    same((await desk.look(limit)).due_at, limit.due_at)
    same((await desk.look(later)).due_at, desk.clock.steady + 9000)


@question
async def a_connection_never_shortens_the_backoff_of_a_pass_that_tried(desk: Desk) -> None:
    """The last call of a pass was none, but an earlier one of the same pass was an attempt."""
    owner = await desk.owner()
    claim, opened = await desk.claim(await desk.notice(), owner)
    change, _ = desk.change(opened, Unconfirmed())
    same(await desk.ledger.advance(claim, replace(change, not_sent=1)), AdvanceAnswer.DONE)
    same(await desk.ledger.connected(ADAPTER, None), 0)
    same((await desk.look(opened)).due_at, desk.clock.steady + limits.backoff_first_ms)


@question
async def a_wait_for_something_else_is_none_that_a_connection_ends(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), NotSent())
    due_at = desk.clock.steady + 50_000
    same(await desk.ledger.defer(record, due_at), True)
    same(await desk.ledger.connected(ADAPTER, None), 0)
    same((await desk.look(record)).due_at, due_at)


# -- unreachable -----------------------------------------------------------------------------


async def condemned(desk: Desk) -> tuple[Record, list[Record]]:
    """A chat that said it is gone, and what else was owed to it."""
    owner = await desk.owner()
    record = await desk.notice("gone")
    others = [await desk.notice("gone"), await desk.notice("gone", "topic")]
    return await desk.send(record, owner, Unreachable("blocked")), others


@question
async def an_unreachable_chat_abandons_all_that_is_owed_to_it(desk: Desk) -> None:
    elsewhere = await desk.notice("elsewhere")
    record, others = await condemned(desk)
    for row in (record, *others):
        found = await desk.look(row)
        same((found.state, found.reason, found.unreachable), (State.ABANDONED, Reason.UNREACHABLE, True))
    same((await desk.look(elsewhere)).state, State.PENDING)
    notice = await desk.notice("gone")
    same((notice.state, notice.reason, notice.attempts), (State.ABANDONED, Reason.UNREACHABLE, ()))
    again = await desk.restart()
    same(await desk.try_claim(notice, again), ClaimAnswer.CHANGED)


@question
async def a_row_that_another_pass_holds_settles_by_its_own_outcome(desk: Desk) -> None:
    owner = await desk.owner()
    claim, opened = await desk.claim(await desk.notice("gone", "topic"), owner)
    await condemned(desk)
    same((await desk.look(opened)).state, State.ATTEMPTING)
    done = await desk.end(claim, await desk.look(opened), Accepted("r"))
    same(done.state, State.DELIVERED)


@question
async def only_an_inbound_newer_than_the_attempt_revives_a_chat(desk: Desk) -> None:
    record, _ = await condemned(desk)
    started_at = record.attempts[0].started_at
    desk.clock.advance(10)
    await desk.turn("gone", sent_at=started_at - 1)  # replayed by the platform
    await desk.turn("gone", sent_at=started_at)
    same((await desk.notice("gone")).state, State.ABANDONED)
    await desk.turn("elsewhere")
    same((await desk.notice("gone")).state, State.ABANDONED)
    await desk.turn("gone", sent_at=started_at + 1)
    same((await desk.notice("gone")).state, State.PENDING)
    same((await desk.look(record)).state, State.ABANDONED)


@question
async def an_inbound_without_a_time_of_its_own_counts_as_of_now(desk: Desk) -> None:
    await condemned(desk)
    inbound = desk.inbound("early", chat="gone")
    desk.clock.advance(1)
    await desk.ledger.accept(inbound, "turn")
    same((await desk.notice("gone")).state, State.PENDING)


@question
async def who_wrote_during_the_attempt_has_revived_the_chat_already(desk: Desk) -> None:
    owner = await desk.owner()
    claim, opened = await desk.claim(await desk.notice("gone"), owner)
    other = await desk.notice("gone", "topic")
    desk.clock.advance(1)
    await desk.turn("gone")
    desk.clock.advance(1)
    done = await desk.end(claim, opened, Unreachable("blocked"))
    same((done.state, done.reason, done.unreachable), (State.ABANDONED, Reason.UNREACHABLE, False))
    same((await desk.look(other)).state, State.PENDING)


# -- moved -----------------------------------------------------------------------------------


@question
async def a_moved_chat_takes_all_its_owed_rows_along(desk: Desk) -> None:
    owner = await desk.owner()
    record, behind = await desk.notice("old"), await desk.notice("old")
    topic = await desk.send(await desk.notice("old", "topic"), owner, Unconfirmed())
    claim, opened = await desk.claim(record, owner)
    done = await desk.end(claim, opened, Moved("new"), Accepted("r"))
    same((done.state, done.lane.chat, done.moves), (State.DELIVERED, "new", 1))
    same((await desk.look(behind)).lane.chat, "new")
    # A key of the old chat proves nothing in the new one: the address is another version.
    found = await desk.look(topic)
    same((found.lane.chat, found.lane.thread, found.target), ("new", "topic", 4))
    same((await desk.notice("old")).lane.chat, "new")
    same(await desk.try_claim(behind, owner), ClaimAnswer.CHANGED)


@question
async def final_rows_stay_where_they_went(desk: Desk) -> None:
    owner = await desk.owner()
    before = await desk.send(await desk.notice("old"), owner, Accepted("r"))
    await desk.send(await desk.notice("old"), owner, Moved("new"), Accepted("r"))
    same(await desk.look(before), before)


@question
async def a_third_move_is_refused(desk: Desk) -> None:
    record = await desk.notice("a")
    done = await desk.send(record, await desk.owner(), Moved("b"), Moved("c"), Moved("d"))
    same((done.state, done.lane.chat, done.moves), (State.FAILED, "c", 2))
    same((await desk.notice("a")).lane.chat, "c")


@question
async def a_chat_that_moves_back_is_no_circle(desk: Desk) -> None:
    owner = await desk.owner()
    await desk.send(await desk.notice("a"), owner, Moved("b"), Accepted("r"))
    await desk.send(await desk.notice("b"), owner, Moved("a"), Accepted("r"))
    same([(await desk.notice(chat)).lane.chat for chat in ("a", "b")], ["a", "a"])


@question
async def a_notice_to_a_chat_that_moved_to_one_that_is_gone_is_abandoned(desk: Desk) -> None:
    owner = await desk.owner()
    await desk.send(await desk.notice("old"), owner, Moved("gone"), Unreachable("kicked"))
    notice = await desk.notice("old")
    same((notice.state, notice.lane.chat), (State.ABANDONED, "gone"))


@question
async def a_move_ends_a_pass_without_losing_the_address(desk: Desk) -> None:
    """The limit was learned late: the pass ends with the move, and the row waits at the new place."""
    owner = await desk.owner()
    claim, opened = await desk.claim(await desk.notice("old"), owner)
    change, _ = desk.change(opened, Moved("new"))
    ended = replace(change, opened=None, event=Event.RELEASED, due_at=desk.clock.steady + 5)
    for _ in range(2):
        same(await desk.ledger.advance(claim, ended), AdvanceAnswer.DONE)
    found = await desk.look(opened)
    same((found.state, found.lane.chat, found.moves), (State.FAILED, "new", 1))
