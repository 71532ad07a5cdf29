"""The exam of a ledger, chapter seven: late receipts, and rows that nobody holds.

A receipt is a fact: it is recorded under any claim, also when another pass works on the row or
when the row is final. What nobody holds is settled and deferred only as it was seen.
"""

from __future__ import annotations

from dataclasses import replace

from angelia.model.outcomes import Accepted, BadContent, ContentFault, LookUp, Refused, Unconfirmed
from angelia.model.record import Ending
from angelia.model.states import Event, Reason, State
from angelia.store.ledger import AdvanceAnswer, ClaimAnswer
from angelia.testing.ledger_desk import Desk, question, same


@question
async def a_late_receipt_completes_a_failed_row(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), Unconfirmed())
    for _ in range(2):
        await desk.ledger.record_receipt(record.id, 1, "late")
        found = await desk.look(record)
        same((found.state, found.reason, found.part(1).receipt), (State.DELIVERED, "", "late"))
        same(found.attempts[0].ending, Ending.ACCEPTED)
    same(await desk.try_claim(record, await desk.owner()), ClaimAnswer.CHANGED)


@question
async def a_late_receipt_of_one_part_leaves_the_other_owed(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.send(await desk.notice(texts=("one", "two")), owner, Unconfirmed())
    await desk.ledger.record_receipt(record.id, 1, "late")
    found = await desk.look(record)
    missing = found.missing
    assert missing is not None
    same((found.state, missing.number, found.due_at), (State.FAILED, 2, record.due_at))
    # Who planned on the record as it was looks again: the part that came must not go again.
    same(await desk.try_claim(record, owner), ClaimAnswer.CHANGED)


@question
async def a_late_receipt_during_another_claim_is_kept(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), Unconfirmed())
    desk.pass_until_due(record)
    owner = await desk.owner()
    claim, opened = await desk.claim(record, owner)
    await desk.ledger.record_receipt(record.id, 1, "late")
    found = await desk.look(record)
    same((found.state, found.owner, found.part(1).receipt), (State.ATTEMPTING, owner, "late"))
    change, _ = desk.change(opened, Unconfirmed())
    same(await desk.ledger.advance(claim, change), AdvanceAnswer.DONE)
    same((await desk.look(record)).state, State.DELIVERED)


@question
async def a_take_over_of_a_row_that_was_received_completes_it(desk: Desk) -> None:
    owner = await desk.owner()
    _, opened = await desk.claim(await desk.notice(), owner)
    await desk.ledger.record_receipt(opened.id, 1, "the page said so")
    await desk.ledger.retire(owner)
    await desk.restart()
    found = await desk.look(opened)
    same((found.state, found.attempts[0].ending), (State.DELIVERED, Ending.ACCEPTED))


@question
async def a_late_receipt_of_an_abandoned_row_is_noted_and_no_more(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), Unconfirmed())
    same(await desk.ledger.settle(record, Event.CANCELLED), True)
    await desk.ledger.record_receipt(record.id, 1, "late")
    found = await desk.look(record)
    same((found.state, found.reason), (State.ABANDONED, Reason.CANCELLED))
    same(found.part(1).receipt, "late")


@question
async def the_first_receipt_stays(desk: Desk) -> None:
    done = await desk.send(await desk.notice(), await desk.owner(), Accepted("first"))
    await desk.ledger.record_receipt(done.id, 1, "second")
    same(await desk.look(done), done)


@question
async def a_late_receipt_of_a_part_that_was_split_covers_its_children(desk: Desk) -> None:
    """Else the children would go out, unmarked, after the whole had arrived."""
    record = await desk.send(await desk.notice(texts=("abcdef",)), await desk.owner(), Unconfirmed())
    desk.pass_until_due(record)
    too_long = BadContent(ContentFault.TOO_LONG)
    record = await desk.send(record, await desk.owner(), too_long, Refused())
    same(len(record.live_parts), 2)
    await desk.ledger.record_receipt(record.id, 1, "whole")
    found = await desk.look(record)
    same((found.state, found.missing), (State.DELIVERED, None))


# -- rows that nobody holds ------------------------------------------------------------------


@question
async def a_look_up_that_found_nothing_lifts_the_doubt(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), Unconfirmed())
    for found, absent in ((LookUp.CANNOT_TELL, False), (LookUp.ABSENT, True), (LookUp.CANNOT_TELL, True)):
        await desk.ledger.note_look_up(record, 1, found)
        attempt = (await desk.look(record)).attempts[0]
        same((attempt.absent, attempt.looked_up_fence), (absent, record.fence))


@question
async def settling_says_the_same_twice_and_only_to_what_it_saw(desk: Desk) -> None:
    record = await desk.notice()
    same(await desk.ledger.settle(replace(record, version=7), Event.CANCELLED), False)
    for _ in range(2):
        same(await desk.ledger.settle(record, Event.CANCELLED), True)
    same(await desk.ledger.settle(record, Event.GREW_STALE), False)
    found = await desk.look(record)
    same((found.state, found.reason, found.due_at), (State.ABANDONED, Reason.CANCELLED, None))


@question
async def a_claimed_row_is_not_settled_from_outside(desk: Desk) -> None:
    _, opened = await desk.claim(await desk.notice(), await desk.owner())
    same(await desk.ledger.settle(opened, Event.CHAT_UNREACHABLE), False)
    same(await desk.look(opened), opened)


@question
async def a_row_with_missing_parts_is_not_completed(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), Refused())
    same(await desk.ledger.settle(record, Event.COMPLETED_LATE), False)
    same(await desk.look(record), record)


@question
async def deferring_never_shortens(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), Refused())
    due_at = record.due_at
    assert due_at is not None
    same(await desk.ledger.defer(record, due_at - 1), False)
    same(await desk.look(record), record)
    for _ in range(2):
        same(await desk.ledger.defer(record, due_at + 5000), True)
    later = await desk.look(record)
    same((later.due_at, later.version), (due_at + 5000, record.version + 1))
    same(await desk.ledger.defer(record, due_at + 9000), False)
    same(await desk.ledger.defer(later, None), True)
    same((await desk.look(record)).due_at, None)


@question
async def a_pending_row_never_rests(desk: Desk) -> None:
    record = await desk.notice()
    same(await desk.ledger.defer(record, None), False)
    same((await desk.look(record)).due_at, record.due_at)
