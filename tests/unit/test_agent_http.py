"""The agent behind HTTP, against a real service on loopback: one run is one signed request."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError
from standardwebhooks import Webhook

from angelia.agents.base import Answer, Question, ReceivedFile
from angelia.agents.http import HttpAgent, HttpSettings
from angelia.model.errors import AgentError
from angelia.model.media import Attachment, MediaKind
from angelia.model.messages import HistoryEntry, Usage
from angelia.seams.clock import SystemClock

SECRET = "a-secret-of-the-tests"
Play = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Service:
    """What it was asked: bodies and headers."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.asked: list[dict[str, Any]] = []
        self.verified: list[object] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(json.loads(body))
        self.verified.append(Webhook(SECRET.encode()).verify(body, dict(request.headers)))
        return await self.play(request)

    async def ask(self, question: Question, **settings: object) -> Answer:
        given = {"url": self.url, "secret": SECRET, **settings}
        agent = HttpAgent(HttpSettings.model_validate(given), SystemClock())
        try:
            return await agent.run(question)
        finally:
            await agent.close()


@asynccontextmanager
async def serving(play: Play) -> AsyncIterator[Service]:
    service = Service(play)
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", service.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/bot?token=hidden"
    try:
        yield service
    finally:
        await runner.cleanup()


def says(body: object, status: int = 200) -> Play:
    async def play(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body if isinstance(body, str) else json.dumps(body), status=status)

    return play


HELLO = Question("c1", "hello \ud800", "u1", "Ann", (HistoryEntry("assistant", "hi", 1, "x"),))


async def test_a_question_goes_out_signed_and_the_answer_comes_with_its_usage() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4, "model": "m"}
    async with serving(says({"text": "an answer", "usage": usage})) as service:
        answer = await service.ask(HELLO)
    assert (answer.text, answer.usage, answer.files) == ("an answer", Usage(3, 4, "m"), ())
    assert len(service.verified) == 1
    assert service.asked == [
        {
            "conversation": "c1",
            "user": "u1",
            "user_name": "Ann",
            "text": "hello \ufffd",
            "history": [{"role": "assistant", "text": "hi"}],
            "files": [],
        }
    ]


async def test_files_go_in_and_come_out(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"bytes")
    there = Attachment("a", MediaKind.IMAGE, "x.png", "image/png", 5)
    large = Attachment("b", MediaKind.FILE, "y.bin", "", 21 * 1024 * 1024)
    files = [
        ReceivedFile(one, tmp_path / name) for one, name in ((there, "there"), (large, "y"), (there, "gone"))
    ]
    sent = {"data": base64.b64encode(b"out").decode(), "name": "o.txt", "caption": "see"}
    async with serving(says({"files": [sent]})) as service:
        answer = await service.ask(Question("c", "look", "u", files=files))
    told = service.asked[0]["files"]
    assert [one.get("data") for one in told] == [base64.b64encode(b"bytes").decode(), None, None]
    assert told[0] | {"data": ""} == {
        "name": "x.png",
        "mime": "image/png",
        "kind": "image",
        "size": 5,
        "data": "",
    }
    assert [(one.source, one.shown, one.caption) for one in answer.files] == [(b"out", "o.txt", "see")]
    assert answer.text == ""


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("no json", "it is no JSON"),
        ([], "it is no JSON object"),
        ({"text": 3}, "text is no string"),
        ({"text": "x" * 1_000_001}, "text is longer than"),
        ({"files": 1}, "files is no list"),
        ({"files": [{}]}, "a file is no object with data"),
        ({"files": [{"data": "?"}]}, "not base64"),
        ({"files": [{"data": "", "name": 1}]}, "are strings"),
    ],
)
async def test_what_is_no_answer_is_an_error_that_says_why(body: object, complaint: str) -> None:
    async with serving(says(body)) as service:
        with pytest.raises(AgentError, match=complaint):
            await service.ask(HELLO)
    assert len(service.asked) == 1


@pytest.mark.parametrize("status", [201, 302, 400, 429, 500, 503])
async def test_another_status_is_an_error_and_nothing_is_repeated(status: int) -> None:
    async def play(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="no\nluck", headers={"Location": service.url})

    async with serving(play) as service:
        with pytest.raises(AgentError, match=f"answered with status {status}: no luck") as failed:
            await service.ask(HELLO)
    assert len(service.asked) == 1
    assert "hidden" not in str(failed.value)


async def test_a_cut_connection_and_nobody_there_are_errors_after_one_call() -> None:
    async def play(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(play) as service:
        with pytest.raises(AgentError, match="could not be asked"):
            await service.ask(HELLO)
    assert len(service.asked) == 1
    with pytest.raises(AgentError, match="could not be asked"):
        await service.ask(HELLO)


async def test_a_service_that_is_silent_ends_at_the_time_limit() -> None:
    async def play(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with serving(play) as service:
        with pytest.raises(AgentError, match=r"gave no answer within 0\.2 s"):
            await service.ask(HELLO, timeout_s=0.2)
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    "settings",
    [{"url": "ftp://x/"}, {"url": "http:///x"}, {"secret": " "}, {"secret": "whsec_?"}, {"more": 1}],
)
def test_settings_that_cannot_be_used_are_refused_without_a_value(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as refused:
        HttpSettings.model_validate({"url": "http://x/", "secret": SECRET, **settings})
    assert SECRET not in str(refused.value)
