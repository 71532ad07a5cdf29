"""The agent that is a function of one's own, in the gateway's process: ``module:function``.

It gets a ``Question`` and returns a text or an ``Answer``; it may be ``async``. A plain
function runs in a thread, so that the gateway goes on meanwhile; what it does after its time
limit is its own affair, its answer is not waited for any more.

The module is looked for beside ``config.yaml`` first, then wherever Python finds modules.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from angelia.agents.base import Answer, Question
from angelia.model import limits
from angelia.model.errors import AgentError, ConfigError
from angelia.model.messages import Usage, well_formed

_NAMED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class PythonSettings(BaseModel):
    """``function``: ``module:function``. ``history_messages``: how many earlier lines of the
    conversation it sees. ``timeout_s``: the time limit of one run in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    function: str
    history_messages: int = Field(default=20, ge=0)
    timeout_s: float = Field(default=limits.turn_timeout_s, gt=0, allow_inf_nan=False)

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, function: str) -> str:
        if not _NAMED.fullmatch(function):
            raise ValueError("must be module:function, such as my_bot:answer")
        return function


class PythonAgent:
    """Answers with what a function returns. Raises ``ConfigError`` if there is no such function."""

    def __init__(self, settings: PythonSettings, folder: Path) -> None:
        self.timeout_s = settings.timeout_s
        self.history_messages = settings.history_messages
        self._name = settings.function
        self._function = _found(settings.function, folder)

    def model_for(self, attempt: int) -> str:
        """What to write down as the model of a run."""
        return self._name

    async def run(self, question: Question) -> Answer:
        """Call the function once. Raises ``AgentError`` for whatever it raises, and when it
        returns something else than a text or an ``Answer``."""
        try:
            async with asyncio.timeout(self.timeout_s):
                if inspect.iscoroutinefunction(self._function):
                    said = await self._function(question)
                else:
                    said = await asyncio.to_thread(self._function, question)
                    if inspect.isawaitable(said):
                        said = await said
        except TimeoutError:
            raise AgentError(f"{self._name} gave no answer within {self.timeout_s:g} s") from None
        except AgentError:
            raise
        except Exception as error:
            raise AgentError(f"{self._name} raised {type(error).__name__}: {error}") from error
        if isinstance(said, str):
            said = Answer(said, Usage(model=self._name))
        if not isinstance(said, Answer) or not isinstance(said.text, str):
            raise AgentError(f"{self._name} returned {type(said).__name__}, neither a text nor an Answer")
        if len(said.text) > limits.text_characters_max:
            raise AgentError(f"{self._name} returned more than {limits.text_characters_max} characters")
        return Answer(well_formed(said.text), said.usage, said.files)

    async def close(self) -> None:
        """There is nothing to free."""


def _found(named: str, folder: Path) -> Callable[[Question], Any]:
    """The function that ``module:function`` names."""
    module_name, _, path = named.partition(":")
    place = str(folder)
    if place not in sys.path:
        sys.path.insert(0, place)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = f"needs {error.name}, which is not installed" if error.name != module_name else ""
        where = f"is neither in {folder} nor installed"
        raise ConfigError(f"the agent python: the module {module_name} {missing or where}") from None
    except Exception as error:  # anything may happen in somebody's module
        why = f"cannot be imported: {type(error).__name__}: {error}"
        raise ConfigError(f"the agent python: the module {module_name} {why}") from error
    for name in path.split("."):
        found = getattr(found, name, None)
    if not callable(found):
        raise ConfigError(f"the agent python: there is no function {path} in the module {module_name}")
    function: Callable[[Question], Any] = found
    return function
