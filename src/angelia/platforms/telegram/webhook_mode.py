"""Being called by Telegram: the secret first, the commit before the 2xx.

Telegram calls again until it gets a 2xx, one update of a chat after the other, so a 503 while
the store cannot be written costs nothing but time. Nothing is answered in the body: a method
call there would be made without anybody learning its outcome.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from contextlib import suppress

import structlog
from aiohttp import web

from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import AdapterId
from angelia.model.outcomes import NotSent, Unconfirmed
from angelia.platforms.telegram.api import BotApi, Reply
from angelia.platforms.telegram.intake import Intake
from angelia.platforms.telegram.settings import TelegramSettings
from angelia.platforms.telegram.updates import ALLOWED_UPDATES
from angelia.seams import crash

SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
body_bytes_max = 4 * 1024 * 1024  # an update is some tens of kilobytes
body_limit_s = 30.0
try_again_s = 2  # Telegram keeps to the Retry-After of a failure (source of telegram-bot-api)

_log = structlog.get_logger("angelia")


async def choose_mode(api: BotApi, settings: TelegramSettings) -> Reply | NotSent | Unconfirmed:
    """Tell Telegram how updates come; its answer. What waits there is kept in either case."""
    if settings.mode == "polling":
        return await api.call("deleteWebhook", {})
    return await api.call(
        "setWebhook",
        {
            "url": settings.webhook_url,
            "secret_token": settings.webhook_secret.get_secret_value(),
            "allowed_updates": ALLOWED_UPDATES,
        },
    )


class WebhookMode:
    """Answers the calls to one bot's path. Without an intake: not now."""

    def __init__(self, adapter_id: AdapterId, secret: str) -> None:
        self._id = adapter_id
        self._secret = secret.encode()
        self.intake: Intake | None = None

    async def receive(self, request: web.Request) -> web.StreamResponse:
        given = request.headers.get(SECRET_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._secret):
            return web.Response(status=401, text="the secret token is missing or wrong\n")
        try:
            update = json.loads(await _body(request))
        except (ValueError, RecursionError):
            return web.Response(status=400, text="the body is no JSON\n")
        except TimeoutError:
            return web.Response(status=408, text="the body did not arrive\n")
        if self.intake is None:
            return _later()
        try:
            self.intake.foresee([update])
            await self.intake.take(update)
        except StoreUnavailableError:
            return _later()
        except Exception:
            _log.exception(
                "a message of Telegram could not be received; Telegram repeats it",
                action="telegram.receive_failed",
                adapter=str(self._id),
            )
            return web.Response(status=500, text="internal error; the update was not accepted\n")
        response = web.Response(status=200)
        crash.point("ack.before")
        with suppress(ConnectionError):  # Telegram left; it will call again
            await response.prepare(request)
            await response.write_eof()
            crash.point("ack.after")
        return response


def _later() -> web.Response:
    return web.Response(status=503, text="not now\n", headers={"Retry-After": str(try_again_s)})


async def _body(request: web.Request) -> bytes:
    """The body, counted as it comes. Raises ``ValueError`` and ``TimeoutError``."""
    body = bytearray()
    async with asyncio.timeout(body_limit_s):
        try:
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > body_bytes_max:
                    raise ValueError("too long")
        except (web.RequestPayloadError, ConnectionError) as error:
            raise ValueError("broken off") from error
    return bytes(body)
