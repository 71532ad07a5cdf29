"""Fetching a file by its address: which addresses are asked, and that it is these that are asked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from angelia.platforms import webhook_fetch
from angelia.platforms.webhook_fetch import Fetched, Fetcher, NotFetchedError, is_public

PUBLIC = ["8.8.8.8", "1.1.1.1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"]
NOT_PUBLIC = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255",
    "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192",
    "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250",
    "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "2001:db8::1", "2001:0:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::", "3fff::1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "5f00::1", "x",
]  # fmt: skip

Play = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", [*NOT_PUBLIC, ""])
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


class Site:
    """A server on loopback and how often it was asked."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.asked: list[dict[str, str]] = []
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.headers))
        return await self.play(request)


@asynccontextmanager
async def site(play: Play) -> AsyncIterator[Site]:
    one = Site(play)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", one.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.port = runner.addresses[0][1]
    try:
        yield one
    finally:
        await runner.cleanup()


def gives(body: bytes = b"%PDF-1.7", status: int = 200, **headers: str) -> Play:
    async def play(_: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=body, status=status, headers=named)

    return play


def names(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """From now on a look-up gives these addresses, the last ones for ever; returns what was asked."""
    asked: list[str] = []
    left = list(answers)

    async def getaddrinfo(
        _: object, host: str, port: int, **more: Any
    ) -> list[tuple[int, int, int, str, tuple[Any, ...]]]:
        asked.append(host)
        found = left.pop(0) if len(left) > 1 else left[0]
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port))
            for one in found
        ]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked


async def refused(url: str, private: bool = False) -> NotFetchedError:
    with pytest.raises(NotFetchedError) as caught:
        await Fetcher(private).fetch(url)
    return caught.value


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "0x7f000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0.0.0.0",
        "[fe80::1%25lo]",
        "169.254.169.254",
        "127.0.0.1.",
    ],
)
async def test_a_private_address_is_not_asked_however_it_is_written(host: str) -> None:
    async with site(gives()) as one:
        error = await refused(f"http://{host}:{one.port}/secret")
        assert (one.asked, error.passing) == ([], False)
        assert "secret" not in str(error)


@pytest.mark.parametrize("addresses", [["8.8.8.8", "127.0.0.1"], ["::1", "2001:4860:4860::8888"]])
async def test_a_name_with_one_private_address_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    tried: list[object] = []

    def connect(found: tuple[Any, ...]) -> socket.socket:
        tried.append(found)
        raise OSError("this test asks nobody outside")

    asked = names(monkeypatch, addresses)
    fetcher = Fetcher(False)
    monkeypatch.setattr(fetcher, "_socket", connect)
    with pytest.raises(NotFetchedError, match=r"^files are not fetched from this address$"):
        await fetcher.fetch("http://files.example/")
    assert (asked, tried) == (["files.example"], []), "not one of them is asked"


async def test_a_name_that_changes_its_mind_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: public when it is looked at, private a moment later."""
    tried: list[str] = []

    def connect(found: tuple[Any, ...]) -> socket.socket:
        tried.append(str(found[4][0]))
        raise OSError("this test asks nobody outside")

    async with site(gives()) as one:
        asked = names(monkeypatch, ["8.8.8.8"], ["127.0.0.1"])
        fetcher = Fetcher(False)
        monkeypatch.setattr(fetcher, "_socket", connect)
        with pytest.raises(NotFetchedError):
            await fetcher.fetch(f"http://files.example:{one.port}/")
    assert (asked, tried, one.asked) == (["files.example"], ["8.8.8.8"], [])


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1"])
def test_the_last_gate_is_the_connection_itself(address: str) -> None:
    with pytest.raises(OSError, match="not public"):
        Fetcher(False)._socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)))


async def test_what_the_operator_allows_is_fetched() -> None:
    async with site(gives(Content_Type="application/pdf")) as one:
        fetched = await Fetcher(True).fetch(f"http://127.0.0.1:{one.port}/a.pdf?x=1#part")
        assert fetched == Fetched(b"%PDF-1.7", "application/pdf")
        assert "Cookie" not in one.asked[0]


async def test_a_redirect_is_not_followed() -> None:
    async with site(gives()) as inside, site(gives(status=302, Location="http://127.0.0.1/")) as outside:
        outside.play = gives(status=302, Location=f"http://127.0.0.1:{inside.port}/")
        error = await refused(f"http://127.0.0.1:{outside.port}/", private=True)
        assert str(error) == "the file's server answers with status 302"
        assert inside.asked == []


@pytest.mark.parametrize(
    ("status", "passing"), [(204, False), (404, False), (403, False), (429, True), (500, True), (503, True)]
)
async def test_what_may_be_otherwise_in_a_while(status: int, passing: bool) -> None:
    async with site(gives(b"", status)) as one:
        assert (await refused(f"http://127.0.0.1:{one.port}/", private=True)).passing is passing


async def test_a_refused_connection_passes() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        assert (await refused(f"http://127.0.0.1:{held.getsockname()[1]}/", private=True)).passing


@pytest.mark.parametrize("declared", [True, False])
async def test_a_file_is_counted_as_it_comes(monkeypatch: pytest.MonkeyPatch, declared: bool) -> None:
    monkeypatch.setattr(webhook_fetch, "file_bytes_max", 1000)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "5000"} if declared else {})
        await response.prepare(request)
        try:
            for _ in range(100):
                await response.write(b"x" * 50)
        except ConnectionError:
            pass
        return response

    async with site(endless) as one:
        error = await refused(f"http://127.0.0.1:{one.port}/", private=True)
    assert str(error) == "the file has more than 1000 bytes"
    async with site(gives(b"x" * 1000)) as one:
        assert len((await Fetcher(True).fetch(f"http://127.0.0.1:{one.port}/")).data) == 1000


async def test_a_packed_answer_is_not_unpacked() -> None:
    async with site(gives(b"\x1f\x8b bomb", Content_Encoding="gzip")) as one:
        assert "packed" in str(await refused(f"http://127.0.0.1:{one.port}/", private=True))


async def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_fetch, "fetch_limit_s", 0.2)
    forever = asyncio.Event()

    async def silent(_: web.Request) -> web.StreamResponse:
        await forever.wait()
        return web.Response()

    async with site(silent) as one:
        error = await refused(f"http://127.0.0.1:{one.port}/", private=True)
        forever.set()
    assert error.passing


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "/a",
        "ftp://x/",
        "file:///etc/passwd",
        "gopher://x/",
        "http://",
        "http:///a",
        " http://x/",
        "http://x:0/",
        "http://u:p@8.8.8.8/",
        "http://[::1",
        "http://x:99999/",
        "data:text/plain,x",
        "http://x/\n",
    ],
)
async def test_what_is_no_address(url: str) -> None:
    assert not (await refused(url)).passing
