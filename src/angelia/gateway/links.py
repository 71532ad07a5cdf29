"""Links under which a file of the spool can be fetched: signed, for one file, for a limited time.

Whoever has a link has the file, and nothing else: name, media type and end are part of what is
signed (HMAC-SHA256), there is no folder and no list. A link is made of what is on record alone,
so the same part has the same link in every attempt, on every page and after every restart: a
webhook's repeat has the same bytes under the same key.

It ends with what the record can still name: a delivery is sent for 24 h after it was written and
kept for 7 days after that. A wrong link is answered like none at all (404), an old one and one
whose file is gone with 410.

The key is 32 random bytes in ``links.key`` of the home, mode 0600, made when the first link is.
It is in no backup: links made before a restore on another machine end there.

A file goes out so that nothing in it can run: only pictures, sounds and films have a media type
of their own, everything else is bytes to be saved.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
from pathlib import Path
from urllib.parse import quote, urlencode

from aiohttp import web

from angelia.model import limits
from angelia.model.errors import StoreUnavailableError
from angelia.model.media import Attachment
from angelia.seams.clock import Clock
from angelia.seams.rng import Rng

#: Where the server serves them.
PATH = "/files/{file}/{name}"
lifetime_ms = limits.freshness_ms + limits.retention_ms  # after the delivery was written

_SPOOLED = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"[0-9a-f]{64}")
_KEY_BYTES_MAX = 1024
_DIGITS_MAX = 15

#: What a browser may show by itself. None of these can hold a script.
_SHOWN = frozenset(
    f"{family}/{kind}"
    for family, kinds in {
        "image": ("jpeg", "png", "webp", "gif"),
        "audio": ("ogg", "mpeg", "mp4", "wav", "flac", "webm"),
        "video": ("mp4", "webm"),
    }.items()
    for kind in kinds
)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # A service may show a file on a page of its own; the link is the only permission there is.
    "Cross-Origin-Resource-Policy": "cross-origin",
}


class Links:
    """Makes links and answers them. ``home`` holds the key, ``spool`` the files."""

    def __init__(self, home: Path, spool: Path, clock: Clock, rng: Rng) -> None:
        self._place = home / "links.key"
        self._spool = spool
        self._clock = clock
        self._rng = rng
        self._known = b""

    def link(self, attachment: Attachment, written_at: int) -> str:
        """The link to an attachment of a delivery that was written at ``written_at``
        (milliseconds), relative to the root of the server: ``files/…``.

        Raises ``StoreUnavailableError`` if there is no key yet and none can be written."""
        until = (written_at + lifetime_ms) // limits.SECOND_MS
        kind = _media_type(attachment.mime)
        signature = _sign(self._key(), attachment.file, attachment.name, kind, until)
        query = urlencode({"type": kind, "until": until, "signature": signature}, quote_via=quote)
        return f"files/{attachment.file}/{quote(attachment.name, safe='')}?{query}"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """The file that a link names."""
        response = self._answer(request)
        for name, value in _HEADERS.items():
            response.headers[name] = value
        return response

    def _answer(self, request: web.Request) -> web.StreamResponse:
        file, name = request.match_info["file"], request.match_info["name"]
        said, kind = request.query.get("until", ""), request.query.get("type", "")
        if not _SPOOLED.fullmatch(file) or not _is_number(said) or not self._signed(request, file, name):
            return _plain(404, "There is no such file.")
        until = int(said)
        if self._clock.now().wall >= until * limits.SECOND_MS:
            return _plain(410, "This link has ended.")
        place = self._spool / file
        if not place.is_file():
            return _plain(410, "This file is gone.")
        shown = kind in _SHOWN
        return web.FileResponse(
            place,
            headers={
                "Content-Type": kind if shown else "application/octet-stream",
                "Content-Disposition": _disposition("inline" if shown else "attachment", name),
                "Cache-Control": "private, max-age=86400, immutable",
            },
        )

    def _signed(self, request: web.Request, file: str, name: str) -> bool:
        """Whether this very link was made here. Without a key none ever was."""
        key = self._read()
        if not key:
            return False
        kind, until = request.query.get("type", ""), int(request.query.get("until", "0"))
        right = _sign(key, file, name, kind, until)
        given = request.query.get("signature", "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())

    def _key(self) -> bytes:
        """The key; made, written and synced if there is none."""
        key = self._read()
        if key:
            return key
        text = "".join(self._rng.token() for _ in range(4))[:64]
        beside = self._place.with_name(f".{self._place.name}")
        try:
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                os.fchmod(file.fileno(), 0o600)  # also of one that was left by a crash
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            beside.rename(self._place)
            folder = os.open(self._place.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise StoreUnavailableError(f"{self._place}: cannot be written ({error.strerror})") from error
        self._known = bytes.fromhex(text)
        return self._known

    def _read(self) -> bytes:
        """The key, or nothing where there is none that could be one."""
        if not self._known:
            with contextlib.suppress(OSError), self._place.open("rb") as file:
                text = file.read(_KEY_BYTES_MAX).decode("ascii", "replace").strip()
                self._known = bytes.fromhex(text) if _KEY.fullmatch(text) else b""
        return self._known


def _sign(key: bytes, file: str, name: str, kind: str, until: int) -> str:
    """What stands for one link. No field can hold the separator: a name without line breaks is
    the spool's rule, and a type that has one is not made here."""
    told = "\n".join(("angelia link 1", file, kind, str(until), name))
    return hmac.new(key, told.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _media_type(mime: str) -> str:
    """``audio/ogg`` of ``audio/ogg; codecs=opus``."""
    return mime.partition(";")[0].strip().lower()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def _disposition(manner: str, name: str) -> str:
    """With the name in both writings: of RFC 6266, and for those who know only ASCII."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in name)
    return f"{manner}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _plain(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={"Cache-Control": "no-store"})
