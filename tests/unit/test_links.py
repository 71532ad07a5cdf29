"""Links to spooled files: what they hold, when they end, and that nothing else is served."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from angelia.gateway.links import PATH, Links, lifetime_ms
from angelia.model.errors import StoreUnavailableError
from angelia.model.limits import DAY_MS
from angelia.model.media import Attachment, MediaKind
from angelia.seams.clock import Clock, Now, SystemClock
from angelia.seams.rng import SeededRng
from angelia.store.spool import FileSpool

WRITTEN_AT = 1_800_000_000_000


class Still(SystemClock):
    """A clock that stands until a test moves it."""

    def __init__(self, wall: int = WRITTEN_AT) -> None:
        super().__init__()
        self.wall = wall

    def now(self) -> Now:
        return Now(self.wall, self.wall)


class House:
    """A home with a spool, and a server that answers its links."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = Still()
        self.spool = FileSpool(home / "spool")
        self.links = self.anew()
        self.session: aiohttp.ClientSession
        self.url = ""

    def anew(self, clock: Clock | None = None, seed: int = 1) -> Links:
        """As a later start makes them."""
        return Links(self.home, self.spool.folder, clock or self.clock, SeededRng(seed))

    def keep(
        self, data: bytes = b"some bytes", name: str = "notes.txt", mime: str = "text/plain"
    ) -> Attachment:
        return self.spool.keep_now(data, name, mime, len(data))

    async def get(
        self, link: str, method: str = "GET", **headers: str
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        url = URL(self.url + link, encoded=True)
        async with self.session.request(method, url, headers=headers) as response:
            return response, await response.read()


@asynccontextmanager
async def serving(house: House) -> AsyncIterator[House]:
    app = web.Application()
    app.router.add_get(PATH, house.links.serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    house.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        async with aiohttp.ClientSession() as house.session:
            yield house
    finally:
        await runner.cleanup()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with serving(House(tmp_path)) as house:
        yield house


@pytest.mark.parametrize(
    ("name", "mime", "manner", "served"),
    [
        ("cat.png", "image/png", "inline", "image/png"),
        ("voice.ogg", "audio/ogg; codecs=opus", "inline", "audio/ogg"),
        ("film.mp4", "video/mp4", "inline", "video/mp4"),
        ("page.html", "text/html", "attachment", "application/octet-stream"),
        ("drawing.svg", "image/svg+xml", "attachment", "application/octet-stream"),
        ("code.js", "text/javascript", "attachment", "application/octet-stream"),
        ("odd", "x/y\r\nSet-Cookie: a=b", "attachment", "application/octet-stream"),
    ],
)
async def test_a_file_goes_out_so_that_nothing_in_it_can_run(
    house: House, name: str, mime: str, manner: str, served: str
) -> None:
    response, body = await house.get(house.links.link(house.keep(name=name, mime=mime), WRITTEN_AT))
    assert (response.status, body) == (200, b"some bytes")
    assert response.headers["Content-Type"] == served
    assert response.headers["Content-Disposition"].startswith(f'{manner}; filename="{name}"')
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert (
        response.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
    )
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("name", ["Grüße.pdf", "a b&c?d#e.txt", "100%25.txt", "雪.txt", "a'b;c=d.txt"])
async def test_any_name_survives_the_way(house: House, name: str) -> None:
    kept = house.keep(name=name, mime="")
    link = house.links.link(kept, WRITTEN_AT)
    assert link.isascii()
    response, body = await house.get(link)
    assert (response.status, body) == (200, b"some bytes")
    assert response.content_disposition is not None
    assert response.content_disposition.filename == kept.name


async def test_a_player_may_ask_for_a_piece_and_a_browser_for_the_head(house: House) -> None:
    link = house.links.link(house.keep(name="a.mp3", mime="audio/mpeg"), WRITTEN_AT)
    response, body = await house.get(link, Range="bytes=5-9")
    assert (response.status, body) == (206, b"bytes")
    response, body = await house.get(link, method="HEAD")
    assert (response.status, response.headers["Content-Length"], body) == (200, "10", b"")


async def test_the_same_part_has_the_same_link_after_every_start(house: House) -> None:
    attachment = house.keep()
    first = house.links.link(attachment, WRITTEN_AT)
    house.clock.wall += DAY_MS
    assert house.links.link(attachment, WRITTEN_AT) == first
    assert house.anew(seed=2).link(attachment, WRITTEN_AT) == first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("notes.txt", "other.txt"),
        ("type=text%2Fplain", "type=image%2Fpng"),
        ("type=text%2Fplain", "type="),
        ("until=", "until=9"),
        ("until=", "until=-"),
        ("until=", "until=%C2%B2"),
        ("until=", "until=" + "9" * 5000),
        ("until=", "u="),
        ("signature=", "signature=0"),
        ("signature=", "signature=%FF%00"),
        ("&signature=", "&s="),
    ],
)
async def test_a_link_with_anything_else_in_it_is_no_link(house: House, old: str, new: str) -> None:
    link = house.links.link(house.keep(), WRITTEN_AT)
    assert old in link
    response, body = await house.get(link.replace(old, new))
    assert (response.status, b"some bytes" in body) == (404, False)
    assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_signature_is_good_for_its_own_file_only(house: House) -> None:
    mine, other = house.keep(), house.keep(b"not for you")
    link = house.links.link(mine, WRITTEN_AT)
    response, _ = await house.get(link.replace(mine.file, other.file))
    assert response.status == 404


@pytest.mark.parametrize(
    "path",
    [
        "files",
        "files/",
        "files/x",
        "files/../links.key",
        "files/..%2Flinks.key/x",
        "files/%2e%2e/links.key",
        f"files/{'a' * 64}/",
        f"files/{'A' * 64}/x?until=1&type=&signature=",
    ],
)
async def test_there_is_no_folder_and_no_way_out_of_it(house: House, path: str) -> None:
    house.links.link(house.keep(), WRITTEN_AT)  # so that there is a key
    response, body = await house.get(path)
    assert (response.status, b"some bytes" in body) == (404, False)


async def test_without_a_key_no_link_is_right(house: House) -> None:
    attachment = house.keep()
    response, _ = await house.get(
        f"files/{attachment.file}/notes.txt?type=text/plain&until=9999999999&signature="
    )
    assert response.status == 404
    assert not (house.home / "links.key").exists(), "asking makes no key"


async def test_a_link_ends(house: House) -> None:
    link = house.links.link(house.keep(), WRITTEN_AT)
    house.clock.wall = WRITTEN_AT + lifetime_ms - 1000
    assert (await house.get(link))[0].status == 200
    house.clock.wall = WRITTEN_AT + lifetime_ms
    response, body = await house.get(link)
    assert (response.status, body) == (410, b"This link has ended.\n")


async def test_a_file_that_is_gone_is_gone(house: House) -> None:
    attachment = house.keep()
    link = house.links.link(attachment, WRITTEN_AT)
    house.spool.path(attachment).unlink()
    assert (await house.get(link))[0].status == 410


def test_the_key_is_for_its_owner_only(tmp_path: Path) -> None:
    house = House(tmp_path)
    assert not (tmp_path / "links.key").exists()
    house.links.link(Attachment("0" * 64, MediaKind.FILE, "a", "", 1), WRITTEN_AT)
    assert stat.S_IMODE((tmp_path / "links.key").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["links.key"]


@pytest.mark.parametrize("broken", [b"", b"short", b"\xff" * 64, b"z" * 64, b"0" * 63 + b"\n"])
async def test_a_key_file_that_holds_no_key_is_replaced(house: House, broken: bytes) -> None:
    (house.home / "links.key").write_bytes(broken)
    (house.home / "links.key").chmod(0o644)
    link = house.links.link(house.keep(), WRITTEN_AT)
    assert (await house.get(link))[0].status == 200
    assert stat.S_IMODE((house.home / "links.key").stat().st_mode) == 0o600


async def test_a_home_that_cannot_be_written_makes_no_link(tmp_path: Path) -> None:
    links = Links(tmp_path / "gone", tmp_path, SystemClock(), SeededRng(1))
    with pytest.raises(StoreUnavailableError):
        await asyncio.to_thread(links.link, Attachment("0" * 64, MediaKind.FILE, "a", "", 1), WRITTEN_AT)
