"""The verdict of ``why``: one line that says how often the model ran and how often the answer
was delivered, for the person who got an answer twice.

It begins with the number of runs. A *delivery* here is a copy that arrived or may have: calls
that provably brought nothing are none, and several calls under one key are one, because the
platform recognises a repeated key. What failed without reporting any usage was probably not
charged, so the bill is then an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from angelia.model.record import DOUBTFUL, Attempt, Ending, Part, Record, Role, lineage
from angelia.model.states import RunEnd, State, TurnState

if TYPE_CHECKING:
    from angelia.store.views import RunView, Timeline

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ORDINALS = (
    "",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)
_BILLS = ("You paid nothing", "You paid once", "You paid twice")

#: What is worth a word about a run that was not the one that answered.
_FATES: dict[str, str] = {
    RunEnd.INTERRUPTED: "was interrupted when its gateway died",
    RunEnd.DRAINED: "was cut by a stop of the gateway",
    RunEnd.FALLBACK: "failed, so another model was asked",
    RunEnd.ERROR: "failed",
    RunEnd.TIMEOUT: "took too long",
    RunEnd.EMPTY: "found no answer",
    RunEnd.STOPPED: "was stopped on request",
    "": "is still running",
}
#: Endings after which nobody may have been charged, unless usage was reported.
_PERHAPS_FREE = frozenset({RunEnd.FALLBACK, RunEnd.ERROR})


def verdict(timeline: Timeline) -> str:
    """One unwrapped line, beginning with the number of model runs."""
    return f"{_ran(timeline.runs)}, {_delivered(timeline)}. {_paid(timeline.runs)}."


def _count(number: int, one: str, many: str) -> str:
    word = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"{word} {one if number in (0, 1) else many}"


def _ordinal(number: int) -> str:
    return _ORDINALS[number] if number < len(_ORDINALS) else f"{number}th"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# -- runs ------------------------------------------------------------------------------------


def _ran(runs: Sequence[RunView]) -> str:
    said = _count(len(runs), "model run", "model runs")
    fates = [(n, _FATES[run.ending]) for n, run in enumerate(runs, 1) if run.ending in _FATES]
    if fates:
        told = [fate if len(runs) == 1 else f"the {_ordinal(n)} {fate}" for n, fate in fates]
        said += f" ({'which ' if len(runs) == 1 else ''}{', '.join(told)})"
    return said[0].upper() + said[1:]


def _paid(runs: Sequence[RunView]) -> str:
    free = [
        run for run in runs if run.ending in _PERHAPS_FREE and not run.input_tokens and not run.output_tokens
    ]
    number = len(runs)
    bill = _BILLS[number] if number < len(_BILLS) else f"You paid {_count(number, 'time', 'times')}"
    return f"{bill} at most" if free else bill


# -- deliveries ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy of the answer that arrived or may have. ``calls``: how many shared its key."""

    marked: bool
    certain: bool
    calls: int


def _delivered(timeline: Timeline) -> str:
    records = [detail.record for detail in timeline.deliveries]
    copies = [copy for record in records for copy in _copies(record)]
    if not records:
        return _nothing_to_deliver(timeline)
    last = records[-1]
    if not copies:
        return f"not delivered{_standing(last, copies)}"
    said = _count(len(copies), "delivery", "deliveries")
    passes = _passes(last) if len(copies) == 1 else 1
    if passes > 1:
        said += f" in {_count(passes, 'pass', 'passes')}"
    most = max(copy.calls for copy in copies)
    if most > 1:
        said += f" ({_count(most, 'call', 'calls')} under one key cannot be a duplicate)"
    return said + _marks(copies, last, passes) + _standing(last, copies)


def _nothing_to_deliver(timeline: Timeline) -> str:
    turn = timeline.turn
    if turn is None or turn.state == TurnState.WAITING:
        return "no delivery yet: it waits for its turn"
    if turn.state == TurnState.RUNNING:
        return "no delivery yet: the answer is being made"
    return f"no delivery ({turn.reason.replace('_', ' ')})" if turn.reason else "no delivery on record"


def _copies(record: Record) -> list[_Copy]:
    """The copies of the part that came most often."""
    found = [_copies_of(record, part) for part in record.live_parts]
    return max(found, key=len, default=[])


def _copies_of(record: Record, part: Part) -> list[_Copy]:
    numbers = set(lineage(record, part))
    groups: dict[tuple[int, int, int], list[Attempt]] = {}
    for attempt in record.attempts:
        if attempt.part not in numbers or not _may_have_arrived(record, attempt):
            continue
        # The same bytes go out again without a new marker only under a key that the platform
        # honours; a marker that told of a doubt may stand on several copies.
        told = record.revision(attempt.part, attempt.revision).doubt
        groups.setdefault((attempt.part, attempt.revision, attempt.fence if told else 0), []).append(attempt)
    return [
        _Copy(
            marked=record.revision(part_number, revision).marker,
            certain=any(a.ending is Ending.ACCEPTED for a in attempts),
            calls=len(attempts),
        )
        for (part_number, revision, _), attempts in groups.items()
    ]


def _may_have_arrived(record: Record, attempt: Attempt) -> bool:
    if record.revision(attempt.part, attempt.revision).role is not Role.CONTENT or attempt.absent:
        return False
    return attempt.ending is None or attempt.ending is Ending.ACCEPTED or attempt.ending in DOUBTFUL


def _passes(record: Record) -> int:
    """In how many passes the parts of one copy arrived."""
    return len({a.fence for a in record.attempts if a.ending is Ending.ACCEPTED})


def _marks(copies: Sequence[_Copy], record: Record, passes: int) -> str:
    if passes > 1:
        fences = sorted({a.fence for a in record.attempts if a.ending is Ending.ACCEPTED})
        marked = [
            n
            for n, fence in enumerate(fences, 1)
            if any(record.revision(a.part, a.revision).marker for a in record.of_pass(fence))
        ]
    else:
        marked = [n for n, copy in enumerate(copies, 1) if copy.marked]
    if not marked:
        return "; none carried the marker" if len(copies) > 1 else ""
    if len(copies) == 1 and passes == 1:
        return "; it carried the marker"
    return f"; {_listed([f'the {_ordinal(n)}' for n in marked])} carried the marker"


def _standing(record: Record, copies: Sequence[_Copy]) -> str:
    """Where the newest delivery stands, if it is not simply delivered."""
    reason = record.reason.replace("_", " ")
    some = _some_parts(record) if copies else ""
    certain = bool(copies) and copies[-1].certain
    match record.state:
        case State.DELIVERED:
            return "; an operator marked it as delivered" if reason else ""
        case State.ABANDONED if not copies:
            return f": abandoned ({reason})"
        case State.ABANDONED if certain:
            return f"{some}, then abandoned ({reason})"
        case State.ABANDONED:
            last = "it" if len(copies) == 1 else "the last"
            return f"{some}; {last} was never confirmed and was abandoned ({reason})"
        case State.ATTEMPTING:
            return f"{some}, being sent at this moment" if copies else " yet: it is being sent"
        case _ if not copies:
            return " yet: it is owed and waits"
        case _:
            return f"{some}, the rest is owed" if certain else f"{some}, not confirmed yet"


def _some_parts(record: Record) -> str:
    """How much of a longer answer arrived for certain."""
    live = record.live_parts
    received = sum(part.receipt is not None for part in live)
    return f", {received} of {len(live)} parts received" if len(live) > 1 else ""
