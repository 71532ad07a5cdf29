"""The contract between the engine and what answers.

One ``run`` is one model run: it is recorded before it starts and closed with its usage.
Nothing below this call may retry by itself: that would be paying twice unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from angelia.model.errors import AgentError
from angelia.model.messages import HistoryEntry, Usage


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent is asked.

    ``conversation`` is a stable opaque id of the conversation (it changes with ``new``).
    ``history``: earlier lines, oldest first, without this one; at most as many as the agent
    asked for with ``history_messages``. ``attempt`` is 0, then 1 for a fallback run.
    """

    conversation: str
    text: str
    user: str
    user_name: str = ""
    history: Sequence[HistoryEntry] = field(default=())
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent answered. An empty text is an agent error (guarantees §9)."""

    text: str
    usage: Usage = field(default_factory=Usage)


class FallbackError(AgentError):
    """The run failed in a way for which the agent has another model: run it again with
    ``attempt`` + 1. The second run is recorded as its own."""


class Agent(Protocol):
    """Something that answers."""

    #: How many earlier lines of the conversation ``run`` wants to see.
    history_messages: int
    #: Time limit of one run in seconds.
    timeout_s: float

    async def run(self, question: Question) -> Answer:
        """Answer once. Raises ``AgentError`` (or ``FallbackError``) with a text for the
        operator. Cancelled at the time limit, on ``stop`` and at shutdown: it must then end
        what it started."""
        ...

    async def close(self) -> None:
        """Free what the agent holds."""
        ...
