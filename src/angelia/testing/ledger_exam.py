"""The exam of every store: one contract, one exam (``store.ledger``).

For the author of a store::

    from angelia.testing.ledger_exam import QUESTIONS, Desk

    @pytest.mark.parametrize("name", sorted(QUESTIONS))
    async def test_ledger(name: str) -> None:
        desk = Desk(open_ledger)        # open_ledger(clock) opens the same, fresh store each time
        try:
            await QUESTIONS[name](desk)
        finally:
            await desk.close()

Each question is about one promise of guarantees §§1–10 and stands in a chapter of its own
kind. It needs a fresh store and no waiting: time is a ``TestClock``. Questions of the race
chapter open the store several times and let all openings go at the same moment.
"""

from __future__ import annotations

from angelia.testing import (  # noqa: F401 - importing a chapter adds its questions
    ledger_exam_chats,
    ledger_exam_deliveries,
    ledger_exam_media,
    ledger_exam_owners,
    ledger_exam_parking,
    ledger_exam_races,
    ledger_exam_receipts,
    ledger_exam_time,
    ledger_exam_turns,
)
from angelia.testing.ledger_desk import QUESTIONS, Desk, Open, Question

__all__ = ["QUESTIONS", "Desk", "Open", "Question"]
