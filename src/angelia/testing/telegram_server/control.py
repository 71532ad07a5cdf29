"""The world and the script of a server in another process, over HTTP.

``POST /control/<verb>`` with the verb's arguments as JSON: the verbs of the world by their own
names (bytes as ``{"base64": "…"}``), and ``script``, ``release``, ``revoke_token``, ``accepted``,
``calls``, ``info``. ``ControlledTelegram`` is the client: it has the same verbs, to be awaited.
Waiting is polling here, bounded in time, since the other process cannot be listened to.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from aiohttp import web

from angelia.testing.telegram_server.answers import Json
from angelia.testing.telegram_server.server import TelegramServer
from angelia.testing.telegram_server.steps import Step, step_from
from angelia.testing.telegram_server.truth import Accepted, accepted_from

_Seen = TypeVar("_Seen")

#: The verbs of the world that may be called from outside.
_VERBS_IN_WORDS = (
    "person private group supergroup channel topic stand block unblock kick leave invite migrate "
    "close_topic delete_topic delete_message forbid_writing say start paste picture voice document "
    "album edit touch"
)
VERBS = frozenset(_VERBS_IN_WORDS.split())


def control_routes(server: TelegramServer) -> list[web.RouteDef]:
    """The routes of the control address of ``server``."""

    async def control(request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        try:
            values = json.loads(await request.read() or b"{}")
            result = _do(server, verb, {name: _bytes_back(value) for name, value in values.items()})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return web.json_response({"error": f"{verb}: {type(error).__name__}: {error}"}, status=400)
        return web.json_response({"result": result})

    return [web.post("/control/{verb}", control)]


def _do(server: TelegramServer, verb: str, values: Json) -> Any:
    if verb in VERBS:
        return getattr(server.world, verb)(**values)
    if verb == "script":
        row = [step_from(step) for step in values.pop("steps")]
        server.script(*row, **values)
    elif verb == "release":
        server.release(**values)
    elif verb == "set":  # what the world or the server is like: privacy, own_posts_come_back
        setattr(server.world, _setting(values["name"]), values["value"])
    elif verb == "revoke_token":
        return server.revoke_token()
    elif verb == "accepted":
        return [dataclasses.asdict(message) for message in server.accepted]
    elif verb == "calls":
        return [call.to_json() for call in server.calls]
    elif verb == "info":
        return {
            "token": server.token,
            "pending": server.updates.pending,
            "parked": server.updates.parked,
            "steps_left": server.rules.steps_left,
            "trespasses": server.floods.trespasses,
            "strangers": server.strangers,
        }
    else:
        raise KeyError(f"there is no such verb; there are: {', '.join(sorted(VERBS))}")
    return None


def _setting(name: str) -> str:
    if name not in ("privacy", "own_posts_come_back"):
        raise ValueError(f"there is no setting {name!r}")
    return name


def _bytes_back(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"base64"}:
        return base64.b64decode(value["base64"])
    if isinstance(value, list):
        return [_bytes_back(entry) for entry in value]
    return value


def _bytes_away(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [_bytes_away(entry) for entry in value]
    return value


class ControlledTelegram:
    """A server in another process, at ``url``. Use it as an asynchronous context manager."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def do(self, verb: str, **values: Any) -> Any:
        """Any verb by its name. Raises ``ValueError`` with the server's words if it cannot."""
        assert self._session is not None, "use it in 'async with'"
        body = {name: _bytes_away(value) for name, value in values.items()}
        async with self._session.post(f"{self.url}/control/{verb}", json=body) as answer:
            said = await answer.json()
        if "error" in said:
            raise ValueError(said["error"])
        return said["result"]

    async def script(
        self, *row: Step, method: str = "", chat: int | None = None, for_ever: bool = False
    ) -> None:
        steps = [dataclasses.asdict(step) for step in row]
        await self.do("script", steps=steps, method=method, chat=chat, for_ever=for_ever)

    async def accepted(self) -> list[Accepted]:
        return [accepted_from(values) for values in await self.do("accepted")]

    async def calls(self, method: str = "") -> list[Json]:
        """The calls so far, of one method if it is named."""
        made: list[Json] = await self.do("calls")
        return [call for call in made if not method or call["method"] == method.lower()]

    async def until(
        self,
        look: Callable[[], Awaitable[_Seen]],
        condition: Callable[[_Seen], object],
        within_s: float = 20.0,
    ) -> _Seen:
        """Look again and again, until ``condition`` holds of what ``look`` sees, as in
        ``until(telegram.calls, len)``. Returns it. Raises ``TimeoutError``."""
        async with asyncio.timeout(within_s):
            while not condition(seen := await look()):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        return seen

    async def until_accepted(
        self, condition: Callable[[list[Accepted]], object], within_s: float = 20.0
    ) -> list[Accepted]:
        """Wait until ``condition`` holds of the truth. Returns it. Raises ``TimeoutError``."""
        return await self.until(self.accepted, condition, within_s)
