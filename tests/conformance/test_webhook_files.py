"""Files on the webhook: those that go out as links, and those that come in, judged and spooled first."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from angelia.model.ids import AdapterId
from angelia.model.media import Attachment, MediaKind
from angelia.model.messages import HistoryEntry, Inbound, Outgoing, Reception
from angelia.model.outcomes import Accepted, BadContent, ContentFault, NotSent, Outcome, Refused
from angelia.platforms import webhook_in
from angelia.platforms.webhook import WebhookAdapter, WebhookSettings
from angelia.seams.clock import SystemClock
from angelia.testing.fake_host import FakeHost

SECRET = "a-secret-of-the-tests"
PNG = b"\x89PNG\r\n\x1a\n rest"
OGG = b"OggS rest"
GOOD = {"id": "m1", "chat": "c1", "user": "u1"}


class Service:
    """The service on both sides of one adapter: it gets what goes out and says what comes in; and
    it serves files."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.got: list[dict[str, Any]] = []
        self.status = 200
        self.file = web.Response(body=PNG, content_type="image/png")
        self.file_asked = 0
        self.asked = asyncio.Event()
        self.pace = asyncio.Event()
        self.pace.set()
        self.url = ""
        self.files = ""
        self.adapter: WebhookAdapter
        self.session: aiohttp.ClientSession

    async def take(self, request: web.Request) -> web.StreamResponse:
        self.got.append(await request.json())
        return web.json_response({"id": "r"}, status=self.status)

    async def give(self, _: web.Request) -> web.StreamResponse:
        self.file_asked += 1
        self.asked.set()
        await self.pace.wait()
        return web.Response(body=self.file.body, status=self.file.status, content_type=self.file.content_type)

    async def say(self, *attachments: object, **fields: object) -> tuple[int, dict[str, Any], Any]:
        body = json.dumps({**GOOD, "attachments": list(attachments), **fields})
        headers = {"Authorization": f"Bearer {SECRET}"}
        url = f"{self.url}webhook/default/messages"
        async with self.session.post(url, data=body, headers=headers) as answer:
            return answer.status, await answer.json(), answer.headers

    async def send(self, attachment: Attachment | None, text: str = "") -> Outcome:
        return await self.adapter.send(
            Outgoing("d1", 1, 1, "d1.1.1", "c1", text, attachment=attachment, written_at=1_800_000_000_000)
        )


@asynccontextmanager
async def serving(folder: Path, host: FakeHost | None = None, **settings: object) -> AsyncIterator[Service]:
    service = Service(host or FakeHost())
    service.host.spool_folder = folder
    app = web.Application()
    app.router.add_post("/take", service.take)
    app.router.add_get("/give/{name}", service.give)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.files = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    given = {"secret": SECRET, "deliver_url": f"{service.files}take", **settings}
    service.adapter = WebhookAdapter(
        AdapterId("default", "webhook"), WebhookSettings.model_validate(given), SystemClock()
    )
    inbound = web.Application()
    inbound.add_routes(service.adapter.routes())
    gateway = web.AppRunner(inbound, access_log=None, shutdown_timeout=0.1)
    await gateway.setup()
    await web.TCPSite(gateway, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{gateway.addresses[0][1]}/"
    await service.adapter.start(service.host)
    try:
        async with aiohttp.ClientSession() as service.session:
            yield service
    finally:
        await service.adapter.stop()
        await gateway.cleanup()
        await runner.cleanup()


def inline(data: bytes = PNG, **more: object) -> dict[str, object]:
    return {"data": base64.b64encode(data).decode(), **more}


def spooled(folder: Path, name: str = "cat.png") -> Attachment:
    (folder / ("a" * 64)).write_bytes(PNG)
    return Attachment("a" * 64, MediaKind.IMAGE, name, "image/png", len(PNG))


# -- out --------------------------------------------------------------------------------------


async def test_a_file_goes_out_as_a_signed_link(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        attachment = spooled(tmp_path)
        for _ in range(2):
            assert await service.send(attachment, "A cat") == Accepted("r")
        url = "http://gateway.example/" + service.host.link(attachment, 1_800_000_000_000)
        assert service.got[0]["text"] == "A cat"
        assert service.got[0]["attachments"] == [
            {"url": url, "name": "cat.png", "mime": "image/png", "kind": "image", "size": len(PNG)}
        ]
        assert service.got[0] == service.got[1], "a repeat has the same bytes under its key"


async def test_a_file_without_a_caption_has_an_empty_text(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        await service.send(spooled(tmp_path))
        assert (service.got[0]["text"], len(service.got[0]["attachments"])) == ("", 1)


async def test_a_file_that_is_gone_is_not_promised(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        gone = Attachment("b" * 64, MediaKind.FILE, "x", "", 1)
        assert await service.send(gone) == BadContent(ContentFault.MEDIA, "the file is gone from the spool")
        assert service.got == []


async def test_without_a_key_for_links_nothing_is_sent(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        service.host.unavailable = True
        assert isinstance(await service.send(spooled(tmp_path)), NotSent)
        assert isinstance(await service.send(None, "words need no link"), Accepted)


@pytest.mark.parametrize("status", [413, 415, 422])
async def test_a_service_that_does_not_take_the_file_gets_words(tmp_path: Path, status: int) -> None:
    async with serving(tmp_path) as service:
        service.status = status
        outcome = await service.send(spooled(tmp_path))
        assert isinstance(outcome, BadContent)
        assert outcome.fault is ContentFault.MEDIA
        service.status = 404
        assert isinstance(await service.send(spooled(tmp_path)), Refused)


async def test_what_the_webhook_can_carry(tmp_path: Path) -> None:
    async with serving(tmp_path, text_limit=500) as service:
        able = service.adapter.capabilities
        assert (able.media_bytes, able.caption_limit) == (64 * 1024 * 1024, 500)


# -- in ---------------------------------------------------------------------------------------


async def test_files_are_in_the_spool_before_the_message_is_committed(tmp_path: Path) -> None:
    there: list[bool] = []

    class Looking(FakeHost):
        async def receive(self, inbound: Inbound) -> Reception:
            there.extend(self.spooled(one).read_bytes() == PNG for one in inbound.attachments)
            return await super().receive(inbound)

    async with serving(tmp_path, Looking()) as service:
        status, _, _ = await service.say(inline(name="cat.png", mime="image/png"), text="look")
        assert (status, there) == (202, [True])
        (inbound,) = service.host.received
        assert inbound.text == "look"
        (kept,) = inbound.attachments
        assert (kept.name, kept.mime, kept.kind) == ("cat.png", "image/png", MediaKind.IMAGE)
        assert kept.size == len(PNG)


@pytest.mark.parametrize(
    ("file", "name", "mime"),
    [
        (inline(PNG), "file.png", "image/png"),
        (inline(PNG, name="../../etc/cat"), "cat.png", "image/png"),
        (inline(PNG, name="cat.jpg"), "cat.jpg", "image/png"),
        (inline(OGG, name="v.oga", mime="audio/ogg; codecs=opus"), "v.oga", "audio/ogg"),
        (inline(OGG, mime="audio/opus"), "file.ogg", "audio/ogg"),
        (inline(b"ID3x", mime="audio/mp3", name="a.mp3"), "a.mp3", "audio/mpeg"),
        (inline(b"\x1a\x45\xdf\xa3", mime="audio/webm", name="a.webm"), "a.webm", "audio/webm"),
        (inline("Grüße".encode(), name="n.md"), "n.md", "text/markdown"),
        (inline(b"%PDF-1.7", name="a.pdf", mime="application/octet-stream"), "a.pdf", "application/pdf"),
    ],
    ids=str,
)
async def test_files_that_are_taken(tmp_path: Path, file: dict[str, object], name: str, mime: str) -> None:
    async with serving(tmp_path) as service:
        status, content, _ = await service.say(file)  # no text: the file is the message
        assert (status, content) == (202, {"status": "accepted"})
        (kept,) = service.host.received[0].attachments
        assert (kept.name, kept.mime, service.host.received[0].text) == (name, mime, "")


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("x", ""),
        ([], ""),
        ({}, ""),
        ({"name": "a.png"}, ""),
        ({**inline(), "url": "http://x/"}, ""),
        (inline(name=5), ".name"),
        (inline(name="x" * 256), ".name"),
        (inline(mime=5), ".mime"),
        (inline(mime="application/x-msdownload"), ".mime"),
        (inline(mime="image/svg+xml"), ".mime"),
        ({"data": 5}, ".data"),
        ({"data": ""}, ".data"),
        ({"data": "no base64!"}, ".data"),
        ({"data": "ü"}, ".data"),
        (inline(b"MZ\x90\x00", name="a.exe"), ".data"),
        (inline(b"\x00\x01"), ".data"),
        (inline(b"<svg/>", name="a.svg"), ".data"),
        (inline(b"no picture", mime="image/png"), ".data"),
        (inline(b"\xff\xfe\x00", mime="text/plain"), ".data"),
        (inline(b"PK\x05\x06", name="a.docx"), ".data"),
        ({"url": ""}, ".url"),
        ({"url": 5}, ".url"),
        ({"url": "x" * 5000}, ".url"),
        ({"url": "ftp://x/"}, ".url"),
        ({"url": "http://127.0.0.1/"}, ".url"),
        ({"url": "http://localhost:9/"}, ".url"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_file_that_is_not_taken_is_422_and_named(tmp_path: Path, file: object, field: str) -> None:
    async with serving(tmp_path) as service:
        status, content, _ = await service.say(inline(), file, text="both or nothing")
        assert (status, content["field"]) == (422, f"attachments[1]{field}")
        assert service.host.calls == 0
        assert (await service.say(inline(), text="the id was not seen"))[0] == 202


@pytest.mark.parametrize("value", ["x", {"a": 1}, 5, True, [{}] * 11], ids=lambda value: str(value)[:20])
async def test_attachments_that_are_no_list_of_ten(tmp_path: Path, value: object) -> None:
    async with serving(tmp_path) as service:
        status, content, _ = await service.say(attachments=value, text="x")
        assert (status, content["field"], service.host.calls) == (422, "attachments", 0)


@pytest.mark.parametrize("none", [None, []], ids=str)
async def test_without_a_file_there_must_be_a_text(tmp_path: Path, none: object) -> None:
    async with serving(tmp_path) as service:
        status, content, _ = await service.say(attachments=none)
        assert (status, content["field"]) == (422, "text")
        assert (await service.say(attachments=none, text="x"))[0] == 202


async def test_a_file_by_its_address_is_fetched(tmp_path: Path) -> None:
    async with serving(tmp_path, allow_private_addresses=True) as service:
        url = f"{service.files}give/a%20cat.png?token=secret"
        assert (await service.say({"url": url}))[0] == 202
        (kept,) = service.host.received[0].attachments
        assert (kept.name, kept.mime, service.file_asked) == ("a cat.png", "image/png", 1)
        assert service.host.spooled(kept).read_bytes() == PNG


async def test_a_message_that_is_known_is_not_fetched_for_again(tmp_path: Path) -> None:
    async with serving(tmp_path, allow_private_addresses=True) as service:
        service.host.histories["c1"] = [HistoryEntry("user", "", 1, "t1", "answered", client_id="m1")]
        url = f"{service.files}give/gone.png"
        assert (await service.say({"url": url}))[:2] == (200, {"status": "duplicate"})
        assert service.file_asked == 0
        assert (await service.say({"url": url}, id="m2"))[0] == 202


async def test_a_stranger_makes_us_fetch_and_keep_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, allow_private_addresses=True) as service:
        service.host.refuse = True
        url = f"{service.files}give/cat.png"
        assert (await service.say({"url": url}, inline()))[0] == 403
        assert (service.file_asked, os.listdir(tmp_path)) == (0, [])


@pytest.mark.parametrize(("status", "expected"), [(404, 422), (302, 422), (500, 503), (429, 503)])
async def test_a_file_that_cannot_be_fetched(tmp_path: Path, status: int, expected: int) -> None:
    async with serving(tmp_path, allow_private_addresses=True) as service:
        service.file = web.Response(body=b"", status=status)
        url = f"{service.files}give/cat.png?token=hidden"
        answered, content, headers = await service.say({"url": url})
        assert (answered, content["field"]) == (expected, "attachments[0].url")
        assert ("Retry-After" in headers) is (expected == 503)
        assert "hidden" not in str(content)
        assert service.host.calls == 0


async def test_a_spool_that_cannot_be_written_is_503(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        service.host.unavailable = True
        status, _, headers = await service.say(inline())
        assert (status, service.host.received) == (503, [])
        assert headers["Retry-After"] == str(webhook_in.try_again_s)


async def test_an_adapter_that_stops_during_a_fetch_touches_its_host_no_more(tmp_path: Path) -> None:
    async with serving(tmp_path, allow_private_addresses=True) as service:
        service.pace.clear()
        asking = asyncio.create_task(service.say({"url": f"{service.files}give/cat.png"}))
        async with asyncio.timeout(10):
            await service.asked.wait()
            await service.adapter.stop()
            service.pace.set()
            status, _, headers = await asking
        assert (status, service.host.calls, os.listdir(tmp_path)) == (503, 0, [])
        assert "Retry-After" in headers
