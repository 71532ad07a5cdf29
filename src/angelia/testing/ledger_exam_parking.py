"""The exam of a ledger, chapter eight: an old copy put back, whose owed rows ask first."""

from __future__ import annotations

from angelia.model import limits, markers
from angelia.model.errors import NotPossibleError, UnknownIdError
from angelia.model.messages import NO_USAGE
from angelia.model.outcomes import Accepted, NotSent, Refused, Unconfirmed
from angelia.model.plan import Rest, Send, next_step
from angelia.model.record import Ending, Record
from angelia.model.states import Event, RunEnd, State
from angelia.store.ledger import ClaimAnswer, OwnerKind, Pulse
from angelia.testing.ledger_desk import ADAPTER, Desk, question, same


def _next(desk: Desk, record: Record) -> object:
    return next_step(record, desk.promise, desk.clock.now())


async def _refused(desk: Desk, *deliveries: str) -> str:
    """The name of the error with which these are not released."""
    try:
        await desk.ledger.release(deliveries)
    except (NotPossibleError, UnknownIdError) as error:
        return type(error).__name__
    return "released"


@question
async def each_sign_of_a_daemon_is_a_beat(desk: Desk) -> None:
    born = await desk.ledger.pulse()
    daemon, library = await desk.owner(), await desk.owner(OwnerKind.LIBRARY)
    started = await desk.ledger.pulse()
    same((started.store, started.beats), (born.store, born.beats + 1))
    await desk.ledger.renew(library)
    await desk.ledger.retire(library)
    same(await desk.ledger.pulse(), started)
    await desk.ledger.renew(daemon)
    await desk.ledger.retire(daemon)
    same((await desk.ledger.pulse()).beats, started.beats + 2)


@question
async def a_parked_store_goes_on_from_the_note(desk: Desk) -> None:
    mine = await desk.ledger.pulse()
    parked = await desk.ledger.park(Pulse("the home's", mine.beats + 40))
    same(parked.pulse, Pulse("the home's", mine.beats + 41))
    same(await desk.ledger.pulse(), parked.pulse)
    parked = await desk.ledger.park(None)
    same(parked.pulse, Pulse("the home's", mine.beats + 42))


@question
async def what_a_copy_owes_is_parked_in_every_state(desk: Desk) -> None:
    owner = await desk.owner()
    pending = await desk.notice("a")
    failed = await desk.send(await desk.notice("b"), owner, Refused())
    _, attempting = await desk.claim(await desk.notice("c"), owner)
    done = await desk.send(await desk.notice("d"), owner, Accepted("r"))
    before = await desk.look(done)
    same((await desk.ledger.park(None)).deliveries, 3)
    for record in (pending, failed, attempting):
        found = await desk.look(record)
        same((found.parked, found.due_at, found.owner), (True, None, ""))
        same(_next(desk, found), Rest())
    same((await desk.look(attempting)).attempts[0].ending, Ending.DIED)
    same(await desk.look(done), before)
    same((await desk.ledger.park(None)).deliveries, 0)


@question
async def a_parked_row_is_claimed_by_nobody(desk: Desk) -> None:
    record = await desk.notice()
    fresh = await desk.look(record)
    await desk.ledger.park(None)
    owner = await desk.restart()
    same(await desk.try_claim(fresh, owner), ClaimAnswer.CHANGED)
    parked = await desk.look(record)
    same(await desk.try_claim(parked, owner), ClaimAnswer.HELD)
    same(await desk.ledger.head(record.lane), None)
    same(await desk.ledger.due_lanes((ADAPTER,), 10), [])
    same(await desk.ledger.connected(ADAPTER, None), 0)
    for _ in range(3):
        desk.clock.advance(limits.backoff_third_ms / 1000)
        owner = await desk.restart()
        same(await desk.ledger.due_lanes((ADAPTER,), 10), [])
    same((await desk.look(record)).parked, True)


@question
async def a_parked_row_is_overtaken(desk: Desk) -> None:
    parked = await desk.notice()
    await desk.ledger.park(None)
    owner = await desk.restart()
    newer = await desk.notice()
    same(list(await desk.ledger.due_lanes((ADAPTER,), 10)), [newer.lane])
    same((await desk.send(newer, owner, Accepted("r"))).state, State.DELIVERED)
    await desk.ledger.release([parked.id])
    released = await desk.ledger.head(parked.lane)
    assert released is not None
    same(released.id, parked.id)


@question
async def a_parked_row_that_rested_is_released_by_no_start(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.notice()
    while (record := await desk.send(record, owner, Unconfirmed())).due_at is not None:
        desk.pass_until_due(record)
        owner = desk.new_id("reborn")
        await desk.ledger.start(owner, OwnerKind.LIBRARY, reborn=True)
    await desk.ledger.park(None)
    desk.clock.advance(limits.backoff_third_ms / 1000)
    await desk.restart()
    found = await desk.look(record)
    same((found.parked, found.due_at, found.tries), (True, None, 2))


@question
async def a_released_row_says_that_it_may_be_a_duplicate(desk: Desk) -> None:
    owner = await desk.owner()
    untried = await desk.notice("a")
    tried = await desk.send(await desk.notice("b"), owner, Unconfirmed())
    await desk.ledger.park(None)
    same(list(await desk.ledger.release(None)), [untried.id, tried.id])
    owner = await desk.restart()
    for record in (untried, tried):
        found = await desk.look(record)
        same((found.parked, found.due_at, found.inherited_doubt), (False, desk.clock.steady, True))
        step = _next(desk, found)
        assert isinstance(step, Send)
        line = f"{markers.OPENING}{markers.Cause.DELAYED}{markers.DOUBT}:"
        same(((step.revision.text or "").split("\n")[0], step.revision.doubt), (line, True))
        same((await desk.send(found, owner, Accepted("r"))).state, State.DELIVERED)


@question
async def after_a_release_the_newest_interruption_is_the_cause(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.send(await desk.notice(), owner, Refused())
    await desk.ledger.park(None)
    await desk.ledger.release(None)
    await desk.restart()
    owner = await desk.owner()
    await desk.claim(record, owner)
    await desk.restart()
    found = await desk.look(record)
    assert found.due_at is not None
    desk.pass_until_due(found)
    step = _next(desk, found)
    assert isinstance(step, Send)
    assert (step.revision.text or "").startswith(f"{markers.OPENING}{markers.Cause.RESTARTED}")


@question
async def a_released_row_that_was_not_sent_stays_doubtful(desk: Desk) -> None:
    record = await desk.notice()
    await desk.ledger.park(None)
    await desk.ledger.release(None)
    owner = await desk.restart()
    found = await desk.send(record, owner, NotSent())
    same((found.state, found.parked), (State.PENDING, False))
    desk.pass_until_due(found)
    same(desk.revision(found).doubt, True)


@question
async def only_what_is_parked_is_released(desk: Desk) -> None:
    owner = await desk.owner()
    done = await desk.send(await desk.notice("a"), owner, Accepted("r"))
    parked = await desk.notice("b")
    await desk.ledger.park(None)
    owed = await desk.notice("c")
    same(await _refused(desk, parked.id, "nobody's"), "UnknownIdError")
    same(await _refused(desk, parked.id, owed.id), "NotPossibleError")
    same(await _refused(desk, parked.id, done.id), "NotPossibleError")
    same((await desk.look(parked)).parked, True)
    same(list(await desk.ledger.release([parked.id, parked.id])), [parked.id])
    same(list(await desk.ledger.release([parked.id])), [])
    same(list(await desk.ledger.release(None)), [])


@question
async def a_parked_row_grows_stale_like_any_other(desk: Desk) -> None:
    record = await desk.notice()
    await desk.ledger.park(None)
    desk.clock.advance(limits.freshness_ms / 1000)
    (found,) = await desk.ledger.stale(10)
    same(found.id, record.id)
    same(await desk.ledger.settle(found, Event.GREW_STALE), True)
    same((await desk.look(record)).state, State.ABANDONED)
    same(list(await desk.ledger.release(None)), [])
    same(await _refused(desk, record.id), "NotPossibleError")


@question
async def open_turns_of_a_copy_are_given_up_with_a_parked_notice(desk: Desk) -> None:
    """They may have been answered and paid for: neither runs again, and the person is asked."""
    owner = await desk.owner()
    running, waiting = await desk.turn("a"), await desk.turn("b")
    turn = await desk.run(running, owner)
    assert turn is not None
    parked = await desk.ledger.park(None)
    same((parked.deliveries, parked.turns), (2, 2))
    same(await desk.ledger.waiting_turns(10), [])
    stale = await desk.ledger.finish_turn(turn, f"run of {running}", RunEnd.ANSWERED, NO_USAGE)
    same(stale, None)
    await desk.restart()
    for asked in (running, waiting):
        notice = await desk.ledger.record(asked)
        same((notice.parked, notice.turn, notice.attempts), (True, asked, ()))
    same((await desk.ledger.park(None)).turns, 0)


@question
async def no_owner_of_a_copy_is_alive(desk: Desk) -> None:
    daemon, library = await desk.owner(), await desk.owner(OwnerKind.LIBRARY)
    claim, _ = await desk.claim(await desk.notice(), library)
    await desk.ledger.park(None)
    same(await desk.ledger.renew(daemon), False)
    same(await desk.ledger.renew(library), False)
    same(await desk.ledger.holds(claim), False)
