"""What one HTTP call may conclude: the wire's verdicts, and how a Retry-After is read."""

from __future__ import annotations

import asyncio
import socket

import pytest

from angelia.model.outcomes import NotSent, Unconfirmed
from angelia.platforms.http import Answer, Wire, body_bytes_max, retry_after_s, retry_after_s_max
from angelia.testing.breaking_server import (
    BreakingServer,
    Connection,
    answer,
    full,
    head_of,
    refusing,
    say_for_ever,
    say_then_close,
    say_then_reset,
)

WALL_MS = 1_800_000_000_000  # Fri, 15 Jan 2027 08:00:00 GMT
HEADERS = {"X-Exam": "yes"}


async def call(
    url: str, *, method: str = "POST", body: bytes = b"body", reuse: bool = False, times: int = 1
) -> Answer | NotSent | Unconfirmed:
    wire = Wire(0.4, reuse=reuse, connect_limit_s=0.4)
    await wire.open()
    try:
        for _ in range(times):
            result = await wire.call(method, url, body, HEADERS)
    finally:
        await wire.close()
    return result


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("17", 17.0),
        (" 17 ", 17.0),
        ("1.5", 1.5),
        ("-5", None),
        ("+5", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("1e9", None),
        ("٣", None),
        ("99999999", retry_after_s_max),
        ("9" * 5000, retry_after_s_max),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0),
        ("Fri, 15 Jan 2027 09:00:30 +0100", 30.0),
        ("Friday, 15-Jan-27 08:00:30 GMT", 30.0),
        ("Fri Jan 15 08:00:30 2027", 30.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("Fri, 15 Jan 2999 07:00:00 GMT", retry_after_s_max),
        ("Fri, 99 Jan 2027 08:00:30 GMT", None),
    ],
)
def test_retry_after(value: str | None, expected: float | None) -> None:
    assert retry_after_s(value, WALL_MS) == expected


async def test_c1_the_wait_is_the_server_s_own() -> None:
    async with BreakingServer(answer(429, {"retry-after": "7"})) as server:
        result = await call(server.url)
    assert isinstance(result, Answer)
    assert retry_after_s(result.headers.get("Retry-After"), WALL_MS) == 7.0


async def test_a2_connect_timeout_is_provably_unsent() -> None:
    async with full() as url:
        result = await call(url)
    assert isinstance(result, NotSent)
    assert "no connection within" in result.detail


async def test_refused_connection_is_provably_unsent() -> None:
    async with refusing() as url:
        assert isinstance(await call(url), NotSent)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
@pytest.mark.parametrize("reuse", [False, True])
async def test_a4_reset_after_the_request_is_never_repeated_by_the_library(method: str, reuse: bool) -> None:
    async with BreakingServer(say_then_reset()) as server:
        result = await call(server.url, method=method, reuse=reuse)
        await server.settle()
    assert isinstance(result, Unconfirmed)
    assert result.dropped
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a4_stale_kept_connection_is_doubt_and_not_a_second_request(method: str) -> None:
    async def once_then_close(connection: Connection) -> None:
        await connection.request()
        await connection.say(head_of(200, {"Content-Length": "0"}))
        await connection.request()
        await connection.close()

    async with BreakingServer(once_then_close) as server:
        result = await call(server.url, method=method, reuse=True, times=2)
        await server.settle()
    assert isinstance(result, Unconfirmed)
    assert result.dropped
    assert len(server.requests) == 2, "the second call made one request, not two"


async def test_connections_are_fresh_unless_reuse_is_allowed() -> None:
    async with BreakingServer(answer(200)) as server:
        await call(server.url, times=3)
        await server.settle()
        assert len(server.connections) == 3
    async with BreakingServer(answer(200)) as server:
        await call(server.url, times=3, reuse=True)
        await server.settle()
        assert len(server.connections) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_answers_and_not_followed(status: int) -> None:
    async with BreakingServer(answer(status, {"Location": "/elsewhere"})) as server:
        result = await call(server.url)
        await server.settle()
    assert isinstance(result, Answer)
    assert result.status == status
    assert len(server.requests) == 1


async def test_a_body_longer_than_its_bound_is_cut_and_the_answer_stands() -> None:
    async with BreakingServer(answer(200, body=b"x" * (body_bytes_max * 3))) as server:
        result = await call(server.url)
    assert isinstance(result, Answer)
    assert len(result.body) == body_bytes_max
    assert not result.whole


async def test_a_body_that_breaks_off_keeps_its_status() -> None:
    async with BreakingServer(say_then_close(head_of(200, {"Content-Length": "9"}) + b"half")) as server:
        result = await call(server.url)
    assert isinstance(result, Answer)
    assert (result.status, result.body, result.whole) == (200, b"half", False)


async def test_an_answer_that_trickles_cannot_hold_the_call() -> None:
    async with BreakingServer(say_for_ever(b"HTTP/1.1 200 O", b"K", 0.02)) as server:
        result = await call(server.url)
    assert result == Unconfirmed("no answer within 0.4 s", dropped=False)


async def test_the_limit_of_connecting_does_not_cut_a_slow_answer() -> None:
    async def script(connection: Connection) -> None:
        await connection.request()
        await asyncio.sleep(0.8)  # the server's pace: longer than the connect limit
        await connection.say(head_of(200, {"Content-Length": "0"}))

    async with BreakingServer(script) as server:
        wire = Wire(30.0, connect_limit_s=0.5)
        await wire.open()
        result = await wire.call("POST", server.url, b"body", HEADERS)
        await wire.close()
    assert isinstance(result, Answer)
    assert wire.call_limit_s == 30.5


async def test_environment_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with BreakingServer(answer(200)) as proxy, BreakingServer(answer(204)) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        result = await call(server.url)
    assert isinstance(result, Answer)
    assert result.status == 204
    assert not proxy.connections


async def test_cookies_are_not_kept() -> None:
    async with BreakingServer(answer(200, {"Set-Cookie": "a=b"})) as server:
        await call(server.url.replace("127.0.0.1", "localhost"), times=2)
        await server.settle()
    assert [request.headers.get("cookie") for request in server.requests] == [None, None]


async def test_address_never_stands_in_an_outcome() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        refused = await call(f"http://user:hunter2@127.0.0.1:{port}/?token=hunter2")
    unusable = await call("http://127.0.0.1:99999/?token=hunter2")
    unresolvable = await call("http://hunter2:hunter2@nobody.invalid/hunter2")
    too_long = await call("http://" + "hunter2" * 40 + ".invalid/")
    for result in (refused, unusable, unresolvable, too_long):
        assert isinstance(result, NotSent)
        assert result.detail
        assert "hunter2" not in result.detail


async def test_a_wire_that_is_not_open_sends_nothing() -> None:
    assert isinstance(await Wire(1.0).call("POST", "http://127.0.0.1:1/", b"", {}), NotSent)


async def test_cancelling_a_call_is_not_swallowed() -> None:
    arrived = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.request()
        arrived.set()
        await connection.hang()

    async with BreakingServer(script) as server:
        wire = Wire(30.0)
        await wire.open()
        task = asyncio.create_task(wire.call("POST", server.url, b"body", HEADERS))
        await asyncio.wait_for(arrived.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wire.close()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"id": 1}', {"id": 1}),
        (b"", None),
        (b"<html>", None),
        (b"\xff\xfe\xfd", None),
        (b"[" * 60_000, None),
        (b"1" * 5000, None),
    ],
)
def test_a_body_is_json_or_none(body: bytes, expected: object) -> None:
    answered = Answer(200, {})
    answered.body = body
    assert answered.json() == expected


def test_describe_is_one_short_line_without_control_characters() -> None:
    answered = Answer(500, {})
    answered.body = b"a\x00\r\nb\xff" + b"x" * 5000
    line = answered.describe()
    assert line.startswith("HTTP 500: a\ufffd b\ufffdxxx")
    assert "\n" not in line
    assert len(line) < 250
