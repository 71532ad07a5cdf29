"""The OpenAI-compatible agent and what is not text: pictures, voice, files, and a budget for history.

The servers are real ones on loopback; their books are the truth about what was asked and paid for.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from angelia.agents import openai_files
from angelia.agents.base import Answer, FallbackError, Question, ReceivedFile
from angelia.agents.openai import OpenAIAgent, OpenAISettings
from angelia.agents.openai_messages import heard_line, tokens_in, told
from angelia.model import notices
from angelia.model.errors import AgentError
from angelia.model.media import Attachment, kind_of
from angelia.model.messages import HistoryEntry, Usage

PNG = b"\x89PNG\r\n\x1a\n rest"
OGG = b"OggS rest"
KEY = "sk-transcription-secret"


class Servers:
    """A model server and a transcription server in one. ``asked`` and ``heard`` are their books."""

    def __init__(self) -> None:
        self.asked: list[list[dict[str, Any]]] = []
        self.heard: list[dict[str, Any]] = []
        self.answer: object = "an answer"
        self.status = 200
        self.words: object = {"text": " good morning "}
        self.words_status = 200
        self.hold: asyncio.Event | None = None
        self.url = ""

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((await request.json())["messages"])
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": self.answer},
        }
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return web.json_response(body, status=self.status)

    async def transcribe(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        about = {
            "name": file.filename,
            "mime": file.content_type,
            "data": file.file.read(),
            "model": form["model"],
        }
        self.heard.append({**about, "key": request.headers["Authorization"]})
        if self.hold is not None:
            await self.hold.wait()
        if isinstance(self.words, str):
            return web.Response(text=self.words, status=self.words_status, content_type="text/plain")
        return web.json_response(self.words, status=self.words_status)

    def agent(self, hears: bool = False, **settings: object) -> OpenAIAgent:
        given: dict[str, object] = {"base_url": self.url, "model": "m", "api_key": "k", **settings}
        if hears:
            given["transcription"] = {"base_url": self.url, "model": "whisper", "api_key": KEY}
        return OpenAIAgent(OpenAISettings.model_validate(given))

    async def ask(self, question: Question, hears: bool = False, **settings: object) -> Answer:
        agent = self.agent(hears, **settings)
        try:
            return await agent.run(question)
        finally:
            await agent.close()


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with _serving() as servers:
        yield servers


@asynccontextmanager
async def _serving() -> AsyncIterator[Servers]:
    servers = Servers()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", servers.complete)
    app.router.add_post("/v1/audio/transcriptions", servers.transcribe)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    servers.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield servers
    finally:
        await runner.cleanup()


def came(folder: Path, name: str, mime: str, data: bytes) -> ReceivedFile:
    path = folder / f"spooled {name}"
    path.write_bytes(data)
    return ReceivedFile(Attachment(f"digest of {name}", kind_of(mime), name, mime, len(data)), path)


def question(
    text: str, *files: ReceivedFile, attempt: int = 0, history: tuple[HistoryEntry, ...] = ()
) -> Question:
    return Question("c", text, "u", history=history, attempt=attempt, files=files)


# -- pictures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
        (b"GIF89a", "image/gif"),
    ],
)
async def test_a_picture_reaches_a_model_that_can_see(
    servers: Servers, tmp_path: Path, data: bytes, mime: str
) -> None:
    file = came(tmp_path, "cat", "image/png", data)  # its content says what it is, not its name
    answer = await servers.ask(question("what is this?", file), vision=True)
    assert answer.text == "an answer"
    url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    assert servers.asked[0][-1]["content"] == [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]


async def test_a_picture_alone_is_a_question(servers: Servers, tmp_path: Path) -> None:
    await servers.ask(question("", came(tmp_path, "cat.png", "image/png", PNG)), vision=True)
    assert [part["type"] for part in servers.asked[0][-1]["content"]] == ["image_url"]


async def test_a_model_that_cannot_see_is_told_so(servers: Servers, tmp_path: Path) -> None:
    await servers.ask(question("nice?", came(tmp_path, "cat.png", "image/png", PNG)))
    content = servers.asked[0][-1]["content"]
    assert content == "nice?\n[The person sent a picture, cat.png, which you cannot see. Tell them so.]"


@pytest.mark.parametrize("trouble", ["no picture", "gone", "too large", "too many", "too much"])
async def test_a_picture_that_cannot_be_shown_fails_nothing(
    servers: Servers, tmp_path: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [
        came(tmp_path, f"{n}.png", "image/png", b"MZ" if trouble == "no picture" and n else PNG)
        for n in (0, 1)
    ]
    if trouble == "gone":
        files[1].path.unlink()
    bounds = {
        "too large": ("picture_bytes_max", 1),
        "too many": ("pictures_max", 1),
        "too much": ("pictures_bytes_max", 20),
    }
    if trouble in bounds:
        monkeypatch.setattr(openai_files, *bounds[trouble])
    answer = await servers.ask(question("look", *files), vision=True)
    assert answer.text == "an answer"
    said = json.dumps(servers.asked[0][-1]["content"])
    assert "1.png, which is too large or broken" in said
    assert ("0.png" in said) is (trouble == "too large")


async def test_another_file_is_named_to_the_model(servers: Servers, tmp_path: Path) -> None:
    await servers.ask(question("read it", came(tmp_path, "a.pdf", "application/pdf", b"%PDF")), vision=True)
    assert "[The person sent a file, a.pdf (application/pdf, 4 bytes)" in servers.asked[0][-1]["content"]


# -- voice ------------------------------------------------------------------------------------


async def test_voice_becomes_the_persons_words_and_is_on_record(servers: Servers, tmp_path: Path) -> None:
    voice = came(tmp_path, "voice.oga", "audio/ogg", OGG)
    answer = await servers.ask(question("", voice), hears=True)
    assert servers.asked[0][-1] == {"role": "user", "content": "good morning"}
    assert answer.text == "🎤 “good morning”\n\nan answer"
    (heard,) = servers.heard
    assert (heard["name"], heard["mime"], heard["data"]) == ("voice.ogg", "audio/ogg", OGG)
    assert (heard["model"], heard["key"]) == ("whisper", f"Bearer {KEY}")


async def test_what_was_heard_is_the_persons_in_the_next_turn(servers: Servers) -> None:
    lines = (
        HistoryEntry("user", "", 1, "a"),
        HistoryEntry("assistant", heard_line("good\nmorning ”") + "\n\nHello!\n\n🎤 “no”", 2, "b"),
        HistoryEntry("user", "and this", 3, "c"),
        HistoryEntry("assistant", heard_line("also this"), 4, "d"),
        HistoryEntry("user", "", 5, "e"),
        HistoryEntry("assistant", "A nice picture.", 6, "f"),
    )
    await servers.ask(question("go on", history=lines))
    assert [(line["role"], line["content"]) for line in servers.asked[0]] == [
        ("user", "good morning ”"),
        ("assistant", "Hello!\n\n🎤 “no”"),
        ("user", "and this\nalso this"),
        ("user", "[A file without a text.]"),
        ("assistant", "A nice picture."),
        ("user", "go on"),
    ]


async def test_voice_without_a_server_gets_an_honest_answer_and_no_run(
    servers: Servers, tmp_path: Path
) -> None:
    answer = await servers.ask(question(" ", came(tmp_path, "v.ogg", "audio/ogg", OGG)))
    assert (answer.text, answer.usage) == (notices.CANNOT_LISTEN, Usage(0, 0, "m"))
    assert (servers.asked, servers.heard) == ([], [])


async def test_voice_beside_words_is_told_to_the_model(servers: Servers, tmp_path: Path) -> None:
    answer = await servers.ask(question("listen", came(tmp_path, "v.ogg", "audio/ogg", OGG)))
    assert answer.text == "an answer"
    assert "listen\n[The person sent a sound or a voice message, v.ogg" in servers.asked[0][-1]["content"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, {}),
        (401, {"error": KEY}),
        (200, {"text": ""}),
        (200, {"text": 5}),
        (200, {}),
        (200, []),
        (302, {}),
    ],
)
async def test_voice_that_is_not_understood_is_asked_for_once(
    servers: Servers, tmp_path: Path, status: int, words: object, capsys: pytest.CaptureFixture[str]
) -> None:
    servers.words, servers.words_status = words, status
    answer = await servers.ask(question("", came(tmp_path, "v.ogg", "audio/ogg", OGG)), hears=True)
    assert (answer.text, len(servers.heard), servers.asked) == (notices.NOT_UNDERSTOOD, 1, [])
    assert KEY not in capsys.readouterr().out


async def test_a_transcription_server_may_answer_with_plain_text(servers: Servers, tmp_path: Path) -> None:
    servers.words = "just words"
    answer = await servers.ask(question("", came(tmp_path, "v.ogg", "audio/ogg", OGG)), hears=True)
    assert answer.text.startswith("🎤 “just words”")


async def test_a_transcription_server_that_is_silent_is_given_up(servers: Servers, tmp_path: Path) -> None:
    servers.hold = asyncio.Event()
    transcription = {"base_url": servers.url, "model": "w", "timeout_s": 0.2}
    voice = came(tmp_path, "v.ogg", "audio/ogg", OGG)
    answer = await servers.ask(question("", voice), transcription=transcription)
    servers.hold.set()
    assert (answer.text, len(servers.heard)) == (notices.NOT_UNDERSTOOD, 1)


async def test_the_second_run_does_not_pay_for_the_words_again(servers: Servers, tmp_path: Path) -> None:
    voice = came(tmp_path, "v.ogg", "audio/ogg", OGG)
    agent = servers.agent(hears=True, fallback_model="other")
    servers.status = 500
    with pytest.raises(FallbackError):
        await agent.run(question("", voice))
    servers.status = 200
    answer = await agent.run(question("", voice, attempt=1))
    assert (answer.text, len(servers.heard)) == ("🎤 “good morning”\n\nan answer", 1)
    servers.words_status, other = 500, came(tmp_path, "w.ogg", "audio/ogg", OGG)
    for attempt in (0, 1):
        await agent.run(question("hear", other, attempt=attempt))
    assert len(servers.heard) == 2, "nor for another failure"
    await agent.run(question("hear", other))
    assert len(servers.heard) == 3, "but the same voice in a new message is listened to"
    await agent.close()


async def test_an_empty_answer_stays_an_agent_error(servers: Servers, tmp_path: Path) -> None:
    servers.answer = None
    answer = await servers.ask(question("", came(tmp_path, "v.ogg", "audio/ogg", OGG)), hears=True)
    assert answer.text == ""


async def test_the_time_limit_of_a_run_holds_for_both_requests(servers: Servers, tmp_path: Path) -> None:
    servers.hold = asyncio.Event()
    voice = came(tmp_path, "v.ogg", "audio/ogg", OGG)
    with pytest.raises(AgentError, match=r"no answer within 0\.2 s"):
        await servers.ask(question("", voice), hears=True, timeout_s=0.2)
    servers.hold.set()


# -- history ----------------------------------------------------------------------------------


def lines(*texts: str) -> tuple[HistoryEntry, ...]:
    return tuple(HistoryEntry(("user", "assistant")[n % 2], text, n, str(n)) for n, text in enumerate(texts))


def kept(history: tuple[HistoryEntry, ...], tokens: int, most: int = 20) -> list[object]:
    return [line.get("content") for line in told(history, most, tokens)]


def test_the_estimate_is_by_bytes() -> None:
    assert [tokens_in(text) for text in ("", "abc", "abcd", "雪", "\ud800")] == [4, 5, 6, 5, 5]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (20, ["aaa", "bbb", "ccc", "ddd"]),  # each is five
        (19, ["ccc", "ddd"]),  # what is left does not begin with an answer
        (10, ["ccc", "ddd"]),
        (9, []),
        (4, []),
        (0, []),
    ],
)
def test_history_is_cut_from_the_oldest(tokens: int, expected: list[str]) -> None:
    assert kept(lines("aaa", "bbb", "ccc", "ddd"), tokens) == expected


def test_a_line_beyond_the_budget_ends_the_history() -> None:
    assert kept(lines("a", "b", "c" * 1000, "d", "e", "f"), 100) == ["e", "f"]
    assert kept(lines("a", "b" * 1000), 100) == []


async def test_a_history_of_any_length_never_fails(servers: Servers) -> None:
    long = lines(*("x" * 900_000 for _ in range(6)))
    answer = await servers.ask(question("q" * 100_000, history=long))
    assert answer.text == "an answer"
    assert [len(line["content"]) for line in servers.asked[0]] == [100_000], "the question is never cut"


# -- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"history_tokens": -1},
        {"transcription": {}},
        {"transcription": {"base_url": "x", "model": "m"}},
        {"transcription": {"base_url": "http://x/v1", "model": ""}},
        {"transcription": {"base_url": "http://x/v1", "model": "m", "api_key": "a b"}},
        {"transcription": {"base_url": "http://x/v1", "model": "m", "retries": 3}},
        {"transcription": {"base_url": "http://x/v1", "model": "m", "timeout_s": 0}},
    ],
    ids=str,
)
def test_settings_that_cannot_be_meant(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OpenAISettings.model_validate({"base_url": "http://x/v1", "model": "m", "api_key": "k", **wrong})
