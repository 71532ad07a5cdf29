"""Voice from end to end: a person speaks, a server hears, the model answers; and the next turn still
knows what was said, because it is on record.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.acceptance.daemon import Home, receiver, running
from tests.acceptance.record import all_delivered

from angelia.model import notices

VOICE = {"name": "voice.oga", "mime": "audio/ogg", "data": base64.b64encode(b"OggS and more").decode()}


class Models:
    """A model server and a transcription server in one; its books are what was paid for."""

    def __init__(self) -> None:
        self.asked: list[list[dict[str, Any]]] = []
        self.heard = 0
        self.deaf = False
        self.url = ""

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((await request.json())["messages"])
        message = {"role": "assistant", "content": f"answer {len(self.asked)}"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return web.json_response(
            {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        )

    async def transcribe(self, request: web.Request) -> web.StreamResponse:
        self.heard += 1
        await request.post()
        return web.json_response({"text": "is it raining?"}, status=500 if self.deaf else 200)


@asynccontextmanager
async def modelling() -> AsyncIterator[Models]:
    models = Models()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", models.complete)
    app.router.add_post("/v1/audio/transcriptions", models.transcribe)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    models.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield models
    finally:
        await runner.cleanup()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def agent(models: Models) -> dict[str, object]:
    transcription = {"base_url": models.url, "model": "whisper"}
    return {
        "kind": "openai",
        "base_url": models.url,
        "model": "m",
        "api_key": "k",
        "transcription": transcription,
    }


async def test_what_a_person_said_is_on_record(home: Home) -> None:
    async with modelling() as models, receiver() as service:
        home.configure(service.url, agent=agent(models))
        async with running(home) as first:
            assert await first.say("", "m1", attachments=[VOICE]) == 202
            await service.wait(1)
            await all_delivered(home)
        async with running(home) as second:  # nothing of it is in anybody's memory now
            assert await second.say("and tomorrow?", "m2") == 202
            await service.wait(2)
            await all_delivered(home, 2)
    assert service.texts == ["🎤 “is it raining?”\n\nanswer 1", "answer 2"]
    assert models.heard == 1
    assert [(line["role"], line["content"]) for line in models.asked[1]] == [
        ("user", "is it raining?"),
        ("assistant", "answer 1"),
        ("user", "and tomorrow?"),
    ]


async def test_what_was_not_understood_is_said_and_costs_no_run_of_the_model(home: Home) -> None:
    async with modelling() as models, receiver() as service:
        models.deaf = True
        home.configure(service.url, agent=agent(models))
        async with running(home) as gateway:
            assert await gateway.say("", "m1", attachments=[VOICE]) == 202
            await service.wait(1)
            await all_delivered(home)
    assert service.texts == [notices.NOT_UNDERSTOOD]
    assert (models.heard, models.asked) == (1, [])
