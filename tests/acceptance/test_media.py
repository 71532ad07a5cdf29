"""Files, as a person lives them: an agent attaches, the page shows, a webhook gets links; and
``kill -9`` between the spool and the delivery loses none of them and repeats none unmarked.
"""

# ruff: noqa: F811 - pytest hands fixtures over by the names under which they were imported

from __future__ import annotations

import base64
import json
import signal
import struct
import zlib
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.acceptance.browser import watched
from tests.acceptance.chat_page import browser, context, host, outgoing, served, visit, write  # noqa: F401
from tests.acceptance.daemon import SECRET, Daemon, Home, Receiver, eventually, receiver, running
from tests.acceptance.record import all_delivered, deliveries, endings, why

from angelia.gateway.links import Links
from angelia.model.media import Attachment
from angelia.model.messages import HistoryEntry, HistoryPart
from angelia.model.outcomes import Accepted
from angelia.seams.clock import SystemClock
from angelia.seams.rng import SystemRng
from angelia.store.spool import FileSpool
from angelia.testing.fake_host import FakeHost, Served

pytestmark = pytest.mark.asyncio(loop_scope="module")


RESTARTED = "♻️ Recovered reply — the gateway restarted while sending this"


def picture(width: int = 320, height: int = 200) -> bytes:
    """A PNG of two colours, made by hand."""
    row = b"".join(b"\x1d\x5c\x63" if x < width * 2 // 3 else b"\xec\xc9\x87" for x in range(width))
    rows = zlib.compress((b"\x00" + row) * height)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", rows),
        (b"IEND", b""),
    )
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def sound(seconds: int = 1) -> bytes:
    """Silence, as a WAV."""
    data = b"\x80" * 8000 * seconds
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", len(data))  # noqa: E501  # fmt: skip
    return head + data


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "cat.png").write_bytes(picture())
    return Home(tmp_path / "home")


def attaching(home: Home) -> dict[str, object]:
    """An agent that says a line and attaches a picture, which it then removes from its own place."""
    cat = home.path.with_name("cat.png")
    script = f'read -r asked; echo "$asked: here it is"; cp "{cat}" "$ANGELIA_ATTACH/cat.png"'
    return {"kind": "command", "argv": ["sh", "-c", script]}


async def fetched(url: str) -> tuple[int, bytes, Any]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.read(), answer.headers


async def has_both(service: Receiver, text: str = "show me: here it is") -> dict[str, Any]:
    """What the receiver got: the text, then the picture, whose link holds."""
    first, second = await service.wait(2)
    assert (first.text, first.body["attachments"]) == (text, [])
    (file,) = second.body["attachments"]
    assert (file["name"], file["mime"], file["kind"], file["size"]) == (
        "cat.png",
        "image/png",
        "image",
        len(picture()),
    )
    found: dict[str, Any] = file
    return found


# -- the webhook ------------------------------------------------------------------------------


async def test_a_file_of_an_agent_reaches_the_webhook_as_a_link(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url, agent=attaching(home))
        async with running(home) as gateway:
            assert await gateway.say("show me", "m1") == 202
            file = await has_both(service)
            assert file["url"].startswith(f"{gateway.address}files/")
            status, body, headers = await fetched(file["url"])
            assert (status, body, headers["Content-Type"]) == (200, picture(), "image/png")
            assert (await fetched(file["url"].replace("cat.png", "dog.png")))[0] == 404
            assert (await fetched(f"{gateway.address}files/"))[0] == 404
            await all_delivered(home)


async def test_links_begin_with_the_public_url(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url, agent=attaching(home))
        config = json.loads((home.path / "config.yaml").read_text())
        config["gateway"]["public_url"] = "https://bot.example.org/angelia"
        home.write(json.dumps(config))
        async with running(home) as gateway:
            await gateway.say("show me", "m1")
            file = await has_both(service)
            assert file["url"].startswith("https://bot.example.org/angelia/files/")
            inner = file["url"].replace("https://bot.example.org/angelia/", gateway.address)
            assert (await fetched(inner))[:2] == (200, picture())


@pytest.mark.crash
@pytest.mark.parametrize(
    ("point", "runs"),
    [("finish_turn.before_commit", ["interrupted", "answered"]), ("finish_turn.after_commit", ["answered"])],
)
async def test_b10_killed_between_the_spool_and_the_delivery(home: Home, point: str, runs: list[str]) -> None:
    async with receiver() as service:
        home.configure(service.url, agent=attaching(home))
        async with running(home, ANGELIA_CRASH_POINT=point) as first:
            assert await first.say("show me", "m1") == 202
            assert await first.ended() == -signal.SIGKILL
        assert (service.requests, len(list((home.path / "spool").iterdir()))) == ([], 1)
        if len(runs) == 1:  # what is committed needs the agent's own copy no more
            home.path.with_name("cat.png").unlink()
        async with running(home):
            file = await has_both(service)
            assert (await fetched(file["url"]))[:2] == (200, picture())
            await all_delivered(home)
        assert len(service.requests) == 2, "each part once, and plain"
        assert endings(why(home)[0]) == runs


@pytest.mark.crash
@pytest.mark.parametrize("idempotent", [False, True])
async def test_b10_killed_after_the_text_only_the_file_is_sent(home: Home, idempotent: bool) -> None:
    async with receiver() as service:
        home.configure(service.url, agent=attaching(home), idempotent=idempotent)
        async with running(home, ANGELIA_CRASH_POINT="wire.before:2") as first:
            await first.say("show me", "m1")
            assert await first.ended() == -signal.SIGKILL
        assert service.texts == ["show me: here it is"]
        async with running(home):
            await all_delivered(home)
        *lines, again = service.requests[1:]
        assert [file["name"] for file in again.body["attachments"]] == ["cat.png"]
        assert again.text == ""
        # Its own attempt was in flight, so it is in doubt; only a key makes a copy impossible. A
        # file without a caption has its line in front of it.
        told = [] if idempotent else [f"{RESTARTED}, continuing with part 2 of 2, so it may be a duplicate:"]
        assert [line.text for line in lines] == told


async def test_a_file_of_a_person_reaches_the_agent(home: Home) -> None:
    script = 'printf "%s came" "$(cat "$ANGELIA_FILES")"'
    async with receiver() as service:
        home.configure(service.url, agent={"kind": "command", "argv": ["sh", "-c", script]})
        async with running(home) as gateway:
            file = {"name": "note.txt", "data": base64.b64encode(b"a note").decode()}
            assert await gateway.say("", "m1", attachments=[file]) == 202
            assert await gateway.say("", "m1", attachments=[file]) == 200
            refused = {
                "id": "m2",
                "chat": "c1",
                "user": "u1",
                "text": "x",
                "attachments": [{"url": "http://127.0.0.1/"}],
            }
            status, content = await gateway.post(json.dumps(refused).encode(), secret=SECRET)
            assert (status, content["field"]) == (422, "attachments[0].url")
            assert [one.text for one in await service.wait(1)] == ["a note came"]
            await all_delivered(home)
        assert len(deliveries(home)) == 1


# -- the page ---------------------------------------------------------------------------------


async def loaded(page: Page) -> None:
    """Wait until the one picture of the page is really there."""
    await expect(page.locator(".attachment img")).to_have_count(1)
    await expect(page.locator(".attachment img")).to_have_js_property("naturalWidth", 320)


@pytest.mark.browser
@pytest.mark.crash
async def test_a_picture_is_on_the_page_after_kill_9_and_after_a_reload(
    context: BrowserContext, home: Home
) -> None:
    home.configure(agent=attaching(home), web_page=True)
    async with running(home, ANGELIA_CRASH_POINT="finish_turn.after_commit") as first:
        page = await context.new_page()
        watch = await watched(page, first.address)
        watch.expected = ("WebSocket connection to", "Failed to load resource")
        await page.goto(f"{first.address}#main")
        await write(page, "show me")
        assert await first.ended() == -signal.SIGKILL
    home.path.with_name("cat.png").unlink()
    listen = first.address.removeprefix("http://").removesuffix("/")
    async with running(home.configure(agent=attaching(home), web_page=True, listen=listen)) as second:
        await loaded(page)
        await expect(page.locator(".message.bot .part")).to_have_text(["show me: here it is", ""])
        await expect(page.locator(".recovered")).to_have_count(0)
        await page.reload()
        await loaded(page)
        await expect(page.locator(".message.bot .part")).to_have_count(2)
        await all_delivered(home)
        await _opens_alone(context, second, await page.locator(".picture").get_attribute("href"))
    assert await watch.all() == []


async def _opens_alone(context: BrowserContext, gateway: Daemon, url: str | None) -> None:
    """The picture under its own address."""
    assert url is not None
    assert url.startswith(f"{gateway.address}files/")
    alone = await context.new_page()
    answer = await alone.goto(url)
    assert answer is not None
    assert answer.status == 200
    await alone.close()


class Files:
    """Spooled files of a page's fake host, with links that hold."""

    def __init__(self, host: FakeHost, folder: Path) -> None:
        self.spool = FileSpool(folder / "spool")
        host.spool_folder = self.spool.folder
        host.links = Links(folder, self.spool.folder, SystemClock(), SystemRng())
        self.at = SystemClock().now().wall

    def keep(self, name: str, data: bytes, mime: str = "") -> Attachment:
        return self.spool.keep_now(data, name, mime, len(data))


@pytest.fixture
def files(host: FakeHost, tmp_path: Path) -> Files:
    """Asked for before ``served``, which serves the links."""
    return Files(host, tmp_path)


MARKER = "♻️ Recovered reply — the platform did not confirm it, so it may be a duplicate:"


@pytest.mark.browser
async def test_each_kind_of_file_is_shown_as_what_it_is(
    context: BrowserContext, files: Files, served: Served
) -> None:
    page, watch = await visit(context, served)
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    sent = [
        (files.keep("cat.png", picture()), "A **cat**"),
        (files.keep("hello.wav", sound(), "audio/wav"), ""),
        (files.keep('a "<b>report" & more.pdf', b"%PDF" * 1000), f"{MARKER}\n\nThe report"),
    ]
    for number, (attachment, text) in enumerate(sent, 1):
        message = outgoing("d1", text, number, parts=3, attachment=attachment, written_at=files.at)
        assert isinstance(await served.adapter.send(message), Accepted)
    await loaded(page)
    image, other, report = (page.locator(f".part[data-part='{number}']") for number in (1, 2, 3))
    assert await image.locator("img").get_attribute("alt") == "A **cat**"
    await expect(image.locator("strong")).to_have_text("cat")
    await expect(other.get_by_role("link")).to_have_attribute("download", "hello.wav")
    await expect(report.locator(".recovered")).to_contain_text("the platform did not confirm it")
    await expect(report).to_contain_text("The report")
    link = report.get_by_role("link", name="Save a breport & more.pdf")
    await expect(link).to_contain_text("4 kB")
    async with page.expect_download() as downloading:
        await link.click()
    download = await downloading.value
    assert download.suggested_filename.endswith("more.pdf")
    assert await watch.all() == []


@pytest.mark.browser
async def test_a_line_ahead_of_a_file_stays_over_it(
    context: BrowserContext, files: Files, served: Served
) -> None:
    page, _ = await visit(context, served)
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    cat = files.keep("cat.png", picture())
    await served.adapter.send(outgoing("d1", MARKER, recovered=True))
    await served.adapter.send(
        outgoing("d1", "", revision=2, recovered=True, attachment=cat, written_at=files.at)
    )
    await loaded(page)
    await expect(page.locator(".part")).to_have_count(1)
    await expect(page.locator(".recovered")).to_have_text(MARKER.removeprefix("♻️ ").removesuffix(":"))


@pytest.mark.browser
async def test_a_sound_can_be_played(context: BrowserContext, files: Files, served: Served) -> None:
    page, watch = await visit(context, served)
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    voice = files.keep(
        "voice.mp3", sound(2), "audio/mpeg"
    )  # the page goes by the kind, the browser by the bytes
    await served.adapter.send(outgoing("d1", "", attachment=voice, written_at=files.at))
    await expect(page.locator("audio")).to_have_js_property("duration", 2)
    await expect(page.locator("audio")).to_have_attribute("aria-label", "voice.mp3")
    assert await watch.all() == []


@pytest.mark.browser
async def test_a_file_whose_link_has_ended_says_so(
    context: BrowserContext, files: Files, served: Served, host: FakeHost
) -> None:
    cat = files.keep("cat.png", picture())
    parts = (HistoryPart(1, "look", True), HistoryPart(2, "", True, cat))
    host.histories["main"] = [
        HistoryEntry("assistant", "", files.at - 9 * 86_400_000, "d1", "delivered", False, parts)
    ]
    page, _ = await visit(context, served, expected=("Failed to load resource",))
    await expect(page.locator(".part[data-part='2']")).to_contain_text("cat.png")
    await expect(page.locator(".part[data-part='2']")).to_contain_text("cannot be shown (any more)")
    await expect(page.locator(".attachment img")).to_have_count(0)


@pytest.mark.browser
async def test_a_picture_that_comes_keeps_the_end_in_view(
    context: BrowserContext, files: Files, served: Served, host: FakeHost
) -> None:
    at = files.at
    host.histories["main"] = [
        HistoryEntry("user", f"line {n}", at - 1000 + n, f"t{n}", "answered") for n in range(40)
    ]
    page, _ = await visit(context, served)
    await expect(page.get_by_text("line 39")).to_be_in_viewport()
    cat = files.keep("cat.png", picture(320, 400))
    await served.adapter.send(outgoing("d1", "", attachment=cat, written_at=at))
    await loaded(page)

    async def at_the_end() -> bool:
        below = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight"
        return float(await page.locator("#scroll").evaluate(below)) < 2

    await eventually(at_the_end, "the end of the chat is in view")
