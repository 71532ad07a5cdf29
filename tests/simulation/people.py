"""Who is not a machine: users that replay, the agent that is paid, an operator with buttons.

The users' platform replays what nobody acknowledged, to whichever gateway answers, and now and
then what was acknowledged long ago. They live outside every process and never forget.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.dice import Dice
from tests.simulation.platform import SimPlatform

from angelia.agents.base import Answer, FallbackError, Question
from angelia.model.errors import (
    AgentError,
    NotPossibleError,
    StoreUnavailableError,
    TryAgainError,
    UnknownIdError,
)
from angelia.model.ids import Lane
from angelia.model.messages import Inbound, NewDelivery, Reception, Usage
from angelia.store import sqlite_operator as orders
from angelia.store.sqlite import SqliteLedger
from angelia.testing.simloop import Killed, SimClock, lapse

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.world import World

_NAME = re.compile(r"\bq\d+\b")


@dataclass
class Said:
    """One message of a user. ``acked``: the gateway said that it is on record."""

    id: str
    lane: Lane
    text: str
    acked: bool = False
    accepted: int = 0
    edited: str = ""
    edited_t: float = 0.0
    runs: list[str] = field(default_factory=list)


class User:
    """Somebody in one conversation."""

    def __init__(self, world: World, platform: SimPlatform, lane: Lane, number: int) -> None:
        self.world, self.platform, self.lane = world, platform, lane
        self.dice = Dice(world.seed, f"user {number}")

    async def live(self) -> None:
        world, mixture = self.world, self.world.mixture
        while True:
            await lapse(self.dice.between(0.1, 2) * mixture.pace_s)
            await world.awake.wait()
            if world.calm:
                return
            chat = self.platform.root(self.lane.chat)
            if chat in self.platform.blocked and self.dice.chance(0.5):
                self.platform.blocked.discard(chat)
                world.witness.note("user", f"{chat} lets the bot in again")
                world.witness.reach("unreachable chat revived")
            if self.dice.chance(mixture.batch_p):
                world.begin(self._deliver_batch([self._new_question() for _ in range(self.dice.whole(2, 4))]))
                continue
            number = len(world.said) + 1
            text = f"q{number}"
            if self.dice.chance(mixture.command_p):
                text = self.dice.pick(("/stop", "/new", "/why"))
            lane = self.lane._replace(chat=self.platform.moves.get(self.lane.chat, self.lane.chat))
            said = Said(f"m{number}", lane, text)
            world.said[said.id] = said
            world.begin(self._deliver(said))
            if self.dice.chance(mixture.edit_p):
                world.begin(self._edit(said))

    def _new_question(self) -> Said:
        number = len(self.world.said) + 1
        lane = self.lane._replace(chat=self.platform.moves.get(self.lane.chat, self.lane.chat))
        said = self.world.said[f"m{number}"] = Said(f"m{number}", lane, f"q{number}")
        return said

    async def _deliver_batch(self, batch: list[Said]) -> None:
        """As an update poll does it: several at once, and one acknowledgement for all. A death in
        the middle brings the whole batch again."""
        world, inbounds = self.world, [self._inbound(said, said.text) for said in batch]
        while not all(said.acked for said in batch):
            await world.awake.wait()
            nodes = [node for node in world.nodes if self.platform.id in node.adapters and node.ready]
            if nodes:
                node = self.dice.pick(nodes)
                answers = await _answer(node.process.begin(_receive_batch(node, self.platform, inbounds)))
                for said, answer in zip(batch, answers or (), strict=False):
                    world.witness.acknowledged(said, answer)
                if answers and answers[0] is Reception.DUPLICATE and answers[-1] is Reception.ACCEPTED:
                    world.witness.reach("batch cut in the middle")
            await lapse(self.dice.between(0.5, 4))

    async def _deliver(self, said: Said) -> None:
        """The platform replays until somebody acknowledges, sometimes to two at once."""
        inbound = self._inbound(said, said.text)
        world, duplicate_p = self.world, self.world.mixture.duplicate_p / 3
        while not said.acked:
            if not world.awake.is_set():
                await world.awake.wait()
            if self.dice.chance(duplicate_p):
                world.begin(self._offer(said, inbound))
            await self._offer(said, inbound)
            await lapse(self.dice.between(0.5, 4))
        while self.dice.chance(self.world.mixture.duplicate_p):
            await lapse(self.dice.between(0, 60))
            await self.world.awake.wait()
            await self._offer(said, inbound)

    def _inbound(self, said: Said, text: str) -> Inbound:
        return Inbound(
            *said.lane.adapter,
            said.lane.chat,
            said.id,
            "user",
            text,
            thread=said.lane.thread,
            reply_to=f"anchor-{said.id}",
            sent_at=self.world.civil.wall() if self.dice.chance(0.5) else None,
        )

    async def _offer(self, said: Said, inbound: Inbound) -> None:
        nodes = [node for node in self.world.nodes if self.platform.id in node.adapters and node.ready]
        if not nodes:
            return
        node = self.dice.pick(nodes)
        task = node.process.begin(_receive(node, self.platform, inbound))
        answer = await _answer(task)
        if answer is None:
            return
        if said.acked:
            self.world.witness.reach("replayed after its acknowledgement")
        self.world.witness.acknowledged(said, answer)
        self.world.witness.note("user", f"{said.id} {answer} by {node.name}")

    async def _edit(self, said: Said) -> None:
        await lapse(self.dice.between(0, 6))
        nodes = [node for node in self.world.nodes if node.ready]
        if not nodes or not said.acked or not said.text.startswith("q"):
            return
        node = self.dice.pick(nodes)
        inbound = self._inbound(said, said.text + " edited")
        task = node.process.begin(_edit(node, inbound))
        if await _answer(task):
            said.edited, said.edited_t = inbound.text, self.world.loop.time()
            self.world.witness.reach("edited in time")


async def _answer(task: asyncio.Task[Any]) -> Any:
    """What a gateway answers, if it lives long enough."""
    done, _ = await asyncio.wait({task}, timeout=10)
    return task.result() if done and not isinstance(task.exception(), Killed) else None


async def _receive(node: Node, platform: SimPlatform, inbound: Inbound) -> Reception | None:
    """In the gateway's process: what the adapter does with an event."""
    adapter = node.adapters.get(platform.id)
    if adapter is None or adapter.host is None:
        return None
    try:
        return await adapter.host.receive(inbound)
    except StoreUnavailableError:
        return None


async def _receive_batch(
    node: Node, platform: SimPlatform, inbounds: list[Inbound]
) -> list[Reception] | None:
    """One after another, as they came; acknowledged only if all are on record."""
    answers: list[Reception] = []
    for inbound in inbounds:
        answer = await _receive(node, platform, inbound)
        if answer is None:
            return None
        answers.append(answer)
    return answers


async def _edit(node: Node, inbound: Inbound) -> bool:
    try:
        return await node.engine.receiver.edit(inbound)
    except StoreUnavailableError:
        return False


class SimAgent:
    """Answers, for money: every run is noted where no death can erase it."""

    history_messages = 0

    def __init__(self, node: Node) -> None:
        self.node = node
        self.dice = Dice(node.world.seed, f"agent {node.name}")
        self.timeout_s = 45.0

    def model_for(self, attempt: int) -> str:
        return f"model {attempt}"

    async def run(self, question: Question) -> Answer:
        world = self.node.world
        found = _NAME.search(question.text)
        name = found.group() if found else question.text
        world.witness.ran(self.node, name, question)
        mood = "well" if world.calm else self.dice.weighted({"well": 1.0, **world.mixture.moods})
        await lapse(self.dice.between(0.05, 3))
        match mood:
            case "slow":
                await lapse(self.dice.between(3, 40))
            case "hangs":
                await lapse(100_000)
            case "fails":
                raise AgentError("the model is down")
            case "raises":
                raise ValueError("a bug in an agent")
            case "empty":
                return Answer(" ")
            case "falls back" if question.attempt == 0:
                raise FallbackError("429")
        words = self.dice.pick((1, 1, 1, 30, 80, 200))
        return Answer(f"answer to {name}: " + "lorem ipsum. " * words, Usage(1, words))

    async def close(self) -> None: ...


class Operator:
    """Presses buttons, on a command line of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dice = Dice(world.seed, "operator")
        self.cancelled: set[str] = set()

    async def act(self) -> None:
        world = self.world
        ledger = world.store.ledger(SimClock(world.civil))
        try:
            await self._order(ledger)
        except (TryAgainError, NotPossibleError, UnknownIdError, StoreUnavailableError) as error:
            world.witness.note("operator", type(error).__name__)
        finally:
            await ledger.close()

    async def _order(self, ledger: SqliteLedger) -> None:
        world, witness = self.world, self.world.witness
        if world.store_is_down(True):
            return
        order = self.dice.pick(("cancel", "mark", "again", "notify"))
        if order == "notify":
            platform = self.dice.pick(list(world.platforms.values()))
            lane = Lane(*platform.id, f"c{self.dice.whole(1, 3)}")
            text = "notice " + "dolor sit. " * self.dice.pick((1, 60))
            id = f"notice{len(witness.notices) + 1}"
            witness.notices[id] = lane
            witness.reach("notice by the operator")
            from angelia.platforms.text import split

            await ledger.enqueue(
                NewDelivery(id, lane, tuple(split(text, platform.text_limit, len)), origin="notice")
            )
            return
        known = world.ask("SELECT id, state FROM deliveries ORDER BY seq DESC LIMIT 8")
        if not known:
            return
        id, state = self.dice.pick(known)
        witness.note("operator", f"{order} {id} ({state})")
        if order == "cancel":
            done = await ledger.operate("operate", lambda c, now: orders.cancel(c, id, now))
            if done.reason == "cancelled":
                self.cancelled.add(id)
        elif order == "mark":
            await ledger.operate("operate", lambda c, now: orders.mark_delivered(c, id, now))
        else:
            new = f"again{len(witness.notes)}"
            await ledger.operate("operate", lambda c, now: orders.send_again(c, id, new, now))
            witness.reach("sent again on request")
