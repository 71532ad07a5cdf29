"""Files on the chat page's protocol: the frame of a part, the history, and what is not promised."""

# ruff: noqa: F811 - pytest hands fixtures over by the names under which they were imported

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.web_pages import (  # noqa: F401 - the fixtures are asked for by name
    host,
    outgoing,
    page,
    sending,
    served,
)

from angelia.model.media import Attachment
from angelia.model.messages import HistoryEntry, HistoryPart
from angelia.model.outcomes import Accepted, BadContent, ContentFault, NotSent
from angelia.testing.fake_host import FakeHost, Served

WRITTEN_AT = 1_800_000_000_000


async def spooled(host: FakeHost, folder: Path) -> Attachment:
    host.spool_folder = folder
    return await host.spool(b"bytes", "cat.png", "image/png")


async def test_a_part_with_a_file_names_it_and_its_link(
    page: Callable[[], Any], served: Served, host: FakeHost, tmp_path: Path
) -> None:
    attachment = await spooled(host, tmp_path)
    client = await page()
    await client.open()
    message = outgoing(text="A cat", attachment=attachment, written_at=WRITTEN_AT)
    async with sending(served, message) as sent:
        frame = await client.hear("part")
        assert frame["text"] == "A cat"
        assert frame["attachment"] == {
            "url": host.link(attachment, WRITTEN_AT),
            "name": "cat.png",
            "mime": "image/png",
            "kind": "image",
            "size": 5,
        }
        await client.say("ack", key=frame["key"])
        assert await sent == Accepted(message.key)


async def test_a_part_without_a_file_is_as_it_was(page: Callable[[], Any], served: Served) -> None:
    client = await page()
    await client.open()
    async with sending(served, outgoing()):
        assert "attachment" not in await client.hear("part")


async def test_the_history_has_the_same_link(page: Callable[[], Any], host: FakeHost, tmp_path: Path) -> None:
    attachment = await spooled(host, tmp_path)
    parts = (HistoryPart(1, "words", True), HistoryPart(2, "A cat", True, attachment))
    host.histories["main"] = [HistoryEntry("assistant", "", WRITTEN_AT, "d1", "delivered", False, parts)]
    client = await page()
    (entry,) = (await client.open())["entries"]
    assert "attachment" not in entry["parts"][0]
    assert entry["parts"][1]["attachment"]["url"] == host.link(attachment, WRITTEN_AT)


async def test_b10_a_file_that_is_gone_is_not_shown_as_sent(
    page: Callable[[], Any], served: Served, host: FakeHost, tmp_path: Path
) -> None:
    attachment = await spooled(host, tmp_path)
    (tmp_path / attachment.file).unlink()
    client = await page()
    await client.open()
    outcome = await served.adapter.send(outgoing(attachment=attachment))
    assert outcome == BadContent(ContentFault.MEDIA, "the file is gone from the spool")


async def test_without_a_key_for_links_the_part_waits(
    page: Callable[[], Any], served: Served, host: FakeHost, tmp_path: Path
) -> None:
    attachment = await spooled(host, tmp_path)
    client = await page()
    await client.open()
    host.unavailable = True
    assert isinstance(await served.adapter.send(outgoing(attachment=attachment)), NotSent)


async def test_what_the_page_can_carry(served: Served) -> None:
    able = served.adapter.capabilities
    assert (able.media_bytes, able.caption_limit) == (64 * 1024 * 1024, able.text_limit)
