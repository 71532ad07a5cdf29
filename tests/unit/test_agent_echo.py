"""The echo agent."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from angelia.agents.base import Agent, Question
from angelia.agents.echo import EchoAgent, EchoSettings
from angelia.model import limits
from angelia.seams.clock import Now


class _Clock:
    """Remembers for how long it was asked to sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> Now:
        return Now(0, 0)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_it_answers_the_text() -> None:
    clock = _Clock()
    agent: Agent = EchoAgent(EchoSettings(), clock)
    answer = await agent.run(Question("c", "♻️ so\nit is", "u"))
    assert (answer.text, clock.slept) == ("♻️ so\nit is", [])
    assert agent.timeout_s == limits.turn_timeout_s
    await agent.close()


async def test_it_takes_its_time_by_the_clock_it_was_given() -> None:
    clock = _Clock()
    agent = EchoAgent(EchoSettings(delay_s=2.5, timeout_s=9), clock)
    await agent.run(Question("c", "text", "u"))
    assert (clock.slept, agent.timeout_s, agent.model_for(0)) == ([2.5], 9, "echo")


@pytest.mark.parametrize("bad", [{"delay_s": -1}, {"timeout_s": 0}, {"delay": 1}, {"delay_s": "inf"}])
def test_bad_settings_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EchoSettings.model_validate(bad)
