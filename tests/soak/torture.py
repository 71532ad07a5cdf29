"""The torture platform and the model server of the soak: the truth that never dies.

Both live in the process of the soak, beside the gateways that are killed. What a person saw is
``arrived``, in the order of arrival; what the gateway was told is ``said``; what the model was
asked, and so what was paid for, is ``asked``. A call is taken whole or not at all, and taken
before anything is answered.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from random import Random

from aiohttp import web
from tests.soak.mixture import Mixture

#: What was said, in every text that is about it.
NAME = re.compile(r"\[(m\d+)\]")

#: Longer than any caller waits (real seconds).
HANG_S = 3.0

#: These are taken before the fault strikes.
TAKEN = frozenset({"ok", "slow", "broken after", "reset after", "hangs after", "garbage", "half"})

_STATUS = {"refused": 400, "too long": 413, "bad markup": 422, "gone": 410, "credential": 401}


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message as a person saw it. ``sent``: when its sender says it left (virtual seconds);
    a call that stood in a queue while its sender died may arrive after a later one."""

    profile: str
    key: str
    chat: str
    text: str
    sent: int
    number: int


@dataclass
class Torture:
    """Both servers on one port. ``calm``: no faults any more."""

    mixture: Mixture
    calm: bool = False
    arrived: list[Arrival] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    said: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    faults: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    address: str = ""

    async def __aenter__(self) -> Torture:
        self._dice = Random(f"platform {self.mixture.seed}")
        self._keys: set[str] = set()
        self._calm = asyncio.Event()
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/{profile}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def calm_down(self) -> None:
        """From now on everything goes well; what hangs is let go."""
        self.calm = True
        self._calm.set()

    async def _lapse(self, seconds: float) -> None:
        """Take some time, unless it is calm now."""
        try:
            async with asyncio.timeout(seconds):
                await self._calm.wait()
        except TimeoutError:
            return

    # -- the platform ------------------------------------------------------------------------

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key, profile = request.headers["Idempotency-Key"], request.match_info["profile"]
        fault = "ok" if self.calm else self.mixture.fault(self._dice)
        self.calls[key] += 1
        known = profile == "keyed" and key in self._keys
        if known and fault in ("too long", "bad markup", "gone", "refused", "limited", "busy"):
            fault = "ok"  # a platform that honours a key does not refuse what it has taken
        self.faults[fault] += 1
        if fault in TAKEN and not known:
            self._keys.add(key)
            sent = int(request.headers["webhook-timestamp"])
            self.arrived.append(Arrival(profile, key, body["chat"], body["text"], sent, len(self.arrived)))
        if fault in _STATUS:
            self.said[key.rsplit(".", 2)[0]].add(fault)
            self.said[f"{profile} {body['chat']}"].add(fault)
        return await self._respond(request, fault)

    async def _respond(self, request: web.Request, fault: str) -> web.StreamResponse:
        if fault.startswith("hangs"):
            await self._lapse(HANG_S)
            return web.Response(status=500)
        if fault == "slow":
            await self._lapse(self._dice.uniform(0.01, 0.4))
        if fault in ("ok", "slow"):
            return web.json_response({"id": f"r{len(self.arrived)}"})
        if fault in ("limited", "busy"):
            wait = {"Retry-After": f"{self._dice.uniform(0.5, 25):.1f}"}
            return web.Response(status=429 if fault == "limited" else 503, headers=wait)
        if fault in ("reset before", "reset after", "garbage", "half"):
            return _cut(request, fault)
        return web.Response(status=_STATUS.get(fault, 500))

    # -- the model server --------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        text = str(body["messages"][-1]["content"])
        named = NAME.search(text)
        self.asked[named.group(1) if named else text] += 1
        mood = "ok" if self.calm else self.mixture.mood(self._dice)
        match mood:
            case "slow":
                await self._lapse(self._dice.uniform(0.02, 0.8))
            case "hangs":
                await self._lapse(HANG_S)
            case "fails":
                return web.json_response({"error": {"message": "overloaded"}}, status=500)
            case "cut":
                return _cut(request, "reset after")
        words = "" if mood == "empty" else f"answer to {text}"
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": words}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        base = {"id": "x", "object": "chat.completion", "created": 1, "model": "model"}
        return web.json_response({**base, "choices": [choice], "usage": usage})


def _cut(request: web.Request, how: str) -> web.Response:
    """End the connection, after bytes that are no or not a whole answer."""
    transport = request.transport
    if isinstance(transport, asyncio.Transport) and not transport.is_closing():
        if how == "garbage":
            transport.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
            transport.close()
        elif how == "half":
            transport.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"id":')
            transport.close()
        else:
            transport.abort()
    return web.Response()
