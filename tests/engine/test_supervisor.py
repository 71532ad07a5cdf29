"""Adapters that are lost, late or refused: replaced as a whole, and no business of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.engine.stage import BOT, Node, Stage

from angelia.gateway.access import Access
from angelia.gateway.config import Config, Listen
from angelia.gateway.server import Server
from angelia.gateway.supervisor import Supervisor
from angelia.model.errors import AdapterDownError, BadCredentialError, StoreUnavailableError
from angelia.model.ids import AdapterId
from angelia.model.messages import Inbound, Reception
from angelia.model.outcomes import BadCredential, NotSent, Outcome
from angelia.testing.fakes import Arrives, Held, ScriptedAdapter
from angelia.testing.manual_clock import at_rest

OTHER = AdapterId("bot", "other")


class Everybody(Access):
    """Who may talk to the bot is not what these tests are about."""

    def __init__(self) -> None:
        super().__init__(Config(Path(), Listen("127.0.0.1", 0), True, {}, ()))

    def allows(self, adapter: AdapterId, user: str) -> bool:
        return True


class House:
    """A supervisor over scripted adapters. ``built`` holds every instance of each, in order."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.built: dict[AdapterId, list[ScriptedAdapter]] = {BOT: [], OTHER: []}
        self.next: dict[AdapterId, list[ScriptedAdapter]] = {BOT: [], OTHER: []}
        self.node: Node
        self.supervisor: Supervisor

    def _build(self, adapter_id: AdapterId) -> ScriptedAdapter:
        ready = self.next[adapter_id]
        adapter = ready.pop(0) if ready else ScriptedAdapter()
        self.built[adapter_id].append(adapter)
        return adapter

    async def start(self) -> None:
        self.node = await self.stage.node().start(connect=False)
        builders: Any = {one: (lambda one=one: self._build(one)) for one in self.built}

        async def health(_request: web.Request) -> web.Response:
            return web.Response()

        server = Server("127.0.0.1", 0, health)
        self.supervisor = Supervisor(self.node.engine, server, Everybody(), builders)
        with self.node.as_me():
            self.supervisor.start()
            await at_rest()

    def state(self, adapter_id: AdapterId = BOT) -> str:
        return self.supervisor.conditions[adapter_id].state

    def talk(self, number: int = -1) -> ScriptedAdapter:
        return self.built[BOT][number]

    async def say(self, text: str, id: str, through: int = -1, adapter: AdapterId = BOT) -> Reception:
        """A message comes in through one instance of an adapter."""
        host = self.built[adapter][through].host
        assert host is not None
        with self.node.as_me():
            reception = await host.receive(Inbound(*adapter, "c", id, "user", text))
            await at_rest()
        return reception

    async def lose(self) -> None:
        host = self.talk().host
        assert host is not None
        host.lost("the socket broke")
        await at_rest()


@pytest.fixture
async def house(stage: Stage) -> AsyncIterator[House]:
    one = House(stage)
    yield one
    if hasattr(one, "supervisor"):
        one.supervisor._stopping.set()
        await at_rest()


async def test_all_adapters_are_connected_side_by_side(house: House) -> None:
    hang = asyncio.Event()

    class Slow(ScriptedAdapter):
        async def start(self, host: Any) -> None:
            await hang.wait()
            await super().start(host)

    house.next[BOT] = [Slow()]
    await house.start()
    assert (house.state(), house.state(OTHER)) == ("connecting", "up")
    await house.say("hello", "1", adapter=OTHER)
    assert house.built[OTHER][0].texts == ["You said: hello"]
    hang.set()
    await at_rest()
    assert house.state() == "up"


async def test_b8_an_adapter_that_is_down_is_tried_again_with_growing_pauses(house: House) -> None:
    for _ in range(5):
        late = ScriptedAdapter()
        late.start_errors = [AdapterDownError("no route")]
        house.next[BOT].append(late)
    await house.start()
    id = await house.node.owe("text")
    assert house.state() == "down"
    await house.stage.advance(1 + 2 + 4 + 8)
    assert len(house.built[BOT]) == 5
    await house.stage.advance(16)
    assert house.state() == "up"
    assert house.talk().texts == ["text"]
    assert len(house.stage.record(id).attempts) == 1
    assert len(house.built[OTHER]) == 1  # nobody else noticed


async def test_e2_the_seen_ids_survive_a_replaced_adapter(house: House) -> None:
    await house.start()
    house.stage.agent.gate.clear()
    await house.say("slow question", "U")
    await house.lose()
    await house.stage.advance(2)
    assert len(house.built[BOT]) == 2
    assert await house.say("slow question", "U") is Reception.DUPLICATE
    house.stage.agent.gate.set()
    await house.stage.advance(2)
    assert house.stage.agent.runs == 1
    assert house.talk().texts == ["You said: slow question"]


async def test_owed_rows_survive_a_replaced_adapter_and_go_through_the_new_one(house: House) -> None:
    house.next[BOT] = [ScriptedAdapter(otherwise=NotSent("half dead"))]
    await house.start()
    id = await house.node.owe("text")
    await house.stage.advance(20)
    assert house.stage.record(id).state == "pending"
    await house.lose()
    await house.stage.advance(2)
    assert house.talk().texts == ["text"]


async def test_e20_events_of_a_closed_generation_are_ignored(house: House) -> None:
    await house.start()
    for _ in range(3):
        await house.lose()
        await house.stage.advance(10)
    assert len(house.built[BOT]) == 4
    for old in range(3):
        with pytest.raises(StoreUnavailableError):
            await house.say("hello", "M", through=old)
    assert await house.say("hello", "M") is Reception.ACCEPTED
    assert house.stage.agent.runs == 1
    assert [adapter.stops for adapter in house.built[BOT]] == [1, 1, 1, 0]
    assert [len(adapter.calls) for adapter in house.built[BOT]] == [0, 0, 0, 1]


async def test_e20_a_closed_generation_that_cries_for_help_harms_nobody(house: House) -> None:
    await house.start()
    first = house.talk().host
    assert first is not None
    await house.lose()
    await house.stage.advance(2)
    first.lost("again")
    first.connected()
    await house.stage.advance(5)
    assert (len(house.built[BOT]), house.state()) == (2, "up")


async def test_owed_rows_are_queued_before_the_inbound_opens(house: House) -> None:
    free = asyncio.Event()
    house.next[BOT] = [ScriptedAdapter(Held(free))]
    node = await house.stage.node().start(connect=False)
    await node.owe("owed")
    await node.stop()
    await house.start()
    assert len(house.talk().calls) == 1
    assert await house.say("hello", "1") is Reception.ACCEPTED  # and does not wait for its send
    free.set()
    await house.stage.advance(2)
    assert house.talk().texts == ["owed", "You said: hello"]


async def test_a_bad_credential_at_start_stops_its_adapter_alone(house: House) -> None:
    bad = ScriptedAdapter()
    bad.start_errors = [BadCredentialError("401")]
    house.next[BOT] = [bad]
    await house.start()
    await house.stage.advance(100)
    assert (house.state(), house.state(OTHER), len(house.built[BOT])) == ("bad credential", "up", 1)
    assert house.supervisor.conditions[BOT].reason == "401"


async def test_a_bad_credential_while_running_stops_the_adapter_in_both_directions(house: House) -> None:
    house.next[BOT] = [ScriptedAdapter(BadCredential("revoked"))]
    await house.start()
    id = await house.node.owe("text")
    await house.stage.advance(1)
    assert (house.state(), house.talk().stops) == ("bad credential", 1)
    with pytest.raises(StoreUnavailableError):
        await house.say("hello", "1")
    await house.stage.clock.jump(120)  # nor does a suspended machine bring it back
    await house.stage.advance(60)
    assert (house.state(), len(house.built[BOT])) == ("bad credential", 1)
    assert (house.state(OTHER), house.stage.record(id).state) == ("up", "failed")


async def test_a_bad_credential_learned_while_connecting_does_not_come_up(house: House) -> None:
    house.next[BOT] = [ScriptedAdapter(BadCredential("revoked"))]
    node = await house.stage.node().start(connect=False)
    await node.owe("owed")
    await node.kill()
    await house.start()
    assert (house.state(), house.talk().stops) == ("bad credential", 1)


async def test_l3_a_gap_after_a_suspend_rebuilds_every_adapter(house: House) -> None:
    await house.start()
    await house.stage.clock.jump(12 * 3600)
    await house.stage.advance(10)
    assert [len(house.built[one]) for one in (BOT, OTHER)] == [2, 2]
    assert (house.state(), house.state(OTHER)) == ("up", "up")
    await house.stage.advance(60)
    assert len(house.built[BOT]) == 2


async def test_a_send_into_an_adapter_that_is_being_replaced_is_repeated_through_the_new_one(
    house: House,
) -> None:
    free = asyncio.Event()
    house.next[BOT] = [ScriptedAdapter(Held(free, NotSent("closed")))]
    await house.start()
    await house.node.owe("text")
    await house.lose()
    await house.stage.advance(2)
    free.set()
    await house.stage.advance(3)
    assert house.talk().texts == ["text"]


async def test_k1_logins_stay_few_when_every_connection_breaks(house: House) -> None:
    await house.start()
    for _ in range(200):
        if house.state() == "up":
            await house.lose()
        await house.stage.clock.jump(10)
    assert len(house.built[BOT]) < 20


async def test_closed_doors_take_nothing_while_what_runs_is_answered(house: House) -> None:
    await house.start()
    house.stage.agent.gate.clear()
    await house.say("hello", "1")
    house.supervisor.close_doors()
    with pytest.raises(StoreUnavailableError):
        await house.say("too late", "2")
    house.stage.agent.gate.set()
    await house.stage.advance(1)
    assert house.talk().texts == ["You said: hello"]


async def test_an_adapter_whose_stop_fails_is_replaced_all_the_same(house: House) -> None:
    class Sticky(ScriptedAdapter):
        async def stop(self) -> None:
            await super().stop()
            raise OSError("cannot close")

    def lost(_message: object) -> Outcome | Arrives:
        return NotSent("gone")

    house.next[BOT] = [Sticky(otherwise=lost)]
    await house.start()
    await house.node.owe("text")
    await house.lose()
    await house.stage.advance(3)
    assert (house.state(), house.talk().texts) == ("up", ["text"])
