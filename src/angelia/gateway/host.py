"""What the gateway offers one adapter: the door in, hints, and a look into its own chats.

A host belongs to one instance of an adapter. When that instance is replaced its host closes,
so an event from a connection of yesterday changes nothing (the store would drop it anyway).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from angelia.engine.attaching import Spool
from angelia.engine.engine import Engine
from angelia.gateway.access import Access
from angelia.gateway.server import Server
from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import AdapterId
from angelia.model.media import Attachment
from angelia.model.messages import ChatSummary, HistoryEntry, Inbound, Reception

_CHATS_MOST = 200


class AdapterHost:
    """``Host`` for one adapter instance; see ``platforms.base``."""

    def __init__(self, adapter_id: AdapterId, engine: Engine, access: Access, server: Server) -> None:
        self._id = adapter_id
        self._engine = engine
        self._access = access
        self._server = server
        self._hints: set[asyncio.Task[None]] = set()
        #: Set when the adapter may take messages; its owed rows are queued before that.
        self.open = False
        self.broken = asyncio.Event()
        self.broken_reason = ""
        self.trouble = ""
        self.on_trouble: Callable[[str], None] = lambda _reason: None

    async def receive(self, inbound: Inbound) -> Reception:
        if not self.open:
            raise StoreUnavailableError("this platform takes no messages now")
        if not self._access.allows(self._id, inbound.user):
            return Reception.NOT_ALLOWED
        return await self._engine.receiver.receive(inbound)

    def allows(self, user: str) -> bool:
        return self._access.allows(self._id, user)

    async def edit(self, inbound: Inbound) -> bool:
        if not self.open:
            raise StoreUnavailableError("this platform takes no messages now")
        return self._access.allows(self._id, inbound.user) and await self._engine.receiver.edit(inbound)

    def spooled(self, attachment: Attachment) -> Path:
        return self._spool.path(attachment)

    @property
    def address(self) -> str:
        return self._server.public_address

    def link(self, attachment: Attachment, written_at: int) -> str:
        return self._server.link(attachment, written_at)

    async def spool(self, data: bytes, name: str, mime: str) -> Attachment:
        return await self._spool.keep(data, name, mime, len(data))

    @property
    def _spool(self) -> Spool:
        assert self._engine.spool is not None, "the gateway's engine has a spool"
        return self._engine.spool

    def connected(self, chat: str | None = None) -> None:
        task = asyncio.ensure_future(self._engine.rescuer.connected(self._id, chat))
        self._hints.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._hints.discard(task)
        if not task.cancelled():
            task.exception()  # a lost hint costs seconds, not a reply

    def troubled(self, reason: str) -> None:
        self.trouble = reason
        self.on_trouble(reason)

    def lost(self, reason: str) -> None:
        self.broken_reason = reason
        self.broken.set()

    async def history(self, chat: str, limit: int) -> Sequence[HistoryEntry]:
        return await self._engine.ledger.history(self._id, chat, limit)

    async def chats(self) -> Sequence[ChatSummary]:
        return await self._engine.ledger.chats(self._id, _CHATS_MOST)

    def close(self) -> None:
        """The instance is being replaced: nothing of it counts any more."""
        self.open = False
