"""Files that go out on Telegram, with their captions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.telegram_bot import bot, to

from angelia.model.media import Attachment, MediaKind
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    ContentFault,
)
from angelia.testing.fake_host import FakeHost
from angelia.testing.telegram_server import TelegramServer, steps

PNG = (
    b"\x89PNG\r\n\x1a\n"
    + b"\x00\x00\x00\rIHDR"
    + (8).to_bytes(4, "big") * 2
    + b"\x08\x02\x00\x00\x00"
    + b"x" * 40
)
WIDE_PNG = PNG[:16] + (9000).to_bytes(4, "big") + (4000).to_bytes(4, "big") + PNG[24:]


def spooled(host: FakeHost, data: bytes, kind: MediaKind, name: str, mime: str) -> Attachment:
    (host.spool_folder / name).write_bytes(data)
    return Attachment(name, kind, name, mime, len(data))


@pytest.mark.parametrize(
    ("data", "kind", "name", "mime", "method"),
    [
        (PNG, MediaKind.IMAGE, "a.png", "image/png", "sendphoto"),
        (WIDE_PNG, MediaKind.IMAGE, "wide.png", "image/png", "senddocument"),
        (b"no picture", MediaKind.IMAGE, "lie.png", "image/png", "senddocument"),
        (b"OggS", MediaKind.VOICE, "a.ogg", "audio/ogg", "sendvoice"),
        (b"ID3", MediaKind.AUDIO, "a.mp3", "audio/mpeg", "sendaudio"),
        (b"ftyp", MediaKind.VIDEO, "a.mp4", "video/mp4", "sendvideo"),
        (b"%PDF", MediaKind.FILE, 'gr"ün.pdf', "application/pdf", "senddocument"),
    ],
)
async def test_b10_files_go_out_with_their_caption(
    tmp_path: Path, data: bytes, kind: MediaKind, name: str, mime: str, method: str
) -> None:
    host = FakeHost()
    host.spool_folder = tmp_path
    async with TelegramServer() as server, bot(server, host) as sender:
        ada = server.world.private()
        file = spooled(host, data, kind, name, mime)
        outcome = await sender.send(to(ada, "a **caption**", attachment=file))
        assert outcome == Accepted(f"{ada}/1")
        assert isinstance(await sender.send(to(ada, "", attachment=file)), Accepted)
        captioned, bare_one = server.accepted
        assert captioned.method == method
        assert (captioned.text, bare_one.text or "") == ("a caption", "")
        assert captioned.entities == ({"type": "bold", "offset": 2, "length": 7},)
        assert captioned.sha256 == bare_one.sha256
        (call, _) = server.calls_of(method)
        (sent,) = call.files.values()
        assert sent.data == data


async def test_a_file_that_cannot_go_is_bad_content_without_a_call(tmp_path: Path) -> None:
    host = FakeHost()
    host.spool_folder = tmp_path
    async with TelegramServer() as server, bot(server, host) as sender:
        ada = server.world.private()
        empty = spooled(host, b"", MediaKind.FILE, "empty", "text/plain")
        gone = Attachment("gone", MediaKind.FILE, "gone", "text/plain", 5)
        for file in (empty, gone):
            outcome = await sender.send(to(ada, "", attachment=file))
            assert isinstance(outcome, BadContent)
            assert outcome.fault is ContentFault.MEDIA
        assert server.calls_of("sendDocument") == []
        small = spooled(host, b"x", MediaKind.FILE, "small", "text/plain")
        server.script(steps.refuse("too_large"), method="sendDocument")
        refused = await sender.send(to(ada, "", attachment=small))
        assert isinstance(refused, BadContent)
        assert refused.fault is ContentFault.MEDIA
