"""One pass over one delivery, as a sentence: plan → claim → wire → classify → settle.

What a crash leaves: before the claim's commit nothing happened; after it the attempt is on
record as in flight and will be recorded as died; after an outcome's commit that outcome is
the truth. Nothing is decided from memory that is not on record.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import Enum, auto
from typing import TypeVar

import structlog

from angelia.engine.changes import change_for
from angelia.engine.roster import Connection, Roster
from angelia.engine.tenure import Tenure
from angelia.model import limits
from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import Claim, Lane, idempotency_key
from angelia.model.messages import Outgoing, well_formed
from angelia.model.outcomes import Accepted, LookUp, Moved, Outcome, RateLimited, Unconfirmed
from angelia.model.plan import LookUpFirst, PassEnds, Rest, Send, Settle, Step, WaitUntil, after, next_step
from angelia.model.record import (
    Attempt,
    Conclusion,
    Ending,
    Record,
    Revision,
    Role,
    conclude,
    released,
    with_attempt,
)
from angelia.model.states import Event, State
from angelia.seams import crash
from angelia.seams.clock import Clock
from angelia.store.ledger import Advance, AdvanceAnswer, ClaimAnswer, Ledger

T = TypeVar("T")

log = structlog.get_logger("angelia")


def outgoing(record: Record, revision: Revision) -> Outgoing:
    """The bytes of a revision, addressed."""
    live = record.live_parts
    part = record.part(revision.part)
    index = next((i for i, p in enumerate(live, 1) if p.number == part.number), part.number)
    return Outgoing(
        delivery=record.id,
        part=index,
        parts=len(live),
        key=idempotency_key(record.id, revision.part, revision.number),
        chat=record.lane.chat,
        thread="" if record.rerouted else record.lane.thread,
        reply_to="" if record.anchor_dropped else record.reply_to,
        text=part.text if revision.text is None else revision.text,
        format=revision.format,
        recovered=revision.marker,
        attachment=part.attachment if revision.role is Role.CONTENT else None,
        written_at=record.written_at,
    )


def sound(outcome: object) -> Outcome:
    """What an adapter answered, as the store can keep it. What is no outcome has taught nothing.

    An acceptance without a receipt is one all the same: the part must not count as missing."""
    if not isinstance(outcome, Outcome):
        return Unconfirmed(f"the adapter answered with {type(outcome).__name__}, which is no outcome")
    if isinstance(outcome, Accepted):
        known: object = outcome.receipt
        return Accepted("" if known is None else well_formed(str(known)))
    if isinstance(outcome, Moved):
        outcome = replace(outcome, chat=well_formed(str(outcome.chat)))
    if isinstance(outcome, RateLimited) and math.isnan(outcome.wait_s):
        outcome = replace(outcome, wait_s=0.0)
    return replace(outcome, detail=well_formed(str(outcome.detail or "")))


async def call(connection: Connection, message: Outgoing) -> Outcome:
    """One wire call. An adapter that raises has taught nothing: unconfirmed."""
    crash.point("wire.before")
    try:
        outcome = sound(await connection.adapter.send(message))
    except Exception as error:
        log.exception(
            "an adapter raised instead of answering", action="send.raised", adapter=str(connection.id)
        )
        outcome = Unconfirmed(f"{type(error).__name__}")
    crash.point("wire.after")
    return outcome


class _Went(Enum):
    """How it went with one step in a lane."""

    NOTHING = auto()  # nothing more may go now
    AGAIN = auto()  # something is different: look at the lane again
    OVER = auto()  # a pass was made and is over


class Sender:
    """Works a lane: its oldest delivery that does not rest, then the next, until none may go."""

    def __init__(self, ledger: Ledger, clock: Clock, tenure: Tenure, roster: Roster) -> None:
        self._ledger = ledger
        self._clock = clock
        self._tenure = tenure
        self._roster = roster
        #: Set at the end of the drain: what has not sent its first byte is released.
        self.releasing = False
        #: How many outcomes are kept in memory because the store cannot be written.
        self.kept = 0
        #: Answers kept for want of a store are committed before any claim.
        self.answers_kept: Callable[[], int] = lambda: 0

    async def work(self, lane: Lane, fresh: Record | None = None) -> None:
        """Go on until nothing of the lane may go now. ``fresh``: a delivery of the lane as it was
        just committed. It is planned with as if it had been read: whether it is still so, and
        whether nothing older is owed, is for the claim to say; else the store is asked. Once its
        pass is over, only what was committed after it can be owed, and that has a hint of its own."""
        paced = False
        while (connection := self._roster.get(lane.adapter)) is not None:
            # The place among the calls in flight comes first: a lease, a plan or a claim that
            # had to wait for it would be old before the first byte.
            async with connection.sends:
                if self.releasing or self.answers_kept():
                    return
                if self._roster.get(lane.adapter) is not connection:
                    continue
                record = fresh or await self._ledger.head(lane)
                if record is None:
                    return
                step = next_step(record, connection.promise, self._clock.now())
                place = isinstance(step, Send) and not paced
                pause_s = self._place(connection, lane.chat) if place else 0.0
                paced = pause_s > 0
                went = None if paced else await self._take(step, record, connection)
                if went is (_Went.OVER if fresh is not None else _Went.NOTHING):
                    return
                fresh = fresh if paced else None
            if paced:
                await self._clock.sleep(pause_s)

    def _place(self, connection: Connection, chat: str) -> float:
        """How many seconds the next message to ``chat`` waits of our own accord."""
        return 0.0 if connection.pacer is None else connection.pacer.reserve(chat, self._clock.now().steady)

    async def _take(self, step: Step, record: Record, connection: Connection) -> _Went:
        """Do what the plan says."""
        match step:
            case Settle(event):
                await self._ledger.settle(record, event)
                return _Went.AGAIN
            case Rest():
                await self._ledger.defer(record, None)
                return _Went.AGAIN
            case WaitUntil(steady):
                if (record.due_at or 0) < steady:
                    await self._ledger.defer(record, steady)
                return _Went.NOTHING
            case LookUpFirst(attempt):
                await self._look_up(record, attempt, connection)
                return _Went.AGAIN
            case Send(revision):
                if not connection.adapter.present(record.lane.chat):
                    return await self._nobody_there(record, connection)
                return await self._pass(record, revision, connection)
        raise AssertionError(f"an unclaimed row cannot be told to {step}")

    async def _look_up(self, record: Record, attempt: Attempt, connection: Connection) -> None:
        """Read the conversation back, once per pass. An adapter that raises cannot tell."""
        message = outgoing(record, record.revision(attempt.part, attempt.revision))
        try:
            found = await connection.adapter.look_up(message, attempt.started_at)
        except Exception:
            log.exception("a look-up raised", action="look_up.raised", adapter=str(connection.id))
            found = LookUp.CANNOT_TELL
        if isinstance(found, Accepted):
            await self._ledger.record_receipt(record.id, attempt.number, found.receipt or "")
        else:
            await self._ledger.note_look_up(record, attempt.number, found)

    async def _nobody_there(self, record: Record, connection: Connection) -> _Went:
        """Nothing is tried while nobody is there; a connection brings the row forward."""
        pause = min(limits.not_sent_first_ms * 2 ** min(record.not_sent, 10), limits.not_sent_most_ms)
        await self._ledger.defer(record, self._clock.now().steady + pause, offline=True)
        if not connection.adapter.present(record.lane.chat):
            return _Went.NOTHING
        # Somebody came while this was being written down.
        forward = await self._ledger.connected(connection.id, record.lane.chat)
        return _Went.AGAIN if forward else _Went.NOTHING

    async def _pass(self, record: Record, revision: Revision, connection: Connection) -> _Went:
        """Claim, then attempt after attempt until the pass is over."""
        owner = self._tenure.owner
        if not self._tenure.alive(owner):
            return _Went.NOTHING
        now = self._clock.now()
        answer, sure = await self._claim(record, owner, revision, now.wall)
        if answer is not ClaimAnswer.GRANTED:
            return _Went.AGAIN if answer is ClaimAnswer.CHANGED else _Went.NOTHING
        claim = Claim(record.id, owner, record.fence + 1)
        record = replace(record, state=State.ATTEMPTING, owner=owner, fence=claim.fence, due_at=None)
        record = with_attempt(record, revision, now.wall)
        committed_at = now.steady
        try:
            while True:
                if sure:
                    conclusion = await self._attempt(record, claim, connection, committed_at)
                else:
                    conclusion = released(record)
                going_on = await self._record(conclusion, claim, connection)
                if going_on is None:
                    return _Went.OVER
                record, committed_at = going_on, self._clock.now().steady
                if pause_s := self._place(connection, record.lane.chat):
                    await self._clock.sleep(pause_s)
        except BaseException:
            # The row is attempting under an owner that must not renew for it any more.
            self._tenure.taint(owner)
            raise

    async def _claim(
        self, record: Record, owner: str, revision: Revision, at: int
    ) -> tuple[ClaimAnswer, bool]:
        """The answer, and whether it came at once. If the store was in trouble, only asking again
        tells whether the claim is ours; what was planned so long ago is then planned anew."""
        sure = True
        while True:
            try:
                return await self._ledger.claim(record, owner, revision, at), sure
            except StoreUnavailableError as error:
                sure = False
                log.warning("a claim waits for the store", action="claim.waits", error=str(error))
                await self._clock.sleep(1.0)

    async def _attempt(
        self, record: Record, claim: Claim, connection: Connection, committed_at: int
    ) -> Conclusion:
        """One attempt of the open revision: lease, fence and state are checked, then the wire."""
        attempt = record.attempts[-1]
        late = self._clock.now().steady - committed_at > limits.guard_recheck_ms
        lost = not self._tenure.alive(claim.owner) or (late and not await self._holds(claim))
        if lost or self.releasing:
            return released(record)
        outcome = await call(connection, outgoing(record, record.revision(attempt.part, attempt.revision)))
        conclusion = conclude(record, outcome, self._clock.now().wall)
        tell = log.debug if conclusion.ending is Ending.ACCEPTED else log.info
        tell(
            "an attempt ended",
            action="delivery.attempt",
            delivery=record.id,
            part=attempt.part,
            attempt=attempt.number,
            outcome=type(outcome).__name__,
            detail=conclusion.detail,
        )
        if conclusion.ending is Ending.BAD_CREDENTIAL:
            # Whoever is told or not: what counts as no try must not be repeated at once, for ever.
            self._roster.remove(connection.id, connection.adapter)
            self._roster.on_bad_credential(connection.id, conclusion.detail)
        return conclusion

    async def _holds(self, claim: Claim) -> bool:
        """Whether the claim is surely ours: a store that cannot be read does not say so."""
        try:
            return await self._ledger.holds(claim) and self._tenure.alive(claim.owner)
        except StoreUnavailableError:
            return False

    async def _record(self, conclusion: Conclusion, claim: Claim, connection: Connection) -> Record | None:
        """Commit an outcome with what follows from it. ``None``: the pass is over."""
        now = self._clock.now()
        step: Step = after(conclusion, connection.promise, now)
        if self.releasing and isinstance(step, Send):
            step = PassEnds()
        change, record = change_for(conclusion, step, connection.adapter, connection.promise, now)
        answer = await self._store(claim, change)
        if answer in (AdvanceAnswer.LAPSED, AdvanceAnswer.HELD):
            change, record = change_for(conclusion, PassEnds(), connection.adapter, connection.promise, now)
            answer = await self._store(claim, change)
        if answer is AdvanceAnswer.STALE:
            if conclusion.receipt is not None or conclusion.ending is Ending.ACCEPTED:
                await self._late_receipt(conclusion)
            return None
        if record is not None and isinstance(step, Send) and step.after_s:
            return await self._repeat_later(record, step, claim, connection)
        return record

    async def _repeat_later(
        self, record: Record, step: Send, claim: Claim, connection: Connection
    ) -> Record | None:
        """The same revision under the same key, within the pass, after a short wait."""
        await self._clock.sleep(step.after_s)
        now = self._clock.now()
        if self.releasing:
            change, _ = change_for(None, PassEnds(), connection.adapter, connection.promise, now, record)
            await self._store(claim, change)
            return None
        record = with_attempt(record, step.revision, now.wall)
        change = Advance(Event.GOES_ON, opened=(record.attempts[-1], step.revision))
        answer = await self._store(claim, change)
        if answer in (AdvanceAnswer.LAPSED, AdvanceAnswer.HELD):
            record = released(record).record
            change, _ = change_for(None, PassEnds(), connection.adapter, connection.promise, now, record)
            await self._store(claim, change)
        return record if answer is AdvanceAnswer.DONE else None

    async def _store(self, claim: Claim, change: Advance) -> AdvanceAnswer:
        """Commit a change, however long the store cannot be written: an outcome is kept in
        memory and written later, and nothing is sent again meanwhile."""
        return await self._kept_until_stored(lambda: self._ledger.advance(claim, change))

    async def _late_receipt(self, conclusion: Conclusion) -> None:
        """A receipt is a fact, also under a claim that is over."""
        made, receipt = conclusion.attempt.number, conclusion.receipt or ""
        await self._kept_until_stored(
            lambda: self._ledger.record_receipt(conclusion.record.id, made, receipt)
        )

    async def _kept_until_stored(self, store: Callable[[], Awaitable[T]]) -> T:
        kept = False
        try:
            while True:
                try:
                    return await store()
                except StoreUnavailableError as error:
                    if not kept:
                        kept, self.kept = True, self.kept + 1
                    log.error("an outcome is kept in memory", action="outcome.kept", error=str(error))
                    await self._clock.sleep(1.0)
        finally:
            self.kept -= int(kept)
