"""The exam of a ledger, chapter five: age, memory, and clocks that are set."""

from __future__ import annotations

from dataclasses import replace

from angelia.model import limits
from angelia.model.ids import Lane
from angelia.model.messages import Reception
from angelia.model.outcomes import Accepted, Refused, Scope
from angelia.model.states import Event, Reason, RunEnd, State
from angelia.store.ledger import Limit, OwnerKind
from angelia.testing.ledger_desk import ADAPTER, Desk, question, same

DAYS_7 = limits.retention_ms / 1000
HOUR = 3600.0


@question
async def rows_grow_stale_whatever_they_wait_for(desk: Desk) -> None:
    """Case B17: what is older than a day is not replayed."""
    owner = await desk.owner()
    pending = await desk.notice("one")
    failed = await desk.send(await desk.notice("two"), owner, Refused())
    resting = await desk.send(await desk.notice("three"), owner, Refused())
    same(await desk.ledger.defer(resting, None), True)
    desk.clock.advance(limits.freshness_ms / 1000 - 1)
    same(list(await desk.ledger.stale(9)), [])
    young = await desk.notice("four")
    desk.clock.advance(1)
    found = await desk.ledger.stale(9)
    same(sorted(row.id for row in found), sorted([pending.id, failed.id, resting.id]))
    for row in found:
        same(await desk.ledger.settle(row, Event.GREW_STALE), True)
        same((await desk.look(row)).reason, Reason.STALE)
    same(list(await desk.ledger.stale(9)), [])
    same((await desk.look(young)).state, State.PENDING)


@question
async def pruning_forgets_final_rows_after_seven_days(desk: Desk) -> None:
    done = await desk.send(await desk.notice("one"), await desk.owner(), Accepted("r"))
    desk.clock.advance(60)
    given_up = await desk.notice("two")
    await desk.ledger.settle(given_up, Event.CANCELLED)
    desk.clock.advance(DAYS_7 - 60)
    same(await desk.ledger.prune(), 0)
    desk.clock.advance(1)
    same(await desk.ledger.prune(), 1)
    same(await desk.ledger.prune(), 0)
    same((await desk.look(given_up)).state, State.ABANDONED)
    try:
        await desk.look(done)
    except LookupError as error:
        raise AssertionError("a pruned row must be an unknown id") from error
    except Exception as error:
        same(type(error).__name__, "UnknownIdError")
    else:
        raise AssertionError("a pruned row is still there")


@question
async def owed_rows_are_never_pruned(desk: Desk) -> None:
    """Case H7: their number does not matter, nor does their age."""
    owner = await desk.owner()
    rows = [await desk.notice(f"chat{number}") for number in range(20)]
    rows.append(await desk.send(await desk.notice("failed"), owner, Refused()))
    claimed = (await desk.claim(await desk.notice("claimed"), owner))[1]
    before = [await desk.look(row) for row in (*rows, claimed)]
    desk.clock.advance(DAYS_7 * 5)
    same(await desk.ledger.prune(), 0)
    same([await desk.look(row) for row in (*rows, claimed)], before)
    # The owner of a claimed row is not forgotten either, or nobody could take the row over.
    taker = await desk.owner()
    same((await desk.ledger.take_over(taker, lock_held=False)).deliveries, 1)


@question
async def an_inbound_is_known_for_seven_days_from_first_sight(desk: Desk) -> None:
    owner = await desk.owner()
    inbound = desk.inbound("m")
    await desk.ledger.accept(inbound, "turn")
    turn = await desk.run("turn", owner)
    assert turn is not None
    await desk.ledger.finish_turn(turn, "run of turn", RunEnd.STOPPED)
    for _ in range(7):
        desk.clock.advance(DAYS_7 / 7 - 1)
        await desk.ledger.prune()
        # Being asked again does not refresh it.
        same(await desk.ledger.accept(inbound, "replay"), Reception.DUPLICATE)
    desk.clock.advance(8)
    await desk.ledger.prune()
    same(await desk.ledger.accept(inbound, "seen anew"), Reception.ACCEPTED)


@question
async def the_key_of_an_owed_row_outlives_the_seven_days(desk: Desk) -> None:
    inbound = desk.inbound("m")
    await desk.ledger.accept(inbound, "turn")
    desk.clock.advance(DAYS_7 + 1)
    await desk.ledger.prune()
    same(await desk.ledger.accept(inbound, "replay"), Reception.DUPLICATE)


@question
async def a_conversation_goes_on_after_everything_was_pruned(desk: Desk) -> None:
    """Numbers of pruned turns are used again; the last ``new`` must not hide what comes now."""
    owner = await desk.owner()
    lane = Lane(*ADAPTER, "chat")
    for _ in range(5):
        turn = await desk.run(await desk.turn(), owner)
        assert turn is not None
        await desk.ledger.finish_turn(turn, f"run of {turn.id}", RunEnd.STOPPED)
    await desk.ledger.new_conversation(lane)
    desk.clock.advance(DAYS_7 + 1)
    await desk.ledger.prune()
    owner = await desk.owner()
    turn = await desk.run(await desk.turn(text="are you there?"), owner)
    assert turn is not None
    await desk.ledger.finish_turn(turn, f"run of {turn.id}", RunEnd.ANSWERED)
    lines = await desk.ledger.conversation(lane, await desk.turn(text="and now?"), 9)
    same([line.text for line in lines], ["are you there?"])


@question
async def the_newest_start_is_remembered_for_ever(desk: Desk) -> None:
    for _ in range(3):
        await desk.ledger.retire(await desk.owner())
    desk.clock.advance(DAYS_7 + 1)
    await desk.ledger.prune()
    same(await desk.ledger.start("fresh", OwnerKind.DAEMON), 4)


@question
async def a_clock_set_back_stretches_no_wait(desk: Desk) -> None:
    """Case L1: a stored wait never lasts longer than it was long."""
    owner = await desk.owner()
    failed = await desk.send(await desk.notice("one"), owner, Refused())
    await desk.ledger.hold(ADAPTER, Limit(Scope.CHAT, "two", desk.clock.steady + 20_000))
    desk.clock.step(-HOUR)
    desk.clock.reboot()
    await desk.restart()
    same((await desk.look(failed)).due_at, desk.clock.steady + limits.backoff_first_ms)
    same(await desk.ledger.held_until(Lane(*ADAPTER, "two")), desk.clock.steady + 20_000)
    stamped = await desk.look(failed)
    same(stamped.written_at, desk.clock.wall)
    await desk.restart()
    same(replace(await desk.look(failed), newest_start=stamped.newest_start), stamped)


@question
async def a_clock_set_forward_shortens_no_running_wait(desk: Desk) -> None:
    owner = await desk.owner()
    failed = await desk.send(await desk.notice("one"), owner, Refused())
    desk.clock.step(HOUR)
    same(await desk.ledger.due_lanes([ADAPTER], 9), [])
    same((await desk.look(failed)).due_at, failed.due_at)


@question
async def a_clock_set_back_makes_no_lease_immortal(desk: Desk) -> None:
    owner = await desk.owner(OwnerKind.LIBRARY)
    _, opened = await desk.claim(await desk.notice(), owner)
    desk.clock.step(-HOUR)
    desk.clock.reboot()
    taker = await desk.owner()
    same((await desk.ledger.take_over(taker, lock_held=True)).deliveries, 0)
    desk.clock.advance(limits.lease_ms / 1000)
    taker = await desk.owner()
    same((await desk.ledger.take_over(taker, lock_held=True)).deliveries, 1)
    same((await desk.look(opened)).state, State.FAILED)


@question
async def a_limit_of_a_gateway_whose_clock_was_ahead_lasts_as_long_as_it_was_long(desk: Desk) -> None:
    """Two gateways on one store may have started by different civil times (simulation, seed 100932)."""
    desk.clock.step(7200)
    desk.clock.reboot()
    until = desk.clock.now().steady + 70_000
    await desk.ledger.hold(ADAPTER, Limit(Scope.CHAT, "chat", until))
    desk.clock.step(-7200)
    desk.clock.reboot()
    row = await desk.notice()
    same(await desk.ledger.defer(row, until), True)
    same((await desk.look(row)).due_at, desk.clock.now().steady + 70_000)
    await desk.ledger.hold(ADAPTER, Limit(Scope.CHAT, "chat", desk.clock.now().steady + 5_000))
    same(await desk.ledger.held_until(row.lane), desk.clock.now().steady + 70_000)
