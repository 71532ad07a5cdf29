"""From an outcome and the plan's next step to one commit: pure, so that it can be enumerated."""

from __future__ import annotations

from typing import Any

from angelia.model import limits, notices
from angelia.model.outcomes import RateLimited, Scope
from angelia.model.plan import (
    Moment,
    PassEnds,
    Promise,
    Send,
    Settle,
    SplitPart,
    Step,
    after_split,
    end_of_pass,
)
from angelia.model.record import Conclusion, Ending, Part, Record, with_attempt, with_split
from angelia.model.states import Event
from angelia.platforms.base import Adapter
from angelia.store.ledger import Advance, Limit

#: A child of a split part is at least this long, whatever the limit.
_CHILD_LIMIT_MIN = 16

#: Nobody waits longer than a delivery lives.
_WAIT_MOST_MS = limits.DAY_MS


def change_for(
    conclusion: Conclusion | None,
    step: Step,
    adapter: Adapter,
    promise: Promise,
    now: Moment,
    record: Record | None = None,
) -> tuple[Advance, Record | None]:
    """The commit that stores ``conclusion`` together with what ``step`` makes of it, and the
    record to go on with (``None``: the pass is over). Without a conclusion, ``record`` is
    the claimed record whose pass ends between two attempts."""
    known = conclusion.record if conclusion is not None else record
    assert known is not None
    facts = _facts(conclusion, now)
    children: tuple[Part, ...] = ()
    if isinstance(step, SplitPart):
        step, known, children = split_up(known, step.part, adapter, promise, now)
    match step:
        case Settle(event):
            return Advance(event, children=children, **facts), None
        case Send(revision, after_s):
            event = Event.PART_ACCEPTED if facts.get("receipt") is not None else Event.GOES_ON
            if after_s:
                return Advance(event, **facts), known
            going_on = with_attempt(known, revision, now.wall)
            opened = (going_on.attempts[-1], revision)
            return Advance(event, children=children, opened=opened, **facts), going_on
        case PassEnds():
            limit = facts.get("limit")
            end = end_of_pass(known, now, wait_until=limit.until if limit else 0)
            offline = end.event in (Event.RELEASED, Event.RELEASED_UNTRIED)
            not_sent = known.not_sent if offline else 0
            return (
                Advance(
                    end.event,
                    children=children,
                    due_at=end.due_at,
                    tries=end.tries,
                    not_sent=not_sent,
                    **facts,
                ),
                None,
            )
    raise AssertionError(f"a claimed row cannot be told to {step}")


def split_up(
    record: Record, part: Part, adapter: Adapter, promise: Promise, now: Moment
) -> tuple[Step, Record, tuple[Part, ...]]:
    """Replace a part that was too long by smaller ones: what follows, the record, the children.
    A file that is not taken becomes a line that tells of it, before its caption. A part that
    cannot be cut is rejected."""
    if part.attachment is not None:
        told = notices.FILE_NOT_TAKEN.format(name=part.attachment.name)
        texts = adapter.split(f"{told}\n\n{part.text}" if part.text else told)
    else:
        texts = adapter.split(part.text, max(_CHILD_LIMIT_MIN, promise.text_limit // 2))
    if not texts or (len(texts) < 2 and part.attachment is None):
        return Settle(Event.CONTENT_REJECTED), record, ()
    record, children = with_split(record, part, texts)
    return after_split(record, promise, now), record, children


def _facts(conclusion: Conclusion | None, now: Moment) -> dict[str, Any]:
    if conclusion is None:
        return {}
    return {
        "attempt": conclusion.attempt,
        "ending": conclusion.ending,
        "ended_at": now.wall if conclusion.ending else 0,
        "detail": conclusion.detail[:500],
        "receipt": conclusion.receipt,
        "limit": _limit(conclusion, now),
        "moved_to": conclusion.moved_to,
        "rerouted": conclusion.ending is Ending.THREAD_GONE,
        "anchor_dropped": conclusion.ending is Ending.ANCHOR_GONE,
    }


def _limit(conclusion: Conclusion, now: Moment) -> Limit | None:
    said = conclusion.limit
    return None if said is None else limit_for(said, conclusion.record.lane.chat, now)


def limit_for(said: RateLimited, chat: str, now: Moment) -> Limit:
    """A platform's wait as an absolute time, in its scope."""
    wait_ms = int(min(max(said.wait_s, 0.0) * limits.SECOND_MS, _WAIT_MOST_MS))
    subject = {Scope.BOT: "", Scope.CHAT: chat, Scope.METHOD: said.method}[said.scope]
    return Limit(said.scope, subject, now.steady + wait_ms)
