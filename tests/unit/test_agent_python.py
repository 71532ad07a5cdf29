"""The agent that is a function of one's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from angelia.agents.base import Question
from angelia.agents.python import PythonAgent, PythonSettings
from angelia.model.errors import AgentError, ConfigError

BOT = """
import threading
from angelia.agents.base import Answer, AttachedFile

def plain(question):
    return f"{question.text} {threading.current_thread() is threading.main_thread()}"

async def slow(question):
    import asyncio
    await asyncio.Event().wait()

async def asynchronous(question):
    return Answer("with a file", files=(AttachedFile(b"x", "x.txt"),))

class Bot:
    async def __call__(self, question):
        return f"called with {question.text}"

    def fails(self, question):
        raise KeyError("no such key")

bot = Bot()

def nothing(question):
    return None

def surrogate(question):
    return "\\ud800"

number = 3
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    before = list(sys.path)
    (tmp_path / "bot_of_the_tests.py").write_text(BOT)
    (tmp_path / "broken_bot_of_the_tests.py").write_text("1 / 0")
    (tmp_path / "needy_bot_of_the_tests.py").write_text("import not_installed_anywhere")
    yield tmp_path
    sys.path[:] = before
    for name in [name for name in sys.modules if name.endswith("bot_of_the_tests")]:
        del sys.modules[name]


def agent(home: Path, function: str, **settings: object) -> PythonAgent:
    given = {"function": f"bot_of_the_tests:{function}", **settings}
    return PythonAgent(PythonSettings.model_validate(given), home)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("plain", "hi False"),
        ("asynchronous", "with a file"),
        ("bot", "called with hi"),
        ("surrogate", "\ufffd"),
    ],
)
async def test_what_a_function_returns_is_the_answer(home: Path, function: str, text: str) -> None:
    answer = await agent(home, function).run(Question("c", "hi", "u"))
    assert answer.text == text
    assert [file.shown for file in answer.files] == (["x.txt"] if function == "asynchronous" else [])


@pytest.mark.parametrize(
    ("function", "complaint"),
    [("bot.fails", "raised KeyError: 'no such key'"), ("nothing", "returned NoneType, neither")],
)
async def test_what_goes_wrong_in_it_is_an_agent_error(home: Path, function: str, complaint: str) -> None:
    with pytest.raises(AgentError, match=complaint):
        await agent(home, function).run(Question("c", "hi", "u"))


async def test_it_has_a_time_limit(home: Path) -> None:
    with pytest.raises(AgentError, match=r"gave no answer within 0\.1 s"):
        await agent(home, "slow", timeout_s=0.1).run(Question("c", "hi", "u"))


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        ("no_such_bot:answer", "no_such_bot is neither in .* nor installed"),
        ("bot_of_the_tests:nowhere", "no function nowhere in the module bot_of_the_tests"),
        ("bot_of_the_tests:number", "no function number"),
        ("broken_bot_of_the_tests:x", "cannot be imported: ZeroDivisionError"),
        ("needy_bot_of_the_tests:x", "needs not_installed_anywhere, which is not installed"),
    ],
)
def test_a_function_that_is_not_there_is_named(home: Path, function: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        PythonAgent(PythonSettings(function=function), home)


@pytest.mark.parametrize("function", ["", "bot", "bot:", ":answer", "../bot:answer", "bot:answer()"])
def test_what_names_no_function_is_refused(function: str) -> None:
    with pytest.raises(ValidationError):
        PythonSettings(function=function)
