"""What a webhook's caller sent: read within bounds, checked, and refused with a reason.

Everything here happens before anything is on record. A request that is refused has not been
seen: its id may come again with better content. A body that is no JSON object in UTF-8 is a
400, a field that cannot be taken a 422 that names it. NUL and lone surrogates are replaced,
not refused, because services pass on what people typed.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import Self

from aiohttp import web

from angelia.model import limits
from angelia.model.ids import AdapterId
from angelia.model.messages import Inbound, well_formed

body_bytes_max = 1024 * 1024  # of one request, unpacked
body_limit_s = 30.0  # for such a body to arrive
try_again_s = 5  # what a 503 of ours asks for


class Refusal(Exception):
    """A request that is answered without being received."""

    def __init__(
        self, status: int, error: str, headers: Mapping[str, str] | None = None, field: str = ""
    ) -> None:
        super().__init__(error)
        self.status = status
        self.headers = headers or {}
        self.content = {"error": error, "field": field} if field else {"error": error}

    def response(self) -> web.Response:
        response = web.json_response(self.content, status=self.status, headers=self.headers)
        if self.status in (408, 413):
            response.force_close()  # the rest of the body is not worth reading
        return response


class _Fields(dict[str, object]):
    """A JSON object that remembers which of its names stood in it more than once."""

    twice: frozenset[str]

    @classmethod
    def of(cls, pairs: list[tuple[str, object]]) -> Self:
        fields = cls(pairs)
        fields.twice = frozenset()
        if len(fields) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            fields.twice = frozenset(name for name, count in counts.items() if count > 1)
        return fields


async def read_body(request: web.Request) -> bytes:
    """The body, counted as it comes: a declared length may be absent or a lie."""
    too_long = Refusal(413, f"the body is longer than {body_bytes_max} bytes")
    if (request.content_length or 0) > body_bytes_max:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(body_limit_s):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > body_bytes_max:
                    raise too_long
    except TimeoutError:
        raise Refusal(408, f"the body did not arrive within {body_limit_s:g} s") from None
    except (web.RequestPayloadError, ConnectionError):
        raise Refusal(400, "the body broke off, or cannot be unpacked") from None
    return bytes(body)


def inbound_of(adapter: AdapterId, body: bytes) -> tuple[Inbound, object]:
    """The message in ``body``, and what it says about files. Names outside the contract are
    ignored. Where there are files, there need be no text."""
    try:
        fields = json.loads(
            body.decode("utf-8-sig"), object_pairs_hook=_Fields.of, parse_constant=_no_constant
        )
    except UnicodeDecodeError:
        raise Refusal(400, "the body is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON") from None
    if not isinstance(fields, _Fields):
        raise Refusal(400, "the body is not a JSON object")
    message_id = _text(fields, "id", limits.id_characters_max)
    chat = _text(fields, "chat", limits.id_characters_max)
    user = _text(fields, "user", limits.id_characters_max)
    files = _once(fields, "attachments")
    text = ""
    if not files or _once(fields, "text") is not None:
        text = _text(fields, "text", limits.text_characters_max, characters_min=0 if files else 1)
    thread = ""
    if fields.get("thread") is not None or "thread" in fields.twice:
        thread = _text(fields, "thread", limits.id_characters_max, characters_min=0)
    inbound = Inbound(
        adapter.profile, adapter.platform, chat, message_id, user, text, thread, reply_to=message_id
    )
    return inbound, files


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _once(fields: _Fields, name: str) -> object:
    """What stands under ``name``; ``None`` if nothing does."""
    if name in fields.twice:
        raise Refusal(422, f"{name} stands in the object more than once", field=name)
    return fields.get(name)


def _text(fields: _Fields, name: str, characters_max: int, characters_min: int = 1) -> str:
    """One field, as every store and platform can carry it."""
    value = _once(fields, name)
    if name not in fields:
        raise Refusal(422, f"{name} is missing", field=name)
    if not isinstance(value, str):
        raise Refusal(422, f"{name} is not a string", field=name)
    if len(value) > characters_max:
        raise Refusal(422, f"{name} is longer than {characters_max} characters", field=name)
    if len(value.strip()) < characters_min:
        raise Refusal(422, f"{name} is empty", field=name)
    return well_formed(value)
