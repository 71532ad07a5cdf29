"""Turns: one inbound, one model run, one commit with the answer.

A run is on record before the agent is called. Its end, the answered turn and the pending
delivery are one commit. A death before that commit leaves a running turn of a dead owner:
it runs again once, then the person is told (guarantees §9). Turns of a conversation run one
at a time, in the order of arrival; conversations do not wait for each other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import structlog

from angelia.agents.base import Agent, Answer, FallbackError, Question, ReceivedFile
from angelia.engine.answers import Answers
from angelia.engine.service import wait_within
from angelia.engine.tenure import Tenure
from angelia.engine.typing import Typing
from angelia.model import limits, notices
from angelia.model.errors import AgentError, StoreUnavailableError
from angelia.model.ids import Lane
from angelia.model.messages import HistoryEntry, Usage, well_formed
from angelia.model.states import RunEnd
from angelia.seams import crash
from angelia.seams.clock import Clock
from angelia.seams.rng import Rng
from angelia.store.ledger import Ledger, Turn, TurnKind

log = structlog.get_logger("angelia")


@dataclass(slots=True)
class _Lane:
    """What waits in a conversation, and what runs. ``stopped``: the person said stop."""

    waiting: deque[str] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None
    run: asyncio.Task[Answer] | None = None
    now: str = ""  # the turn in work: a poll that saw it waiting a moment ago says nothing new
    stopped: bool = False


class Turner:
    """Runs turns. ``agents`` by profile; ``on_command`` answers a chat command's turn."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        rng: Rng,
        tenure: Tenure,
        agents: Mapping[str, Agent],
        answers: Answers,
        typing: Typing,
        on_command: Callable[[Turn], Awaitable[str]] | None = None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._rng = rng
        self._tenure = tenure
        self._agents = agents
        self._answers = answers
        self._typing = typing
        self.on_command = on_command
        self._lanes: dict[Lane, _Lane] = {}
        self._commands: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(limits.runs_at_once_max)
        self._draining = False
        #: The turns whose runs are going in this process.
        self.live: set[str] = set()

    def hint(self, turn: str, lane: Lane, kind: TurnKind) -> None:
        """This turn waits in the store."""
        if self._draining:
            return
        if kind is TurnKind.COMMAND:
            if turn not in self._commands:
                self._commands[turn] = asyncio.create_task(self._command(turn))
            return
        mine = self._lanes.setdefault(lane, _Lane())
        if turn != mine.now and turn not in mine.waiting:
            mine.waiting.append(turn)
        if mine.task is None:
            mine.task = asyncio.create_task(self._serve(lane, mine), name=f"turns {lane}")

    def stop(self, lane: Lane) -> bool:
        """A person said stop: end the run of this conversation. False: nothing runs."""
        mine = self._lanes.get(lane)
        if mine is None or mine.run is None or mine.run.done():
            return False
        mine.stopped = True
        mine.run.cancel()
        return True

    @property
    def busy(self) -> int:
        """How many conversations have a turn in work."""
        return len(self._lanes) + len(self._commands)

    async def drain(self, seconds: float) -> None:
        """Start nothing more; runs get ``seconds``, then they are cut: their turns wait again,
        which is no interruption."""
        self._draining = True
        tasks = {lane.task for lane in self._lanes.values() if lane.task} | set(self._commands.values())
        if tasks:
            await wait_within(self._clock, tasks, seconds)
        for lane in list(self._lanes.values()):
            if lane.run is not None:
                lane.run.cancel()
        left = [task for task in tasks if not task.done()]
        if left:
            await wait_within(self._clock, left, limits.drain_sends_s)
        for task in left:
            task.cancel()
        if left:  # not longer for ever: an agent may refuse to end
            await wait_within(self._clock, left, limits.drain_sends_s)

    # -- one conversation -----------------------------------------------------------------------

    async def _serve(self, lane: Lane, mine: _Lane) -> None:
        try:
            while mine.waiting and not self._draining:
                turn = mine.now = mine.waiting.popleft()
                async with self._slots:
                    if not self._draining:
                        await self._turn(turn, lane, mine)
        except StoreUnavailableError as error:
            log.warning("a turn waits for the store", action="turn.waits", lane=str(lane), error=str(error))
        except Exception:
            log.exception("a turn failed", action="turn.failed", lane=str(lane))
        finally:
            # What still waits is in the store; the next poll hints at it again.
            del self._lanes[lane]

    async def _turn(self, turn_id: str, lane: Lane, mine: _Lane) -> None:
        agent = self._agents.get(lane.profile)
        if agent is None:
            return
        run = self._rng.token()
        self.live.add(turn_id)  # already now: an owner that is reborn at this moment must see it
        try:
            turn = await self._begin(turn_id, run, _model(agent, 0))
            if turn is not None:
                await self._work(agent, turn, run, lane, mine)
        finally:
            self.live.discard(turn_id)

    async def _begin(self, turn_id: str, run: str, model: str) -> Turn | None:
        """Claim the turn. Whether a claim whose answer was lost is ours, only asking again tells:
        else the turn would be running for ever, and nobody would work on it."""
        while True:
            try:
                return await self._ledger.start_run(turn_id, run, self._tenure.owner, model)
            except StoreUnavailableError as error:
                if self._draining:
                    raise
                log.warning("a turn waits for the store", action="turn.waits", turn=turn_id, error=str(error))
                await self._clock.sleep(1.0)

    async def _work(self, agent: Agent, turn: Turn, run: str, lane: Lane, mine: _Lane) -> None:
        """The runs of a turn that is ours, with the typing indicator around them."""
        typing = self._typing.begin(lane)
        try:
            history = await self._history(agent, turn)
            await self._runs(agent, turn, run, history, mine)
        except BaseException:
            self.live.discard(turn.id)
            # The turn is running under an owner that must not renew for it any more; a reborn one
            # may have adopted it.
            self._tenure.taint(self._tenure.owner)
            raise
        finally:
            if typing is not None:
                typing.cancel()

    async def _history(self, agent: Agent, turn: Turn) -> tuple[HistoryEntry, ...]:
        if agent.history_messages <= 0:
            return ()
        return tuple(await self._ledger.conversation(turn.lane, turn.id, agent.history_messages))

    def _question(self, turn: Turn, history: tuple[HistoryEntry, ...], attempt: int) -> Question:
        spool = self._answers.attaching.spool
        files = tuple(ReceivedFile(one, spool.path(one)) for one in turn.attachments) if spool else ()
        return Question(turn.conversation, turn.text, turn.user, turn.user_name, history, attempt, files)

    async def _runs(
        self, agent: Agent, turn: Turn, run: str, history: tuple[HistoryEntry, ...], mine: _Lane
    ) -> None:
        """The run and, after a failure for which there is another model, a second one."""
        for attempt in (0, 1):
            question = self._question(turn, history, attempt)
            crash.point("agent.before")
            mine.stopped = False
            mine.run = asyncio.create_task(_bounded(agent, question))
            try:
                # Shielded, so that a drain need not wait for an agent that refuses to end.
                answer = await asyncio.shield(mine.run)
                crash.point("agent.after")
                text = well_formed(answer.text)
                empty = not text.strip() and not answer.files
                ending = RunEnd.EMPTY if empty else RunEnd.ANSWERED
                said = notices.AGENT_SAID_NOTHING if empty else text
                await self._answers.finish(turn, run, ending, said, answer.usage, files=answer.files)
                return
            except asyncio.CancelledError:
                mine.run.cancel()
                await self._cut(turn, run, mine)
                return
            except FallbackError as error:
                again = self._rng.token()
                if attempt == 0 and await self._fall_back(turn, run, str(error), again, _model(agent, 1)):
                    run = again
                    continue
                await self._failed(turn, run, RunEnd.ERROR, notices.AGENT_FAILED, str(error))
                return
            except TimeoutError:
                await self._failed(turn, run, RunEnd.TIMEOUT, notices.AGENT_TIMED_OUT, "time limit")
                return
            except AgentError as error:
                await self._failed(turn, run, RunEnd.ERROR, notices.AGENT_FAILED, str(error))
                return
            except StoreUnavailableError:
                raise
            except Exception as error:
                log.exception("an agent raised", action="agent.raised", turn=turn.id)
                await self._failed(turn, run, RunEnd.ERROR, notices.AGENT_FAILED, type(error).__name__)
                return
            finally:
                mine.run = None

    async def _fall_back(self, turn: Turn, failed: str, detail: str, run: str, model: str) -> bool:
        """Record the failed run and the second one, as soon as the store can be written: the run
        that failed is paid already, and must not be made again for want of a store."""
        while True:
            try:
                return await self._ledger.next_run(turn, failed, Usage(), detail[:500], run, model)
            except StoreUnavailableError as error:
                if self._draining:
                    raise
                log.warning("a turn waits for the store", action="turn.waits", turn=turn.id, error=str(error))
                await self._clock.sleep(1.0)

    async def _failed(self, turn: Turn, run: str, ending: RunEnd, notice: str, detail: str) -> None:
        """The turn ends with a short honest notice, through the ledger."""
        log.error("an agent failed", action="agent.failed", turn=turn.id, ending=ending.value, detail=detail)
        await self._answers.finish(turn, run, ending, notice, Usage(), detail[:500])

    async def _cut(self, turn: Turn, run: str, mine: _Lane) -> None:
        """The run was cancelled: by the person, by the drain, or by an agent that cancelled itself."""
        if mine.stopped:
            mine.stopped = False
            await self._answers.give_up(turn, run, RunEnd.STOPPED, "stopped")
            return
        myself = asyncio.current_task()
        if not self._draining and (myself is None or not myself.cancelling()):
            # Released, it would run again and again, each time at a price.
            await self._failed(turn, run, RunEnd.ERROR, notices.AGENT_FAILED, "the agent cancelled itself")
            return
        await self._ledger.release_turn(turn, run)

    # -- chat commands ---------------------------------------------------------------------------

    async def _command(self, turn_id: str) -> None:
        try:
            turn = await self._ledger.open_turn(turn_id)
            if turn is not None and self.on_command is not None:
                await self._answers.finish(turn, None, RunEnd.ANSWERED, await self.on_command(turn))
        except StoreUnavailableError as error:
            log.warning("a command waits for the store", action="command.waits", error=str(error))
        except Exception:
            log.exception("a command failed", action="command.failed", turn=turn_id)
        finally:
            del self._commands[turn_id]


async def _bounded(agent: Agent, question: Question) -> Answer:
    async with asyncio.timeout(agent.timeout_s):
        return await agent.run(question)


def _model(agent: Agent, attempt: int) -> str:
    """What the record calls the model of this run."""
    named = getattr(agent, "model_for", None)
    return str(named(attempt)) if named is not None else type(agent).__name__
