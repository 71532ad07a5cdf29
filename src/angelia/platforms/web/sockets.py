"""The open pages, and the parts on their way to them.

A part goes to every page that watches its chat; the first acknowledgement is its receipt. As long
as nobody has acknowledged it, a page that opens the chat gets it, too. A page that stays silent for
the whole call is put away, so that a frozen tab does not eat the tries of a reply: with no other
page there, the chat is then not present, and the reply waits until a page comes back.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from angelia.model.messages import Outgoing
from angelia.model.outcomes import Accepted, NotSent, Outcome, Unconfirmed

frames_waiting_max = 2000  # a page that reads slower than this is put away; it will come back
parts_remembered_max = 10_000

CODE_TOO_SLOW = 4408
CODE_AGAIN = 1012  # "service restart": the page comes back by itself


class Page:
    """One open page: a socket, the chats it watches, and one queue of frames towards it."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.socket = socket
        self.chats: set[str] = set()
        self.gone = False
        self._frames: asyncio.Queue[tuple[str, asyncio.Future[bool]]] = asyncio.Queue()
        self._closing: asyncio.Task[bool] | None = None

    def push(self, frame: Mapping[str, object]) -> asyncio.Future[bool]:
        """Queue ``frame``. The future tells whether it was written to the socket."""
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self.gone:
            written.set_result(False)
        elif self._frames.qsize() >= frames_waiting_max:
            written.set_result(False)
            self.close(CODE_TOO_SLOW, "the page reads too slowly")
        else:
            self._frames.put_nowait((json.dumps(frame, separators=(",", ":")), written))
        return written

    async def write(self) -> None:
        """Write what is queued, for as long as the socket lives."""
        while not self.socket.closed:
            text, written = await self._frames.get()
            sent = False
            try:
                await self.socket.send_str(text)
                sent = True
            except (ConnectionError, RuntimeError):  # closed, or closing
                return
            finally:
                if not written.done():
                    written.set_result(sent)

    def close(self, code: int, reason: str) -> None:
        """Begin to close the socket; ``closed`` waits for the end of it."""
        self.gone = True
        if self._closing is None:
            self._closing = asyncio.create_task(self.socket.close(code=code, message=reason.encode()))

    async def closed(self) -> None:
        """Wait until a ``close`` that was begun has ended, and let nobody wait for a frame in vain."""
        self.gone = True
        while not self._frames.empty():
            _, written = self._frames.get_nowait()
            written.set_result(False)
        if self._closing is not None:
            await asyncio.wait({self._closing})


@dataclass(slots=True)
class _Sending:
    """A part on its way: who got it, and what came of it."""

    message: Outgoing
    frame: dict[str, object]
    outcome: asyncio.Future[Outcome]
    pages: set[Page] = field(default_factory=set)

    def settle(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Pages:
    """All open pages of one adapter."""

    def __init__(self) -> None:
        self._pages: set[Page] = set()
        self._sendings: dict[str, _Sending] = {}
        # Parts acknowledged to this adapter: a page that reloads before the receipt is committed still
        # finds the part in its history.
        self._shown: OrderedDict[tuple[str, int], None] = OrderedDict()

    def add(self, page: Page) -> None:
        self._pages.add(page)

    def remove(self, page: Page) -> None:
        """Forget ``page``; a part that only it was given is in doubt from now on."""
        page.gone = True
        self._pages.discard(page)
        for sending in self._sendings.values():
            if page in sending.pages:
                sending.pages.discard(page)
                if not sending.pages:
                    sending.settle(Unconfirmed("the page went away before it acknowledged", dropped=True))

    def watch(self, page: Page, chat: str) -> None:
        """From now on ``page`` gets the parts of ``chat``, those on their way included."""
        page.chats.add(chat)
        for sending in self._sendings.values():
            if sending.message.chat == chat and page not in sending.pages and not page.gone:
                sending.pages.add(page)
                page.push(sending.frame)

    def of(self, chat: str) -> list[Page]:
        return [page for page in self._pages if chat in page.chats and not page.gone]

    def tell(self, chat: str, frame: Mapping[str, object], but: Page | None = None) -> None:
        """Push ``frame`` to every page of ``chat`` except ``but``."""
        for page in self.of(chat):
            if page is not but:
                page.push(frame)

    async def send(self, message: Outgoing, frame: dict[str, object], limit_s: float) -> Outcome:
        """Give a part, as its frame, to the pages of its chat and wait for the first
        acknowledgement."""
        pages = self.of(message.chat)
        if not pages:
            return NotSent("no page of this chat is open")
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        sending = _Sending(message, frame, outcome, set(pages))
        self._sendings[message.key] = sending
        try:
            for page in pages:
                page.push(sending.frame)
            done, _ = await asyncio.wait({outcome}, timeout=limit_s)
            if done:
                return outcome.result()
        finally:
            self._sendings.pop(message.key, None)
        for page in sending.pages:
            page.close(CODE_TOO_SLOW, "the page did not acknowledge")
        return Unconfirmed(f"no page acknowledged within {limit_s:g} s")

    def acknowledge(self, key: str) -> None:
        """A page shows the revision ``key``. A key that is not on its way changes nothing: what was in
        doubt is sent again under the same key, and acknowledged again."""
        sending = self._sendings.get(key)
        if sending is None:
            return
        self._shown[(sending.message.delivery, sending.message.part)] = None
        while len(self._shown) > parts_remembered_max:
            self._shown.popitem(last=False)
        sending.settle(Accepted(key))

    def shown(self, delivery: str, part: int) -> bool:
        """Whether a page acknowledged that part to this adapter."""
        return (delivery, part) in self._shown

    async def close(self) -> None:
        """Send every page away in such a way that it comes back, and wait until they are gone."""
        pages = list(self._pages)
        for page in pages:
            page.close(CODE_AGAIN, "the gateway restarts")
            self.remove(page)
        await asyncio.gather(*(page.closed() for page in pages))


def part_frame(message: Outgoing, at: int) -> dict[str, object]:
    """The frame that carries the text of a part. ``at``: when it was sent, in milliseconds."""
    return {
        "type": "part",
        "key": message.key,
        "delivery": message.delivery,
        "part": message.part,
        "parts": message.parts,
        "chat": message.chat,
        "text": message.text,
        "format": str(message.format),
        "recovered": message.recovered,
        "at": at,
    }
