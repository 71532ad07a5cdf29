"""Updates that are pushed: one row for each chat, in order, again until a 2xx takes them.

The next update of a chat goes out only when the one before was taken or dropped; chats do not
wait for each other. A failure is tried again at once, then with doubling pauses; the receiver's
``Retry-After`` is honoured; a day after its message an update is dropped. A 2xx whose body names
a method is carried out, and nobody learns how it went. Source: WebhookActor.cpp.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from angelia.seams.clock import Clock
from angelia.testing.telegram_server.answers import Json, bad_request
from angelia.testing.telegram_server.parameters import Call
from angelia.testing.telegram_server.updates import Updates, Waiting, kinds_from

answer_limit_s = 60.0
pause_first_s = 2.0
pause_max_s = 60.0
retry_after_max_s = 3600
_SECRET = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

#: Carries out a call that came as the answer to an update: method and parameters.
CarryOut = Callable[[str, Json], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Push:
    """One request to the webhook and how it ended: a status, or 0 for no answer."""

    update_id: int
    status: int
    attempt: int


class Webhook:
    """``pushes``: every request made, in the order in which they ended. ``pause_first_s`` is the
    pause before the third try; tests make it short."""

    def __init__(self, clock: Clock, updates: Updates, carry_out: CarryOut) -> None:
        self._clock = clock
        self._updates = updates
        self._carry_out = carry_out
        self._session: aiohttp.ClientSession | None = None
        self._lanes: dict[int, asyncio.Task[None]] = {}
        self.url = ""
        self.secret = ""
        self.connections_max = 40
        self.pause_first_s = pause_first_s
        self.pushes: list[Push] = []
        self.on_push: Callable[[], None] = lambda: None
        self._last_error: tuple[int, str] | None = None

    # -- calls -------------------------------------------------------------------------------

    async def set(self, call: Call) -> bool:
        url, secret = call.text("url"), call.text("secret_token")
        if url and not url.startswith(("https://", "http://")):
            raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
        if len(secret) > 256:
            raise bad_request("secret token is too long")
        if not _SECRET.issuperset(secret):
            raise bad_request("secret token contains unallowed characters")
        kinds = kinds_from(call.parsed("allowed_updates", "allowed updates"))
        if not url:
            return await self.delete(call)
        self._updates.leave("taken_away_by_webhook")
        await self.stop()
        if kinds is not None:
            self._updates.allowed = list(kinds)
        if call.flag("drop_pending_updates"):
            self._updates.drop()
        self.url, self.secret = url, secret
        self.connections_max = call.number_of("max_connections", 40) or 40
        self._last_error = None
        self.wake()
        return True

    async def delete(self, call: Call) -> bool:
        await self.stop()
        self.url = self.secret = ""
        if call.flag("drop_pending_updates"):
            self._updates.drop()
        return True

    def info(self, call: Call) -> Json:
        shown: Json = {
            "url": self.url,
            "has_custom_certificate": False,
            "pending_update_count": len(self._updates.pending),
        }
        if self.url:
            shown |= {"max_connections": self.connections_max, "ip_address": "127.0.0.1"}
        if self._last_error is not None:
            when, words = self._last_error
            shown |= {"last_error_date": when, "last_error_message": words}
        if self._updates.allowed:
            shown["allowed_updates"] = self._updates.allowed
        return shown

    # -- pushing -----------------------------------------------------------------------------

    def wake(self) -> None:
        """Something came, or the webhook was set: every chat with updates gets its row."""
        if not self.url:
            return
        for update in self._updates.queue:
            if update.chat not in self._lanes and len(self._lanes) < self.connections_max:
                self._lanes[update.chat] = asyncio.ensure_future(self._lane(update.chat))

    async def stop(self) -> None:
        """Push nothing any more; what was not taken stays in the queue."""
        lanes, self._lanes = list(self._lanes.values()), {}
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _lane(self, chat: int) -> None:
        while True:
            waiting = [update for update in self._updates.queue if update.chat == chat]
            if not waiting:
                break
            await self._push_until_taken(waiting[0])
            self._updates.drop({waiting[0].id})
            self.on_push()
        del self._lanes[chat]
        self.wake()  # a chat may have waited for a free connection

    async def _push_until_taken(self, update: Waiting) -> None:
        pause_s, attempt = 0.0, 0
        while update.until_ms > self._clock.now().wall + pause_s * 1000:
            await self._clock.sleep(pause_s)
            attempt += 1
            status, retry_after = await self._push(update, attempt)
            if 200 <= status < 300:
                return
            if retry_after:
                pause_s = float(min(retry_after, retry_after_max_s))
            elif attempt == 1:
                pause_s = 0.0
            else:
                pause_s = min(max(2 * pause_s, self.pause_first_s), pause_max_s)

    async def _push(self, update: Waiting, attempt: int) -> tuple[int, int]:
        if self._session is None:
            limit = aiohttp.ClientTimeout(total=answer_limit_s)
            self._session = aiohttp.ClientSession(timeout=limit)
        headers = {"X-Telegram-Bot-Api-Secret-Token": self.secret} if self.secret else {}
        status, wait, body = 0, 0, b""
        try:
            async with self._session.post(
                self.url, json=update.content, headers=headers, allow_redirects=False
            ) as answer:
                body = await answer.read()
                status, wait = answer.status, _whole(answer.headers.get("Retry-After", ""))
            words = f"Wrong response from the webhook: {status} {answer.reason}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            words = "Read timeout expired" if isinstance(error, TimeoutError) else _words(error)
        self.pushes.append(Push(update.id, status, attempt))
        if not 200 <= status < 300:
            self._last_error = (self._clock.now().wall // 1000, words)
        self.on_push()
        if 200 <= status < 300:
            await self._answered(body)
        return status, wait

    async def _answered(self, body: bytes) -> None:
        try:
            values: Any = json.loads(body) if body.strip() else {}
        except ValueError:
            return
        if isinstance(values, dict) and isinstance(values.get("method"), str):
            method = values.pop("method")
            await self._carry_out(method, values)


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _words(error: Exception) -> str:
    refused = isinstance(error, aiohttp.ClientConnectorError)
    return "Connection refused" if refused else "Connection closed by the webhook"
