"""A stage for the engine: one store on a RAM disk, a clock set by hand, nodes that can die.

Everything runs in the event loop of the test (the store works inline), so ``clock.advance``
lives through minutes at once, and every story comes out the same each time. A ``Node`` is
one gateway or library process: its death stops it between two awaits, with no clean-up that
could reach the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

from angelia.engine.engine import Engine
from angelia.gateway.commands import Commands, is_command
from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import AdapterId, Lane
from angelia.model.messages import Inbound, NewDelivery, Reception
from angelia.model.record import Record
from angelia.platforms.base import Adapter
from angelia.seams.rng import SeededRng
from angelia.store.connection import open_connection
from angelia.store.invariants import problems
from angelia.store.ledger import Ledger, OwnerKind
from angelia.store.rows import load_record
from angelia.store.sqlite import SqliteLedger
from angelia.testing.fakes import ScriptedAdapter, ScriptedAgent
from angelia.testing.manual_clock import ManualClock, at_rest

BOT = AdapterId("bot", "talk")

_node: ContextVar[Node | None] = ContextVar("node", default=None)


class Faults:
    """A ledger between the engine and the real one, with the faults that a test orders.

    ``down``: which verbs raise ``StoreUnavailableError`` before they do anything; ``loses``:
    which commit, but their caller hears an error; ``gates``: after which the caller waits.
    ``dead``: nothing reaches the store any more.
    """

    def __init__(self, ledger: SqliteLedger) -> None:
        self.ledger = ledger
        self.down: Callable[[str], bool] = lambda _verb: False
        self.loses: set[str] = set()
        self.gates: dict[str, asyncio.Event] = {}
        self.frozen: asyncio.Event | None = None
        self.dead = False
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.ledger, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def verb(*given: Any, **named: Any) -> Any:
            if self.frozen is not None:
                await self.frozen.wait()
            if self.dead:
                raise asyncio.CancelledError
            self.calls.append(name)
            if self.down(name):
                raise StoreUnavailableError(f"{name}: the disk is full")
            result = await found(*given, **named)
            if name in self.gates:
                await self.gates[name].wait()
            if name in self.loses:
                self.loses.discard(name)
                raise StoreUnavailableError(f"{name}: the answer was lost")
            return result

        return verb


class Node:
    """One process: an engine with its own opening of the store."""

    def __init__(
        self, stage: Stage, *, kind: OwnerKind = OwnerKind.DAEMON, protected: bool = True, **how: Any
    ) -> None:
        self.stage = stage
        self.faults = Faults(SqliteLedger(stage.path, stage.clock, inline=True))
        ledger = cast(Ledger, self.faults)
        self.engine = Engine(
            ledger,
            stage.clock,
            stage.rng,
            stage.agents,
            stage.split,
            kind=kind,
            lock_held=kind is OwnerKind.DAEMON,
            is_command=is_command,
            protected=protected,
            **how,
        )
        self.engine.turner.on_command = Commands(self.engine, cast(SqliteLedger, self.faults)).answer
        self.tasks: set[asyncio.Task[Any]] = set()

    @contextlib.contextmanager
    def as_me(self) -> Iterator[None]:
        """Tasks begun inside belong to this process and die with it."""
        before = _node.set(self)
        try:
            yield
        finally:
            _node.reset(before)

    async def start(self, *, connect: bool = True) -> Node:
        with self.as_me():
            await self.engine.start()
            self.engine.receiver.open = True
            if connect:
                for adapter_id in self.stage.adapters:
                    await self.connect(adapter_id)
            await at_rest()
        return self

    async def connect(self, adapter_id: AdapterId = BOT, adapter: Adapter | None = None) -> None:
        """The adapter is up; what waits for it may go."""
        with self.as_me():
            self.engine.roster.install(adapter_id, adapter or self.stage.adapters[adapter_id])
            await self.engine.rescuer.connected(adapter_id)
            await at_rest()

    async def connected(self, chat: str | None = None) -> None:
        """A page was opened, a socket came back."""
        with self.as_me():
            await self.engine.rescuer.connected(BOT, chat)
            await at_rest()

    def disconnect(self, adapter_id: AdapterId = BOT) -> None:
        self.engine.roster.remove(adapter_id)

    async def say(
        self,
        text: str = "hi",
        chat: str = "c",
        thread: str = "",
        id: str = "",
        adapter: AdapterId = BOT,
        sent_at: int | None = None,
    ) -> Reception:
        """A person says something; returns when all that follows at once has followed."""
        with self.as_me():
            inbound = self.inbound(text, chat, thread, id, adapter, sent_at)
            reception = await self.engine.receiver.receive(inbound)
            await at_rest()
        return reception

    def inbound(
        self,
        text: str = "hi",
        chat: str = "c",
        thread: str = "",
        id: str = "",
        adapter: AdapterId = BOT,
        sent_at: int | None = None,
    ) -> Inbound:
        message_id = id or self.stage.new_id("m")
        return Inbound(*adapter, chat, message_id, "user", text, thread=thread, sent_at=sent_at)

    async def owe(
        self, *texts: str, chat: str = "c", thread: str = "", adapter: AdapterId = BOT, reply_to: str = ""
    ) -> str:
        """The id of a new notice of these parts, after all that follows at once."""
        new = NewDelivery(
            self.stage.new_id("d"), Lane(*adapter, chat, thread), texts or ("hello",), reply_to, "notice"
        )
        with self.as_me():
            await self.engine.enqueue(new)
            await at_rest()
        return new.id

    async def kill(self) -> None:
        """kill -9: no task goes on, nothing more reaches the store."""
        self.faults.dead = True
        for task in list(self.tasks):
            task.cancel()
        await at_rest()
        await self.faults.ledger.close()
        self.stage.nodes.remove(self)

    async def stop(self) -> None:
        """A graceful stop, as after SIGTERM, however long its drain may take."""
        with self.as_me():
            stopping = asyncio.ensure_future(self.engine.stop())
        for _ in range(100):
            await at_rest()
            if stopping.done():
                break
            await self.stage.clock.advance(1)
        await stopping
        await self.faults.ledger.close()
        self.stage.nodes.remove(self)


class Stage:
    """What outlives every process: the store, the platforms and the time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.rng = SeededRng(1)
        self.adapters: dict[AdapterId, ScriptedAdapter] = {BOT: ScriptedAdapter()}
        self.agent = ScriptedAgent()
        self.agents: dict[str, Any] = {BOT.profile: self.agent}
        self.nodes: list[Node] = []
        #: What the engine logged; filled by the fixture.
        self.logs: list[Any] = []
        self._ids = 0
        asyncio.get_running_loop().set_task_factory(_owned)

    @property
    def talk(self) -> ScriptedAdapter:
        return self.adapters[BOT]

    def platform(self, *script: Any, **how: Any) -> ScriptedAdapter:
        """Replace the platform, before the first node starts."""
        self.adapters[BOT] = ScriptedAdapter(*script, **how)
        return self.talk

    def split(self, lane: Lane, text: str) -> list[str]:
        adapter = self.adapters.get(lane.adapter, self.talk)
        return adapter.split(text)

    def new_id(self, what: str) -> str:
        self._ids += 1
        return f"{what}{self._ids}"

    def node(self, **how: Any) -> Node:
        one = Node(self, **how)
        self.nodes.append(one)
        return one

    async def start(self, **how: Any) -> Node:
        """A new process; the steady time starts anew with it."""
        if not self.nodes:
            self.clock.reboot()
        return await self.node(**how).start()

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    def ask(self, sql: str, *given: Any) -> list[tuple[Any, ...]]:
        """Rows of the store, read beside everybody."""
        connection = open_connection(self.path, read_only=True)
        try:
            return list(connection.execute(sql, given))
        finally:
            connection.close()

    def records(self, chat: str | None = None) -> list[Record]:
        """All deliveries on record, in the order in which they were written."""
        connection = open_connection(self.path, read_only=True)
        try:
            ids = [row[0] for row in connection.execute("SELECT id FROM deliveries ORDER BY seq")]
            records = [load_record(connection, one) for one in ids]
        finally:
            connection.close()
        return [record for record in records if chat is None or record.lane.chat == chat]

    def record(self, id: str = "") -> Record:
        """One delivery; the newest, if none is named."""
        records = self.records()
        return records[-1] if not id else next(record for record in records if record.id == id)

    def logged(self, action: str) -> bool:
        """Whether the engine has said this."""
        return any(entry.get("action") == action for entry in self.logs)

    def turns(self) -> list[tuple[str, str]]:
        """(state, reason) of every turn, in order."""
        return [(row[0], row[1]) for row in self.ask("SELECT state, reason FROM turns ORDER BY seq")]

    def runs(self) -> list[str | None]:
        """How every model run ended, in order."""
        return [
            row[0]
            for row in self.ask(
                "SELECT ending FROM model_runs r JOIN turns t ON t.id = r.turn"
                " ORDER BY t.seq, r.started_at, ending IS NULL"
            )
        ]

    def problems(self) -> list[str]:
        """What the store itself says is wrong with it."""
        connection = open_connection(self.path, read_only=True)
        try:
            return problems(connection, self.clock.wall)
        finally:
            connection.close()

    async def close(self) -> None:
        for node in list(self.nodes):
            await node.kill()


def _owned(loop: asyncio.AbstractEventLoop, coroutine: Any, **how: Any) -> asyncio.Task[Any]:
    """A task that is known to the process in whose name it was begun."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **how)
    node = _node.get()
    if node is not None:
        node.tasks.add(task)
        task.add_done_callback(node.tasks.discard)
    return task
