"""The inbound half of the webhook platform, over real HTTP against a real server."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from angelia.model.ids import AdapterId
from angelia.model.messages import Inbound, Reception
from angelia.platforms.webhook import WebhookAdapter, WebhookSettings
from angelia.seams import crash
from angelia.seams.clock import SystemClock
from angelia.testing.fake_host import FakeHost

SECRET = "correct horse battery stäple"
MIB = 1024 * 1024
GOOD = {"id": "m1", "chat": "c1", "thread": "t1", "user": "u1", "text": "hello"}
BEARER = {"Authorization": f"Bearer {SECRET}"}


class Caller:
    """A service that calls the webhook over real HTTP."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, host: FakeHost, served: WebhookAdapter
    ) -> None:
        self.session = session
        self.url = url
        self.host = host
        self.adapter = served

    async def post(
        self, data: object, headers: dict[str, str] = BEARER, method: str = "POST"
    ) -> tuple[int, dict[str, str], aiohttp.ClientResponse]:
        body = json.dumps(data) if isinstance(data, dict) else data
        async with self.session.request(method, self.url, data=body, headers=headers) as response:
            assert response.content_type == "application/json"
            content = {} if method == "HEAD" else await response.json()
            assert SECRET not in str(content)
            return response.status, content, response

    async def raw(self, data: bytes, until: bytes = b"}") -> bytes:
        """What comes back for exactly these bytes, up to the end of the JSON in it."""
        port = URL(self.url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        async with asyncio.timeout(10):
            answer_bytes = await reader.readuntil(until)
        writer.close()
        return answer_bytes


@asynccontextmanager
async def calling(profile: str = "default", host: FakeHost | None = None) -> AsyncIterator[Caller]:
    host = host or FakeHost()
    settings = WebhookSettings.model_validate({"secret": SECRET, "deliver_url": "http://127.0.0.1:9/"})
    served = WebhookAdapter(AdapterId(profile, "webhook"), settings, SystemClock())
    app = web.Application(client_max_size=1000)  # the adapter's own bound counts, not the server's
    app.add_routes(served.routes())
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    await served.start(host)
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/webhook/{profile}/messages"
    try:
        async with aiohttp.ClientSession() as session:
            yield Caller(session, url, host, served)
    finally:
        await served.stop()
        await runner.cleanup()


async def test_accepted_then_duplicate() -> None:
    async with calling() as caller:
        assert (await caller.post(GOOD))[:2] == (202, {"status": "accepted"})
        assert (await caller.post(GOOD | {"text": "other"}))[:2] == (200, {"status": "duplicate"})
        expected = Inbound("default", "webhook", "c1", "m1", "u1", "hello", "t1", reply_to="m1")
        assert caller.host.received == [expected]


@pytest.mark.parametrize("thread", [{}, {"thread": None}, {"thread": ""}], ids=str)
async def test_thread_is_optional_and_unknown_fields_are_ignored(thread: dict[str, object]) -> None:
    fields = {name: value for name, value in GOOD.items() if name != "thread"}
    async with calling() as caller:
        status, _, _ = await caller.post(fields | thread | {"more": {"id": 1}, "sent_at": 5})
        assert status == 202
        assert caller.host.received[0].thread == ""


async def test_e8_acknowledged_only_after_the_commit() -> None:
    order: list[str] = []
    called, committed = asyncio.Event(), asyncio.Event()

    class Slow(FakeHost):
        async def receive(self, inbound: Inbound) -> Reception:
            called.set()
            await committed.wait()
            order.append("committed")
            return await super().receive(inbound)

    async def ask(caller: Caller) -> int:
        status, _, _ = await caller.post(GOOD)
        order.append("acknowledged")
        return status

    async with calling(host=Slow()) as caller:
        asked = asyncio.create_task(ask(caller))
        await asyncio.wait_for(called.wait(), 10)
        other, _, _ = await caller.post(b"")  # a whole round trip later …
        assert other == 400
        assert order == [], "answered before the commit"
        committed.set()
        assert await asked == 202
        assert order == ["committed", "acknowledged"]


async def test_crash_points_stand_on_both_sides_of_the_acknowledgement() -> None:
    passed: list[tuple[str, int]] = []
    async with calling() as caller:
        crash.install(lambda name: passed.append((name, len(caller.host.received))))
        try:
            await caller.post(GOOD)
        finally:
            crash.install(None)
        assert passed == [("ack.before", 1), ("ack.after", 1)]


async def test_death_before_the_acknowledgement_shows_the_service_nothing() -> None:
    class Killed(BaseException):
        pass

    def die(name: str) -> None:
        if name == "ack.before":
            raise Killed

    async with calling() as caller:
        crash.install(die)
        try:
            with pytest.raises((aiohttp.ClientError, asyncio.TimeoutError)):
                async with caller.session.post(
                    caller.url, json=GOOD, headers=BEARER, timeout=aiohttp.ClientTimeout(total=1)
                ):
                    pass
        finally:
            crash.install(None)
        assert len(caller.host.received) == 1
        assert (await caller.post(GOOD))[:2] == (200, {"status": "duplicate"})


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {SECRET}x"},
        {"Authorization": f"Basic {SECRET}"}, {"Authorization": SECRET},
    ],
    ids=str,
)  # fmt: skip
async def test_wrong_credential_is_401(headers: dict[str, str]) -> None:
    async with calling() as caller:
        status, content, response = await caller.post(GOOD, headers)
        assert (status, list(content)) == (401, ["error"])
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert caller.host.calls == 0


async def test_credential_that_is_no_text_is_401() -> None:
    async with calling() as caller:
        got = await caller.raw(
            b"POST /webhook/default/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n"
            b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"
        )
        assert got.startswith(b"HTTP/1.1 401 ")


async def test_scheme_may_be_written_in_any_case() -> None:
    async with calling() as caller:
        assert (await caller.post(GOOD, {"Authorization": f"bearer  {SECRET}"}))[0] == 202


async def test_e15_user_who_is_not_allowed_is_403() -> None:
    async with calling() as caller:
        caller.host.refuse = True
        status, content, _ = await caller.post(GOOD)
        assert (status, list(content)) == (403, ["error"])
        caller.host.refuse = False
        assert (await caller.post(GOOD))[0] == 202, "the id was not seen"


async def test_store_that_cannot_be_written_is_503() -> None:
    async with calling() as caller:
        caller.host.unavailable = True
        status, content, response = await caller.post(GOOD)
        assert (status, list(content), response.headers["Retry-After"]) == (503, ["error"], "5")
        caller.host.unavailable = False
        assert (await caller.post(GOOD))[0] == 202


async def test_stopped_adapter_is_503() -> None:
    async with calling() as caller:
        await caller.adapter.stop()
        status, _, response = await caller.post(GOOD)
        assert (status, response.headers["Retry-After"]) == (503, "5")
        assert caller.host.calls == 0


async def test_failure_of_the_gateway_is_500_and_says_nothing_of_it() -> None:
    class Failing(FakeHost):
        async def receive(self, inbound: Inbound) -> Reception:
            raise RuntimeError("hunter2")

    async with calling(host=Failing()) as caller:
        status, content, _ = await caller.post(GOOD)
        assert status == 500
        assert "hunter2" not in str(content)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
async def test_other_methods_are_405(method: str) -> None:
    async with calling() as caller:
        status, _, response = await caller.post(GOOD, method=method)
        assert (status, response.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"   ", b"hello", b"[]", b'"text"', b"null", b"17", b'{"id":', b"\xff\xfe\x00", b'{"id":"\xff"}',
        json.dumps(GOOD).encode("utf-16"), b'{"id":NaN}', b'{"x":-Infinity}', b'{"x":' + b"[" * 200_000,
        b'{"x":' + b"1" * 5000 + b"}", b"id=m1&chat=c1&user=u1&text=hello", b"\x00",
    ],
    ids=lambda body: repr(body[:12]),
)  # fmt: skip
async def test_body_that_is_no_json_object_in_utf_8_is_400(body: bytes) -> None:
    async with calling() as caller:
        status, content, _ = await caller.post(body)
        assert (status, list(content)) == (400, ["error"])
        assert caller.host.calls == 0


async def test_byte_order_mark_is_allowed() -> None:
    async with calling() as caller:
        assert (await caller.post(b"\xef\xbb\xbf" + json.dumps(GOOD).encode()))[0] == 202


@pytest.mark.parametrize("field", ["id", "chat", "user", "text"])
@pytest.mark.parametrize("value", [None, "", " \n ", 17, 1.5, True, [], {}, "missing"], ids=repr)
async def test_field_that_cannot_be_taken_is_422_and_named(field: str, value: object) -> None:
    fields = {k: v for k, v in GOOD.items() if k != field}
    if value != "missing":
        fields[field] = value  # type: ignore[assignment]
    async with calling() as caller:
        status, content, _ = await caller.post(fields)
        assert (status, content["field"]) == (422, field)
        assert field in content["error"]
        assert caller.host.calls == 0


@pytest.mark.parametrize("field", ["id", "chat", "user", "thread"])
async def test_id_of_10_kb_is_422_and_one_at_the_limit_is_taken(field: str) -> None:
    async with calling() as caller:
        status, content, _ = await caller.post(GOOD | {field: "x" * 10_000})
        assert (status, content["field"]) == (422, field)
        assert len(str(content)) < 200, "the value is not echoed"
        assert (await caller.post(GOOD | {field: "x" * 513}))[0] == 422
        assert (await caller.post(GOOD | {field: "ü" * 512}))[0] == 202


@pytest.mark.parametrize("value", [17, True, [], {}], ids=repr)
async def test_thread_that_is_no_text_is_422(value: object) -> None:
    async with calling() as caller:
        status, content, _ = await caller.post(GOOD | {"thread": value})
        assert (status, content["field"]) == (422, "thread")


@pytest.mark.parametrize("field", ["id", "thread"])
async def test_name_that_stands_twice_is_422(field: str) -> None:
    body = json.dumps(GOOD)[:-1] + f', "{field}": null, "more": {{"a": 1, "a": 2}}}}'
    async with calling() as caller:
        status, content, _ = await caller.post(body)
        assert (status, content["field"]) == (422, field)


async def test_nul_and_lone_surrogates_are_replaced_everywhere() -> None:
    broken = {name: f"{name}\x00a\ud800b\udc00" for name in GOOD}
    async with calling() as caller:
        assert (await caller.post(broken))[0] == 202
        got = caller.host.received[0]
        repaired = "\ufffda\ufffdb\ufffd"
        assert (got.message_id, got.chat, got.thread) == (
            "id" + repaired,
            "chat" + repaired,
            "thread" + repaired,
        )
        assert (got.user, got.text) == ("user" + repaired, "text" + repaired)
        assert (await caller.post(GOOD | {"text": "\U0001f44b"}))[0] == 202, (
            "a pair of escapes is a character"
        )
        assert caller.host.received[1].text == "\U0001f44b"


async def test_text_of_1_mb_is_taken_and_a_longer_one_is_not() -> None:
    async with calling() as caller:
        assert (await caller.post(GOOD | {"text": "x" * 1_000_000}))[0] == 202
        assert len(caller.host.received[0].text) == 1_000_000
        status, content, _ = await caller.post(GOOD | {"id": "m2", "text": "x" * 1_000_001})
        assert (status, content["field"]) == (422, "text")


def padded(length: int) -> bytes:
    body = json.dumps(GOOD).encode()
    return body + b" " * (length - len(body))


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


async def test_body_above_1_mib_is_413_declared_or_chunked() -> None:
    async with calling() as caller:
        assert (await caller.post(padded(MIB + 1)))[0] == 413
        assert (await caller.post(in_chunks(padded(MIB + 1))))[0] == 413
        assert caller.host.calls == 0
        assert (await caller.post(padded(MIB)))[0] == 202
        assert (await caller.post(in_chunks(padded(MIB))))[0] == 200


async def test_endless_chunks_are_413_long_before_their_end() -> None:
    async with calling() as caller:
        head = "POST /webhook/default/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        chunks = (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 20
        got = await caller.raw((head + f"Authorization: Bearer {SECRET}\r\n\r\n").encode() + chunks)
        assert got.startswith(b"HTTP/1.1 413 ")


async def test_compressed_body_counts_unpacked() -> None:
    async with calling() as caller:
        packed = zlib.compress(padded(5 * MIB))
        assert len(packed) < 20_000
        assert (await caller.post(packed, BEARER | {"Content-Encoding": "deflate"}))[0] == 413


@pytest.mark.parametrize("declared", [1, 2_000_000])
async def test_declared_length_that_lies_loses_nothing(declared: int) -> None:
    async with calling() as caller:
        request = (
            f"POST /webhook/default/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"Authorization: Bearer {SECRET}\r\nContent-Length: {declared}\r\n\r\n{json.dumps(GOOD)}"
        )
        got = await caller.raw(request.encode())
        assert got.startswith(b"HTTP/1.")
        assert got.split(b" ")[1] == (b"400" if declared == 1 else b"413")
        assert caller.host.calls == 0
        assert (await caller.post(GOOD))[0] == 202


async def test_each_profile_has_its_path() -> None:
    async with calling("my-bot_2") as caller:
        assert caller.url.endswith("/webhook/my-bot_2/messages")
        assert (await caller.post(GOOD))[0] == 202
        assert caller.host.received[0].profile == "my-bot_2"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Transfer-Encoding: chunked", b"zz\r\nwhat?\r\n"),
        ("Content-Encoding: gzip\r\nContent-Length: 7", b"no gzip"),
        ("Content-Encoding: deflate\r\nContent-Length: 7", b"no gzip"),
    ],
)
async def test_body_that_is_broken_on_the_wire_is_400(headers: str, body: bytes) -> None:
    async with calling() as caller:
        head = f"POST /webhook/default/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
        got = await caller.raw((head + headers + "\r\n\r\n").encode() + body, until=b"\r\n")
        assert got.split(b" ")[1] == b"400"
        assert caller.host.calls == 0


async def test_service_that_leaves_in_its_own_body_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with calling() as caller:
        head = f"POST /webhook/default/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
        _, writer = await asyncio.open_connection("127.0.0.1", URL(caller.url).port)
        writer.write((head + "Content-Length: 500\r\n\r\n{").encode())
        await writer.drain()
        assert (await caller.post(b""))[0] == 400  # the server has surely seen the half by now
        writer.close()
        assert (await caller.post(GOOD))[0] == 202
        assert caller.host.calls == 1
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
