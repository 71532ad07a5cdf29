"""One wire call over HTTP, and the line between "not sent" and "unconfirmed".

Whether a repeat is harmless hangs on one question: may a byte of the request have left? An
exception's name does not answer it. A time limit may end a call while it connects or while
the platform works; a reset may come before the request or after it was read. So the call
watches its connection through aiohttp's trace events. The event of the request's head comes
*before* the head is written; as long as it has not come, no byte left and the outcome is
``NotSent``. From then on everything short of a status line is ``Unconfirmed``.

* One timer per call, never an overall limit: it runs for the connect limit and is set anew
  when the head leaves (the answer limit) and when a status line is there (the body limit).
* A status line is an answer. What becomes of its body afterwards cannot take that back.
* Redirects are not followed, cookies not kept, proxies of the environment not used.
* aiohttp repeats a call by itself when its method counts as idempotent and the connection
  breaks, also on a fresh connection. The same trace event stops that repeat before its first
  byte, whatever the method.
* Connections are fresh for each call unless the caller says that a repeat is harmless (its
  calls carry an idempotency key): a kept connection that has gone stale in the meantime looks
  exactly like a reset after the request was read.

Texts of outcomes never contain an address: it may carry a password or a token.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import SimpleNamespace

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

from angelia.model.messages import well_formed
from angelia.model.outcomes import NotSent, Unconfirmed

connect_limit_s = 10.0  # name resolution, TCP and TLS together
body_limit_s = 5.0  # from the status line to the last byte; a receipt is not worth more
body_bytes_max = 64 * 1024  # of an answer; the rest is not read
excerpt_characters_max = 200  # of an answer's body, in the detail of an outcome
retry_after_s_max = 24 * 3600.0  # no delivery lives longer


class Answer:
    """A status line arrived. ``body`` is what came of the body within its bounds, as sent;
    ``whole`` says whether that is all of it. Names of ``headers`` are case-insensitive."""

    __slots__ = ("body", "headers", "status", "whole")

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.body = b""
        self.whole = False

    def json(self) -> object:
        """The body as JSON; None if it is none (or broken, or nested beyond reason)."""
        try:
            value: object = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        return value

    def describe(self) -> str:
        """The answer in one line, for the operator."""
        text = " ".join(well_formed(self.body.decode("utf-8", "replace")).split())
        excerpt = text[:excerpt_characters_max]
        return f"HTTP {self.status}: {excerpt}" if excerpt else f"HTTP {self.status}"


class _RepeatStoppedError(Exception):
    """aiohttp was about to send the request a second time."""


class _Call:
    """What one call has learned so far from its connection."""

    __slots__ = ("answer", "answer_limit_s", "body_limit_s", "may_have_left", "timer", "transport")

    def __init__(self, timer: asyncio.Timeout, answer_limit_s: float, body_limit_s: float) -> None:
        self.timer = timer
        self.answer_limit_s = answer_limit_s
        self.body_limit_s = body_limit_s
        self.may_have_left = False
        self.answer: Answer | None = None
        self.transport: asyncio.Transport | None = None

    def leaving(self) -> None:
        """The head of the request is about to be written."""
        if self.may_have_left:
            raise _RepeatStoppedError
        self.timer.reschedule(asyncio.get_running_loop().time() + self.answer_limit_s)
        self.may_have_left = True

    def answered(self, response: aiohttp.ClientResponse) -> Answer:
        """The status line is there: from here on only the body can be lost."""
        self.answer = Answer(response.status, response.headers)
        body_until = asyncio.get_running_loop().time() + self.body_limit_s
        if self.body_limit_s <= body_limit_s:  # a receipt is not worth more than the answer was
            body_until = min(body_until, self.timer.when() or body_until)
        self.timer.reschedule(body_until)
        return self.answer

    def cut(self) -> None:
        """End the connection so that nothing more of the request leaves: a plain close would
        go on sending what is buffered here and in the kernel, after the outcome is known. A
        call that went well, request and answer, leaves its connection alone."""
        if self.transport is None:
            return
        if self.answer is not None and self.answer.whole and not self.transport.get_write_buffer_size():
            return
        raw = self.transport.get_extra_info("socket")
        if raw is not None and not self.transport.is_closing():
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


_current: ContextVar[_Call] = ContextVar("current call")


class _WatchedConnector(aiohttp.TCPConnector):
    """Tells a call which connection it got, new or kept."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        _current.get().transport = connection.transport
        return connection


async def _on_head(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: object) -> None:
    call: _Call = context.trace_request_ctx
    call.leaving()


class Wire:
    """The way to one platform. ``open`` it inside a running loop and ``close`` it after use.

    ``answer_limit_s`` counts from the first byte that may leave until the status line.
    ``reuse``: connections may be kept; only where a repeated call is harmless.
    A call lasts at most ``connect_limit_s`` + ``answer_limit_s``. ``body_limit_s`` and
    ``body_bytes_max``: what of an answer's body is waited for and read.
    """

    def __init__(
        self,
        answer_limit_s: float,
        *,
        reuse: bool = False,
        connect_limit_s: float = connect_limit_s,
        body_limit_s: float = body_limit_s,
        body_bytes_max: int = body_bytes_max,
    ) -> None:
        self._answer_limit_s = answer_limit_s
        self._body_limit_s = body_limit_s
        self._body_bytes_max = body_bytes_max
        self._connect_limit_s = connect_limit_s
        self._reuse = reuse
        self._session: aiohttp.ClientSession | None = None
        self._calls: set[_Call] = set()

    @property
    def call_limit_s(self) -> float:
        """The longest time one call may take, in seconds."""
        return self._connect_limit_s + self._answer_limit_s

    async def open(self) -> None:
        """Get ready. Nothing is connected yet."""
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_on_head)
        self._session = aiohttp.ClientSession(
            # No limit: who calls bounds its calls, and a queue would eat the connect limit.
            connector=_WatchedConnector(limit=0, force_close=not self._reuse),
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[trace],
            trust_env=False,
            auto_decompress=False,
        )

    async def close(self) -> None:
        """Close every connection. Calls in flight end with what their connections show."""
        session, self._session = self._session, None
        for call in tuple(self._calls):
            call.cut()  # a plain close would wait for a peer that does not read
        if session is not None:
            await session.close()

    async def call(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer | NotSent | Unconfirmed:
        """Send one request, once. Never raises for what the platform or the network did."""
        session = self._session
        if session is None:
            return NotSent("the adapter is stopped")
        call: _Call | None = None
        try:
            async with asyncio.timeout(self._connect_limit_s) as timer:
                call = _Call(timer, self._answer_limit_s, self._body_limit_s)
                _current.set(call)
                self._calls.add(call)
                response = await session.request(
                    method,
                    _as_written(url),
                    data=body,
                    headers={"Accept-Encoding": "identity", **headers},
                    allow_redirects=False,
                    trace_request_ctx=call,
                )
                try:
                    await _read_body(response, call.answered(response), self._body_bytes_max)
                finally:
                    call.cut()  # unless all of it was read: then the connection may be kept
                    response.release()
        except Exception as error:  # whatever it is, the connection has told what matters
            return self._verdict(call, error)
        finally:
            if call is not None:
                call.cut()
                self._calls.discard(call)
        return self._verdict(call, None)

    def _verdict(self, call: _Call | None, error: Exception | None) -> Answer | NotSent | Unconfirmed:
        if call is not None and call.answer is not None:
            return call.answer
        expired = call is not None and call.timer.expired()
        if call is None or not call.may_have_left:
            return NotSent(f"no connection within {self._connect_limit_s:g} s" if expired else _reason(error))
        if expired:
            return Unconfirmed(f"no answer within {self._answer_limit_s:g} s")
        broke = isinstance(error, (aiohttp.ClientConnectionError, OSError, _RepeatStoppedError))
        if broke:
            return Unconfirmed(f"the connection broke before an answer ({_reason(error)})", dropped=True)
        return Unconfirmed(f"the answer is not HTTP ({_reason(error)})")


def _as_written(url: str) -> URL:
    """Escapes in an address stay as they are: a signed query breaks if they are normalised."""
    return URL(url, encoded=url.isascii() and " " not in url)


async def _read_body(response: aiohttp.ClientResponse, answer: Answer, bytes_max: int) -> None:
    """Read at most ``bytes_max`` of the body into ``answer``."""
    body = bytearray()  # a file comes in many pieces
    try:
        while (room := bytes_max - len(body)) > 0:
            chunk = await response.content.read(room)
            if not chunk:
                answer.whole = True
                return
            body += chunk
    finally:
        answer.body = bytes(body)


def _reason(error: Exception | None) -> str:
    """What broke, in words of the operating system where it has any; never an address."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the name of the host cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "the certificate of the host is not trusted"
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS could not be agreed on"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "closed by the other side"
    if isinstance(error, aiohttp.ClientConnectorError):
        # Several addresses that all failed leave one error without words.
        return error.os_error.strerror or "no address of the host could be connected"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?", re.ASCII)


def retry_after_s(value: str | None, wall_ms: int) -> float | None:
    """The wait that a ``Retry-After`` asks for, in seconds: at least 0, at most 24 h.

    Seconds (fractions too) or an HTTP date, counted from ``wall_ms``. None if it is absent or
    unreadable; a negative, infinite or not-a-number value is unreadable.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), retry_after_s_max)
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)  # an HTTP date is in GMT, whatever its form
    wait_s = (date - datetime.fromtimestamp(wall_ms / 1000, UTC)).total_seconds()
    return min(max(wait_s, 0.0), retry_after_s_max)
