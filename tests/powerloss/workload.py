"""What a gateway asks of its ledger, drawn from a seed: one verb after another.

A verb is a function of a ledger, so that it can be done on two of them. What it needs to know
(a record, a turn) was read beforehand and goes with it; ids and times are the same for both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from angelia.model.ids import Claim, Lane
from angelia.model.messages import NewDelivery, Usage
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    ContentFault,
    LookUp,
    Moved,
    NotSent,
    Outcome,
    RateLimited,
    Refused,
    Scope,
    ThreadGone,
    Unconfirmed,
    Unreachable,
)
from angelia.model.record import DOUBTFUL, Record, open_attempt
from angelia.model.states import FINAL, Event, RunEnd, State
from angelia.seams.rng import Rng
from angelia.store import sqlite_operator as orders
from angelia.store.ledger import Limit, OwnerKind, Turn
from angelia.store.sqlite import SqliteLedger
from angelia.testing.clock import TestClock
from angelia.testing.ledger_desk import ADAPTER, Desk

OUTCOMES: tuple[Outcome, ...] = (
    Accepted("receipt"),
    Accepted("receipt"),
    Accepted("receipt"),
    NotSent("refused"),
    RateLimited(7.0),
    Unconfirmed("time-out"),
    Unconfirmed("reset", dropped=True),
    Refused("no"),
    BadContent(),
    BadContent(ContentFault.TOO_LONG),
    ThreadGone(),
    Moved("chat-moved"),
    Unreachable("blocked"),
)


@dataclass(frozen=True)
class Verb:
    """One call of a verb, to be made on whichever ledger."""

    name: str
    work: Callable[[SqliteLedger], Awaitable[Any]]


class _Drafts(Desk):
    """A desk without a store: only what it derives from records and outcomes is used."""

    def __init__(self, clock: TestClock) -> None:
        super().__init__(lambda _: None)  # type: ignore[arg-type,return-value]
        self.clock = clock


class Workload:
    """Draws the next verb from what the ledger holds."""

    def __init__(self, rng: Rng, clock: TestClock) -> None:
        self._rng, self._clock = rng, clock
        self._desk = _Drafts(clock)
        self._owner = ""
        self._turns: dict[str, tuple[Turn, str]] = {}
        self._waiting: list[str] = []
        self._deliveries: list[str] = []

    def _pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self._rng.fraction() * len(choices))]

    async def next_verb(self, ledger: SqliteLedger) -> Verb:
        """The next one; ``ledger`` is only read."""
        if self._rng.fraction() < 0.4:
            self._clock.advance(self._pick((0.02, 1.0, 4.0, 31.0, 125.0, 4000.0, 90_000.0)))
        while True:
            draft = self._pick(_DRAFTS) if self._owner else Workload._start
            verb = await draft(self, ledger)
            if verb is not None:
                return verb

    # -- owners ------------------------------------------------------------------------------

    async def _start(self, _: SqliteLedger) -> Verb | None:
        self._owner = owner = self._desk.new_id("owner")
        return Verb("start", lambda ledger: ledger.start(owner, OwnerKind.DAEMON))

    async def _owner_goes_on(self, _: SqliteLedger) -> Verb | None:
        owner = self._owner
        verbs = (
            Verb("renew", lambda ledger: ledger.renew(owner)),
            Verb("take_over", lambda ledger: ledger.take_over(owner, True)),
            Verb("connected", lambda ledger: ledger.connected(ADAPTER, None)),
            Verb("prune", lambda ledger: ledger.prune()),
        )
        return verbs[int(self._rng.fraction() * len(verbs))]

    # -- turns -------------------------------------------------------------------------------

    async def _accept(self, _: SqliteLedger) -> Verb | None:
        turn = self._desk.new_id("turn")
        inbound = self._desk.inbound(chat=self._pick(("a", "b")), text="question " * self._pick((1, 400)))
        self._waiting.append(turn)
        return Verb("accept", lambda ledger: ledger.accept(inbound, turn))

    async def _start_run(self, ledger: SqliteLedger) -> Verb | None:
        if not self._waiting:
            return None
        turn, owner = self._pick(self._waiting), self._owner
        run = self._desk.new_id("run")

        async def work(target: SqliteLedger) -> Turn | None:
            started = await target.start_run(turn, run, owner, "model")
            if started is not None:
                self._turns[turn] = (started, run)
                if turn in self._waiting:
                    self._waiting.remove(turn)
            return started

        return Verb("start_run", work)

    async def _end_run(self, _: SqliteLedger) -> Verb | None:
        if not self._turns:
            return None
        name = self._pick(sorted(self._turns))
        turn, run = self._turns.pop(name)
        if self._rng.fraction() < 0.2:
            return Verb("release_turn", lambda ledger: ledger.release_turn(turn, run))
        told = NewDelivery(run, turn.lane, tuple("words " * self._pick((1, 300)) for _ in range(2)))
        self._deliveries.append(run)

        async def work(ledger: SqliteLedger) -> bool:
            usage = Usage(3, 5)
            return await ledger.finish_turn(turn, run, RunEnd.ANSWERED, usage, delivery=told) is not None

        return Verb("finish_turn", work)

    # -- deliveries --------------------------------------------------------------------------

    async def _enqueue(self, _: SqliteLedger) -> Verb | None:
        lane = Lane(*ADAPTER, self._pick(("a", "b")), self._pick(("", "t")))
        texts = tuple("notice " * self._pick((1, 200)) for _ in range(self._pick((1, 2, 3))))
        new = NewDelivery(self._desk.new_id("notice"), lane, texts, origin="notice")
        self._deliveries.append(new.id)
        return Verb("enqueue", lambda ledger: ledger.enqueue(new))

    async def _some_record(self, ledger: SqliteLedger, *states: State) -> Record | None:
        found = [
            id
            for (id, state) in await ledger.read(
                lambda c: c.execute("SELECT id, state FROM deliveries ORDER BY seq").fetchall()
            )
            if state in states
        ]
        return await ledger.record(self._pick(found)) if found else None

    async def _claim(self, ledger: SqliteLedger) -> Verb | None:
        record = await self._some_record(ledger, State.PENDING, State.FAILED)
        if record is None:
            return None
        owner, at = self._owner, self._clock.wall
        revision = self._desk.revision(record)
        return Verb("claim", lambda target: target.claim(record, owner, revision, at))

    async def _advance(self, ledger: SqliteLedger) -> Verb | None:
        record = await self._some_record(ledger, State.ATTEMPTING)
        if record is None or open_attempt(record) is None:
            return None
        claim = Claim(record.id, record.owner, record.fence)
        change, _ = self._desk.change(record, self._pick(OUTCOMES))
        return Verb("advance", lambda target: target.advance(claim, change))

    async def _late_receipt(self, ledger: SqliteLedger) -> Verb | None:
        record = await self._some_record(ledger, *State)
        doubtful = [a for a in record.attempts if a.ending in DOUBTFUL] if record else []
        if record is None or not doubtful:
            return None
        attempt = self._pick(doubtful)
        found = self._pick((LookUp.ABSENT, LookUp.CANNOT_TELL, None))
        if found is None:
            return Verb("receipt", lambda target: target.record_receipt(record.id, attempt.number, "late"))
        return Verb("look-up", lambda target: target.note_look_up(record, attempt.number, found))

    async def _put_off(self, ledger: SqliteLedger) -> Verb | None:
        record = await self._some_record(ledger, State.PENDING, State.FAILED)
        if record is None:
            return None
        until = self._clock.steady + 5000
        if self._rng.fraction() < 0.3:
            return Verb("settle", lambda target: target.settle(record, Event.CANCELLED))
        return Verb("defer", lambda target: target.defer(record, until, offline=True))

    async def _hold(self, _: SqliteLedger) -> Verb | None:
        limit = Limit(Scope.CHAT, "a", self._clock.steady + 3000)
        return Verb("hold", lambda ledger: ledger.hold(ADAPTER, limit))

    async def _order(self, ledger: SqliteLedger) -> Verb | None:
        record = await self._some_record(ledger, *FINAL)
        if record is None or record.unreachable:
            return None
        new = self._desk.new_id("again")
        return Verb(
            "send again",
            lambda target: target.operate(
                "operate", lambda c, now: orders.send_again(c, record.id, new, now)
            ),
        )


_DRAFTS = (
    Workload._start,
    Workload._owner_goes_on,
    *(Workload._accept,) * 3,
    *(Workload._start_run,) * 3,
    *(Workload._end_run,) * 3,
    *(Workload._enqueue,) * 2,
    *(Workload._claim,) * 5,
    *(Workload._advance,) * 7,
    Workload._late_receipt,
    Workload._put_off,
    Workload._hold,
    Workload._order,
)
