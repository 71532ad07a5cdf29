"""The exam of a ledger, chapter six: races.

The store is opened several times, as by several gateways, and all openings go at the same
moment, again and again. Whoever wins, exactly one does, and the row tells who.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from angelia.model.ids import Claim
from angelia.model.messages import NewDelivery, Reception
from angelia.model.outcomes import Accepted, NotSent
from angelia.model.record import open_attempt
from angelia.model.states import Event, RunEnd, State
from angelia.store.ledger import AdvanceAnswer, ClaimAnswer, Finished, Ledger, OwnerKind
from angelia.testing.ledger_desk import ADAPTER, Desk, question, same

T = TypeVar("T")

OPENINGS = 5
ROUNDS = 8


def opened(desk: Desk) -> list[Ledger]:
    return [desk.ledger, *(desk.another() for _ in range(OPENINGS - 1))]


async def at_once(ledgers: Sequence[Ledger], work: Callable[[int, Ledger], Awaitable[T]]) -> list[T]:
    """What each opening answers when all go at the same moment."""
    barrier = asyncio.Event()

    async def one(number: int, ledger: Ledger) -> T:
        await barrier.wait()
        return await work(number, ledger)

    tasks = [asyncio.create_task(one(number, ledger)) for number, ledger in enumerate(ledgers)]
    barrier.set()
    return await asyncio.gather(*tasks)


@question
async def of_many_claimers_exactly_one_is_granted(desk: Desk) -> None:
    """Case M4: start sweep, connection and timer race for one row."""
    ledgers = opened(desk)
    owners = [await desk.owner(OwnerKind.LIBRARY) for _ in ledgers]
    for _ in range(ROUNDS):
        record = await desk.notice(desk.new_id("chat"))
        answers = await at_once(
            ledgers,
            lambda n, ledger, record=record: desk.try_claim(record, owners[n], ledger),  # type: ignore[misc]
        )
        same(Counter(answers), {ClaimAnswer.GRANTED: 1, ClaimAnswer.CHANGED: len(ledgers) - 1})
        found = await desk.look(record)
        same((found.owner, found.fence), (owners[answers.index(ClaimAnswer.GRANTED)], 1))
        same(len(found.attempts), 1)


@question
async def of_many_claimers_of_a_lane_only_the_oldest_row_goes(desk: Desk) -> None:
    ledgers = opened(desk)
    owners = [await desk.owner(OwnerKind.LIBRARY) for _ in ledgers]
    rows = [await desk.notice() for _ in ledgers]
    answers = await at_once(ledgers, lambda n, ledger: desk.try_claim(rows[n], owners[n], ledger))
    same(answers, [ClaimAnswer.GRANTED] + [ClaimAnswer.BEHIND] * (len(ledgers) - 1))


@question
async def of_many_arrivals_of_one_message_exactly_one_is_accepted(desk: Desk) -> None:
    """Cases E2 and E19: the check and the insert are one."""
    ledgers = opened(desk)
    for number in range(ROUNDS):
        inbound = desk.inbound(f"m{number}")
        answers = await at_once(
            ledgers,
            lambda n, ledger, inbound=inbound, number=number: ledger.accept(inbound, f"turn {number}.{n}"),  # type: ignore[misc]
        )
        same(Counter(answers), {Reception.ACCEPTED: 1, Reception.DUPLICATE: len(ledgers) - 1})


@question
async def of_many_runs_of_one_turn_exactly_one_starts(desk: Desk) -> None:
    """Case M5: two replicas, one message."""
    ledgers = opened(desk)
    owners = [await desk.owner(OwnerKind.LIBRARY) for _ in ledgers]
    for number in range(ROUNDS):
        turn = await desk.turn(f"chat {number}")
        started = await at_once(
            ledgers,
            lambda n, ledger, turn=turn: ledger.start_run(turn, f"{turn} run {n}", owners[n], "model"),  # type: ignore[misc]
        )
        same(len([turn for turn in started if turn is not None]), 1)


@question
async def of_many_ends_of_one_turn_one_delivery_remains(desk: Desk) -> None:
    ledgers = opened(desk)
    owner = await desk.owner()
    turn = await desk.run(await desk.turn(), owner)
    assert turn is not None

    async def finish(number: int, ledger: Ledger) -> Finished | None:
        told = NewDelivery(f"answer {number}", turn.lane, (f"answer {number}",))
        return await ledger.finish_turn(turn, f"run of {turn.id}", RunEnd.ANSWERED, delivery=told)

    await at_once(ledgers, finish)
    lines = await desk.ledger.history(ADAPTER, "chat", 99)
    same([line.role for line in lines], ["user", "assistant"])


@question
async def a_claim_races_with_a_cancellation(desk: Desk) -> None:
    ledgers = opened(desk)[:2]
    owner = await desk.owner()
    for _ in range(ROUNDS):
        record = await desk.notice(desk.new_id("chat"))

        async def go(number: int, ledger: Ledger) -> bool:
            if number:
                return await ledger.settle(record, Event.CANCELLED)  # noqa: B023
            return await desk.try_claim(record, owner, ledger) is ClaimAnswer.GRANTED  # noqa: B023

        claimed, cancelled = await at_once(ledgers, go)
        same(claimed, not cancelled)
        found = await desk.look(record)
        same(found.state, State.ATTEMPTING if claimed else State.ABANDONED)
        same(len(found.attempts), int(claimed))


@question
async def a_claim_races_with_a_connection(desk: Desk) -> None:
    ledgers = opened(desk)[:2]
    owner = await desk.owner()
    for _ in range(ROUNDS):
        record = await desk.send(await desk.notice(desk.new_id("chat")), owner, NotSent())

        async def go(number: int, ledger: Ledger) -> object:
            if number:
                return await ledger.connected(ADAPTER, record.lane.chat)  # noqa: B023
            return await desk.try_claim(record, owner, ledger)  # noqa: B023

        answer, brought = await at_once(ledgers, go)
        # Too early, or on a row that has changed: never granted on what the connection changes.
        same((answer in (ClaimAnswer.HELD, ClaimAnswer.CHANGED), brought), (True, 1))
        found = await desk.look(record)
        same((found.state, found.due_at), (State.PENDING, desk.clock.steady))
        same(await desk.try_claim(found, owner), ClaimAnswer.GRANTED)


@question
async def an_outcome_races_with_a_take_over(desk: Desk) -> None:
    ledgers = opened(desk)[:2]
    for _ in range(ROUNDS):
        owner = await desk.owner()
        claim, flying = await desk.claim(await desk.notice(desk.new_id("chat")), owner)
        taker = await desk.owner()
        change, _ = desk.change(flying, Accepted("r"))

        async def go(number: int, ledger: Ledger) -> object:
            if number:
                return (await ledger.take_over(taker, lock_held=True)).deliveries  # noqa: B023
            return await ledger.advance(claim, change)  # noqa: B023

        answer, taken = await at_once(ledgers, go)
        found = await desk.look(flying)
        if answer is AdvanceAnswer.DONE:
            same((taken, found.state), (0, State.DELIVERED))
            continue
        same((answer, taken, found.state), (AdvanceAnswer.STALE, 1, State.FAILED))
        # The receipt is a fact all the same.
        await desk.ledger.record_receipt(found.id, 1, "r")
        same((await desk.look(found)).state, State.DELIVERED)


@question
async def two_takers_take_a_row_once(desk: Desk) -> None:
    ledgers = opened(desk)
    for _ in range(ROUNDS):
        owner = await desk.owner(OwnerKind.LIBRARY)
        _, flying = await desk.claim(await desk.notice(desk.new_id("chat")), owner)
        await desk.ledger.retire(owner)
        takers = [await desk.owner(OwnerKind.LIBRARY) for _ in ledgers]
        taken = await at_once(ledgers, lambda n, ledger, t=takers: ledger.take_over(t[n], False))  # type: ignore[misc]
        same(sum(each.deliveries for each in taken), 1)
        found = await desk.look(flying)
        same((found.state, found.fence, open_attempt(found)), (State.FAILED, 1, None))
        answers = await at_once(ledgers, lambda n, ledger, f=found, t=takers: desk.try_claim(f, t[n], ledger))  # type: ignore[misc]
        same(Counter(answers)[ClaimAnswer.GRANTED], 1)
        winner = takers[answers.index(ClaimAnswer.GRANTED)]
        same(await desk.ledger.holds(Claim(found.id, winner, 2)), True)
