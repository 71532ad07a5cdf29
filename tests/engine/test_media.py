"""Files of answers and questions, pieces of one message, and our own pace."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import pytest
from tests.engine.stage import BOT, Node, Stage

from angelia.agents.base import Answer, AttachedFile
from angelia.engine.changes import limit_for
from angelia.model.media import Attachment, MediaKind
from angelia.model.messages import NewDelivery, Outgoing
from angelia.model.outcomes import Accepted, BadContent, ContentFault, RateLimited, Unconfirmed
from angelia.platforms.base import Capabilities, Pace
from angelia.store.spool import FileSpool
from angelia.testing.fakes import Arrives
from angelia.testing.manual_clock import at_rest

MEDIA = Capabilities(200, media_bytes=1000, caption_limit=100)
BAD_MEDIA = BadContent(ContentFault.MEDIA)
DOUBT = "♻️ Recovered reply — the platform did not confirm it, so it may be a duplicate:"


class InlineSpool:
    """The spool without threads: everything of a stage happens in one."""

    def __init__(self, folder: Path) -> None:
        self.files = FileSpool(folder)

    async def keep(self, source: Path | bytes, name: str, mime: str, most: int) -> Attachment:
        return self.files.keep_now(source, name, mime, most)

    def path(self, attachment: Attachment) -> Path:
        return self.files.path(attachment)

    async def forget(self, named: Collection[str]) -> int:
        return self.files.forget_now(named)


@pytest.fixture
def spool(tmp_path: Path) -> InlineSpool:
    return InlineSpool(tmp_path / "spool")


async def started(stage: Stage, spool: InlineSpool) -> Node:
    return await stage.start(spool=spool, capabilities=lambda _lane: stage.talk.capabilities)


def carried(message: Outgoing) -> tuple[str, str]:
    return message.text, message.attachment.name if message.attachment else ""


async def test_b10_an_answer_with_files_is_one_delivery_of_several_parts(
    stage: Stage, spool: InlineSpool, tmp_path: Path
) -> None:
    stage.platform(capabilities=MEDIA)
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"png")
    files = (AttachedFile(picture, caption="a cat"), AttachedFile(b"ogg", "say.ogg", "audio/ogg"))
    stage.agent.script.append(Answer("look", files=files))
    node = await started(stage, spool)
    await node.say()
    assert [carried(m) for m in stage.talk.seen] == [("look", ""), ("a cat", "cat.png"), ("", "say.ogg")]
    kinds = [m.attachment.kind for m in stage.talk.seen if m.attachment]
    assert kinds == [MediaKind.IMAGE, MediaKind.VOICE]
    kept = stage.talk.seen[1].attachment
    assert kept is not None
    assert spool.path(kept).read_bytes() == b"png"
    (record,) = stage.records()
    assert (record.state, [part.receipt for part in record.parts]) == ("delivered", ["r1", "r2", "r3"])


async def test_a_file_alone_is_an_answer(stage: Stage, spool: InlineSpool) -> None:
    stage.platform(capabilities=MEDIA)
    stage.agent.script.append(Answer("", files=(AttachedFile(b"x", "x.bin"),)))
    await (await started(stage, spool)).say()
    assert [carried(m) for m in stage.talk.seen] == [("", "x.bin")]
    assert stage.runs() == ["answered"]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        (AttachedFile(Path("/nowhere/x.txt")), "I wanted to attach a file, but it is not there: x.txt"),
        (AttachedFile(Path("/dev/zero")), "I wanted to attach a file, but it is not there: zero"),
        (AttachedFile(b"", "x.txt"), "I wanted to attach a file, but it is not there: x.txt"),
        (AttachedFile(b"x" * 1001, "../../x.txt"), "A file is too large to be sent here: x.txt"),
    ],
)
async def test_what_cannot_be_attached_is_told_beside_the_answer(
    stage: Stage, spool: InlineSpool, file: AttachedFile, line: str
) -> None:
    stage.platform(capabilities=MEDIA)
    stage.agent.script.append(Answer("look", files=(file, AttachedFile(b"y", "y.txt"))))
    await (await started(stage, spool)).say()
    assert [carried(m) for m in stage.talk.seen] == [("look", ""), (line, ""), ("", "y.txt")]


async def test_a_platform_without_files_says_so_and_keeps_the_caption(
    stage: Stage, spool: InlineSpool
) -> None:
    stage.agent.script.append(Answer("look", files=(AttachedFile(b"y", "y.txt", caption="why"),)))
    await (await started(stage, spool)).say()
    assert stage.talk.texts == ["look", "Files cannot be sent here: y.txt", "why"]


async def test_a_caption_that_is_too_long_goes_before_its_file(stage: Stage, spool: InlineSpool) -> None:
    stage.platform(capabilities=MEDIA)
    stage.agent.script.append(Answer("", files=(AttachedFile(b"y", "y.txt", caption="c" * 101),)))
    await (await started(stage, spool)).say()
    assert [carried(m) for m in stage.talk.seen] == [("c" * 101, ""), ("", "y.txt")]


async def owed(node: Node, spool: InlineSpool, *captions: str) -> str:
    """A notice of files with these captions."""
    files = [(await spool.keep(b"%d" % i, f"{i}.bin", "", 99), c) for i, c in enumerate(captions)]
    new = NewDelivery(
        node.stage.new_id("d"), node.inbound().lane, (), origin="notice", attachments=tuple(files)
    )
    with node.as_me():
        await node.engine.enqueue(new)
        await at_rest()
    return new.id


async def test_a_file_that_is_not_taken_becomes_a_line_before_its_caption(
    stage: Stage, spool: InlineSpool
) -> None:
    stage.platform(BAD_MEDIA, capabilities=MEDIA)
    id = await owed(await started(stage, spool), spool, "first", "second")
    told = "I could not send a file here: 0.bin\n\nfirst"
    assert [carried(m) for m in stage.talk.seen] == [(told, ""), ("second", "1.bin")]
    assert (stage.record(id).state, stage.record(id).tries) == ("delivered", 0)


async def test_a_marker_goes_into_a_caption_and_before_a_bare_file(stage: Stage, spool: InlineSpool) -> None:
    script = (Arrives(Unconfirmed()), Accepted("2"), Arrives(Unconfirmed()))
    stage.platform(*script, capabilities=MEDIA)
    await owed(await started(stage, spool), spool, "cap", "")
    await stage.advance(31)
    await stage.advance(121)
    line = "♻️ Recovered reply — the platform did not confirm it, continuing with part 2 of 2"
    assert [carried(m) for m in stage.talk.seen] == [
        ("cap", "0.bin"),
        (f"{DOUBT}\n\ncap", "0.bin"),
        ("", "1.bin"),
        (f"{line}, so it may be a duplicate:", ""),
        ("", "1.bin"),
    ]


async def test_bytes_that_are_named_stay_and_others_go(
    stage: Stage, spool: InlineSpool, tmp_path: Path
) -> None:
    stage.platform(capabilities=MEDIA)
    node = await started(stage, spool)
    await owed(node, spool, "")
    await spool.keep(b"nobody", "n", "", 99)
    for file in spool.files.folder.iterdir():
        os.utime(file, (1, 1))
    young = await spool.keep(b"young", "y", "", 99)
    await stage.advance(700)
    left = {file.read_bytes() for file in spool.files.folder.iterdir() if not file.name.startswith(".")}
    assert left == {b"0", b"young"}
    assert spool.path(young).exists()


async def test_an_edit_reaches_a_message_that_still_waits(stage: Stage, spool: InlineSpool) -> None:
    stage.agent.gate.clear()
    node = await started(stage, spool)
    await node.say("first", id="m1")
    await node.say("secnd", id="m2")
    with node.as_me():
        assert await node.engine.receiver.edit(node.inbound("second", id="m2"))
        assert not await node.engine.receiver.edit(node.inbound("too late", id="m1"))
        stage.agent.gate.set()
        await at_rest()
    assert [question.text for question in stage.agent.questions] == ["first", "second"]


# -- our own pace --------------------------------------------------------------------------------


async def test_a_chat_gets_a_burst_then_one_message_per_second(stage: Stage) -> None:
    stage.platform(capabilities=Capabilities(200, pace=Pace(chat_per_s=1, burst=3)))
    node = await stage.start()
    for i in range(5):
        await node.owe(str(i))
    assert stage.talk.texts == ["0", "1", "2"]
    await node.owe("elsewhere", chat="other")
    assert stage.talk.texts_in("other") == ["elsewhere"]
    await stage.advance(1.1)
    assert stage.talk.texts_in("c") == ["0", "1", "2", "3"]
    await stage.advance(1.1)
    assert stage.talk.texts_in("c") == ["0", "1", "2", "3", "4"]


async def test_parts_of_one_delivery_keep_the_pace(stage: Stage) -> None:
    stage.platform(capabilities=Capabilities(200, pace=Pace(chat_per_s=1, burst=2)))
    node = await stage.start()
    id = await node.owe("1", "2", "3")
    assert stage.talk.texts == ["1", "2"]
    await stage.advance(1.1)
    assert stage.talk.texts == ["1", "2", "3"]
    assert stage.record(id).state == "delivered"


async def test_a_group_has_a_bound_of_its_own_and_so_has_the_bot(stage: Stage) -> None:
    pace = Pace(chat_per_s=1, group_per_min=20, bot_per_s=10, burst=1, is_group=lambda c: c == "group")
    stage.platform(capabilities=Capabilities(200, pace=pace))
    node = await stage.start()
    await node.owe("a", chat="group")
    await node.owe("b", chat="group")
    await stage.advance(2.5)
    assert stage.talk.texts_in("group") == ["a"]
    await stage.advance(1)
    assert stage.talk.texts_in("group") == ["a", "b"]
    for i in range(20):
        await node.owe("x", chat=f"c{i}")
    assert len(stage.talk.texts) == 2 + 10
    await stage.advance(1.1)
    assert len(stage.talk.texts) == 2 + 20


async def test_the_pace_outlives_an_instance_of_the_adapter(stage: Stage) -> None:
    stage.platform(capabilities=Capabilities(200, pace=Pace(chat_per_s=1, burst=1)))
    node = await stage.start()
    await node.owe("1")
    await node.connect(BOT)
    await node.owe("2")
    assert stage.talk.texts == ["1"]
    await stage.advance(1.1)
    assert stage.talk.texts == ["1", "2"]


async def test_a_rate_limit_learned_during_the_pause_holds_the_message(stage: Stage) -> None:
    stage.platform(Accepted("1"), capabilities=Capabilities(200, pace=Pace(chat_per_s=1, burst=1)))
    node = await stage.start()
    await node.owe("1")
    await node.owe("2")
    with node.as_me():
        await node.engine.ledger.hold(BOT, limit_for(RateLimited(30), "c", stage.clock.now()))
    await stage.advance(5)
    assert stage.talk.texts == ["1"]
    await stage.advance(26)
    assert stage.talk.texts == ["1", "2"]
