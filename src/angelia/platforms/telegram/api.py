"""The wire to the Bot API: one call is one request, and its answer is read without trust.

The token stands in the address of every call, so an address never gets into a text, and what
a server says is shown with the token masked: a wrong server may echo the path it was asked for.

Four ways to the same server, because their limits differ: calls (a fresh connection each, so
that a stale one cannot look like a reset after the request was read), the long poll (its
connection is kept: repeating it is harmless), uploads and downloads (slow).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from angelia.model.messages import well_formed
from angelia.model.outcomes import NotSent, Unconfirmed
from angelia.platforms.http import Answer, Wire, connect_limit_s
from angelia.platforms.telegram.settings import PUBLIC_API

poll_limit_s = 50  # Telegram holds a getUpdates no longer (source of telegram-bot-api)
poll_bytes_max = 32 * 1024 * 1024  # a hundred updates of the longest texts, with room
upload_limit_s = 300.0  # 50 MB over a slow line, and Telegram's own work on it
download_limit_s = 30.0  # a message waits for its file, and its chat waits for the message
download_bytes_max = 20 * 1000 * 1000  # what getFile serves (Bot API documentation)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that goes with a call, as the value of ``field``."""

    field: str
    name: str
    mime: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """What a status line and its body say. ``readable``: it is the JSON of a Bot API.

    ``code`` is ``error_code``, or the status; ``retry_after`` in seconds; ``moved_to``: the
    chat's new id, or ``""``. ``description`` is for people and shows no token.
    """

    status: int
    readable: bool
    ok: bool
    result: Any
    code: int
    description: str
    retry_after: float | None = None
    moved_to: str = ""


class BotApi:
    """The calls of one bot. ``open`` it inside a running loop and ``close`` it after use."""

    def __init__(
        self, token: str, base_url: str, answer_limit_s: float, *, connect_limit_s: float = connect_limit_s
    ) -> None:
        self._token = token
        self._base = base_url
        self._calls = Wire(answer_limit_s, connect_limit_s=connect_limit_s)
        self._polls = Wire(
            poll_limit_s + answer_limit_s,
            reuse=True,
            connect_limit_s=connect_limit_s,
            body_limit_s=60.0,
            body_bytes_max=poll_bytes_max,
        )
        self._uploads = Wire(max(upload_limit_s, answer_limit_s), connect_limit_s=connect_limit_s)
        self._downloads = Wire(
            download_limit_s,
            connect_limit_s=connect_limit_s,
            body_limit_s=download_limit_s,
            body_bytes_max=download_bytes_max + 1,
        )
        self._wires = (self._calls, self._polls, self._uploads, self._downloads)

    @property
    def call_limit_s(self) -> float:
        """The longest time one call may take, in seconds."""
        return max(self._calls.call_limit_s, self._uploads.call_limit_s)

    async def open(self) -> None:
        for wire in self._wires:
            await wire.open()

    async def close(self) -> None:
        for wire in self._wires:
            await wire.close()

    async def call(
        self, method: str, fields: Mapping[str, Any], upload: Upload | None = None
    ) -> Reply | NotSent | Unconfirmed:
        """One call of ``method``. Fields that are None are left out."""
        given = {name: value for name, value in fields.items() if value is not None}
        if upload is not None:
            content_type, body = _multipart(given, upload)
            return await self._ask(self._uploads, method, body, content_type)
        body = json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        wire = self._polls if method == "getUpdates" else self._calls
        return await self._ask(wire, method, body, "application/json")

    async def download(self, path: str) -> bytes | str:
        """The bytes of a file that ``getFile`` named, or why they are not to be had."""
        if path.startswith("/"):  # a Bot API server of one's own with --local names its own files
            return self._local(path)
        url = f"{self._base}/file/bot{self._token}/{quote(path)}"
        answer = await self._downloads.call("GET", url, b"", {"User-Agent": "angelia"})
        if not isinstance(answer, Answer):
            return answer.detail
        if answer.status != 200:
            return f"HTTP {answer.status}"
        if len(answer.body) > download_bytes_max:
            return "it is too large"
        return answer.body if answer.whole else "it broke off"

    def _local(self, path: str) -> bytes | str:
        if self._base == PUBLIC_API:
            return "the file has no public path"
        try:
            with Path(path).open("rb") as file:
                data = file.read(download_bytes_max + 1)
        except OSError as error:
            return f"the Bot API server's own file cannot be read here ({error.strerror})"
        return data if len(data) <= download_bytes_max else "it is too large"

    async def _ask(
        self, wire: Wire, method: str, body: bytes, content_type: str
    ) -> Reply | NotSent | Unconfirmed:
        url = f"{self._base}/bot{self._token}/{method}"
        headers = {"Content-Type": content_type, "User-Agent": "angelia"}
        answer = await wire.call("POST", url, body, headers)
        return self._read(answer) if isinstance(answer, Answer) else answer

    def _read(self, answer: Answer) -> Reply:
        value = answer.json()
        if not isinstance(value, dict) or not isinstance(value.get("ok"), bool):
            # Of an acceptance whose end was lost the beginning is enough.
            begun = 200 <= answer.status < 300 and answer.body.lstrip().startswith(b'{"ok":true')
            return Reply(answer.status, begun, begun, None, answer.status, self._mask(answer.describe()))
        code = value.get("error_code")
        if not isinstance(code, int) or isinstance(code, bool):
            code = answer.status
        said = value.get("description")
        description = self._mask(" ".join(well_formed(said).split())) if isinstance(said, str) else ""
        hints = value.get("parameters")
        hints = hints if isinstance(hints, dict) else {}
        wait, moved = hints.get("retry_after"), hints.get("migrate_to_chat_id")
        return Reply(
            answer.status,
            True,
            value["ok"],
            value.get("result"),
            code,
            (description or f"error {code}")[:300],
            float(wait) if isinstance(wait, int | float) and 0 <= wait < 1e9 else _header_wait(answer),
            str(moved) if isinstance(moved, int) and not isinstance(moved, bool) else "",
        )

    def _mask(self, text: str) -> str:
        return text.replace(self._token.partition(":")[2], "(token)")


def _header_wait(answer: Answer) -> float | None:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _multipart(fields: Mapping[str, Any], upload: Upload) -> tuple[str, bytes]:
    """``multipart/form-data``. The boundary is made of the content, so it is not in it."""
    boundary = "angelia-" + hashlib.sha256(upload.data + b"boundary").hexdigest()[:40]
    body = bytearray()
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
        body += (head + text + "\r\n").encode("utf-8", "replace")
    shown = "".join("_" if c in '"\\' or not c.isprintable() else c for c in upload.name) or "file"
    mime = upload.mime if upload.mime.isascii() and upload.mime.isprintable() else "application/octet-stream"
    head = (
        f"--{boundary}\r\nContent-Disposition: form-data; "
        f'name="{upload.field}"; filename="{shown}"\r\nContent-Type: {mime}\r\n\r\n'
    )
    body += head.encode("utf-8", "replace") + upload.data + f"\r\n--{boundary}--\r\n".encode()
    return f"multipart/form-data; boundary={boundary}", bytes(body)
