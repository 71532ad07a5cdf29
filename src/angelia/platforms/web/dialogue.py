"""One page's side of the talk.

What a page says is worked off in its order, one frame at a time, while acknowledgements are taken
out of line: a store that is slow to commit must not make parts that have arrived look lost. A
message that was read is worked off even if its page is gone by then. A bad frame gets an answer;
only what cannot come from our page at all closes the socket. Nothing here can end the adapter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import WSMsgType

from angelia.model import limits
from angelia.model.errors import AngeliaError, StoreUnavailableError
from angelia.model.ids import AdapterId
from angelia.model.messages import HistoryEntry, HistoryPart, Inbound, Reception, well_formed
from angelia.platforms.base import Host
from angelia.platforms.web.attached import attached
from angelia.platforms.web.frames import BadFrameError, Frame, NotAFrameError, is_name, read
from angelia.platforms.web.sockets import Page, Pages
from angelia.seams import crash
from angelia.seams.clock import Clock

USER = "web"  # whoever may open the page
frames_unread_max = 32  # read ahead per page; beyond it the socket itself holds the page back
history_lines = 100
history_lines_max = 2000
try_again_s = 2

CODE_NO_JSON = 1007
CODE_NO_TEXT = 1003


class Dialogue:
    """What the pages of one adapter say to its host. Shared by all its sockets."""

    def __init__(self, adapter: AdapterId, host: Host, pages: Pages, clock: Clock) -> None:
        self._adapter = adapter
        self._host = host
        self._pages = pages
        self._clock = clock

    async def converse(self, page: Page) -> None:
        """Serve ``page`` until its socket is closed."""
        inbox: asyncio.Queue[Frame | None] = asyncio.Queue(frames_unread_max)
        writer = asyncio.create_task(page.write())
        worker = asyncio.create_task(self._work(page, inbox))
        self._pages.add(page)
        try:
            await self._read(page, inbox)
            self._pages.remove(page)
            await inbox.put(None)
            await worker
        finally:
            self._pages.remove(page)
            for task in (worker, writer):
                task.cancel()
            await asyncio.gather(worker, writer, return_exceptions=True)
            await page.closed()

    async def _read(self, page: Page, inbox: asyncio.Queue[Frame | None]) -> None:
        async for message in page.socket:
            if message.type is WSMsgType.TEXT:
                try:
                    frame = read(message.data)
                except NotAFrameError as error:
                    page.close(CODE_NO_JSON, str(error))
                    return
                if frame.type == "ack":
                    self._ack(page, frame)
                else:
                    await inbox.put(frame)
            elif message.type is WSMsgType.BINARY:
                page.close(CODE_NO_TEXT, "frames are text")
                return

    def _ack(self, page: Page, frame: Frame) -> None:
        try:
            self._pages.acknowledge(frame.text("key"))
        except BadFrameError as error:
            page.push({"type": "error", "reason": str(error)})

    async def _work(self, page: Page, inbox: asyncio.Queue[Frame | None]) -> None:
        while (frame := await inbox.get()) is not None:
            try:
                await self._answer(page, frame)
            except BadFrameError as error:
                page.push({"type": "error", "reason": str(error), "to": frame.type})
            except AngeliaError:
                page.push({"type": "error", "reason": "the store cannot be read just now", "to": frame.type})

    async def _answer(self, page: Page, frame: Frame) -> None:
        match frame.type:
            case "hello":
                await self._chats(page)
                if "chat" in frame.fields:
                    await self._open(page, frame)
            case "open":
                await self._open(page, frame)
            case "watch":
                for chat in frame.names("chats"):
                    if chat not in page.chats:
                        self._watch(page, chat)
            case "message":
                await self._message(page, frame)
            case "history":
                await self._history(page, frame.name("chat"), frame)
            case "chats":
                await self._chats(page)
            case _:
                raise BadFrameError("this gateway does not know frames of this type")

    def _watch(self, page: Page, chat: str) -> None:
        self._pages.watch(page, chat)
        if not page.gone:
            self._host.connected(chat)

    async def _open(self, page: Page, frame: Frame) -> None:
        """Watch first and read the history then: a part in between comes twice, and never not at all."""
        chat = frame.name("chat")
        self._pages.watch(page, chat)
        try:
            await self._history(page, chat, frame)
        finally:
            if not page.gone:
                self._host.connected(chat)

    async def _history(self, page: Page, chat: str, frame: Frame) -> None:
        limit = frame.count("limit", history_lines, history_lines_max)
        entries = await self._host.history(chat, limit)
        page.push({"type": "history", "chat": chat, "limit": limit, "entries": self._lines(entries)})

    async def _chats(self, page: Page) -> None:
        chats = [
            {"chat": summary.chat, "title": summary.title, "at": summary.at}
            for summary in await self._host.chats()
            if is_name(summary.chat)
        ]
        page.push({"type": "chats", "chats": chats})

    async def _message(self, page: Page, frame: Frame) -> None:
        """Commit, and only then say so. Whatever else happens, the page keeps the message."""
        message_id = frame.name("id")
        try:
            chat = frame.name("chat")
            text = well_formed(frame.text("text"))
            if not text.strip():
                raise BadFrameError("the message is empty")
            if len(text) > limits.text_characters_max:
                raise BadFrameError(f"the message is longer than {limits.text_characters_max:,} characters")
        except BadFrameError as error:
            page.push({"type": "refused", "id": message_id, "reason": str(error)})
            return
        inbound = Inbound(self._adapter.profile, self._adapter.platform, chat, message_id, USER, text)
        try:
            reception = await self._host.receive(inbound)
        except StoreUnavailableError:
            page.push({"type": "retry", "chat": chat, "id": message_id, "after_s": try_again_s})
            return
        if reception is Reception.NOT_ALLOWED:
            reason = "this page is not allowed to write to this bot"
            page.push({"type": "refused", "chat": chat, "id": message_id, "reason": reason})
            return
        at = self._clock.now().wall
        crash.point("ack.before")
        written = page.push({"type": "accepted", "chat": chat, "id": message_id, "at": at})
        if reception is Reception.ACCEPTED:
            echo = {"type": "echo", "chat": chat, "id": message_id, "text": text, "at": at}
            self._pages.tell(chat, echo, but=page)
        if await written:
            crash.point("ack.after")

    def _lines(self, entries: Sequence[HistoryEntry]) -> list[dict[str, object]]:
        return [
            {
                "role": entry.role,
                "id": entry.id,
                "client_id": entry.client_id,
                "text": entry.text,
                "at": entry.at,
                "state": entry.state,
                "recovered": entry.recovered,
                "parts": [self._part(entry, part) for part in entry.parts],
            }
            for entry in entries
        ]

    def _part(self, entry: HistoryEntry, part: HistoryPart) -> dict[str, object]:
        received = part.received or self._pages.shown(entry.id, part.number)
        told: dict[str, object] = {"part": part.number, "text": part.text, "received": received}
        if part.attachment is not None:
            told["attachment"] = attached(self._host, part.attachment, entry.at)
        return told
