"""A platform and an agent that do what a test tells them, and remember what was asked.

``ScriptedAdapter`` knows two things apart: what it **answered** (the outcomes of its script)
and what really **arrived** at the person (``seen``), which is the truth that every checker
compares with. ``ScriptedAgent`` counts its runs, for who pays wants to know.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from angelia.agents.base import Answer, Question
from angelia.model.ids import Lane
from angelia.model.messages import Outgoing
from angelia.model.outcomes import Accepted, LookUp, NotSent, Outcome, Unconfirmed
from angelia.platforms.base import Capabilities, Host
from angelia.platforms.text import split

_LOST = Unconfirmed("the answer was lost")
_LATE = Accepted("late")


@dataclass(frozen=True, slots=True)
class Arrives:
    """The message arrives, whatever is said of it: by default that nobody knows."""

    outcome: Outcome = _LOST


@dataclass(frozen=True, slots=True)
class Held:
    """The call hangs until ``event`` is set, then ends as ``then`` says. ``arrives_first``:
    the message is with the person long before the call ends."""

    event: asyncio.Event
    then: Outcome = _LATE
    arrives_first: bool = False


Reply = Outcome | Arrives | Held
#: What one wire call does. A callable may also raise, as no good adapter would.
Script = Reply | Callable[[Outgoing], Reply | Awaitable[Reply]]


class ScriptedAdapter:
    """An ``Adapter`` that answers call after call from ``script``, then ``otherwise``.

    ``calls``: every message it was asked to send. ``seen``: those that arrived, in order; with
    ``keyed`` a repeated key is the same message and arrives once. ``absent_chats``: where
    nobody is present. ``looks``: what reading back answers, one after another, then the truth
    (``look_up`` finds what is in ``seen``). ``typings``: (lane, active) of every typing call;
    ``on_typing`` answers them. ``start_errors`` are raised by the first starts.
    """

    def __init__(
        self,
        *script: Script,
        capabilities: Capabilities | None = None,
        otherwise: Script | None = None,
        keyed: bool = False,
    ) -> None:
        self.capabilities = capabilities or Capabilities(text_limit=4096)
        self.script: list[Script] = list(script)
        self.otherwise = otherwise
        self.keyed = keyed
        self.calls: list[Outgoing] = []
        self.seen: list[Outgoing] = []
        self.absent_chats: set[str] = set()
        self.looks: list[Accepted | LookUp | Exception] = []
        self.look_ups: list[tuple[Outgoing, int]] = []
        self.typings: list[tuple[Lane, bool]] = []
        self.on_typing: Callable[[Lane, bool], Outcome | None] = lambda _lane, _active: None
        self.start_errors: list[Exception] = []
        self.host: Host | None = None
        self.starts = 0
        self.stops = 0
        self._changed = asyncio.Condition()

    # -- what a test asks --------------------------------------------------------------------

    @property
    def texts(self) -> list[str]:
        """What the person read, in order."""
        return [message.text for message in self.seen]

    def texts_in(self, chat: str) -> list[str]:
        """What was read in one chat, in order."""
        return [message.text for message in self.seen if message.chat == chat]

    async def sends(self, count: int, within_s: float = 10.0) -> None:
        """Wait until ``count`` calls have begun. Raises ``TimeoutError``."""
        await self._until(lambda: len(self.calls) >= count, within_s)

    async def arrivals(self, count: int, within_s: float = 10.0) -> None:
        """Wait until ``count`` messages have arrived. Raises ``TimeoutError``."""
        await self._until(lambda: len(self.seen) >= count, within_s)

    async def started(self, count: int = 1, within_s: float = 10.0) -> None:
        """Wait until it was started ``count`` times. Raises ``TimeoutError``."""
        await self._until(lambda: self.starts >= count, within_s)

    async def _until(self, condition: Callable[[], bool], within_s: float) -> None:
        async with asyncio.timeout(within_s), self._changed:
            await self._changed.wait_for(condition)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # -- the adapter -------------------------------------------------------------------------

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        return ()

    async def start(self, host: Host) -> None:
        if self.start_errors:
            raise self.start_errors.pop(0)
        self.host = host
        self.starts += 1
        await self._tell()

    async def stop(self) -> None:
        self.stops += 1

    def split(self, text: str, limit: int | None = None) -> list[str]:
        return split(text, limit or self.capabilities.text_limit, self.capabilities.measure)

    def present(self, chat: str) -> bool:
        return chat not in self.absent_chats

    async def send(self, message: Outgoing) -> Outcome:
        self.calls.append(message)
        await self._tell()
        script = self.script.pop(0) if self.script else self.otherwise
        if script is None:
            script = Accepted(f"r{len(self.calls)}")
        reply = script(message) if callable(script) else script
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, Held):
            if reply.arrives_first:
                await self._arrive(message)
            await reply.event.wait()
            if isinstance(reply.then, Accepted) and not reply.arrives_first:
                await self._arrive(message)
            return reply.then
        if isinstance(reply, Arrives | Accepted):
            await self._arrive(message)
        return reply.outcome if isinstance(reply, Arrives) else reply

    async def _arrive(self, message: Outgoing) -> None:
        if not self.keyed or all(known.key != message.key for known in self.seen):
            self.seen.append(message)
        await self._tell()

    async def look_up(self, message: Outgoing, since: int) -> Accepted | LookUp:
        self.look_ups.append((message, since))
        if self.looks:
            said = self.looks.pop(0)
            if isinstance(said, Exception):
                raise said
            return said
        found = any(known.key == message.key for known in self.seen)
        return Accepted("found") if found else LookUp.ABSENT

    async def typing(self, lane: Lane, active: bool) -> Outcome | None:
        self.typings.append((lane, active))
        return self.on_typing(lane, active)


def offline(_message: Outgoing) -> Outcome:
    """A script for a platform that cannot be reached."""
    return NotSent("refused")


#: One run: an answer, an error to raise, or something that makes either of the question.
Say = str | Answer | BaseException | Callable[[Question], "str | Answer | Awaitable[str | Answer]"]


class ScriptedAgent:
    """An ``Agent`` that answers run after run from ``script``, then ``You said: …``.

    ``questions``: every question it was asked; ``runs`` counts them, ``ended`` those that came
    to an end by themselves, ``cut`` those that were cancelled. While ``gate`` is cleared every
    run waits for it. ``busy_most``: the most runs that it saw at the same time.
    """

    def __init__(self, *script: Say, timeout_s: float = 600.0, history_messages: int = 0) -> None:
        self.script: list[Say] = list(script)
        self.timeout_s = timeout_s
        self.history_messages = history_messages
        self.questions: list[Question] = []
        self.ended = 0
        self.cut = 0
        self.busy = 0
        self.busy_most = 0
        self.closed = False
        self.gate = asyncio.Event()
        self.gate.set()
        self._changed = asyncio.Condition()

    @property
    def runs(self) -> int:
        return len(self.questions)

    def model_for(self, attempt: int) -> str:
        """What the record calls the model of a run."""
        return "scripted" if attempt == 0 else "scripted again"

    async def asked(self, count: int, within_s: float = 10.0) -> None:
        """Wait until ``count`` runs have begun. Raises ``TimeoutError``."""
        async with asyncio.timeout(within_s), self._changed:
            await self._changed.wait_for(lambda: self.runs >= count)

    async def run(self, question: Question) -> Answer:
        said: Say = self.script.pop(0) if self.script else f"You said: {question.text}"
        self.questions.append(question)
        self.busy += 1
        self.busy_most = max(self.busy_most, self.busy)
        try:
            async with self._changed:
                self._changed.notify_all()
            await self.gate.wait()
            if isinstance(said, BaseException):
                raise said
            answer = said(question) if callable(said) else said
            if inspect.isawaitable(answer):
                answer = await answer
            self.ended += 1
            return Answer(answer) if isinstance(answer, str) else answer
        except asyncio.CancelledError:
            self.cut += 1
            raise
        finally:
            self.busy -= 1

    async def close(self) -> None:
        self.closed = True
