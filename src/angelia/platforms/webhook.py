"""The platform ``webhook``: any service that speaks HTTP can be a platform.

In: the service posts a message to the gateway's one server and gets its 202 only after the
message is committed. Until then it holds the message; if it repeats it, the id is known.

Out: one signed POST per part to ``deliver_url``. The ``Idempotency-Key`` is the same for every
attempt of the same revision. A service that honours it for 24 h says so with
``idempotent: true`` and never gets a doubtful copy; to any other a repeat carries the marker.

The contract in full, for the service's author, is ``docs/reference/webhook.md``. Reading what
comes in is ``webhook_in.py``; its files, ``webhook_files.py`` and ``webhook_fetch.py``.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import structlog
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from standardwebhooks import Webhook

from angelia.model import limits
from angelia.model.errors import AngeliaError, StoreUnavailableError
from angelia.model.ids import AdapterId, Lane
from angelia.model.messages import Inbound, Outgoing, Reception, well_formed
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    BadCredential,
    ContentFault,
    LookUp,
    NotSent,
    Outcome,
    RateLimited,
    Refused,
    Scope,
    Unconfirmed,
    Unreachable,
)
from angelia.model.written import http_address, signing_key
from angelia.platforms.base import Capabilities, Host
from angelia.platforms.http import Answer, Wire, connect_limit_s, retry_after_s
from angelia.platforms.text import split
from angelia.platforms.webhook_fetch import Fetcher
from angelia.platforms.webhook_files import Offered, offered, spooled
from angelia.platforms.webhook_in import Refusal, inbound_of, read_body, try_again_s
from angelia.seams import crash
from angelia.seams.clock import Clock

key_window_s = 24 * 3600.0  # what ``idempotent: true`` declares
rate_limit_default_s = 30.0  # of a 429 that names no wait
media_bytes_max = 64 * 1024 * 1024  # of a file that a link names
history_lines_max = 200  # looked through for a message that may be known, before a file is fetched

_LATER = {"Retry-After": str(try_again_s)}
_log = structlog.get_logger()


class WebhookSettings(BaseModel):
    """What the operator says about one webhook. Errors never show a value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    #: Both the bearer token of what comes in and the signing key of what goes out.
    secret: SecretStr
    #: Where messages go. Not shown: it may carry a password or a token.
    deliver_url: str = Field(repr=False)
    #: The service recognises a repeated ``Idempotency-Key`` for 24 h.
    idempotent: bool = False
    #: The longest text of one message, in code points.
    text_limit: int = Field(default=4096, ge=64)
    #: Seconds from the first byte of a request to the answer's status line.
    timeout_s: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    #: Attachments that come as an address may be fetched from this machine and its networks, too.
    allow_private_addresses: bool = False

    @field_validator("secret")
    @classmethod
    def _usable_secret(cls, secret: SecretStr) -> SecretStr:
        signing_key(secret.get_secret_value())
        return secret

    @field_validator("deliver_url")
    @classmethod
    def _usable_address(cls, address: str) -> str:
        return http_address(address)


class WebhookAdapter:
    """One profile's webhook. Keeps nothing that must survive it."""

    def __init__(
        self,
        adapter_id: AdapterId,
        settings: WebhookSettings,
        clock: Clock,
        *,
        connect_limit_s: float = connect_limit_s,
    ) -> None:
        self._id = adapter_id
        self._settings = settings
        self._clock = clock
        self._bearer = settings.secret.get_secret_value().encode()
        self._signer = Webhook(signing_key(settings.secret.get_secret_value()))
        # A kept connection that went stale makes doubt; only a key makes that doubt harmless.
        self._wire = Wire(settings.timeout_s, reuse=settings.idempotent, connect_limit_s=connect_limit_s)
        self._fetcher = Fetcher(settings.allow_private_addresses)
        self._host: Host | None = None
        self._silent = False
        self._capabilities = Capabilities(
            text_limit=settings.text_limit,
            key_window_s=key_window_s if settings.idempotent else 0.0,
            call_limit_s=self._wire.call_limit_s,
            worst_case="never twice" if settings.idempotent else "twice, but marked",
            media_bytes=media_bytes_max,
            caption_limit=settings.text_limit,
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """One path; every method of it is answered, so that every answer is JSON."""
        return [web.route("*", f"/webhook/{self._id.profile}/messages", self._receive)]

    async def start(self, host: Host) -> None:
        """Nothing is connected: whether the service is there shows with the first send."""
        await self._wire.open()
        self._host = host

    async def stop(self) -> None:
        self._host = None
        await self._wire.close()

    def split(self, text: str, limit: int | None = None) -> list[str]:
        return split(text, limit or self._settings.text_limit, len)

    def present(self, chat: str) -> bool:
        """True unless stopped: a webhook is always worth a try."""
        return self._host is not None

    async def look_up(self, message: Outgoing, since: int) -> Accepted | LookUp:
        return LookUp.CANNOT_TELL

    async def typing(self, lane: Lane, active: bool) -> Outcome | None:
        return None

    # -- out ---------------------------------------------------------------------------------

    async def send(self, message: Outgoing) -> Outcome:
        """One signed POST. The signature covers exactly the bytes that leave."""
        host = self._host
        if host is None:
            return NotSent("the adapter is stopped")
        try:
            files = _linked(host, message)
        except StoreUnavailableError as error:
            return NotSent(str(error))
        if files is None:
            return BadContent(ContentFault.MEDIA, "the file is gone from the spool")
        body = _body(message, files)
        seconds = self._clock.now().wall // 1000
        signature = self._signer.sign(message.key, datetime.fromtimestamp(seconds, UTC), body.decode())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "angelia",
            "Idempotency-Key": message.key,
            "webhook-id": message.key,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signature,
        }
        answer = await self._wire.call("POST", self._settings.deliver_url, body, headers)
        if not isinstance(answer, Answer):
            self._silent = True
            return answer
        if self._silent:
            host.connected()  # it answers again: rows that wait for a connection may go
        self._silent = False
        outcome = outcome_of(answer, self._clock.now().wall)
        if message.attachment is not None and answer.status in (413, 415, 422):
            return BadContent(ContentFault.MEDIA, answer.describe())
        return outcome

    # -- in ----------------------------------------------------------------------------------

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        try:
            inbound, files = await self._read(request)
            reception = await self._receive_with(inbound, files)
        except Refusal as refusal:
            return refusal.response()
        if reception is Reception.NOT_ALLOWED:
            return Refusal(403, "this user is not allowed to talk to this profile").response()
        status = 202 if reception is Reception.ACCEPTED else 200
        response = web.json_response({"status": str(reception)}, status=status)
        crash.point("ack.before")
        with suppress(ConnectionError):  # the service left; it will repeat the message
            await response.prepare(request)
            await response.write_eof()
            crash.point("ack.after")
        return response

    async def _read(self, request: web.Request) -> tuple[Inbound, tuple[Offered, ...]]:
        """What the request says, checked; who asks comes before what is asked."""
        if not self._authorized(request.headers.get("Authorization", "")):
            raise Refusal(401, "the bearer token is missing or wrong", {"WWW-Authenticate": "Bearer"})
        if request.method != "POST":
            raise Refusal(405, "messages are sent with POST", {"Allow": "POST"})
        inbound, files = inbound_of(self._id, await read_body(request))
        return inbound, offered(files)

    async def _receive_with(self, inbound: Inbound, files: tuple[Offered, ...]) -> Reception:
        """Files first, each in the spool before the message that names it is committed; but none
        for a stranger, and none for a message that is known: its address may have ended since."""
        host = self._open_host()
        if not files:
            return await self._commit(inbound)
        if not host.allows(inbound.user):
            return Reception.NOT_ALLOWED
        if any(file.url for file in files) and await self._known(host, inbound):
            return Reception.DUPLICATE
        kept = await spooled(files, self._open_host, self._fetcher)
        return await self._commit(replace(inbound, attachments=kept))

    async def _known(self, host: Host, inbound: Inbound) -> bool:
        """Whether the message is among the newest of its chat."""
        try:
            lines = await host.history(inbound.chat, history_lines_max)
        except AngeliaError:
            raise Refusal(503, "the message cannot be stored just now", _LATER) from None
        return any(line.role == "user" and line.client_id == inbound.message_id for line in lines)

    def _open_host(self) -> Host:
        if self._host is None:
            raise Refusal(503, "the gateway does not take messages just now", _LATER)
        return self._host

    def _authorized(self, header: str) -> bool:
        scheme, _, token = header.partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        return scheme.lower() == "bearer" and hmac.compare_digest(given, self._bearer)

    async def _commit(self, inbound: Inbound) -> Reception:
        host = self._open_host()
        try:
            return await host.receive(inbound)
        except StoreUnavailableError:
            raise Refusal(503, "the message cannot be stored just now", _LATER) from None
        except Exception:
            _log.exception("an inbound message could not be received", action="webhook.receive_failed")
            raise Refusal(500, "internal error; the message was not accepted") from None


def _linked(host: Host, message: Outgoing) -> list[dict[str, object]] | None:
    """The files of a message; ``None``: its file is gone. Raises ``StoreUnavailableError``."""
    file = message.attachment
    if file is None:
        return []
    if not host.spooled(file).is_file():
        return None
    url = host.address + host.link(file, message.written_at)
    return [{"url": url, "name": file.name, "mime": file.mime, "kind": file.kind.value, "size": file.size}]


def _body(message: Outgoing, files: list[dict[str, object]]) -> bytes:
    """The JSON of one message, compact, in UTF-8. ``thread`` and ``reply_to`` are null if absent."""
    fields = {
        "delivery": message.delivery,
        "part": message.part,
        "parts": message.parts,
        "chat": well_formed(message.chat),
        "thread": well_formed(message.thread) or None,
        "reply_to": well_formed(message.reply_to) or None,
        "text": well_formed(message.text),
        "attachments": files,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def outcome_of(answer: Answer, wall_ms: int) -> Outcome:
    """What an answer of the service teaches (``docs/reference/webhook.md``, "Answers")."""
    status, detail = answer.status, answer.describe()
    wait_s = retry_after_s(answer.headers.get("Retry-After"), wall_ms)
    if 200 <= status < 300:
        return Accepted(_receipt(answer))
    if status == 429:
        return RateLimited(rate_limit_default_s if wait_s is None else wait_s, Scope.CHAT, detail=detail)
    if status == 503 and wait_s is not None:
        return RateLimited(wait_s, Scope.CHAT, detail=detail)
    if status == 410:
        return Unreachable(detail)
    if status in (401, 403):
        return BadCredential(detail)
    if status == 413:
        return BadContent(ContentFault.TOO_LONG, detail)
    if status == 422:
        return BadContent(ContentFault.MARKUP, detail)
    if 300 <= status < 500:
        return Refused(detail)
    return Unconfirmed(detail)  # 5xx may have acted; anything else says nothing


def _receipt(answer: Answer) -> str:
    """The service's own id of the message, if its answer is a JSON object with one."""
    value = answer.json()
    receipt = value.get("id") if isinstance(value, dict) else None
    if isinstance(receipt, int) and not isinstance(receipt, bool):
        receipt = str(receipt)
    if not isinstance(receipt, str) or len(receipt) > limits.id_characters_max:
        return ""
    return well_formed(receipt)
