"""A pass without the ledger: for a store that cannot be written, and for a ledger switched off.

The attempts are made with the same plan on a record in memory. What they taught is handed
back, so that it can be committed together with the answer once the store is back, and the
answer is not sent again plain (guarantees §10).
"""

from __future__ import annotations

from dataclasses import replace

from angelia.engine.changes import limit_for, split_up
from angelia.engine.roster import Connection
from angelia.engine.sender import call, outgoing
from angelia.model.messages import NewDelivery
from angelia.model.plan import (
    PassEnd,
    PassEnds,
    Send,
    Settle,
    SplitPart,
    Step,
    after,
    end_of_pass,
    next_step,
)
from angelia.model.record import Record, conclude, fresh_parts, with_attempt
from angelia.model.states import Event, State
from angelia.seams.clock import Clock


async def send_unprotected(
    new: NewDelivery, connection: Connection | None, clock: Clock
) -> tuple[Record, PassEnd]:
    """One pass over ``new`` that nothing protects: a crash loses or repeats it."""
    now = clock.now()
    record = Record(
        new.id,
        0,
        new.lane,
        State.PENDING,
        now.wall,
        fresh_parts(new.texts, new.attachments),
        new.reply_to,
        requested=new.requested,
    )
    if connection is None or not connection.adapter.present(new.lane.chat):
        return record, PassEnd(Event.RELEASED_UNTRIED, now.steady, 0)
    step: Step = next_step(record, connection.promise, now)
    record = replace(record, state=State.ATTEMPTING, fence=1)
    while isinstance(step, Send):
        await clock.sleep(step.after_s)
        record = with_attempt(record, step.revision, clock.now().wall)
        revision = step.revision
        async with connection.sends:
            outcome = await call(connection, outgoing(record, revision))
        conclusion = conclude(record, outcome, clock.now().wall)
        record = conclusion.record
        step = after(conclusion, connection.promise, clock.now())
        if isinstance(step, SplitPart):
            now = clock.now()
            step, record, _ = split_up(record, step.part, connection.adapter, connection.promise, now)
        if isinstance(step, PassEnds):
            now, said = clock.now(), conclusion.limit
            until = limit_for(said, record.lane.chat, now).until if said else 0
            return record, end_of_pass(record, now, wait_until=until)
    if isinstance(step, Settle):
        return record, PassEnd(step.event, None, 0)
    return record, end_of_pass(record, clock.now())
