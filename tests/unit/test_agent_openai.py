"""The OpenAI-compatible agent, against a real server on loopback: one run is one request."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from angelia.agents.base import FallbackError, Question
from angelia.agents.openai import OpenAIAgent, OpenAISettings
from angelia.model import limits
from angelia.model.errors import AgentError, ConfigError
from angelia.model.messages import HistoryEntry, Usage

KEY = "sk-the-secret-key"
Play = Callable[[web.Request], Awaitable[web.StreamResponse]]


def completion(text: object = "an answer", **more: object) -> dict[str, object]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
    base = {"id": "x", "object": "chat.completion", "created": 1, "model": "small-2026"}
    return {**base, "choices": [choice], "usage": usage, **more}


@dataclass
class Server:
    """Plays a model server; its books are the truth about what was asked."""

    play: Play
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        self.headers.append(dict(request.headers))
        self.arrived.set()
        return await self.play(request)

    def agent(self, **settings: object) -> OpenAIAgent:
        base: dict[str, object] = {"base_url": self.url, "model": "small", "api_key": KEY}
        return OpenAIAgent(OpenAISettings.model_validate({**base, **settings}))


@asynccontextmanager
async def serving(play: Play) -> AsyncIterator[Server]:
    server = Server(play)
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()


def says(payload: object, status: int = 200, **headers: str) -> Play:
    async def play(_: web.Request) -> web.StreamResponse:
        return web.json_response(payload, status=status, headers=headers)

    return play


def writes(body: bytes, content_type: str = "application/json") -> Play:
    async def play(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=content_type)

    return play


async def cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut_in_the_body(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "5000"})
    await response.prepare(request)
    await response.write(b'{"id": "x", "choices": [')
    return await cut(request)


def question(text: str = "why?", attempt: int = 0, history: tuple[HistoryEntry, ...] = ()) -> Question:
    return Question("conversation", text, "user", history=history, attempt=attempt)


# -- what is asked and answered -----------------------------------------------------------------


async def test_one_run_is_one_request_with_its_usage() -> None:
    async with serving(says(completion())) as server:
        agent = server.agent(system="Be short.")
        answer = await agent.run(question())
        await agent.close()
    assert answer.text == "an answer"
    assert answer.usage == Usage(12, 5, "small-2026")
    (asked,) = server.asked
    assert asked["model"] == "small"
    assert asked["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "why?"},
    ]
    assert not asked.get("stream")
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


async def test_history_goes_in_order_and_within_its_bound() -> None:
    lines = tuple(
        HistoryEntry(("user", "assistant")[number % 2], f"line {number}", number, str(number))
        for number in range(6)
    )
    async with serving(says(completion())) as server:
        for bound in (20, 3, 0):
            agent = server.agent(history_messages=bound)
            assert agent.history_messages == bound
            await agent.run(
                question(history=(*lines, HistoryEntry("assistant", "", 9, "empty"))[: bound or 7])
            )
            await agent.close()
        longer = server.agent(history_messages=3)
        await longer.run(question(history=lines))
        await longer.close()
    told = [[(line["role"], line["content"]) for line in asked["messages"]] for asked in server.asked]
    whole = [(line.role, line.text) for line in lines]
    assert told[0] == [*whole, ("user", "why?")]
    assert told[1] == [*whole[:3], ("user", "why?")]
    assert told[2] == [("user", "why?")]
    assert told[3] == [*whole[3:], ("user", "why?")]


async def test_each_run_opens_a_fresh_connection() -> None:
    ports: set[int] = set()

    async def play(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.json_response(completion())

    async with serving(play) as server:
        agent = server.agent()
        for _ in range(3):
            await agent.run(question())
        await agent.close()
    assert len(ports) == 3


async def test_environment_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    monkeypatch.setenv("NO_PROXY", "")
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "from-the-environment")
    async with serving(says(completion())) as server:
        agent = server.agent()
        await agent.run(question())
        await agent.close()
    assert len(server.asked) == 1
    assert "from-the-environment" not in json.dumps(server.headers)


@pytest.mark.parametrize("text", [None, ""])
async def test_no_content_is_an_empty_answer_that_was_paid_for(text: object) -> None:
    async with serving(says(completion(text))) as server:
        agent = server.agent()
        answer = await agent.run(question())
        await agent.close()
    assert answer.text == ""
    assert answer.usage.output_tokens == 5


async def test_a_server_that_counts_nothing_or_nonsense() -> None:
    for usage in (None, {}, {"prompt_tokens": "many", "completion_tokens": -1}):
        async with serving(says(completion(usage=usage, model=None))) as server:
            agent = server.agent()
            answer = await agent.run(question())
            await agent.close()
        assert answer.usage == Usage(None, None, "small")


# -- the second run is the engine's -------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_busy_server_is_asked_once_and_the_fallback_is_the_callers(status: int) -> None:
    busy = says({"error": {"message": "too busy"}}, status, **{"Retry-After": "0", "x-should-retry": "true"})
    async with serving(busy) as server:
        agent = server.agent(fallback_model="tiny")
        with pytest.raises(FallbackError, match=str(status)):
            await agent.run(question())
        assert [asked["model"] for asked in server.asked] == ["small"]
        with pytest.raises(AgentError) as caught:
            await agent.run(question(attempt=1))
        assert not isinstance(caught.value, FallbackError)
        assert [asked["model"] for asked in server.asked] == ["small", "tiny"]
        await agent.close()
    assert (agent.model_for(0), agent.model_for(1)) == ("small", "tiny")


@pytest.mark.parametrize("status", [307, 308, 400, 401, 403, 404, 408, 409, 429, 500, 503])
async def test_every_status_costs_one_request(status: int) -> None:
    async with serving(says({"error": {"message": "no"}}, status, Location="/v1/elsewhere")) as server:
        agent = server.agent()
        with pytest.raises(AgentError, match=f"small answered with status {status}") as caught:
            await agent.run(question())
        await agent.close()
    assert not isinstance(caught.value, FallbackError)
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_an_error_of_ours_is_no_reason_for_the_fallback(status: int) -> None:
    async with serving(says({"error": {"message": "no"}}, status)) as server:
        agent = server.agent(fallback_model="tiny")
        with pytest.raises(AgentError) as caught:
            await agent.run(question())
        await agent.close()
    assert not isinstance(caught.value, FallbackError)


# -- what can go wrong --------------------------------------------------------------------------


@pytest.mark.parametrize("play", [cut, cut_in_the_body])
async def test_a_cut_connection_costs_one_request(play: Play) -> None:
    async with serving(play) as server:
        agent = server.agent(fallback_model="tiny")
        with pytest.raises(AgentError, match="could not be asked") as caught:
            await agent.run(question())
        await agent.close()
    assert not isinstance(caught.value, FallbackError)
    assert len(server.asked) == 1


async def test_a_server_that_is_not_there() -> None:
    async with serving(cut) as server:
        pass
    agent = server.agent()
    with pytest.raises(AgentError, match="could not be asked"):
        await agent.run(question())
    await agent.close()


async def test_a_server_that_says_nothing_ends_at_the_time_limit() -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with serving(hang) as server:
        agent = server.agent(timeout_s=0.3)
        with pytest.raises(AgentError, match=r"no answer within 0.3 s"):
            await agent.run(question())
        assert len(server.asked) == 1
        patient = server.agent()
        server.arrived.clear()
        task = asyncio.create_task(patient.run(question()))
        await server.arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await agent.close()
        await patient.close()


@pytest.mark.parametrize(
    "play",
    [
        writes(b"{broken"),
        writes(b""),
        writes(b"[]"),
        writes(b"null"),
        writes(b'"text"'),
        writes(b"{}"),
        writes(b"\xff\xfe\x00"),
        writes(b"<html>a proxy's page</html>", "text/html"),
        says(completion(choices=[])),
        says(completion(choices=None)),
        says(completion(choices="none")),
        says(completion(choices=[{"message": None}])),
        says(completion([{"type": "text"}])),
        says(completion(7)),
    ],
)
async def test_an_answer_that_is_no_completion_is_an_error(play: Play) -> None:
    async with serving(play) as server:
        agent = server.agent()
        with pytest.raises(AgentError, match=r"^small "):
            await agent.run(question())
        await agent.close()
    assert len(server.asked) == 1


async def test_an_endless_answer_is_an_error() -> None:
    async with serving(says(completion("x" * (limits.text_characters_max + 1)))) as server:
        agent = server.agent()
        with pytest.raises(AgentError, match="more than 1000000 characters"):
            await agent.run(question())
        await agent.close()


async def test_the_key_stands_in_no_error() -> None:
    async with serving(says({"error": {"message": f"bad key {KEY}! " + "x" * 9000}}, 401)) as server:
        agent = server.agent()
        with pytest.raises(AgentError) as caught:
            await agent.run(question())
        await agent.close()
    assert "bad key …!" in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(str(caught.value)) <= 300


# -- settings -----------------------------------------------------------------------------------


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"pip install 'angelia\[openai\]'"):
        Server(cut, url="http://127.0.0.1:9/v1").agent()


@pytest.mark.parametrize(
    "bad",
    [
        {"base_url": "localhost:8000"},
        {"base_url": "http://user:password@host/v1"},
        {"model": ""},
        {"api_key": ""},
        {"api_key": "two words"},
        {"api_key": "schlüssel"},
        {"api_key": "line\n"},
        {"history_messages": -1},
        {"max_retries": 3},
        {"timeout_s": 0},
    ],
)
def test_bad_settings_are_refused(bad: dict[str, object]) -> None:
    good: dict[str, object] = {"base_url": "http://127.0.0.1:8000/v1", "model": "m", "api_key": KEY}
    OpenAISettings.model_validate(good)
    with pytest.raises(ValidationError):
        OpenAISettings.model_validate({**good, **bad})
