"""A loopback server that breaks in exactly the way it is told.

Real HTTP servers are too polite for an exam: they read what they are sent and finish what
they began. This one is a socket and a script. The script decides whether the request is read
at all, what is said, and whether the end is a close or a reset. The server writes down every
byte it got, so an exam can tell not only what an adapter believes, but what really arrived.

Beside it stand the addresses where nobody answers: a port that refuses, a queue that is full,
a name that does not exist.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

chunk_bytes = 64 * 1024
settle_limit_s = 10.0  # for the other side to close its connections once its adapter is stopped


@dataclass(frozen=True, slots=True)
class Request:
    """One request that arrived in full. Names in ``headers`` are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


class LeftError(Exception):
    """The other side left before its request was complete."""


class Connection:
    """What a script works with."""

    def __init__(
        self, server: BreakingServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._unread = bytearray()
        #: Everything that was read from this connection.
        self.received = bytearray()

    async def _more(self) -> bool:
        data = await self._reader.read(chunk_bytes)
        self.received += data
        self._unread += data
        return bool(data)

    async def some(self) -> None:
        """Wait for any bytes at all."""
        if not self._unread and not await self._more():
            raise LeftError

    async def request(self) -> Request:
        """Read one whole request (with a ``Content-Length``, or none) and write it down."""
        while b"\r\n\r\n" not in self._unread:
            if not await self._more():
                raise LeftError
        head, _, _ = bytes(self._unread).partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        pairs = (entry.partition(":") for entry in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        end = len(head) + 4 + int(headers.get("content-length", "0"))
        while len(self._unread) < end:
            if not await self._more():
                raise LeftError
        request = Request(line, headers, bytes(self._unread[len(head) + 4 : end]))
        del self._unread[:end]
        self._server.requests.append(request)
        return request

    async def say(self, data: bytes) -> None:
        """Write ``data`` as it is."""
        self._writer.write(data)
        await self._writer.drain()

    async def hang(self) -> None:
        """Read on, say nothing, until the other side leaves."""
        while await self._more():
            pass

    async def ignore(self) -> None:
        """Read nothing, say nothing, until the exam is over."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        await self._server.over.wait()
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    def reset(self) -> None:
        """End the connection with a reset."""
        raw: socket.socket = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        """End the connection properly."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def follow(self, script: Script) -> None:
        """Play ``script``; afterwards read whatever else comes, to have seen it."""
        with suppress(LeftError, OSError):
            await script(self)
        with suppress(LeftError, OSError):
            while not self._writer.is_closing():
                await self.request()  # beyond the script: seen, never answered
        await self.close()


#: What one connection shall live through.
Script = Callable[[Connection], Awaitable[None]]


@dataclass(slots=True)
class BreakingServer:
    """Plays ``script`` on every connection. Use it as an asynchronous context manager.

    ``receive_buffer_bytes`` makes the kernel's buffer small, for scripts that do not read.
    """

    script: Script
    receive_buffer_bytes: int = 0
    url: str = ""
    #: The requests that arrived in full, in the order in which they did.
    requests: list[Request] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        listener = socket.socket()
        if self.receive_buffer_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
        listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        self._server = await asyncio.start_server(self._connected, sock=listener)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        self.over.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        self.connections.append(connection)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await connection.follow(self.script)
        except asyncio.CancelledError:  # the end of the exam; asyncio would log it as an error
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def settle(self) -> None:
        """Wait until every connection has ended and all its bytes were seen.

        Raises ``TimeoutError`` if the other side keeps one open."""
        self.over.set()
        async with asyncio.timeout(settle_limit_s):
            await asyncio.gather(*self._tasks)


# -- scripts ---------------------------------------------------------------------------------


def head_of(status: int, headers: dict[str, str] | None = None) -> bytes:
    """A status line and headers, with the empty line that ends them."""
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def answer(status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> Script:
    """Read the request, answer it properly, go on with the next one on the connection."""
    length = {} if status == 204 else {"Content-Length": str(len(body))}

    async def script(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.say(head_of(status, {**length, **(headers or {})}) + body)

    return script


def say_then_hang(data: bytes) -> Script:
    """Read the request, say ``data``, then nothing."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(data)
        await connection.hang()

    return script


def say_then_close(data: bytes = b"") -> Script:
    """Read the request, say ``data``, close."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(data)
        await connection.close()

    return script


def say_then_reset(data: bytes = b"") -> Script:
    """Read the request, say ``data``, reset."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(data)
        connection.reset()

    return script


def say_for_ever(first: bytes, again: bytes, pause_s: float) -> Script:
    """Read the request, say ``first``, then ``again`` and again until the other side leaves."""

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.say(first)
        while True:
            await connection.say(again)
            await asyncio.sleep(pause_s)

    return script


# -- addresses where nobody answers ----------------------------------------------------------


@asynccontextmanager
async def refusing() -> AsyncIterator[str]:
    """A port that is taken but does not listen: every connection is refused."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}/"


@asynccontextmanager
async def full() -> AsyncIterator[str]:
    """A port whose queue of connections is full: a connection is neither made nor refused."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        try:
            for client in waiting:
                client.setblocking(False)
                client.connect_ex(listener.getsockname())
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            for client in waiting:
                client.close()
