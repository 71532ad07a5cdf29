"""The exam of a ledger, chapter one: a delivery from ``pending`` to its end.

What a claim, an outcome and a late receipt leave on record; that each says the same when it is
said twice; that a stale claim changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from angelia.model import limits
from angelia.model.errors import UnknownIdError
from angelia.model.ids import Claim
from angelia.model.messages import NewDelivery
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    ContentFault,
    Moved,
    NotSent,
    Refused,
    ThreadGone,
    Unconfirmed,
)
from angelia.model.record import open_attempt
from angelia.model.states import Event, Reason, State
from angelia.store.ledger import Advance, AdvanceAnswer, ClaimAnswer
from angelia.testing.ledger_desk import Desk, question, same


@question
async def enqueue_records_parts_and_says_so_twice(desk: Desk) -> None:
    new = desk.new(texts=("one", "two"))
    first = await desk.ledger.enqueue(new)
    same((first.state, first.fence, first.attempts), (State.PENDING, 0, ()))
    same([p.text for p in first.live_parts], ["one", "two"])
    same(first.written_at, desk.clock.wall)
    desk.clock.advance(5)
    same(await desk.ledger.enqueue(new), first)


@question
async def an_unknown_id_is_an_error(desk: Desk) -> None:
    for ask in (desk.ledger.record("nobody"), desk.ledger.record_receipt("nobody", 1, "r")):
        try:
            await ask
        except UnknownIdError:
            continue
        raise AssertionError("an unknown id was not refused")


@question
async def a_claim_puts_owner_fence_and_attempt_on_record_at_once(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.notice()
    same(await desk.try_claim(record, owner), ClaimAnswer.GRANTED)
    found = await desk.look(record)
    same((found.state, found.owner, found.fence, found.due_at), (State.ATTEMPTING, owner, 1, None))
    attempt = open_attempt(found)
    assert attempt is not None
    same((attempt.part, attempt.fence, attempt.started_at), (1, 1, desk.clock.wall))
    same(found.revision(1, attempt.revision).marker, False)
    same(await desk.ledger.head(record.lane), None)


@question
async def a_claim_said_twice_is_one_claim(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.notice()
    same(await desk.try_claim(record, owner), ClaimAnswer.GRANTED)
    before = await desk.look(record)
    same(await desk.try_claim(record, owner), ClaimAnswer.GRANTED)
    same(await desk.look(record), before)


@question
async def a_claim_on_a_row_that_changed_is_refused(desk: Desk) -> None:
    owner, other = await desk.owner(), await desk.owner()
    record = await desk.notice()
    for stale in (replace(record, version=9), replace(record, fence=3), replace(record, state=State.FAILED)):
        same(await desk.try_claim(stale, owner), ClaimAnswer.CHANGED)
    same(await desk.look(record), record)
    _, opened = await desk.claim(record, owner)
    same(await desk.try_claim(record, other), ClaimAnswer.CHANGED)
    same(await desk.try_claim(opened, other), ClaimAnswer.CHANGED)
    delivered = await desk.end(Claim(record.id, owner, 1), await desk.look(record), Accepted("r"))
    same(await desk.try_claim(delivered, owner), ClaimAnswer.CHANGED)
    same(await desk.try_claim(record, owner), ClaimAnswer.CHANGED)


@question
async def a_claim_needs_a_lease(desk: Desk) -> None:
    retired, owner = await desk.owner(), await desk.owner()
    await desk.ledger.retire(retired)
    record = await desk.notice()
    same(await desk.try_claim(record, "nobody"), ClaimAnswer.LAPSED)
    desk.clock.advance(limits.lease_ms / 1000)
    same(await desk.try_claim(record, owner), ClaimAnswer.LAPSED)
    same(await desk.try_claim(record, retired), ClaimAnswer.LAPSED)
    same(await desk.look(record), record)


@question
async def receipt_and_next_part_are_one_commit(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.notice(texts=("one", "two"))
    claim, opened = await desk.claim(record, owner)
    change, _ = desk.change(opened, Accepted("r1"))
    same(await desk.ledger.advance(claim, change), AdvanceAnswer.DONE)
    between = await desk.look(record)
    flying = open_attempt(between)
    assert flying is not None
    same((between.state, between.part(1).receipt, flying.part), (State.ATTEMPTING, "r1", 2))
    same(await desk.ledger.advance(claim, change), AdvanceAnswer.DONE)
    same(await desk.look(record), between)
    done = await desk.end(claim, between, Accepted("r2"))
    same((done.state, done.owner, [p.receipt for p in done.parts]), (State.DELIVERED, "", ["r1", "r2"]))


@question
async def an_empty_receipt_is_a_receipt(desk: Desk) -> None:
    done = await desk.send(await desk.notice(), await desk.owner(), Accepted(""))
    same((done.state, done.parts[0].receipt), (State.DELIVERED, ""))


@question
async def an_end_said_twice_is_one_end(desk: Desk) -> None:
    owner = await desk.owner()
    for outcome in (Accepted("r"), Unconfirmed("no answer"), Refused("no"), NotSent("refused")):
        claim, opened = await desk.claim(await desk.notice(chat=desk.new_id("chat")), owner)
        change, _ = desk.change(opened, outcome)
        same(await desk.ledger.advance(claim, change), AdvanceAnswer.DONE)
        once = await desk.look(opened)
        same(await desk.ledger.advance(claim, change), AdvanceAnswer.DONE)
        same(await desk.look(opened), once)


@question
async def going_on_said_twice_counts_once(desk: Desk) -> None:
    owner = await desk.owner()
    for outcome, target in ((ThreadGone(detail="deleted"), 1), (Moved("new"), 4)):
        claim, opened = await desk.claim(await desk.notice(thread="topic"), owner)
        change, _ = desk.change(opened, outcome)
        bare = replace(change, opened=None)
        for said in (bare, bare, replace(change, attempt=None, moved_to="", rerouted=False)):
            same(await desk.ledger.advance(claim, said), AdvanceAnswer.DONE)
        found = await desk.look(opened)
        same((found.target, len(found.attempts)), (target, 2))
        await desk.end(claim, found, Accepted("r"))


@question
async def a_call_that_was_none_leaves_no_attempt(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.send(await desk.notice(), owner, NotSent("refused connection"))
    same((record.state, record.attempts, record.not_sent, record.tries), (State.PENDING, (), 1, 0))
    same(record.due_at, desk.clock.steady + 1000)
    desk.pass_until_due(record)
    record = await desk.send(record, owner, NotSent("refused connection"))
    same((record.not_sent, record.due_at), (2, desk.clock.steady + 2000))
    desk.pass_until_due(record)
    done = await desk.send(record, owner, Accepted("r"))
    same((done.state, done.fence, len(done.attempts)), (State.DELIVERED, 3, 1))
    same(any(r.marker for r in done.revisions), False)


@question
async def failures_wait_count_and_rest(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.send(await desk.notice(), owner, Unconfirmed("time-out"))
    same((record.state, record.tries), (State.FAILED, 0))
    same(record.due_at, desk.clock.steady + limits.backoff_first_ms)
    desk.pass_until_due(record)
    owner = await desk.owner()
    same((await desk.ledger.due_lanes([record.lane.adapter], 9))[0], record.lane)
    record = await desk.send(record, owner, Refused("no"))
    same((record.tries, record.due_at), (1, desk.clock.steady + limits.backoff_second_ms))
    desk.pass_until_due(record)
    owner = await desk.owner()
    record = await desk.send(record, owner, Unconfirmed("time-out"))
    # The third redelivery is left for the next start.
    same((record.state, record.tries, record.due_at), (State.FAILED, 2, None))
    same(await desk.ledger.head(record.lane), None)
    owner = await desk.restart()
    record = await desk.look(record)
    same(record.due_at, desk.clock.steady + limits.backoff_third_ms)
    desk.pass_until_due(record)
    record = await desk.send(record, await desk.owner(), Unconfirmed("time-out"))
    same(record.tries, 3)
    same(await desk.ledger.settle(record, Event.TRIES_USED_UP), True)
    record = await desk.look(record)
    same((record.state, record.reason, len(record.attempts)), (State.ABANDONED, Reason.TRIES_USED_UP, 4))


@question
async def a_stale_claim_changes_nothing(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.notice(texts=("one", "two"))
    claim, opened = await desk.claim(record, owner)
    change, _ = desk.change(opened, Accepted("r1"))
    wrong = [
        replace(claim, fence=claim.fence + 1),
        replace(claim, owner="nobody"),
        replace(claim, delivery="unknown"),
    ]
    for stale in wrong:
        same(await desk.ledger.advance(stale, change), AdvanceAnswer.STALE)
        same(await desk.ledger.holds(stale), False)
    same(await desk.look(record), opened)
    same(await desk.ledger.holds(claim), True)
    await desk.ledger.retire(owner)
    same(await desk.ledger.holds(claim), False)
    taker = await desk.restart()
    taken = await desk.look(record)
    for said in (change, replace(change, opened=None), Advance(Event.RELEASED, due_at=0)):
        same(await desk.ledger.advance(claim, said), AdvanceAnswer.STALE)
    same(await desk.look(record), taken)
    _, again = await desk.claim(record, taker)
    same(await desk.ledger.advance(claim, change), AdvanceAnswer.STALE)
    same(await desk.look(record), again)


@question
async def no_further_attempt_begins_after_the_lease(desk: Desk) -> None:
    owner = await desk.owner()
    claim, opened = await desk.claim(await desk.notice(texts=("one", "two")), owner)
    desk.clock.advance(limits.lease_ms / 1000)
    change, _ = desk.change(opened, Accepted("r1"))
    same(await desk.ledger.advance(claim, change), AdvanceAnswer.LAPSED)
    same(await desk.look(opened), opened)
    # The outcome is a fact and may still be stored while nobody took the row over.
    ended = replace(change, opened=None, event=Event.RELEASED, due_at=desk.clock.steady)
    same(await desk.ledger.advance(claim, ended), AdvanceAnswer.DONE)
    found = await desk.look(opened)
    same((found.state, found.part(1).receipt, open_attempt(found)), (State.FAILED, "r1", None))


@question
async def a_split_part_is_replaced_by_its_children(desk: Desk) -> None:
    owner = await desk.owner()
    claim, opened = await desk.claim(await desk.notice(texts=("abcdef",)), owner)
    change, _ = desk.change(opened, BadContent(ContentFault.TOO_LONG))
    for _ in range(2):
        same(await desk.ledger.advance(claim, change), AdvanceAnswer.DONE)
    found = await desk.look(opened)
    same([(p.number, p.text, p.parent) for p in found.live_parts], [(2, "abc", 1), (3, "def", 1)])
    done = await desk.end(claim, found, Accepted("a"), Accepted("b"))
    same(done.state, State.DELIVERED)


@question
async def rejected_content_is_abandoned(desk: Desk) -> None:
    record = await desk.notice()
    done = await desk.send(record, await desk.owner(), BadContent(detail="markup"), BadContent())
    same((done.state, done.reason, done.owner), (State.ABANDONED, Reason.REJECTED, ""))


@question
async def a_delivery_without_text_is_refused(desk: Desk) -> None:
    lane = desk.new().lane
    for texts in ((), ("",), ("one", "")):
        try:
            NewDelivery("empty", lane, texts)
        except ValueError:
            continue
        raise AssertionError(f"{texts} was taken for a delivery")


@question
async def nothing_goes_out_before_it_is_due_or_after_a_day(desk: Desk) -> None:
    """The plan says so already; the gate says it again to a plan that is a moment old."""
    record = await desk.send(await desk.notice(), await desk.owner(), Refused())
    desk.clock.advance(limits.backoff_first_ms / 1000 - 1)
    owner = await desk.owner()
    same(await desk.try_claim(record, owner), ClaimAnswer.HELD)
    desk.clock.advance(limits.freshness_ms / 1000 - limits.backoff_first_ms / 1000 + 1)
    owner = await desk.owner()
    same(await desk.try_claim(record, owner), ClaimAnswer.CHANGED)
    same(replace(await desk.look(record), newest_start=record.newest_start), record)
    last = await desk.notice("another")
    desk.clock.advance(limits.freshness_ms / 1000 - 0.001)
    same(await desk.try_claim(last, await desk.owner()), ClaimAnswer.GRANTED)
