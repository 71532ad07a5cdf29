"""The exam of every adapter that talks HTTP to one server.

One call is broken in every way a call can break, over real sockets. Two things are asked each
time: is the outcome the one that ``guarantees`` §3 prescribes, and does it agree with what the
server really got? ``NotSent`` must mean that no byte of the request arrived, and one ``send``
must never make more than one request, whatever the HTTP library thinks of its method.

For the author of an adapter::

    def make(url: str) -> Adapter:          # limits of at most half a second, or the exam is slow
        return MyAdapter(..., base_url=url, connect_limit_s=0.4, answer_limit_s=0.4)

    @pytest.mark.parametrize("breakage", CONNECTION_BREAKAGES, ids=str)
    async def test_connection(breakage): await examine(make, breakage)

What a status line means differs between platforms, so these rows are made by you:
``broken_bodies(expected)``, ``redirects(expected)`` and ``answered(name, status, expected, …)``.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from angelia.model.messages import Outgoing
from angelia.model.outcomes import Accepted, NotSent, Outcome, Unconfirmed
from angelia.platforms.base import Adapter
from angelia.testing import breaking_server as server_side
from angelia.testing.breaking_server import BreakingServer, Connection, Script, head_of
from angelia.testing.fake_host import FakeHost

send_patience_s = 20.0  # a call that has not ended by then has no limit of its own

#: Makes the adapter under examination, not started, that talks to the address it is given.
Make = Callable[[str], Adapter]
_Place = Callable[["Breakage"], AbstractAsyncContextManager[tuple[str, BreakingServer | None]]]


def message(number: int = 1, text: str = "the text of the exam") -> Outgoing:
    """A message as the exam sends it; ``number`` makes it another delivery."""
    return Outgoing(f"exam{number}", 1, 1, key=f"exam{number}.1.1", chat="chat", text=f"{text} {number}")


# -- places ----------------------------------------------------------------------------------


@asynccontextmanager
async def _at_the_server(breakage: Breakage) -> AsyncIterator[tuple[str, BreakingServer | None]]:
    async with BreakingServer(breakage.script, breakage.receive_buffer_bytes) as server:
        yield server.url, server


@asynccontextmanager
async def _with_tls(breakage: Breakage) -> AsyncIterator[tuple[str, BreakingServer | None]]:
    async with BreakingServer(breakage.script) as server:
        yield server.url.replace("http:", "https:"), server


@asynccontextmanager
async def _refusing(_: Breakage) -> AsyncIterator[tuple[str, BreakingServer | None]]:
    async with server_side.refusing() as url:
        yield url, None


@asynccontextmanager
async def _full(_: Breakage) -> AsyncIterator[tuple[str, BreakingServer | None]]:
    async with server_side.full() as url:
        yield url, None


@asynccontextmanager
async def _unresolvable(_: Breakage) -> AsyncIterator[tuple[str, BreakingServer | None]]:
    yield "http://nobody.invalid/", None


# -- rows ------------------------------------------------------------------------------------


async def _nothing(_: Connection) -> None:
    """A script for places that have none."""


@dataclass(frozen=True, slots=True)
class Breakage:
    """One row of the exam.

    ``expected``: the outcomes that are right for the last of ``sends`` calls (their details are
    not compared). ``requests``: how many requests arrived in full, over all calls.
    """

    name: str
    expected: tuple[Outcome, ...]
    script: Script = _nothing
    place: _Place = _at_the_server
    requests: int = 1
    sends: int = 1
    text: str = "the text of the exam"
    receive_buffer_bytes: int = 0

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


async def _reset_at_once(connection: Connection) -> None:
    connection.reset()


async def _close_at_once(connection: Connection) -> None:
    await connection.close()


async def _plain_answer_to_tls(connection: Connection) -> None:
    await connection.some()
    await connection.say(head_of(400, {"Content-Length": "0"}))
    await connection.close()


async def _once_then_reset(connection: Connection) -> None:
    """Answer once and keep the connection; reset it when a second request came."""
    await connection.request()
    await connection.say(head_of(200, {"Content-Length": "2"}) + b"{}")
    await connection.request()
    connection.reset()


async def _once_then_close(connection: Connection) -> None:
    """Likewise, with a proper close and nothing said."""
    await connection.request()
    await connection.say(head_of(200, {"Content-Length": "2"}) + b"{}")
    await connection.request()
    await connection.close()


_hung = (Unconfirmed(),)
_dropped = (Unconfirmed(dropped=True),)
_any_doubt = (Unconfirmed(), Unconfirmed(dropped=True))

#: What can happen to any call before there is a usable answer. The same for every platform.
CONNECTION_BREAKAGES: tuple[Breakage, ...] = (
    Breakage("refused", (NotSent(),), place=_refusing, requests=0),
    Breakage("name that does not resolve", (NotSent(),), place=_unresolvable, requests=0),
    Breakage("connect timeout", (NotSent(),), place=_full, requests=0),
    Breakage("tls to a plain server", (NotSent(),), _plain_answer_to_tls, _with_tls, 0),
    Breakage("tls handshake hangs", (NotSent(),), Connection.hang, _with_tls, 0),
    Breakage("reset before reading", (*_dropped, NotSent()), _reset_at_once, requests=0),
    Breakage("closed before reading", (*_dropped, NotSent()), _close_at_once, requests=0),
    Breakage("read but never answered", _hung, server_side.say_then_hang(b"")),
    Breakage(
        "accepted but never read",
        _hung,
        Connection.ignore,
        requests=0,
        text="a text beyond every buffer " * 300_000,
        receive_buffer_bytes=4096,
    ),
    Breakage("read then reset", _dropped, server_side.say_then_reset()),
    Breakage("read then closed", _dropped, server_side.say_then_close()),
    Breakage("half a status line then closed", _any_doubt, server_side.say_then_close(b"HTTP/1.1 20")),
    Breakage("half a status line then hung", _hung, server_side.say_then_hang(b"HTTP/1.1 20")),
    Breakage("half a status line then reset", _any_doubt, server_side.say_then_reset(b"HTTP/1.1 20")),
    Breakage("status line that trickles", _hung, server_side.say_for_ever(b"HTTP/1.1 200 ", b"O", 0.02)),
    Breakage("garbage", _any_doubt, server_side.say_then_close(b"\x00\xffwhat is it?\r\n\r\n")),
    Breakage("garbage then hung", _any_doubt, server_side.say_then_hang(b"\x16\x03\x01 no\r\n\r\n")),
    Breakage("100 then closed", _dropped, server_side.say_then_close(head_of(100))),
    Breakage("102 for ever", _hung, server_side.say_for_ever(b"", head_of(102), 0.02)),
)


def after_a_kept_connection(accepted: Outcome) -> tuple[Breakage, ...]:
    """Two calls; the server has kept the first one's connection and breaks it at the second.
    A fresh connection is answered as the first was. Nothing is ever sent twice."""
    good = (accepted, *_dropped)
    return (
        Breakage("kept connection is reset", good, _once_then_reset, requests=2, sends=2),
        Breakage("kept connection is closed", good, _once_then_close, requests=2, sends=2),
    )


def broken_bodies(expected: Outcome) -> tuple[Breakage, ...]:
    """A status line of success, then something that is not the body it announced."""
    promised = head_of(200, {"Content-Length": "100"}) + b'{"id": "x'
    chunked = head_of(200, {"Transfer-Encoding": "chunked"})
    endless = server_side.say_for_ever(chunked, b"1000\r\n" + b"x" * 4096 + b"\r\n", 0.0)
    rows = {
        "closed in the body": server_side.say_then_close(promised),
        "reset in the body": server_side.say_then_reset(promised),
        "hung in the body": server_side.say_then_hang(promised),
        "closed after the head": server_side.say_then_close(head_of(200, {"Content-Length": "100"})),
        "hung after the head": server_side.say_then_hang(head_of(200, {"Content-Length": "100"})),
        "endless body": endless,
        "body until the connection closes": server_side.say_then_close(head_of(200) + b"fine"),
        "gzip that is none": server_side.answer(200, {"Content-Encoding": "gzip"}, b"no gzip"),
        "preceded by 100 and 103": server_side.say_then_close(head_of(100) + head_of(103) + head_of(200)),
    }
    # An HTTP parser may see the head and the garbage at once and then knows no status either.
    garbage = server_side.say_then_close(chunked + b"zz\r\nwhat?")
    return (
        *(Breakage(f"200 {name}", (expected,), script) for name, script in rows.items()),
        Breakage("200 chunks that are garbage", (expected, Unconfirmed()), garbage),
    )


def redirects(expected: Outcome) -> tuple[Breakage, ...]:
    """A redirect to the same server, where the repeated request would be seen."""
    return tuple(
        answered(f"redirect {status}", status, expected, {"Location": "/elsewhere"})
        for status in (301, 302, 303, 307, 308)
    )


def answered(
    name: str, status: int, expected: Outcome, headers: dict[str, str] | None = None, body: bytes = b""
) -> Breakage:
    """The server answers properly."""
    return Breakage(name, (expected,), server_side.answer(status, headers, body))


# -- the exam --------------------------------------------------------------------------------


def bare(outcome: Outcome) -> Outcome:
    """``outcome`` without its detail, which is for people."""
    return outcome if isinstance(outcome, Accepted) else dataclasses.replace(outcome, detail="")


async def examine(make: Make, breakage: Breakage) -> Outcome:
    """Live through ``breakage``. Raises ``AssertionError`` if the adapter fails it."""
    async with breakage.place(breakage) as (url, server):
        adapter = make(url)
        await adapter.start(FakeHost())
        try:
            for number in range(1, breakage.sends + 1):
                async with asyncio.timeout(send_patience_s):
                    outcome = await adapter.send(message(number, breakage.text))
        finally:
            async with asyncio.timeout(send_patience_s):
                await adapter.stop()
        assert bare(outcome) in breakage.expected, f"{breakage.name}: {outcome}"
        if server is not None:
            await server.settle()
            _compare(breakage, outcome, server)
    return outcome


def _compare(breakage: Breakage, outcome: Outcome, server: BreakingServer) -> None:
    """What the adapter says against what the server saw."""
    arrived = [bytes(connection.received) for connection in server.connections]
    if isinstance(outcome, NotSent):
        assert not any(b"HTTP/" in data for data in arrived), f"{breakage.name}: called not sent, but it left"
    spoken_on = [data for data in arrived if data]
    assert len(spoken_on) <= breakage.sends, (
        f"{breakage.name}: one call spoke on {len(spoken_on)} connections"
    )
    assert len(server.requests) == breakage.requests, (
        f"{breakage.name}: {len(server.requests)} requests arrived"
    )


async def examine_stop(make: Make) -> None:
    """``stop`` ends a call that hangs, with doubt; a call after it sends nothing."""
    arrived = asyncio.Event()

    async def hang(connection: Connection) -> None:
        await connection.request()
        arrived.set()
        await connection.hang()

    async def ignore(connection: Connection) -> None:
        await connection.some()
        arrived.set()
        await connection.ignore()

    for script, text, requests in ((hang, "short", 1), (ignore, "beyond every buffer " * 400_000, 0)):
        arrived.clear()
        async with BreakingServer(script, receive_buffer_bytes=4096) as server:
            adapter = make(server.url)
            await adapter.start(FakeHost())
            hanging = asyncio.create_task(adapter.send(message(1, text)))
            async with asyncio.timeout(send_patience_s):
                await arrived.wait()
                await adapter.stop()
                outcome = await hanging
                after = await adapter.send(message(2))
            assert isinstance(outcome, Unconfirmed), f"the request left, but the outcome is {outcome}"
            assert isinstance(after, NotSent), f"sent by a stopped adapter: {after}"
            await server.settle()
            assert len(server.requests) == requests, f"{len(server.requests)} requests arrived"
