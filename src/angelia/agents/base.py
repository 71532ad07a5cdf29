"""The contract between the engine and what answers.

One ``run`` is one model run: it is recorded before it starts and closed with its usage.
Nothing below this call may retry by itself: that would be paying twice unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from angelia.model.errors import AgentError
from angelia.model.media import Attachment, shown_name
from angelia.model.messages import HistoryEntry, Usage


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that came with a question: what it is, and where its bytes lie."""

    attachment: Attachment
    path: Path


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file that goes with an answer: a path, or its bytes. It is copied before the answer is
    on record. ``name`` and ``mime`` default to what the path says; ``caption`` goes with it."""

    source: Path | bytes
    name: str = ""
    mime: str = ""
    caption: str = ""

    @property
    def shown(self) -> str:
        """What a person sees as its name."""
        return shown_name(self.name or ("file" if isinstance(self.source, bytes) else self.source.name))


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent is asked.

    ``conversation`` is a stable opaque id of the conversation (it changes with ``new``).
    ``history``: earlier lines, oldest first, without this one; at most as many as the agent
    asked for with ``history_messages``. ``attempt`` is 0, then 1 for a fallback run.
    ``files`` came with it.
    """

    conversation: str
    text: str
    user: str
    user_name: str = ""
    history: Sequence[HistoryEntry] = field(default=())
    attempt: int = 0
    files: Sequence[ReceivedFile] = field(default=())


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent answered. An empty text without a file is an agent error (guarantees §9)."""

    text: str
    usage: Usage = field(default_factory=Usage)
    files: Sequence[AttachedFile] = field(default=())


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
