"""The desk at which a ledger is examined: it accepts, claims and ends passes in one line each.

What follows from an outcome is taken from ``model``, so that a question of the exam says only
what it is about. A pass here has no wire: the outcomes are given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from angelia.model.ids import AdapterId, Claim, Lane
from angelia.model.messages import Inbound, NewDelivery, Reception
from angelia.model.outcomes import Outcome, Scope
from angelia.model.plan import (
    Promise,
    Send,
    Settle,
    SplitPart,
    Step,
    after,
    after_split,
    end_of_pass,
    next_step,
)
from angelia.model.record import Conclusion, Part, Record, Revision, conclude, with_attempt, with_split
from angelia.model.states import Event, State
from angelia.seams.clock import Clock
from angelia.store.ledger import (
    Advance,
    AdvanceAnswer,
    ClaimAnswer,
    Ledger,
    Limit,
    OwnerKind,
    Turn,
    TurnKind,
)
from angelia.testing.clock import TestClock

#: Opens the store under examination once more, on the given clock: the second opening sees the
#: same rows, as a second gateway would.
Open = Callable[[Clock], Ledger]

PROMISE = Promise(text_limit=4096)
ADAPTER = AdapterId("bot", "talk")


class Desk:
    """One store, one clock, and as many openings of the store as a question asks for."""

    def __init__(self, open_ledger: Open, promise: Promise = PROMISE) -> None:
        self.clock = TestClock()
        self.promise = promise
        self._open = open_ledger
        self._opened: list[Ledger] = []
        self._ids = 0
        self.ledger = self.another()

    def another(self) -> Ledger:
        """One more opening of the same store."""
        ledger = self._open(self.clock)
        self._opened.append(ledger)
        return ledger

    async def close(self) -> None:
        for ledger in self._opened:
            await ledger.close()

    def new_id(self, what: str) -> str:
        self._ids += 1
        return f"{what}{self._ids}"

    # -- owners ------------------------------------------------------------------------------

    async def owner(self, kind: OwnerKind = OwnerKind.DAEMON) -> str:
        """A fresh owner with a lease."""
        owner = self.new_id("owner")
        await self.ledger.start(owner, kind)
        return owner

    async def restart(self, lock_held: bool = True) -> str:
        """A new gateway takes over what the earlier ones left."""
        owner = await self.owner()
        await self.ledger.take_over(owner, lock_held)
        return owner

    # -- inbound -----------------------------------------------------------------------------

    def inbound(self, message_id: str = "", chat: str = "chat", text: str = "hi", **more: Any) -> Inbound:
        return Inbound(
            ADAPTER.profile, ADAPTER.platform, chat, message_id or self.new_id("m"), "user", text, **more
        )

    async def turn(self, chat: str = "chat", kind: TurnKind = TurnKind.MESSAGE, **more: Any) -> str:
        """The id of a waiting turn."""
        turn = self.new_id("turn")
        assert await self.ledger.accept(self.inbound(chat=chat, **more), turn, kind) is Reception.ACCEPTED
        return turn

    async def run(self, turn: str, owner: str, run: str = "") -> Turn | None:
        return await self.ledger.start_run(turn, run or f"run of {turn}", owner, "model")

    # -- deliveries --------------------------------------------------------------------------

    def new(self, chat: str = "chat", thread: str = "", texts: tuple[str, ...] = ("hello",)) -> NewDelivery:
        return NewDelivery(self.new_id("delivery"), Lane(*ADAPTER, chat, thread), texts, origin="notice")

    async def notice(
        self, chat: str = "chat", thread: str = "", texts: tuple[str, ...] = ("hello",)
    ) -> Record:
        """A notice on record."""
        return await self.ledger.enqueue(self.new(chat, thread, texts))

    async def look(self, record: Record) -> Record:
        """The record as it is now."""
        return await self.ledger.record(record.id)

    def revision(self, record: Record) -> Revision:
        """What would go out next; plain where the plan would rather wait."""
        step = next_step(record, self.promise, self.clock.now())
        number = record.parts[0].number if record.missing is None else record.missing.number
        return step.revision if isinstance(step, Send) else Revision(number, 1)

    async def try_claim(self, record: Record, owner: str, ledger: Ledger | None = None) -> ClaimAnswer:
        """A claim on the record exactly as it is given."""
        target = ledger or self.ledger
        return await target.claim(record, owner, self.revision(record), self.clock.wall)

    async def claim(self, record: Record, owner: str) -> tuple[Claim, Record]:
        """A granted claim on the row as it is now, and the record with its first attempt open."""
        found = await self.look(record)
        answer = await self.try_claim(found, owner)
        assert answer is ClaimAnswer.GRANTED, answer
        return Claim(found.id, owner, found.fence + 1), await self.look(record)

    def change(self, record: Record, outcome: Outcome) -> tuple[Advance, Record | None]:
        """The commit that ``outcome`` of the open attempt makes, and the record if the pass goes on."""
        now = self.clock.now()
        said = conclude(record, outcome, now.wall)
        step: Step = after(said, self.promise, now)
        known = said.record
        children: tuple[Part, ...] = ()
        if isinstance(step, SplitPart):
            half = len(step.part.text) // 2
            known, children = with_split(known, step.part, (step.part.text[:half], step.part.text[half:]))
            step = after_split(known, self.promise, now)
        facts = self._facts(said, children)
        if isinstance(step, Settle):
            return Advance(step.event, **facts), None
        if isinstance(step, Send):
            event = Event.PART_ACCEPTED if said.receipt is not None else Event.GOES_ON
            going_on = with_attempt(known, step.revision, now.wall)
            return Advance(event, opened=(going_on.attempts[-1], step.revision), **facts), going_on
        end = end_of_pass(known, now, wait_until=self._until(said))
        return (
            Advance(end.event, due_at=end.due_at, tries=end.tries, not_sent=known.not_sent, **facts),
            None,
        )

    def _until(self, said: Conclusion) -> int:
        return self.clock.steady + int(said.limit.wait_s * 1000) if said.limit else 0

    def _facts(self, said: Conclusion, children: tuple[Part, ...]) -> dict[str, Any]:
        limit = None
        if said.limit is not None:
            subject = {Scope.BOT: "", Scope.CHAT: said.record.lane.chat, Scope.METHOD: said.limit.method}
            limit = Limit(said.limit.scope, subject[said.limit.scope], self._until(said))
        return {
            "attempt": said.attempt,
            "ending": said.ending,
            "ended_at": self.clock.wall if said.ending else 0,
            "detail": said.detail,
            "receipt": said.receipt,
            "children": children,
            "limit": limit,
            "moved_to": said.moved_to,
            "rerouted": said.record.rerouted,
            "anchor_dropped": said.record.anchor_dropped,
        }

    async def end(self, claim: Claim, record: Record, *outcomes: Outcome) -> Record:
        """The rest of a pass: each outcome is that of the attempt then in flight."""
        going_on: Record | None = record
        for outcome in outcomes:
            assert going_on is not None, "the pass is over"
            change, going_on = self.change(going_on, outcome)
            assert await self.ledger.advance(claim, change) is AdvanceAnswer.DONE
            if going_on is not None:
                going_on = replace(going_on, state=State.ATTEMPTING)
        return await self.look(record)

    async def send(self, record: Record, owner: str, *outcomes: Outcome) -> Record:
        """A whole pass."""
        return await self.end(*await self.claim(record, owner), *outcomes)

    def pass_until_due(self, record: Record) -> None:
        """Time passes until the row is due."""
        assert record.due_at is not None, "the row rests"
        self.clock.advance(max(0, record.due_at - self.clock.steady) / 1000)


Question = Callable[[Desk], Awaitable[None]]

#: Every question of the exam by name; the chapters (``ledger_exam_*``) fill it.
QUESTIONS: dict[str, Question] = {}


def question(asked: Question) -> Question:
    """Make a function a question of the exam. Names are unique over all chapters."""
    name = asked.__name__
    if name in QUESTIONS:
        raise ValueError(f"two questions are called {name}")
    QUESTIONS[name] = asked
    return asked


def same(found: object, expected: object) -> None:
    """Fail with both values in the text: a shipped exam has no rewritten assertions."""
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")
