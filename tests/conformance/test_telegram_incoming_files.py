"""Files that come in on Telegram: in the spool before the commit, or an honest line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.conformance.telegram_bot import bot, to, until_idle

from angelia.model.messages import Inbound
from angelia.testing.fake_host import FakeHost
from angelia.testing.telegram_server import TelegramServer, steps


async def heard(server: TelegramServer, host: FakeHost, groups: str = "mention") -> list[Inbound]:
    """What has come to the gateway once all that waits on the server is confirmed."""
    async with bot(server, host, groups=groups):
        await until_idle(server)
    return host.received


async def test_files_are_in_the_spool_before_the_commit(tmp_path: Path) -> None:
    host = FakeHost()
    host.spool_folder = tmp_path
    async with TelegramServer() as server:
        ada = server.world.private()
        server.world.picture(ada, data=b"the picture")
        server.world.voice(ada, data=b"the voice")
        server.world.document(ada, "report.pdf", b"the report", "read **this**", mime_type="application/pdf")
        await heard(server, host)
    assert [one.text for one in host.received] == [
        "[a photo]",
        "[a voice message of 1 s]",
        "[a file: report.pdf]\n\nread **this**",
    ]
    for one, data, mime in zip(
        host.received,
        (b"the picture", b"the voice", b"the report"),
        ("image/jpeg", "audio/ogg", "application/pdf"),
        strict=True,
    ):
        (file,) = one.attachments
        assert (file.file, file.mime, file.size) == (hashlib.sha256(data).hexdigest(), mime, len(data))
        assert (tmp_path / file.file).read_bytes() == data
    assert host.received[2].attachments[0].name == "report.pdf"


async def test_i4_a_slow_file_holds_its_own_chat_and_no_other(tmp_path: Path) -> None:
    host = FakeHost()
    host.spool_folder = tmp_path
    async with TelegramServer() as server:
        ada, bob = server.world.private("Ada"), server.world.private("Bob")
        server.script(steps.hold("gate", steps.accept()), method="getFile")
        server.world.picture(ada, data=b"the picture")
        server.world.say(ada, "after the picture")
        server.world.say(bob, "meanwhile")
        async with bot(server, host) as one:
            await host.until(lambda: host.received)
            for _ in range(3):  # time enough for a message that must not overtake
                await one.send(to(bob))
            assert [inbound.text for inbound in host.received] == ["meanwhile"]
            server.release("gate")
            await until_idle(server)
    texts = [inbound.text for inbound in host.received]
    assert texts == ["meanwhile", "[a photo]", "after the picture"]


async def test_a_file_that_cannot_be_fetched_is_an_honest_line(tmp_path: Path) -> None:
    host = FakeHost()
    host.spool_folder = tmp_path
    async with TelegramServer() as server:
        ada = server.world.private()
        server.script(steps.fail("internal"), method="getFile")
        server.world.picture(ada, "what is it?")
        await heard(server, host)
    (one,) = host.received
    assert one.attachments == ()
    assert one.text == ("[a photo, which could not be fetched: Internal Server Error]\n\nwhat is it?")


async def test_a_spool_that_cannot_be_written_holds_the_offset(tmp_path: Path) -> None:
    host = FakeHost()
    host.spool_folder = tmp_path
    host.unavailable = True
    async with TelegramServer() as server:
        ada = server.world.private()
        async with bot(server, host):
            server.world.picture(ada)
            await server.until(lambda: len(server.calls_of("getFile")) >= 2)
            assert server.updates.pending
            host.unavailable = False
            await until_idle(server)
    assert len(host.received) == 1


async def test_a_file_that_turns_out_too_large_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("angelia.platforms.telegram.api.download_bytes_max", 5)
    host = FakeHost()
    host.spool_folder = tmp_path
    async with TelegramServer() as server:
        ada = server.world.private()
        server.world.document(ada, "five.txt", b"12345")
        server.world.document(ada, "six.txt", b"123456")
        await heard(server, host)
    assert [len(one.attachments) for one in host.received] == [1, 0]
    assert host.received[1].text == "[a file: six.txt, which could not be fetched: it is too large]"
    assert len(list(tmp_path.iterdir())) == 1  # noqa: ASYNC240 - a look at a folder of the test
