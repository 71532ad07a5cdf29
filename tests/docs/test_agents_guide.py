"""``docs/guides/agents.md``: every example of it is run as it stands there, by the agent it is for."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import aiohttp
import pytest

from angelia.agents.base import Question, ReceivedFile
from angelia.agents.command import CommandAgent, CommandSettings
from angelia.agents.http import HttpAgent, HttpSettings
from angelia.agents.python import PythonAgent, PythonSettings
from angelia.model.errors import AgentError
from angelia.model.media import Attachment, MediaKind
from angelia.model.messages import HistoryEntry
from angelia.seams.clock import SystemClock

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "agents.md").read_text(encoding="utf-8")


def example(holds: str, language: str) -> str:
    """The one block of the guide that holds these words."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)
    (found,) = [block for block in blocks if holds in block]
    return found


def question(folder: Path) -> Question:
    path = folder / "spooled"
    path.write_bytes(b"bytes")
    file = ReceivedFile(Attachment("d", MediaKind.IMAGE, "cat.png", "image/png", 5), path)
    return Question("c1", "hello", "u1", "Ada", (HistoryEntry("user", "before", 1, "t"),), files=[file])


def script(folder: Path, holds: str) -> Path:
    path = folder / "answer.sh"
    path.write_text(example(holds, "sh"))
    path.chmod(0o755)
    return path


async def test_the_program(tmp_path: Path) -> None:
    agent = CommandAgent(CommandSettings(argv=[str(script(tmp_path, "now.txt"))]))
    answer = await agent.run(question(tmp_path))
    assert answer.text.split("\n") == ["You said: hello", "You sent: 1 file(s)"]
    assert [file.shown for file in answer.files] == ["now.txt"]


async def test_the_agent_with_a_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT", shutil.which("echo") or "echo")
    agent = CommandAgent(CommandSettings(argv=[str(script(tmp_path, "--session"))]))
    assert (await agent.run(question(tmp_path))).text == "--session c1 --print hello"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The guide's service on a free port; its address."""
    monkeypatch.setenv("BOT_SECRET", "the secret of a test")
    source = tmp_path / "bot.py"
    source.write_text(example("is_ours", "python"))
    bot = runpy.run_path(str(source))["Bot"]
    monkeypatch.setattr(bot, "log_message", lambda *_: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), bot)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/answer"
    server.shutdown()
    serving.join()
    server.server_close()


def agent_of(service: str, secret: str) -> HttpAgent:
    return HttpAgent(HttpSettings.model_validate({"url": service, "secret": secret}), SystemClock())


async def test_the_service(service: str, tmp_path: Path) -> None:
    answer = await agent_of(service, "the secret of a test").run(question(tmp_path))
    assert answer.text == "hello (cat.png, 1 lines before)"


async def test_the_service_refuses_what_the_gateway_did_not_sign(service: str, tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="status 401"):
        await agent_of(service, "another secret").run(question(tmp_path))
    async with aiohttp.ClientSession() as session, session.post(service, data=b"{}") as answer:
        assert answer.status == 401


async def test_the_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_guide_bot.py").write_text(example("AttachedFile", "python"))
    agent = PythonAgent(PythonSettings(function="my_guide_bot:answer"), tmp_path)
    answer = await agent.run(question(tmp_path))
    assert answer.text == "Hello Ada!"
    (file,) = answer.files
    assert (file.source, file.shown, file.caption) == (b"cat.png (5 bytes)", "seen.txt", "What you sent")
