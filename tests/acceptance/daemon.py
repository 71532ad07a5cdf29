"""The installed ``angelia`` as a person has it: a home of its own, real processes, real sockets.

``Home`` writes the configuration and runs commands; ``Daemon`` is one life of a gateway on it;
``Receiver`` is the service behind its webhook, whose list of accepted messages is the truth
that no crash of ours can touch. Every wait is for an event and bounded; only processes that
were started here are ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

patience_s = 30.0  # only a broken gateway waits this long
SECRET = "a-secret-of-the-tests"


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, read as JSON."""
        return json.loads(self.out)


@dataclass(slots=True)
class Home:
    """A home in a temporary folder; ``environ`` is added to that of every process."""

    path: Path
    environ: dict[str, str] = field(default_factory=dict)

    def configure(
        self,
        deliver_url: str = "http://127.0.0.1:9/",
        *,
        agent: Mapping[str, object] = {"kind": "echo"},
        listen: str = "127.0.0.1:0",
        web_page: bool = False,
        delivery_ledger: bool = True,
        **webhook: object,
    ) -> Home:
        """Write a ``config.yaml`` with one profile ``default``, its webhook and, if wanted, the
        page. Further arguments are settings of the webhook."""
        platforms: dict[str, object] = {
            "webhook": {"secret": SECRET, "deliver_url": deliver_url, "allow": ["*"], **webhook}
        }
        if web_page:
            platforms["web"] = {}
        document = {
            "gateway": {"listen": listen, "delivery_ledger": delivery_ledger},
            "profiles": {"default": {"agent": dict(agent), "platforms": platforms}},
        }
        return self.write(json.dumps(document, indent=2))  # JSON is YAML

    def write(self, config: str) -> Home:
        """Write ``config.yaml`` as it stands in ``config``."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / "config.yaml").write_text(config, encoding="utf-8")
        return self

    @property
    def store(self) -> Path:
        return self.path / "state.db"

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a process of this home: nothing of the caller's that we read."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANGELIA_")}
        return {**kept, "ANGELIA_HOME": str(self.path), **self.environ, **more}

    async def run(self, *words: str | bytes, stdin: bytes = b"", **environ: str) -> Ended:
        """Run ``angelia WORDS…`` to its end."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "angelia",
            *words,
            env=self.environment(**environ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(patience_s):
                out, err = await process.communicate(stdin)
        except BaseException:
            if process.returncode is None:
                process.kill()
                await process.wait()
            raise
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())


class Daemon:
    """One life of a gateway, from ``start`` to ``stop`` or ``kill``."""

    def __init__(self, home: Home, process: asyncio.subprocess.Process, log: Path) -> None:
        self.home = home
        self.process = process
        self.log = log
        self.address = ""

    @classmethod
    async def spawn(cls, home: Home, *options: str, **environ: str) -> Daemon:
        """Start ``angelia run`` and wait for nothing."""
        log = home.path.with_name(home.path.name + ".log")
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "angelia",
                "run",
                *options,
                env=home.environment(**environ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
            )
        return cls(home, process, log)

    @classmethod
    async def start(cls, home: Home, *options: str, **environ: str) -> Daemon:
        """Start ``angelia run`` and return when it has printed its address."""
        daemon = await cls.spawn(home, *options, **environ)
        try:
            await daemon.ready()
        except BaseException:
            await daemon.kill()
            raise
        return daemon

    async def ready(self) -> str:
        """Wait for the line with the address. A gateway that ends first fails the test."""
        assert self.process.stdout is not None
        async with asyncio.timeout(patience_s):
            line = (await self.process.stdout.readline()).decode()
        if not line:
            code = await self.ended()
            raise AssertionError(f"the gateway ended with {code} before it was ready:\n{self.logged()}")
        self.address = line.strip()
        return self.address

    async def ended(self) -> int:
        """Wait until the process is gone; its exit code (negative: the signal)."""
        async with asyncio.timeout(patience_s):
            return await self.process.wait()

    async def stop(self) -> int:
        """Ask it to stop (SIGTERM), wait for its end; its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        """``kill -9``."""
        if self.process.returncode is None:
            self.process.kill()
        await self.ended()

    def logged(self) -> str:
        """Everything that all lives on this home have logged."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    async def say(self, text: str, id: str, chat: str = "c1", user: str = "u1", **more: object) -> int:
        """Post a message to the webhook; the status of the answer."""
        body = {"id": id, "chat": chat, "user": user, "text": text, **more}
        status, _ = await self.post(json.dumps(body).encode())
        return status

    async def post(
        self, body: bytes, profile: str = "default", secret: str = SECRET
    ) -> tuple[int, dict[str, Any]]:
        """Post raw bytes to a profile's webhook; status and JSON of the answer."""
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        url = f"{self.address}webhook/{profile}/messages"
        async with aiohttp.ClientSession(headers=headers) as session, session.post(url, data=body) as answer:
            return answer.status, await answer.json()

    async def health(self) -> tuple[int, dict[str, Any]]:
        """``GET /health``: status and body."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.address}health") as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def running(home: Home, *options: str, **environ: str) -> AsyncIterator[Daemon]:
    """A gateway for the length of a block; killed at its end if it still runs."""
    daemon = await Daemon.start(home, *options, **environ)
    try:
        yield daemon
    finally:
        await daemon.kill()


async def killed_at(home: Home, point: str) -> None:
    """One life of a gateway for which work is waiting already, and its own death at ``point``:
    perhaps before it has printed its address, so nobody waits for that."""
    daemon = await Daemon.spawn(home, ANGELIA_CRASH_POINT=point)
    try:
        assert await daemon.ended() == -signal.SIGKILL
    finally:
        await daemon.kill()


@dataclass(frozen=True, slots=True)
class Received:
    """One request that reached the receiver, whatever it was answered."""

    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        return str(self.body["text"])

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


#: How a receiver answers a request: a status, or something slower or stranger.
Answerer = Callable[[Received], Awaitable[web.StreamResponse]]


async def accepted(_: Received) -> web.StreamResponse:
    """The answer of a service to which all is well."""
    return web.json_response({"id": "receipt"})


class Receiver:
    """The service behind the webhook: what it got, in the order in which it came."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.answer: Answerer = accepted
        self.url = ""
        self._changed = asyncio.Condition()

    @property
    def texts(self) -> list[str]:
        """The texts of all requests."""
        return [request.text for request in self.requests]

    async def _take(self, request: web.Request) -> web.StreamResponse:
        received = Received(await request.json(), dict(request.headers))
        async with self._changed:
            self.requests.append(received)
            self._changed.notify_all()
        return await self.answer(received)

    async def wait(self, count: int) -> Sequence[Received]:
        """Wait until at least ``count`` requests came; all of them."""
        async with asyncio.timeout(patience_s), self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)
        return self.requests


@asynccontextmanager
async def receiver(port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver on a loopback port for the length of a block."""
    one = Receiver()
    app = web.Application()
    app.router.add_post("/", one._take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        yield one
    finally:
        await runner.cleanup()


async def eventually(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Ask ``holds`` (which asks a process or a socket) again and again until it is true."""
    try:
        async with asyncio.timeout(patience_s):
            while not await holds():
                pass
    except TimeoutError:
        raise AssertionError(f"never came true: {what}") from None
