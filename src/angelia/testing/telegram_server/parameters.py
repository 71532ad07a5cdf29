"""One call as it arrived: its method, its parameters in any of the four ways the API takes.

Parameters come in the query, as a form, as JSON, or in a multipart body beside files; a value
may be a string that holds JSON. The readers here are as lenient as the real ones and refuse in
the same words. Nothing is judged before the whole request was read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from angelia.testing.telegram_server.answers import Json, bad_request

upload_bytes_max = 50 * 1024 * 1024  # R: api "Sending files": other files of up to 50 MB


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a multipart body."""

    name: str
    data: bytes
    mime_type: str


@dataclass(slots=True)
class Call:
    """One call. ``number`` counts from 1 in the order of arrival; ``method`` is in lower case.

    ``chat``: the chat that ``chat_id`` names, ``None`` if it names none. ``outcome``: "" while it
    is worked on, then ``ok``, the refusal's description, or how the exchange ended instead.
    ``at_ms``: when it was read, by the server's clock.
    """

    number: int
    method: str
    values: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)
    at_ms: int = 0
    chat: int | None = None
    accepted: bool = False
    outcome: str = ""

    def text(self, name: str) -> str:
        """The value as a string; "" if there is none. JSON values are given as JSON."""
        value = self.values.get(name)
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value)

    def number_of(self, name: str, default: int | None = None) -> int | None:
        """The value as a whole number, ``default`` if there is none or it is none."""
        try:
            return int(self.text(name))
        except ValueError:
            return default

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "yes", "1")

    def parsed(self, name: str, what: str) -> Any:
        """The value read as JSON, ``None`` if there is none.

        Raises a refusal that names it as ``what``."""
        value = self.values.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise bad_request(f"can't parse {what} JSON object") from None

    def to_json(self) -> Json:
        files = {name: {"name": file.name, "bytes": len(file.data)} for name, file in self.files.items()}
        return {
            "number": self.number,
            "method": self.method,
            "chat": self.chat,
            "values": self.values,
            "files": files,
            "at_ms": self.at_ms,
            "accepted": self.accepted,
            "outcome": self.outcome,
        }


async def read(request: web.Request, method: str) -> Call:
    """The whole of ``request``, without a number yet. Raises a refusal for a body that cannot be
    read as what it says it is; the connection's own errors pass through."""
    call = Call(0, method, dict(request.query))
    try:
        await _read_body(request, call)
    except UnicodeDecodeError:
        raise bad_request("strings must be encoded in UTF-8") from None
    return call


async def _read_body(request: web.Request, call: Call) -> None:
    kind = request.content_type
    if kind == "application/json":
        body = await request.read()
        try:
            values = json.loads(body) if body.strip() else {}
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise bad_request("can't parse JSON object")
        call.values.update(values)
    elif kind == "multipart/form-data":
        await _read_parts(request, call)
    elif kind == "application/x-www-form-urlencoded":
        call.values.update({name: str(value) for name, value in (await request.post()).items()})
    else:
        await request.read()


async def _read_parts(request: web.Request, call: Call) -> None:
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            data = value.file.read()
            call.files[name] = Upload(value.filename or name, data, value.content_type)
        else:
            call.values[name] = value if isinstance(value, str) else value.decode()
