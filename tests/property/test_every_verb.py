"""Every verb of the ledger, in any order, with deaths inside verbs; see ``every_verb.py``.

A machine whose rules never get anywhere proves nothing: what must have been reached is listed.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.property.every_verb import EveryVerb
from tests.property.mortal import REACHED
from tests.property.test_ledger_machine import SOAK

MUST_BE_REACHED = (
    *(f"claim: {answer}" for answer in ("granted", "changed", "behind")),
    *(f"advance: {answer}" for answer in ("done", "stale")),
    *(f"{verb}: {answer}" for verb in ("edit", "next_run") for answer in (True, False)),
    *(f"accept: {answer}" for answer in ("accepted", "duplicate")),
    *(f"holds: {answer}" for answer in (True, False)),
    *(f"died in {verb} before_commit" for verb in ("claim", "take_over")),
    "start_run: Turn",
    "settle: True",
    "finish_turn: None",
    "hold: None",
    "new_conversation: None",
)


def test_every_verb_in_any_order_keeps_the_promises() -> None:
    REACHED.clear()
    run_state_machine_as_test(
        EveryVerb,
        settings=settings(
            max_examples=SOAK or 40,
            stateful_step_count=50,
            derandomize=not SOAK,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert [branch for branch in MUST_BE_REACHED if not REACHED[branch]] == [], sorted(REACHED)
