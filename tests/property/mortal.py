"""A ledger that counts what its verbs answer and dies inside one of them where it is told to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import apsw
from hypothesis import event as note

from angelia.model.markers import OPENING
from angelia.model.plan import Send, next_step
from angelia.model.record import Record, Revision
from angelia.seams import crash
from angelia.seams.clock import Now
from angelia.store.sqlite import SqliteLedger
from angelia.testing.ledger_desk import Desk

T = TypeVar("T")

#: What was reached, over all examples: verbs with their answers, deaths, refusals.
REACHED: Counter[str] = Counter()


class Died(BaseException):
    """The process is gone at this point of a verb."""


class Mortal(SqliteLedger):
    """Counts what its verbs answer, and dies where it is told to."""

    dies_at = ""

    async def _write(self, verb: str, work: Callable[[apsw.Connection, Now], T]) -> T:
        point, Mortal.dies_at = Mortal.dies_at, ""
        # A second take-over rightly finds nothing more, so its count is lost with its answer.
        if point and not (verb == "take_over" and point == "after_commit"):

            def die(name: str) -> None:
                if name == f"{verb}.{point}":
                    raise Died

            crash.install(die)
            try:
                await super()._write(verb, work)
            except Died:
                reached(f"died in {verb} {point}")
            finally:
                crash.install(None)
            self._writer._discard()
        result = await super()._write(verb, work)
        reached(f"{verb}: {_said(result)}")
        return result


class Careful(Desk):
    """Where the plan would rather wait or rest, what is sent against its advice tells of its doubt."""

    def revision(self, record: Record) -> Revision:
        step = next_step(record, self.promise, self.clock.now())
        if isinstance(step, Send):
            return step.revision
        part = record.missing or record.parts[0]
        number = max((r.number for r in record.revisions if r.part == part.number), default=0) + 1
        text = f"{OPENING}this may be a duplicate:\n\n{part.text}"
        return Revision(part.number, number, text=text, marker=True, doubt=True)


def _said(result: object) -> str:
    if isinstance(result, (bool, str)) or result is None:
        return str(result)
    if isinstance(result, Record):
        return str(result.state)
    return "taken" if getattr(result, "deliveries", 0) else type(result).__name__


def reached(branch: str) -> None:
    REACHED[branch] += 1
    note(branch)
