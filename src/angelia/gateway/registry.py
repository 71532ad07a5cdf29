"""The one list of platforms and agents that exist. Nobody else knows a concrete name.

Each entry names the settings its section of ``config.yaml`` is checked against and how the
thing is built. Both are imported when they are first asked for, so a gateway that does not
use a platform does not load its libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from angelia.model.ids import AdapterId

if TYPE_CHECKING:
    from angelia.agents.base import Agent
    from angelia.platforms.base import Adapter
    from angelia.seams.clock import Clock
    from angelia.seams.rng import Rng


@dataclass(frozen=True, slots=True)
class Context:
    """What the gateway gives to everything that it builds."""

    clock: Clock
    rng: Rng
    listen_host: str
    home: Path


@dataclass(frozen=True, slots=True)
class PlatformKind:
    """A platform that can be configured.

    ``guarded``: only users named in ``allow`` are listened to. Otherwise who may reach it is
    the platform's own matter, and ``allow`` is no key of its section.
    ``password_key``: the setting without which it must not listen beyond this machine.
    ``extra``: the optional dependency it needs, and the module that shows it is there.
    """

    settings: Callable[[], type[BaseModel]]
    build: Callable[[AdapterId, Any, Context], Adapter]
    guarded: bool = True
    password_key: str = ""
    extra: str = ""


@dataclass(frozen=True, slots=True)
class AgentKind:
    """An agent that can be configured. ``extra`` as for a platform."""

    settings: Callable[[], type[BaseModel]]
    build: Callable[[Any, Context], Agent]
    extra: str = ""


def missing_extra(kind: PlatformKind | AgentKind) -> str:
    """The extra that must be installed before ``kind`` can be used; "" if nothing is missing."""
    return kind.extra if kind.extra and find_spec(kind.extra) is None else ""


def _web_settings() -> type[BaseModel]:
    from angelia.platforms.web import WebSettings

    return WebSettings


def _web(adapter: AdapterId, settings: Any, context: Context) -> Adapter:
    from angelia.platforms.web import WebAdapter

    return WebAdapter(adapter, settings, context.clock, context.rng, listen_host=context.listen_host)


def _webhook_settings() -> type[BaseModel]:
    from angelia.platforms.webhook import WebhookSettings

    return WebhookSettings


def _webhook(adapter: AdapterId, settings: Any, context: Context) -> Adapter:
    from angelia.platforms.webhook import WebhookAdapter

    return WebhookAdapter(adapter, settings, context.clock)


def _telegram_settings() -> type[BaseModel]:
    from angelia.platforms.telegram.settings import TelegramSettings

    return TelegramSettings


def _telegram(adapter: AdapterId, settings: Any, context: Context) -> Adapter:
    from angelia.platforms.telegram.adapter import TelegramAdapter

    return TelegramAdapter(adapter, settings, context.clock)


def _echo_settings() -> type[BaseModel]:
    from angelia.agents.echo import EchoSettings

    return EchoSettings


def _echo(settings: Any, context: Context) -> Agent:
    from angelia.agents.echo import EchoAgent

    return EchoAgent(settings, context.clock)


def _command_settings() -> type[BaseModel]:
    from angelia.agents.command import CommandSettings

    return CommandSettings


def _command(settings: Any, context: Context) -> Agent:
    from angelia.agents.command import CommandAgent

    return CommandAgent(settings)


def _openai_settings() -> type[BaseModel]:
    from angelia.agents.openai import OpenAISettings

    return OpenAISettings


def _openai(settings: Any, context: Context) -> Agent:
    from angelia.agents.openai import OpenAIAgent

    return OpenAIAgent(settings)


def _http_settings() -> type[BaseModel]:
    from angelia.agents.http import HttpSettings

    return HttpSettings


def _http(settings: Any, context: Context) -> Agent:
    from angelia.agents.http import HttpAgent

    return HttpAgent(settings, context.clock)


def _python_settings() -> type[BaseModel]:
    from angelia.agents.python import PythonSettings

    return PythonSettings


def _python(settings: Any, context: Context) -> Agent:
    from angelia.agents.python import PythonAgent

    return PythonAgent(settings, context.home)


PLATFORMS: Mapping[str, PlatformKind] = {
    "web": PlatformKind(_web_settings, _web, guarded=False, password_key="password"),
    "webhook": PlatformKind(_webhook_settings, _webhook),
    "telegram": PlatformKind(_telegram_settings, _telegram),
}

AGENTS: Mapping[str, AgentKind] = {
    "echo": AgentKind(_echo_settings, _echo),
    "command": AgentKind(_command_settings, _command),
    "openai": AgentKind(_openai_settings, _openai, extra="openai"),
    "http": AgentKind(_http_settings, _http),
    "python": AgentKind(_python_settings, _python),
}
