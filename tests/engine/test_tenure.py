"""Who may send: leases that lapse, owners that come again, two processes on one store."""

from __future__ import annotations

import asyncio

from tests.engine.stage import BOT, Stage

from angelia.model.ids import Lane
from angelia.model.outcomes import Accepted, BadContent, ContentFault, RateLimited
from angelia.store.ledger import OwnerKind
from angelia.testing.fakes import Held
from angelia.testing.manual_clock import at_rest

DIED = "♻️ Recovered reply — the gateway restarted while sending this, so it may be a duplicate:\n\n"
TAKEN_OVER = "♻️ Recovered reply — another gateway took this over, so it may be a duplicate:\n\n"


async def test_a_lapsed_owner_comes_again_as_a_new_instance(stage: Stage) -> None:
    node = await stage.start()
    first = node.engine.tenure.owner
    await stage.advance(60)
    assert node.engine.tenure.owner == first  # renewed every 5 s
    await stage.clock.jump(20)
    await stage.advance(6)
    assert node.engine.tenure.owner != first
    await node.owe("goes on")
    assert stage.talk.texts == ["goes on"]
    assert stage.ask("SELECT max(start_number) FROM owners") == [(1,)]  # which is no start of a gateway


async def test_a_lapsed_owner_sends_nothing_before_it_is_a_new_instance(stage: Stage) -> None:
    node = await stage.start()
    for loop in (node.engine.rescuer._lease, node.engine.rescuer._poll):
        await _stopped(stage, loop.stop())
    await stage.clock.jump(20)
    id = await node.owe("text")
    assert (stage.talk.calls, stage.record(id).state) == ([], "pending")


async def _stopped(stage: Stage, stopping: object) -> None:
    task = asyncio.ensure_future(stopping)  # type: ignore[call-overload]
    await stage.advance(1)
    await task


async def test_a_row_of_the_old_instance_is_not_sent_beside_its_own_hung_call(stage: Stage) -> None:
    """The new instance owes it, but in this process its lane is still busy with the first call,
    whose late receipt completes the row."""
    free = asyncio.Event()
    stage.platform(Held(free, arrives_first=True))
    node = await stage.start()
    id = await node.owe("text")
    await stage.clock.jump(20)
    await stage.advance(6)
    assert (stage.record(id).state, stage.record(id).attempts[0].ending) == ("failed", "taken_over")
    free.set()
    await at_rest()
    assert (stage.record(id).state, stage.record(id).parts[0].receipt) == ("delivered", "late")
    await stage.advance(200)
    assert stage.talk.texts == ["text"]


async def test_a_late_receipt_is_a_fact_also_when_another_claim_is_in_force(stage: Stage) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    stage.platform(Held(first, arrives_first=True), Held(second, RateLimited(100)))
    frozen = await stage.start(kind=OwnerKind.LIBRARY)
    await stage.start(kind=OwnerKind.LIBRARY)
    id = await frozen.owe("text")
    frozen.faults.frozen = thaw = asyncio.Event()
    await stage.advance(20)
    assert (stage.record(id).state, len(stage.talk.calls)) == ("attempting", 2)
    thaw.set()
    first.set()
    await at_rest()
    assert stage.record(id).parts[0].receipt == "late"
    second.set()
    await at_rest()
    assert stage.record(id).state == "delivered"
    await stage.advance(150)
    assert stage.talk.texts == ["text"]


async def test_a_pass_that_ended_without_its_outcome_makes_its_owner_a_new_instance(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True))
    node = await stage.start()
    owner = node.engine.tenure.owner
    id = await node.owe("text")
    lane = next(task for task in node.tasks if task.get_name().startswith("lane "))
    lane.cancel()
    await at_rest()
    assert stage.record(id).state == "attempting"
    await stage.advance(6)
    assert node.engine.tenure.owner != owner
    assert stage.talk.texts == ["text", TAKEN_OVER + "text"]


async def test_a_civil_clock_that_jumps_costs_the_lease_and_no_reply(stage: Stage) -> None:
    node = await stage.start()
    stage.clock.step(20)
    await node.owe("text")
    await stage.advance(7)
    assert stage.talk.texts == ["text"]
    stage.clock.step(-3600)
    await node.owe("and another")
    await stage.advance(7)
    assert stage.talk.texts == ["text", "and another"]


async def test_m1_an_owner_is_known_by_its_instance_and_not_by_its_process(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True))
    node = await stage.start()
    await node.owe("text")
    await node.kill()
    again = await stage.start()  # the very same process id
    assert again.engine.tenure.owner != node.engine.tenure.owner
    assert stage.talk.texts == ["text", DIED + "text"]


async def test_a_library_owner_that_died_is_taken_over_when_its_lease_is_over(stage: Stage) -> None:
    stage.platform(Held(asyncio.Event(), arrives_first=True))
    node = await stage.start(kind=OwnerKind.LIBRARY)
    await node.owe("text")
    await node.kill()
    await stage.start(kind=OwnerKind.LIBRARY)
    await stage.advance(9)
    assert len(stage.talk.calls) == 1
    await stage.advance(12)
    assert stage.talk.texts == ["text", DIED + "text"]


async def test_who_freezes_before_the_first_byte_past_its_lease_sends_nothing(stage: Stage) -> None:
    frozen = await stage.start(kind=OwnerKind.LIBRARY)
    other = await stage.start(kind=OwnerKind.LIBRARY)
    frozen.faults.gates["claim"] = thaw = asyncio.Event()
    id = await frozen.owe("text")
    assert (stage.record(id).state, stage.talk.calls) == ("attempting", [])
    frozen.faults.frozen = thaw
    await stage.advance(25)
    assert stage.talk.texts == [TAKEN_OVER + "text"]
    assert stage.record(id).state == "delivered"
    thaw.set()
    await stage.advance(20)
    assert len(stage.talk.calls) == 1
    await frozen.owe("as a new instance", chat="d")
    assert stage.talk.texts[-1] == "as a new instance"
    assert other.engine.tenure.owner != frozen.engine.tenure.owner


async def test_who_freezes_between_two_parts_sends_no_further_part(stage: Stage) -> None:
    frozen = await stage.start(kind=OwnerKind.LIBRARY)
    await stage.start(kind=OwnerKind.LIBRARY)
    frozen.faults.gates["advance"] = thaw = asyncio.Event()
    id = await frozen.owe("one", "two")
    frozen.faults.frozen = thaw
    await stage.advance(25)
    thaw.set()
    await stage.advance(10)
    assert [(m.part, m.recovered) for m in stage.talk.seen] == [(1, False), (2, True)]
    assert "another gateway took this over, continuing with part 2 of 2" in stage.talk.texts[1]
    assert stage.record(id).state == "delivered"


async def test_a_claim_that_waited_is_read_again_before_the_first_byte(stage: Stage) -> None:
    """Fence, owner and state are looked at once more when the claim is older than a second."""
    node = await stage.start()
    node.faults.gates["claim"] = slow = asyncio.Event()
    id = await node.owe("text")
    await stage.advance(2)
    node.faults.down = lambda verb: verb == "holds"  # and if nobody can say, nothing is sent
    slow.set()
    del node.faults.gates["claim"]
    await at_rest()
    assert stage.talk.calls == [] or stage.talk.texts == ["text"]
    node.faults.down = lambda _verb: False
    await stage.advance(3)
    assert stage.talk.texts == ["text"]
    assert len(stage.record(id).attempts) == 1


async def test_m4_start_timer_and_connection_together_make_one_call(stage: Stage) -> None:
    free = asyncio.Event()
    stage.platform(otherwise=Held(free))
    node = await stage.node().start(connect=False)
    ids = [await node.owe("text", chat=f"c{number}") for number in range(5)]
    other = await stage.node(kind=OwnerKind.LIBRARY).start(connect=False)
    for one in (node, other):
        one.engine.roster.install(BOT, stage.talk)
    together = []
    for one in (node, other):
        with one.as_me():
            for _ in range(5):
                together += [
                    asyncio.ensure_future(one.engine.rescuer.connected(BOT)),
                    asyncio.ensure_future(one.engine.tenure.take_over()),
                ]
                one.engine.rescuer.hint()
                for number in range(5):
                    one.engine.lanes.hint(stage.record(ids[number]).lane)
    await asyncio.gather(*together)
    await stage.advance(3)
    free.set()
    await stage.advance(3)
    assert len(stage.talk.calls) == 5
    assert {record.state for record in stage.records()} == {"delivered"}


async def test_m5_two_processes_run_the_turns_of_one_conversation_one_at_a_time(stage: Stage) -> None:
    one = await stage.start(kind=OwnerKind.LIBRARY)
    two = await stage.start(kind=OwnerKind.LIBRARY)
    stage.agent.gate.clear()
    await one.say("first")
    await two.say("second")
    await stage.advance(5)
    assert stage.agent.busy_most == 1
    stage.agent.gate.set()
    await stage.advance(5)
    assert [q.text for q in stage.agent.questions] == ["first", "second"]
    assert stage.talk.texts == ["You said: first", "You said: second"]


async def test_l3_after_a_suspend_old_rows_are_abandoned_and_the_fresh_one_goes_once(stage: Stage) -> None:
    node = await stage.node().start(connect=False)
    await node.owe("35 h old when it wakes", chat="a")
    await stage.clock.jump(23 * 3600)
    await node.owe("fresh", chat="b")
    await stage.clock.jump(12 * 3600)
    await node.connect()
    await stage.advance(10)
    assert stage.talk.texts == ["fresh"]
    assert [record.state for record in stage.records()] == ["abandoned", "delivered"]


async def test_accepted_after_the_lease_is_a_fact_all_the_same(stage: Stage) -> None:
    free = asyncio.Event()
    stage.platform(Held(free, Accepted("r"), arrives_first=True))
    node = await stage.start()
    node.faults.down = lambda verb: verb in ("renew", "start")
    id = await node.owe("one", "two")
    await stage.advance(20)
    free.set()
    await at_rest()
    assert stage.record(id).parts[0].receipt == "r"
    assert len(stage.talk.calls) == 1  # no second part without a lease
    node.faults.down = lambda _verb: False
    await stage.advance(7)
    assert [m.part for m in stage.talk.seen] == [1, 2]


async def test_a_run_that_goes_on_over_a_lost_lease_is_not_paid_twice(stage: Stage) -> None:
    """The process lives: the reborn instance adopts its own runs."""
    stage.agent.gate.clear()
    node = await stage.start()
    await node.say("slow")
    first = node.engine.tenure.owner
    await stage.clock.jump(20)
    await stage.advance(6)
    assert node.engine.tenure.owner != first
    stage.agent.gate.set()
    await at_rest()
    await stage.advance(5)
    assert (stage.talk.texts, stage.agent.runs) == (["You said: slow"], 1)
    assert stage.runs() == ["answered"]


async def test_an_adoption_that_the_store_refused_is_made_up_for(stage: Stage) -> None:
    stage.agent.gate.clear()
    node = await stage.start()
    await node.say("slow")
    node.faults.down = lambda verb: verb == "adopt"
    await stage.clock.jump(20)
    await stage.advance(6)
    node.faults.down = lambda _verb: False
    await stage.advance(12)
    stage.agent.gate.set()
    await at_rest()
    await stage.advance(5)
    assert (stage.talk.texts, stage.agent.runs) == (["You said: slow"], 1)
    assert stage.runs() == ["answered"]


async def test_trouble_with_an_adopted_run_does_not_block_its_conversation(stage: Stage) -> None:
    """The reborn owner holds the turn now, so it is the one that must not renew for it."""
    stage.agent.gate.clear()
    node = await stage.start()
    await node.say("slow")
    await stage.clock.jump(20)
    await stage.advance(6)
    node.faults.down = lambda verb: verb == "finish_turn"
    assert node.engine.turner.stop(Lane(*BOT, "c"))
    await at_rest()
    node.faults.down = lambda _verb: False
    stage.agent.gate.set()
    await stage.advance(10)
    assert stage.talk.texts == ["You said: slow"]
    assert stage.runs() == ["interrupted", "answered"]


async def test_a_receipt_that_comes_before_a_split_holds_for_the_pieces(stage: Stage) -> None:
    """A frozen process hears of its success just before another one splits the same part."""
    free, too_long = asyncio.Event(), asyncio.Event()
    stage.platform(
        Held(free, arrives_first=True), Held(too_long, BadContent(ContentFault.TOO_LONG)), RateLimited(60)
    )
    frozen = await stage.start(kind=OwnerKind.LIBRARY)
    await stage.start(kind=OwnerKind.LIBRARY)
    id = await frozen.owe("word " * 700)
    frozen.faults.frozen = thaw = asyncio.Event()
    await stage.advance(20)
    assert len(stage.talk.calls) == 2
    thaw.set()
    free.set()
    await at_rest()
    too_long.set()
    await at_rest()
    await stage.advance(100)
    assert (stage.record(id).state, len(stage.talk.seen)) == ("delivered", 1)
