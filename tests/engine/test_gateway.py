"""The gateway over real HTTP: health, several profiles on one store, and who may start at all."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import apsw
import pytest
from aiohttp import web

from angelia.gateway.config import load
from angelia.gateway.gateway import Gateway
from angelia.model.errors import ConfigError, HomeLockedError, StoreUnavailableError
from angelia.model.ids import AdapterId
from angelia.testing.manual_clock import ManualClock

PATIENCE_S = 10.0


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Look until ``condition`` holds; for what threads and sockets bring about."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


class Room:
    """The service behind the webhooks: one path for each bot. ``posts``: (path, body), in order."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, Any]]] = []
        self.status = 200
        self.url = ""
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Room:
        app = web.Application()
        app.router.add_post("/{bot}", self._take)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        self.posts.append((request.path, await request.json()))
        async with self._changed:
            self._changed.notify_all()
        return web.json_response({"id": f"r{len(self.posts)}"}, status=self.status)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: len(self.posts) >= count)

    def texts(self, bot: str) -> list[str]:
        return [body["text"] for path, body in self.posts if path == f"/{bot}"]


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with Room() as one:
        yield one


class Houses:
    """Gateways on homes; whatever still runs at the end is stopped."""

    def __init__(self, folder: Path, room: Room) -> None:
        self.folder = folder
        self.room = room
        self.running: list[Gateway] = []
        self.session = aiohttp.ClientSession()

    def home(self, name: str = "home", *, profiles: tuple[str, ...] = ("default",), more: str = "") -> Path:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        text = f'gateway: {{listen: "127.0.0.1:0"{more}}}\nprofiles:\n'
        for profile in profiles:
            text += (
                f"  {profile}:\n    agent: {{kind: echo}}\n    platforms:\n"
                f'      webhook: {{secret: "s-{profile}", allow: ["*"],'
                f' deliver_url: "{self.room.url}/{profile}"}}\n'
            )
        (home / "config.yaml").write_text(text)
        return home

    def gateway(self, home: Path, **how: Any) -> Gateway:
        one = Gateway(load(home, {}), **how)
        self.running.append(one)
        return one

    async def start(self, home: Path, **how: Any) -> Gateway:
        one = self.gateway(home, **how)
        await one.start()
        await self.until_up(one)
        return one

    async def until_up(self, gateway: Gateway) -> None:
        async def all_up() -> bool:
            return all(condition.state == "up" for condition in gateway.supervisor.conditions.values())

        await until(all_up)

    async def stop(self, gateway: Gateway) -> None:
        self.running.remove(gateway)
        await gateway.stop()

    async def health(self, gateway: Gateway) -> tuple[int, list[str]]:
        async with self.session.get(f"{gateway.address}health") as answer:
            return answer.status, (await answer.json())["reasons"]

    async def say(self, gateway: Gateway, text: str, id: str, profile: str = "default") -> int:
        body = {"id": id, "chat": "c", "user": "u", "text": text}
        headers = {"Authorization": f"Bearer s-{profile}"}
        url = f"{gateway.address}webhook/{profile}/messages"
        async with self.session.post(url, json=body, headers=headers) as answer:
            return answer.status


@pytest.fixture
async def houses(ram: Path, room: Room) -> AsyncIterator[Houses]:
    one = Houses(ram, room)
    yield one
    for gateway in list(one.running):
        await one.stop(gateway)
    await one.session.close()


async def test_e24_a_message_is_accepted_answered_and_known_the_second_time(houses: Houses) -> None:
    gateway = await houses.start(houses.home())
    assert await houses.say(gateway, "hello", "1") == 202
    await houses.room.until(1)
    assert await houses.say(gateway, "hello", "1") == 200
    assert await houses.health(gateway) == (200, [])
    assert houses.room.texts("default") == ["hello"]


async def test_m6_a_second_gateway_on_the_home_is_refused_and_harms_nothing(houses: Houses) -> None:
    home = houses.home()
    gateway = await houses.start(home)
    with pytest.raises(HomeLockedError):
        Gateway(load(home, {}))
    assert await houses.say(gateway, "hello", "1") == 202
    await houses.stop(gateway)
    await houses.start(home)  # and the lock is free again


async def test_health_is_503_while_the_gateway_starts_and_when_it_drains(houses: Houses) -> None:
    gateway = houses.gateway(houses.home())
    begun, go_on = asyncio.Event(), asyncio.Event()
    engine_start = gateway.engine.start

    async def slow_start() -> Any:
        begun.set()
        await go_on.wait()
        return await engine_start()

    gateway.engine.start = slow_start  # type: ignore[method-assign]
    starting = asyncio.ensure_future(gateway.start())
    await begun.wait()
    assert await houses.health(gateway) == (503, ["the gateway is starting", "default/webhook is connecting"])
    assert await houses.say(gateway, "too early", "1") == 503
    go_on.set()
    await starting
    await houses.until_up(gateway)
    assert (await houses.health(gateway))[0] == 200

    draining, drained = asyncio.Event(), asyncio.Event()
    engine_stop = gateway.engine.stop

    async def slow_stop() -> None:
        draining.set()
        await drained.wait()
        await engine_stop()

    gateway.engine.stop = slow_stop  # type: ignore[method-assign]
    stopping = asyncio.ensure_future(houses.stop(gateway))
    await draining.wait()
    status, reasons = await houses.health(gateway)
    assert (status, reasons[0]) == (503, "the gateway is draining")
    assert await houses.say(gateway, "too late", "2") == 503
    drained.set()
    await stopping


async def test_health_is_503_while_the_store_cannot_be_written_and_200_again(houses: Houses) -> None:
    clock = ManualClock()
    gateway = await houses.start(houses.home(), clock=clock)
    writer = gateway.ledger._writer
    opened = writer._open

    def broken(*_: object) -> Any:
        raise apsw.FullError("database or disk is full")

    writer._open = broken
    with pytest.raises(StoreUnavailableError):
        await writer.run("renew", broken)
    assert await houses.say(gateway, "hello", "1") == 503
    status, reasons = await houses.health(gateway)
    assert (status, reasons) == (503, ["the store cannot be written"])
    writer._open = opened
    assert await houses.say(gateway, "hello", "1") == 202
    assert await houses.health(gateway) == (200, [])


async def test_a_platform_with_a_bad_credential_is_a_reason_and_still_200(houses: Houses) -> None:
    houses.room.status = 401
    gateway = await houses.start(houses.home())
    assert await houses.say(gateway, "hello", "1") == 202
    await houses.room.until(1)

    async def told() -> bool:
        return (await houses.health(gateway))[1] != []

    await until(told)
    assert await houses.health(gateway) == (200, ["default/webhook is bad credential"])
    assert await houses.say(gateway, "more", "2") == 503


async def test_g4_a_reply_goes_out_through_the_bot_that_was_asked(houses: Houses) -> None:
    gateway = await houses.start(houses.home(profiles=("alice", "bob")))
    assert await houses.say(gateway, "to alice", "1", "alice") == 202
    assert await houses.say(gateway, "to bob", "1", "bob") == 202  # the same id, another bot
    await houses.room.until(2)
    assert (houses.room.texts("alice"), houses.room.texts("bob")) == (["to alice"], ["to bob"])


async def test_g4_a_row_waits_for_its_own_bot_untouched_by_the_other(houses: Houses) -> None:
    gateway = await houses.start(houses.home(profiles=("alice", "bob")))
    adapter_id = AdapterId("alice", "webhook")
    down = gateway.engine.roster.get(adapter_id)
    assert down is not None
    gateway.engine.roster.remove(adapter_id)
    assert await houses.say(gateway, "to alice", "1", "alice") == 202
    assert await houses.say(gateway, "to bob", "2", "bob") == 202
    await houses.room.until(1)
    await gateway.engine.rescuer.connected(AdapterId("bob", "webhook"))
    rows = await gateway.ledger.read(
        lambda c: list(c.execute("SELECT profile, state, tries FROM deliveries ORDER BY profile"))
    )
    assert (rows[0], houses.room.texts("bob")) == (("alice", "pending", 0), ["to bob"])
    gateway.engine.roster.install(adapter_id, down.adapter)
    await gateway.engine.rescuer.connected(adapter_id)
    await houses.room.until(2)
    assert houses.room.texts("alice") == ["to alice"]


async def test_g3_every_profile_s_rows_are_found_by_the_next_start(houses: Houses) -> None:
    home = houses.home(profiles=("alice", "bob"))
    gateway = await houses.start(home)
    for profile in ("alice", "bob"):
        gateway.engine.roster.remove(AdapterId(profile, "webhook"))
        assert await houses.say(gateway, f"to {profile}", "1", profile) == 202

    def owed(connection: Any) -> bool:
        return bool(connection.execute("SELECT count(*) = 2 FROM deliveries").fetchone()[0])

    await until(lambda: gateway.ledger.read(owed))
    await houses.stop(gateway)
    await houses.start(home)
    await houses.room.until(2)
    assert (houses.room.texts("alice"), houses.room.texts("bob")) == (["to alice"], ["to bob"])


async def test_e13_one_id_at_two_bots_is_answered_by_each_and_its_replay_by_none(houses: Houses) -> None:
    gateway = await houses.start(houses.home(profiles=("alice", "bob")))
    for expected in (202, 200):
        assert await houses.say(gateway, "both", "M", "alice") == expected
        assert await houses.say(gateway, "both", "M", "bob") == expected
    await houses.room.until(2)
    assert (houses.room.texts("alice"), houses.room.texts("bob")) == (["both"], ["both"])


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_printed_address_answers_200(houses: Houses, method: str) -> None:
    home = houses.home()
    (home / "config.yaml").write_text(
        "gateway: {listen: '127.0.0.1:0'}\nprofiles: {default: {agent: {kind: echo}, platforms: {web: {}}}}\n"
    )
    gateway = await houses.start(home)
    async with houses.session.request(method, gateway.address) as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")


async def test_an_address_that_is_taken_is_named_and_leaves_the_home_free(houses: Houses) -> None:
    home = houses.home()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = (home / "config.yaml").read_text()
        (home / "config.yaml").write_text(config.replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port} is in use"):
            await Gateway(load(home, {})).start()
        one = houses.gateway(home)  # the lock and the store were given back
        await one.start(any_port=True)
        assert f":{port}/" not in one.address
        await houses.until_up(one)
        assert (await houses.health(one))[0] == 200


async def test_switched_off_the_gateway_still_answers_and_records_no_delivery(houses: Houses) -> None:
    gateway = await houses.start(houses.home(more=", delivery_ledger: false"))
    assert await houses.say(gateway, "hello", "1") == 202
    await houses.room.until(1)
    count = await gateway.ledger.read(lambda c: c.execute("SELECT count(*) FROM deliveries").fetchone())
    assert (count, houses.room.texts("default")) == ((0,), ["hello"])
