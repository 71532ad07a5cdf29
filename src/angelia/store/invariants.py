"""What must be true of every store at every moment, read from the store alone.

``problems`` says in sentences what is not (guarantees; the numbers are those of
``testing.md``): one answered turn per inbound (1, 2), ``delivered`` means received (3), no
unmarked second copy (4), states, fences, tries and ages (6), one row of a lane in flight (7),
the books balance (9). Constraints of the schema keep most of it by themselves; this finds what
a bug, a repaired file or a foreign hand left behind. It changes nothing.

The tests add what only the platform's own truth can show (``testing/checks.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from angelia.model import limits
from angelia.model.record import DOUBTFUL, Attempt, Ending, Record, Role, lineage
from angelia.store.rows import SQL, load_record, many

#: Between the look at the age and the first byte lie at most this much time.
AGE_SLACK_MS = 60_000

#: Each statement finds rows that must not exist; each sentence says what one of them means.
_RULES: tuple[tuple[str, str], ...] = (
    (
        SQL.rule_inbound_without_turn,
        "inbound {0} of chat {1} is acknowledged, but its turn {2} is not on record",
    ),
    (SQL.rule_turn_without_inbound, "turn {0} is {1}, but no inbound belongs to it"),
    (SQL.rule_delivered_without_receipt, "delivery {0} is delivered, but part {1} has no receipt"),
    (SQL.rule_delivery_without_parts, "delivery {0} has no parts"),
    (SQL.rule_orphans, "{0} of delivery {1} belong to no delivery"),
    (SQL.rule_attempt_without_revision, "attempt {1} of delivery {0} sent a revision that is not on record"),
    (SQL.rule_open_attempt_of_idle, "delivery {0} is {1}, but its attempt {2} is still in flight"),
    (SQL.rule_pending_with_attempts, "delivery {0} is pending, but attempts are on record"),
    (SQL.rule_rest_without_attempt, "delivery {0} rests, but no attempt is on record"),
    (SQL.rule_attempt_beyond_fence, "attempt {1} of delivery {0} has fence {2}, its row only {3}"),
    (SQL.rule_fence_went_back, "attempt {1} of delivery {0} has a smaller fence than the one before"),
    (SQL.rule_claimed_by_nobody, "{0} {1} is held by {2}, which is no known owner"),
    (SQL.rule_sent_too_late, "attempt {1} of delivery {0} began later than 24 h after it was written"),
    (SQL.rule_wait_beyond_life, "delivery {0} waits longer than a delivery lives"),
    (SQL.rule_lane_in_flight_twice, "in the lane {0}/{1}/{2}#{3} {4} deliveries are being sent at once"),
    (SQL.rule_open_run_of_idle_turn, "model run {0} is open, but its turn {1} is {2}"),
    (SQL.rule_running_turn_without_run, "turn {0} is running with {1} open model runs"),
    (SQL.rule_answered_without_run, "turn {0} is answered, but {1} of its model runs made the answer"),
    (SQL.rule_interruptions, "turn {0} counts {1} interruptions, but {2} of its model runs were interrupted"),
    (SQL.rule_owed_of_open_turn, "delivery {0} exists although its turn {1} is {2}"),
)


def problems(conn: apsw.Connection, wall: int) -> list[str]:
    """What is wrong with the store, in sentences; empty if nothing is. ``wall``: now, in
    milliseconds. Reads every delivery that has more than one attempt, so it takes seconds on a
    large store."""
    where: dict[str, Any] = {
        "wall": wall,
        "life_ms": limits.freshness_ms,
        "slack_ms": AGE_SLACK_MS,
    }
    found = [sentence.format(*row) for sql, sentence in _RULES for row in many(conn, sql, where)]
    for (delivery,) in many(conn, SQL.tried_more_than_once):
        found.extend(copy_problems(load_record(conn, delivery)))
    return found


def copy_problems(record: Record) -> Iterator[str]:
    """Second copies that the record itself betrays: an attempt that followed one that arrived or
    may have arrived repeats its very bytes (under the same key) or tells of the doubt."""
    for part in record.parts:
        numbers = set(lineage(record, part))
        mine = [a for a in record.attempts if a.part in numbers and _carries(record, a)]
        for attempt in mine:
            if attempt.part != part.number:
                continue
            for earlier in mine:
                if earlier.number < attempt.number and _unmarked_after(record, earlier, attempt):
                    yield (
                        f"attempt {attempt.number} of delivery {record.id} repeats part {part.number} "
                        f"without a word, although attempt {earlier.number} may have brought it"
                    )


def _carries(record: Record, attempt: Attempt) -> bool:
    return record.revision(attempt.part, attempt.revision).role is Role.CONTENT


def _unmarked_after(record: Record, earlier: Attempt, later: Attempt) -> bool:
    may_have_arrived = earlier.ending in DOUBTFUL or earlier.ending is Ending.ACCEPTED
    if not may_have_arrived or earlier.absent:
        return False
    same_bytes = (earlier.part, earlier.revision) == (later.part, later.revision)
    return not same_bytes and not record.revision(later.part, later.revision).doubt
