"""The exam of a ledger, chapter three: leases, and what the dead leave behind."""

from __future__ import annotations

from angelia.model import limits
from angelia.model.outcomes import Accepted, Unconfirmed
from angelia.model.record import Ending, open_attempt
from angelia.model.states import State
from angelia.store.ledger import ClaimAnswer, OwnerKind
from angelia.testing.ledger_desk import Desk, question, same

LEASE = limits.lease_ms / 1000


@question
async def starts_are_counted_and_rebirths_are_not(desk: Desk) -> None:
    same(await desk.ledger.start("a", OwnerKind.DAEMON), 1)
    same(await desk.ledger.start("a", OwnerKind.DAEMON), 1)
    same(await desk.ledger.start("b", OwnerKind.LIBRARY), 2)
    same(await desk.ledger.start("b reborn", OwnerKind.LIBRARY, reborn=True), 2)
    same(await desk.ledger.start("c", OwnerKind.DAEMON), 3)


@question
async def a_lease_is_renewed_while_it_runs(desk: Desk) -> None:
    owner = await desk.owner()
    for _ in range(3):
        desk.clock.advance(LEASE - 1)
        same(await desk.ledger.renew(owner), True)
    desk.clock.advance(LEASE)
    same(await desk.ledger.renew(owner), False)
    same(await desk.ledger.renew(owner), False)
    same(await desk.ledger.renew("nobody"), False)


@question
async def who_retired_or_was_buried_never_renews(desk: Desk) -> None:
    retired, buried, taker = await desk.owner(), await desk.owner(), await desk.owner()
    for _ in range(2):
        await desk.ledger.retire(retired)
        same(await desk.ledger.renew(retired), False)
    await desk.ledger.take_over(taker, lock_held=True)
    same(await desk.ledger.renew(buried), False)
    same(await desk.ledger.renew(taker), True)


@question
async def a_lapsed_owner_is_taken_over(desk: Desk) -> None:
    owner = await desk.owner()
    _, opened = await desk.claim(await desk.notice(), owner)
    taker = await desk.owner()
    taken = await desk.ledger.take_over(taker, lock_held=False)
    same((taken.deliveries, await desk.look(opened)), (0, await desk.look(opened)))
    same((await desk.look(opened)).state, State.ATTEMPTING)
    desk.clock.advance(LEASE)
    taker = await desk.owner()
    taken = await desk.ledger.take_over(taker, lock_held=False)
    same(taken.deliveries, 1)
    found = await desk.look(opened)
    same((found.state, found.owner, open_attempt(found)), (State.FAILED, "", None))
    # Before the 1st redelivery: at once after a death.
    same((found.attempts[0].ending, found.due_at, found.tries), (Ending.DIED, desk.clock.steady, 0))
    same(desk.revision(found).doubt, True)
    again = await desk.ledger.take_over(taker, lock_held=False)
    same((again.deliveries, await desk.look(opened)), (0, found))


@question
async def the_lock_proves_daemons_dead_and_says_nothing_of_libraries(desk: Desk) -> None:
    daemon, library = await desk.owner(), await desk.owner(OwnerKind.LIBRARY)
    _, of_daemon = await desk.claim(await desk.notice("one"), daemon)
    claim, of_library = await desk.claim(await desk.notice("two"), library)
    taker = await desk.owner()
    taken = await desk.ledger.take_over(taker, lock_held=True)
    same(taken.deliveries, 1)
    same((await desk.look(of_daemon)).state, State.FAILED)
    same((await desk.look(of_library)).state, State.ATTEMPTING)
    done = await desk.end(claim, await desk.look(of_library), Accepted("r"))
    same(done.state, State.DELIVERED)


@question
async def a_taker_keeps_its_own_rows(desk: Desk) -> None:
    owner = await desk.owner()
    claim, _ = await desk.claim(await desk.notice(), owner)
    same((await desk.ledger.take_over(owner, lock_held=True)).deliveries, 0)
    same(await desk.ledger.holds(claim), True)


@question
async def a_retired_owner_is_taken_over_at_once(desk: Desk) -> None:
    owner = await desk.owner()
    _, opened = await desk.claim(await desk.notice(), owner)
    taker = await desk.owner(OwnerKind.LIBRARY)
    await desk.ledger.retire(owner)
    same((await desk.ledger.take_over(taker, lock_held=False)).deliveries, 1)
    same((await desk.look(opened)).state, State.FAILED)


@question
async def another_gateway_that_was_there_before_took_it_over(desk: Desk) -> None:
    """The marker tells a restart from a take-over by who started when."""
    there_before = await desk.owner(OwnerKind.LIBRARY)
    owner = await desk.owner(OwnerKind.LIBRARY)
    desk.clock.advance(1)
    _, opened = await desk.claim(await desk.notice(), owner)
    await desk.ledger.retire(owner)
    await desk.ledger.take_over(there_before, lock_held=False)
    same((await desk.look(opened)).attempts[0].ending, Ending.TAKEN_OVER)


@question
async def a_death_after_a_receipt_leaves_the_rest_owed(desk: Desk) -> None:
    owner = await desk.owner()
    claim, opened = await desk.claim(await desk.notice(texts=("one", "two", "three")), owner)
    await desk.end(claim, opened, Accepted("r1"), Accepted("r2"))
    await desk.restart()
    found = await desk.look(opened)
    same([p.receipt for p in found.parts], ["r1", "r2", None])
    same([a.ending for a in found.attempts], [Ending.ACCEPTED, Ending.ACCEPTED, Ending.DIED])


@question
async def a_crash_loop_burns_no_tries_faster_than_the_bounds(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.notice()
    waits = []
    for _ in range(3):
        await desk.claim(record, owner)
        owner = await desk.restart()
        record = await desk.look(record)
        assert record.due_at is not None
        waits.append(record.due_at - desk.clock.steady)
        desk.pass_until_due(record)
        owner = await desk.restart()
        record = await desk.look(record)
    # The third waits for a start, which came, and for two minutes after the last attempt.
    same(waits, [0, limits.backoff_second_death_ms, limits.backoff_third_ms])
    same(record.tries, 2)


@question
async def only_a_start_releases_what_rests(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.notice()
    for _ in range(3):
        record = await desk.send(record, owner, Unconfirmed())
        if record.due_at is not None:
            desk.pass_until_due(record)
            await desk.ledger.start(f"{owner}{record.version}", OwnerKind.LIBRARY, reborn=True)
            owner = f"{owner}{record.version}"
    same((record.due_at, record.tries), (None, 2))
    rests = record
    await desk.ledger.take_over(owner, lock_held=False)
    same((await desk.look(record)).due_at, None)
    reborn = desk.new_id("reborn")
    await desk.ledger.start(reborn, OwnerKind.DAEMON, reborn=True)
    await desk.ledger.take_over(reborn, lock_held=False)
    same(await desk.look(record), rests)
    await desk.ledger.connected(record.lane.adapter, None)
    same(await desk.look(record), rests)
    desk.clock.advance(60)
    await desk.restart(lock_held=False)
    record = await desk.look(record)
    same(record.due_at, desk.clock.steady + limits.backoff_third_ms - 60_000)
    released = record
    await desk.restart(lock_held=False)
    same((await desk.look(record)).due_at, released.due_at)


@question
async def the_fence_of_a_row_only_grows(desk: Desk) -> None:
    record = await desk.notice()
    fences = []
    for _ in range(3):
        owner = await desk.restart()
        record = await desk.look(record)
        if record.due_at is None or record.due_at > desk.clock.steady:
            desk.clock.advance(limits.backoff_third_ms / 1000)
            owner = await desk.restart()
        same(await desk.try_claim(await desk.look(record), owner), ClaimAnswer.GRANTED)
        fences.append((await desk.look(record)).fence)
    same(fences, [1, 2, 3])
