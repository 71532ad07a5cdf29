"""A gateway's side of an adapter, for tests: a ``Host`` that remembers what it was told.

What it has received lives here and not in the adapter, so a test can throw an adapter away, build
a new one on the same host, and compare. It recognises a repeated id as the store does. Tests script
the history and the chats, and choose what becomes of an inbound with ``refuse`` and ``unavailable``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from aiohttp import web

from angelia.gateway.links import PATH, Links
from angelia.model.errors import StoreUnavailableError
from angelia.model.media import Attachment, kind_of, shown_name
from angelia.model.messages import ChatSummary, HistoryEntry, Inbound, Reception
from angelia.platforms.base import Adapter, Host


class FakeHost:
    """``received``: every inbound committed, in order. ``calls``: how often ``receive`` was called.

    ``hints``: the chats for which ``connected`` was called (``None``: for all of them).
    """

    def __init__(self) -> None:
        self.received: list[Inbound] = []
        self.calls = 0
        self.hints: list[str | None] = []
        self.losses: list[str] = []
        self.troubles: list[str] = []
        self.histories: dict[str, list[HistoryEntry]] = {}
        self.summaries: list[ChatSummary] = []
        self.edits: list[Inbound] = []
        self.spool_folder = Path()
        self.links: Links | None = None
        self.refuse = False
        self.unavailable = False
        #: Cleared by a test to hold every commit back.
        self.open = asyncio.Event()
        self.open.set()
        self._changed = asyncio.Condition()
        self._telling: set[asyncio.Task[None]] = set()

    async def receive(self, inbound: Inbound) -> Reception:
        self.calls += 1
        await self._tell()
        await self.open.wait()
        if self.unavailable:
            await self._tell()
            raise StoreUnavailableError("the store cannot be written")
        if self.refuse:
            await self._tell()
            return Reception.NOT_ALLOWED
        if any(self._key(known) == self._key(inbound) for known in self.received):
            await self._tell()
            return Reception.DUPLICATE
        self.received.append(inbound)
        await self._tell()
        return Reception.ACCEPTED

    def allows(self, user: str) -> bool:
        return not self.refuse

    async def edit(self, inbound: Inbound) -> bool:
        """``edits`` has them all; whether it found a waiting message, as the store would say."""
        self.edits.append(inbound)
        await self._tell()
        if self.unavailable:
            raise StoreUnavailableError("the store cannot be written")
        return any(self._key(known) == self._key(inbound) for known in self.received)

    def spooled(self, attachment: Attachment) -> Path:
        return self.spool_folder / attachment.file

    @property
    def address(self) -> str:
        return "http://gateway.example/"

    def link(self, attachment: Attachment, written_at: int) -> str:
        """Signed by ``links``, which a test sets where a file is to be fetched."""
        if self.unavailable:
            raise StoreUnavailableError("there is no key, and none can be written")
        if self.links is not None:
            return self.links.link(attachment, written_at)
        return f"files/{attachment.file}/{attachment.name}?until={written_at}"

    async def spool(self, data: bytes, name: str, mime: str) -> Attachment:
        """Kept in ``spool_folder``, which a test names first."""
        if self.unavailable:
            raise StoreUnavailableError("the spool cannot be written")
        digest = hashlib.sha256(data).hexdigest()
        (self.spool_folder / digest).write_bytes(data)
        return Attachment(digest, kind_of(mime), shown_name(name), mime, len(data))

    def connected(self, chat: str | None = None) -> None:
        self.hints.append(chat)
        self._tell_soon()

    def troubled(self, reason: str) -> None:
        self.troubles.append(reason)
        self._tell_soon()

    def lost(self, reason: str) -> None:
        self.losses.append(reason)
        self._tell_soon()

    async def history(self, chat: str, limit: int) -> Sequence[HistoryEntry]:
        if self.unavailable:
            raise StoreUnavailableError("the store cannot be read")
        return self.histories.get(chat, [])[-limit:]

    async def chats(self) -> Sequence[ChatSummary]:
        if self.unavailable:
            raise StoreUnavailableError("the store cannot be read")
        return list(self.summaries)

    async def until(self, condition: Callable[[], object], within_s: float = 10.0) -> None:
        """Wait until ``condition`` holds; it is looked at whenever something happened here.
        Raises ``TimeoutError``."""
        async with asyncio.timeout(within_s), self._changed:
            await self._changed.wait_for(lambda: bool(condition()))

    @staticmethod
    def _key(inbound: Inbound) -> tuple[str, str, str, str]:
        return inbound.profile, inbound.platform, inbound.chat, inbound.message_id

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _tell_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


class Served:
    """One HTTP server on loopback for one adapter, as the gateway would serve it.

    ``port`` may be given again, so that what is connected finds its way back after a restart.
    ``cut`` drops every connection without a goodbye, as a kill of the process does.
    """

    def __init__(self, adapter: Adapter, host: Host, port: int = 0) -> None:
        self.adapter = adapter
        self.port = port
        self._host = host
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        """``host:port``, as it stands in a Host header."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}/"

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.add_routes(self.adapter.routes())
        if isinstance(self._host, FakeHost) and self._host.links is not None:
            app.router.add_get(PATH, self._host.links.serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        await self.adapter.start(self._host)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.adapter.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    def cut(self) -> None:
        server = self._runner.server if self._runner is not None else None
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()
