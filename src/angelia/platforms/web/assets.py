"""The files of the page, and the headers under which everything of it goes out.

Files are read once per adapter, from the package. They are always revalidated (an ETag per
content), so that a page never runs yesterday's code against today's gateway. The policy allows
our own files and nothing else: no inline script, no foreign host, no frame around us.
"""

from __future__ import annotations

import hashlib
import html
from dataclasses import dataclass
from importlib.resources import files

from aiohttp import web

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    etag: str
    content_type: str


class Assets:
    """The files of one adapter's page, in memory."""

    def __init__(self, profile: str) -> None:
        folder = files(__package__) / "static"
        self._files: dict[str, _File] = {}
        for entry in folder.iterdir():
            content_type = _TYPES.get(entry.name.rpartition(".")[2])
            if content_type is not None:
                body = entry.read_bytes()
                self._files[entry.name] = _File(body, _etag(body), content_type)
        self._index = (folder / "index.html").read_text("utf-8")
        self._login = (folder / "login.html").read_text("utf-8")
        self._title = "Angelia" if profile == "default" else f"{profile} · Angelia"

    def file(self, request: web.Request, name: str) -> web.Response:
        """The static file ``name``, 304 if the browser has it, or 404."""
        file = self._files.get(name)
        if file is None:
            return web.Response(status=404, text="There is no such file.\n")
        headers = {"ETag": f'"{file.etag}"'}
        known = request.if_none_match or ()
        if any(tag.value in (file.etag, "*") for tag in known):
            return web.Response(status=304, headers=headers)
        return web.Response(body=file.body, content_type=file.content_type, charset="utf-8", headers=headers)

    def index(self, base: str) -> web.Response:
        """The chat page. ``base``: the relative way from its address to the profile's folder."""
        return self._page(self._index, base, "", 200)

    def login(self, base: str, problem: str = "", status: int = 401) -> web.Response:
        """The page that asks for the password, with what was wrong about the last try."""
        response = self._page(self._login, base, problem, status)
        # With no-referrer a browser would send "Origin: null" with the form, which proves nothing.
        response.headers["Referrer-Policy"] = "same-origin"
        return response

    def _page(self, template: str, base: str, problem: str, status: int) -> web.Response:
        text = template.replace("{{base}}", html.escape(base))
        text = text.replace("{{title}}", html.escape(self._title)).replace(
            "{{problem}}", html.escape(problem)
        )
        return web.Response(text=text, content_type="text/html", charset="utf-8", status=status)


def protect(response: web.StreamResponse) -> None:
    """Put the security headers on ``response``, which was not sent yet."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def _etag(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]
