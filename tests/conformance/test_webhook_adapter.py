"""The webhook platform: its exam over real sockets, what it sends, and its settings."""

from __future__ import annotations

import asyncio
import json

import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook

from angelia.model.ids import AdapterId, Lane
from angelia.model.messages import Outgoing
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    BadCredential,
    ContentFault,
    LookUp,
    NotSent,
    Outcome,
    RateLimited,
    Refused,
    Scope,
    Unconfirmed,
    Unreachable,
)
from angelia.platforms.base import Adapter
from angelia.platforms.webhook import WebhookAdapter, WebhookSettings
from angelia.seams.clock import Now, SystemClock
from angelia.testing.adapter_exam import (
    CONNECTION_BREAKAGES,
    Breakage,
    after_a_kept_connection,
    answered,
    broken_bodies,
    examine,
    examine_stop,
    message,
    redirects,
)
from angelia.testing.breaking_server import (
    BreakingServer,
    Connection,
    Request,
    answer,
    head_of,
    refusing,
    say_then_close,
)
from angelia.testing.fake_host import FakeHost

SECRET = "correct horse battery stäple"


def settings(**changes: object) -> WebhookSettings:
    values: dict[str, object] = {"secret": SECRET, "deliver_url": "http://127.0.0.1:9/", "timeout_s": 0.4}
    return WebhookSettings.model_validate(values | changes)


def adapter(**changes: object) -> WebhookAdapter:
    return WebhookAdapter(
        AdapterId("default", "webhook"), settings(**changes), SystemClock(), connect_limit_s=0.4
    )


def make_plain(url: str) -> Adapter:
    return adapter(deliver_url=url)


def make_keyed(url: str) -> Adapter:
    return adapter(deliver_url=url, idempotent=True)


# -- the exam: every line of "Answers" in the reference is a row -----------------------------

_CHAT = Scope.CHAT
PAST_DATE = {"Retry-After": "Fri, 15 Jan 2021 08:00:00 GMT"}
FAR_DATE = {"Retry-After": "Fri, 15 Jan 2999 08:00:00 GMT"}
ANSWERS: tuple[Breakage, ...] = (
    answered("200 with an id", 200, Accepted("m-1"), body=b'{"id":"m-1"}'),
    answered("201 with a number as id", 201, Accepted("17"), body=b'{"id":17,"more":[1]}'),
    answered("202 without a body", 202, Accepted()),
    answered("204", 204, Accepted()),
    answered("299", 299, Accepted(), body=b"{}"),
    answered("200 with html", 200, Accepted(), body=b"<html>id</html>"),
    answered("200 with a list", 200, Accepted(), body=b'["id"]'),
    answered("200 with an object as id", 200, Accepted(), body=b'{"id":{"a":1}}'),
    answered("200 with true as id", 200, Accepted(), body=b'{"id":true}'),
    answered("200 with null as id", 200, Accepted(), body=b'{"id":null}'),
    answered("200 with an endless id", 200, Accepted(), body=b'{"id":"' + b"x" * 10_000 + b'"}'),
    answered("200 with a body nested deep", 200, Accepted(), body=b"[" * 60_000),
    answered("200 with a body of 1 MB", 200, Accepted(), body=b'{"id":"late","x":"' + b"x" * 10**6 + b'"}'),
    answered("200 not utf-8", 200, Accepted(), body=b'{"id":"\xff"}'),
    answered("200 with a broken id", 200, Accepted("a\ufffd\ufffd"), body=b'{"id":"a\\u0000\\ud800"}'),
    answered("429 without a wait", 429, RateLimited(30.0, _CHAT)),
    answered("429 with seconds", 429, RateLimited(7.0, _CHAT), {"Retry-After": "7"}),
    answered("429 with zero", 429, RateLimited(0.0, _CHAT), {"Retry-After": "0"}),
    answered("429 with garbage", 429, RateLimited(30.0, _CHAT), {"Retry-After": "soon"}),
    answered("429 with a negative", 429, RateLimited(30.0, _CHAT), {"Retry-After": "-3"}),
    answered("429 with a past date", 429, RateLimited(0.0), PAST_DATE),
    answered("429 with a far date", 429, RateLimited(86400.0), FAR_DATE),
    answered("503 with a wait", 503, RateLimited(12.0, _CHAT), {"Retry-After": "12"}),
    answered("503 with garbage", 503, Unconfirmed(), {"Retry-After": "soon"}),
    answered("503 without a wait", 503, Unconfirmed()),
    answered("410", 410, Unreachable()),
    answered("401", 401, BadCredential()),
    answered("403", 403, BadCredential()),
    answered("413", 413, BadContent(ContentFault.TOO_LONG)),
    answered("422", 422, BadContent(ContentFault.MARKUP)),
    answered("304", 304, Refused()),
    *(answered(str(code), code, Refused()) for code in (300, 400, 402, 404, 405, 408, 409, 418, 451, 499)),
    *(answered(str(code), code, Unconfirmed()) for code in (500, 501, 502, 504, 520, 599, 600, 999)),
    Breakage("101", (Unconfirmed(),), say_then_close(head_of(101, {"Upgrade": "x"}))),
)


async def _refuse_before_the_body(connection: Connection) -> None:
    await connection.some()
    await connection.say(head_of(413, {"Content-Length": "2"}) + b"{}")
    await connection.ignore()


EARLY = Breakage(
    "413 before the body was read",
    (BadContent(ContentFault.TOO_LONG),),
    _refuse_before_the_body,
    requests=0,
    text="a text beyond every buffer " * 300_000,
    receive_buffer_bytes=4096,
)
EXAM = (
    EARLY,
    *CONNECTION_BREAKAGES,
    *ANSWERS,
    *broken_bodies(Accepted()),
    *redirects(Refused()),
    *after_a_kept_connection(Accepted()),
)


@pytest.mark.parametrize("breakage", EXAM, ids=str)
async def test_exam(breakage: Breakage) -> None:
    await examine(make_plain, breakage)


@pytest.mark.parametrize("breakage", EXAM, ids=str)
async def test_exam_with_idempotent(breakage: Breakage) -> None:
    await examine(make_keyed, breakage)


@pytest.mark.parametrize("idempotent", [False, True])
async def test_exam_of_stopping(idempotent: bool) -> None:
    await examine_stop(lambda url: adapter(deliver_url=url, idempotent=idempotent, timeout_s=60))


async def test_the_exam_itself_fails_an_adapter_that_calls_doubt_not_sent() -> None:
    class Careless(WebhookAdapter):
        async def send(self, message: Outgoing) -> Outcome:
            outcome = await super().send(message)
            return NotSent() if isinstance(outcome, Unconfirmed) else outcome

    def make(url: str) -> Adapter:
        return Careless(AdapterId("default", "webhook"), settings(deliver_url=url), SystemClock())

    lenient = Breakage("careless", (NotSent(),), say_then_close())
    with pytest.raises(AssertionError, match="but it left"):
        await examine(make, lenient)


async def test_the_exam_itself_fails_an_adapter_that_sends_twice() -> None:
    class Eager(WebhookAdapter):
        async def send(self, message: Outgoing) -> Outcome:
            await super().send(message)
            return await super().send(message)

    def make(url: str) -> Adapter:
        return Eager(AdapterId("default", "webhook"), settings(deliver_url=url), SystemClock())

    with pytest.raises(AssertionError, match="2 connections"):
        await examine(make, answered("eager", 200, Accepted()))


async def test_connection_is_fresh_without_a_key_and_kept_with_one() -> None:
    for make, connections in ((make_plain, 3), (make_keyed, 1)):
        async with BreakingServer(answer(200)) as server:
            sender = make(server.url)
            await sender.start(FakeHost())
            for number in range(3):
                assert await sender.send(message(number)) == Accepted()
            await sender.stop()
            await server.settle()
            assert len(server.connections) == connections


# -- out: what leaves ------------------------------------------------------------------------


async def sent(outgoing: Outgoing, **changes: object) -> Request:
    async with BreakingServer(answer(200)) as server:
        sender = adapter(**{"deliver_url": server.url + "hook?a=b%2Fc", **changes})
        await sender.start(FakeHost())
        assert await sender.send(outgoing) == Accepted()
        await sender.stop()
        await server.settle()
        return server.requests[0]


OUTGOING = Outgoing("d1", 2, 3, "d1.2.1", "room:7", "Grüße 👋\n♻️", thread="t", reply_to="m1")


async def test_request_is_the_documented_one() -> None:
    request = await sent(OUTGOING)
    assert request.line == "POST /hook?a=b%2Fc HTTP/1.1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == "angelia"
    assert request.headers["idempotency-key"] == request.headers["webhook-id"] == "d1.2.1"
    assert request.headers["content-length"] == str(len(request.body))
    assert "transfer-encoding" not in request.headers
    assert "Grüße 👋".encode() in request.body, "UTF-8, not escapes"
    assert b", " not in request.body
    assert json.loads(request.body) == {
        "delivery": "d1", "part": 2, "parts": 3, "chat": "room:7",
        "thread": "t", "reply_to": "m1", "text": "Grüße 👋\n♻️", "attachments": [],
    }  # fmt: skip


async def test_absent_thread_and_reply_are_null() -> None:
    content = json.loads((await sent(Outgoing("d", 1, 1, "d.1.1", "c", "x"))).body)
    assert content["thread"] is None
    assert content["reply_to"] is None


async def test_text_that_utf_8_cannot_carry_is_repaired() -> None:
    content = json.loads((await sent(Outgoing("d", 1, 1, "d.1.1", "c", "a\ud800b\x00c"))).body)
    assert content["text"] == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("whsec_YWJj", b"abc"),
        ("whsec_YWI", b"ab"),
        ("YWJj", b"YWJj"),
        (SECRET, SECRET.encode()),
    ],
)
async def test_signature_is_what_the_standard_prescribes(secret: str, key: str | bytes) -> None:
    request = await sent(OUTGOING, secret=secret)
    verified = Webhook(key).verify(request.body, request.headers)  # checks the time, too
    assert verified["text"] == OUTGOING.text
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(b"another").verify(request.body, request.headers)


async def test_timestamp_is_the_clock_s_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(SystemClock):
        def now(self) -> Now:
            return Now(1_800_000_000_999, 0)

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    async with BreakingServer(answer(200)) as server:
        sender = WebhookAdapter(AdapterId("p", "webhook"), settings(deliver_url=server.url), Stopped())
        await sender.start(FakeHost())
        await sender.send(OUTGOING)
        await sender.stop()
        await server.settle()
    assert server.requests[0].headers["webhook-timestamp"] == "1800000000"


async def test_repeat_of_a_revision_differs_in_nothing_but_time_and_signature() -> None:
    changing = ("webhook-timestamp", "webhook-signature", "host")
    first, second = await sent(OUTGOING), await sent(OUTGOING)
    assert first.body == second.body
    same = [{k: v for k, v in r.headers.items() if k not in changing} for r in (first, second)]
    assert same[0] == same[1]


async def test_a_service_that_answers_again_brings_waiting_rows_forward() -> None:
    host = FakeHost()
    answers = iter([None, b"", b""])

    async def script(connection: Connection) -> None:
        await connection.request()
        if next(answers) is not None:
            await connection.say(head_of(200, {"Content-Length": "0"}))

    async with BreakingServer(script) as server:
        sender = adapter(deliver_url=server.url)
        await sender.start(host)
        hanging = asyncio.create_task(sender.send(message(1)))
        assert isinstance(await hanging, Unconfirmed)
        assert host.hints == []
        assert await sender.send(message(2)) == Accepted()
        assert host.hints == [None]
        assert await sender.send(message(3)) == Accepted()
        assert host.hints == [None], "only once"
        await sender.stop()


async def test_capabilities_and_the_quiet_verbs() -> None:
    plain, keyed = adapter(timeout_s=30), adapter(idempotent=True, text_limit=64)
    assert (plain.capabilities.key_window_s, keyed.capabilities.key_window_s) == (0.0, 86400.0)
    assert plain.capabilities.call_limit_s == pytest.approx(30.4)
    assert (plain.capabilities.text_limit, keyed.capabilities.text_limit) == (4096, 64)
    assert (plain.capabilities.worst_case, keyed.capabilities.worst_case) == (
        "twice, but marked",
        "never twice",
    )
    assert not plain.capabilities.read_back
    assert plain.capabilities.replays_inbound
    assert await plain.look_up(OUTGOING, 0) is LookUp.CANNOT_TELL
    assert await plain.typing(Lane("default", "webhook", "c"), True) is None
    async with refusing() as url:
        sender = adapter(deliver_url=url)
        await sender.start(FakeHost())
        assert sender.present("c")
        assert isinstance(await sender.send(OUTGOING), NotSent)
        await sender.stop()
        assert not sender.present("c")


def test_split_keeps_to_the_limit() -> None:
    text = "word " * 100
    assert all(len(part) <= 64 for part in adapter(text_limit=64).split(text))
    assert all(len(part) <= 20 for part in adapter(text_limit=64).split(text, 20))
    assert len(adapter().split(text)) == 1


# -- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": ""}, {"secret": "   "}, {"secret": " hunter2"}, {"secret": "hunter2\n"},
        {"secret": "whsec_"}, {"secret": "whsec_hunter2!"}, {"secret": "whsec_h"}, {"secret": "whsec_====="},
        {"secret": None}, {"deliver_url": ""}, {"deliver_url": "hunter2"}, {"deliver_url": "ftp://hunter2/"},
        {"deliver_url": "http://"}, {"deliver_url": "http:///hunter2"}, {"deliver_url": "//hunter2/"},
        {"deliver_url": "http://hunter2:99999/"}, {"deliver_url": "http://hunter2:0/"},
        {"deliver_url": "http://[hunter2/"}, {"deliver_url": " http://hunter2/"},
        {"text_limit": 63}, {"text_limit": "hunter2"}, {"timeout_s": 0}, {"timeout_s": -1},
        {"timeout_s": float("inf")}, {"timeout_s": float("nan")}, {"idempotent": "hunter2"},
        {"allow": ["*"]}, {"hunter": "hunter2"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_cannot_be_used_are_refused_without_showing_them(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**changes)
    assert "hunter2" not in str(caught.value)
    assert [error["loc"][0] for error in caught.value.errors()] == list(changes)


def test_settings_defaults_and_repr() -> None:
    usual = WebhookSettings.model_validate(
        {"secret": "hunter2", "deliver_url": "https://user:hunter2@example.org/?hunter2"}
    )
    assert (usual.idempotent, usual.text_limit, usual.timeout_s) == (False, 4096, 30.0)
    assert "hunter2" not in repr(usual)
    assert "hunter2" not in str(usual)
