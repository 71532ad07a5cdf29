"""The agent that answers what it was asked: for a first start, and for tests.

With ``delay_s`` it takes its time, so that a gateway can be killed in the middle of an answer.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from angelia.agents.base import Answer, Question
from angelia.model import limits
from angelia.seams.clock import Clock


class EchoSettings(BaseModel):
    """``delay_s``: seconds before the answer. ``timeout_s``: time limit of one run in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    delay_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    timeout_s: float = Field(default=limits.turn_timeout_s, gt=0, allow_inf_nan=False)


class EchoAgent:
    """Answers the text of the question."""

    history_messages = 0

    def __init__(self, settings: EchoSettings, clock: Clock) -> None:
        self.timeout_s = settings.timeout_s
        self._delay_s = settings.delay_s
        self._clock = clock

    def model_for(self, attempt: int) -> str:
        """What to write down as the model of a run."""
        return "echo"

    async def run(self, question: Question) -> Answer:
        """The text again, after the delay. Costs nothing and holds nothing."""
        if self._delay_s:
            await self._clock.sleep(self._delay_s)
        return Answer(question.text)

    async def close(self) -> None:
        """There is nothing to free."""
