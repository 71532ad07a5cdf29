"""Files, and what a client sent in pieces (guarantees §1: a part is a text or one attachment)."""

from __future__ import annotations

from dataclasses import replace

from angelia.model.ids import Lane
from angelia.model.media import Attachment, MediaKind
from angelia.model.messages import NewDelivery, Reception
from angelia.model.outcomes import Accepted
from angelia.model.states import RunEnd, State
from angelia.testing.ledger_desk import ADAPTER, Desk, question, same

PICTURE = Attachment("ab" * 32, MediaKind.IMAGE, "a cat.png", "image/png", 1234)
VOICE = Attachment("cd" * 32, MediaKind.VOICE, "héllo \U0001f3a4.ogg", "audio/ogg", 99)


def with_files(desk: Desk, texts: tuple[str, ...] = ("look",)) -> NewDelivery:
    files = ((PICTURE, "a cat"), (VOICE, ""))
    return NewDelivery(desk.new_id("delivery"), Lane(*ADAPTER, "chat", ""), texts, attachments=files)


@question
async def files_are_parts_after_the_texts(desk: Desk) -> None:
    new = with_files(desk)
    fresh = await desk.ledger.enqueue(new)
    record = await desk.ledger.record(new.id)
    same(fresh.parts, record.parts)
    found = [(part.number, part.text, part.attachment) for part in record.live_parts]
    same(found, [(1, "look", None), (2, "a cat", PICTURE), (3, "", VOICE)])
    same((await desk.ledger.enqueue(new)).parts, record.parts)


@question
async def a_delivery_may_be_files_alone_and_each_has_its_receipt(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.ledger.enqueue(with_files(desk, ()))
    done = await desk.send(record, owner, Accepted("r1"), Accepted("r2"))
    same((done.state, [part.receipt for part in done.parts]), (State.DELIVERED, ["r1", "r2"]))


@question
async def the_files_of_an_inbound_come_with_its_turn(desk: Desk) -> None:
    owner = await desk.owner()
    turn = await desk.turn(attachments=(PICTURE, VOICE))
    waiting = await desk.ledger.open_turn(turn)
    started = await desk.run(turn, owner)
    assert waiting is not None
    assert started is not None
    same((waiting.attachments, started.attachments), ((PICTURE, VOICE), (PICTURE, VOICE)))


@question
async def every_file_on_record_is_named(desk: Desk) -> None:
    same(set(await desk.ledger.files_named()), set())
    await desk.turn(attachments=(VOICE,))
    await desk.notice()
    same(set(await desk.ledger.files_named()), {VOICE.file})
    await desk.ledger.enqueue(with_files(desk))
    same(set(await desk.ledger.files_named()), {VOICE.file, PICTURE.file})


@question
async def pieces_of_a_burst_become_one_turn(desk: Desk) -> None:
    owner = await desk.owner()
    first = desk.inbound("m1", text="one", burst="b", more_s=2.0, reply_to="m1", attachments=(PICTURE,))
    second = desk.inbound("m2", text="two", burst="b", more_s=2.0, attachments=(VOICE,))
    same(await desk.ledger.accept(first, "turn"), Reception.ACCEPTED)
    desk.clock.advance(1.5)
    same(await desk.ledger.accept(second, "other"), Reception.ACCEPTED)
    same(await desk.ledger.accept(second, "third"), Reception.DUPLICATE)
    desk.clock.advance(1.5)
    same(await desk.run("turn", owner), None)  # 2 s after the last piece
    same(await desk.ledger.waiting_turns(9), [])
    desk.clock.advance(0.6)
    same([turn for turn, _, _ in await desk.ledger.waiting_turns(9)], ["turn"])
    started = await desk.run("turn", owner)
    assert started is not None
    same((started.text, started.reply_to, started.attachments), ("one\ntwo", "m1", (PICTURE, VOICE)))
    same(await desk.ledger.open_turn("other"), None)


@question
async def a_piece_that_comes_late_starts_a_turn_of_its_own(desk: Desk) -> None:
    owner = await desk.owner()
    piece = desk.inbound("m1", burst="b")
    await desk.ledger.accept(piece, "turn")
    started = await desk.run("turn", owner)
    assert started is not None
    same(await desk.ledger.accept(replace(piece, message_id="m2"), "second"), Reception.ACCEPTED)
    await desk.ledger.finish_turn(started, "run of turn", RunEnd.ANSWERED)
    same([turn for turn, _, _ in await desk.ledger.waiting_turns(9)], ["second"])


@question
async def pieces_of_others_and_other_bursts_do_not_join(desk: Desk) -> None:
    piece = desk.inbound("m1", burst="b")
    await desk.ledger.accept(piece, "t1")
    await desk.ledger.accept(replace(piece, message_id="m2", burst="c"), "t2")
    await desk.ledger.accept(replace(piece, message_id="m3", thread="x"), "t3")
    await desk.ledger.accept(replace(piece, message_id="m4", burst=""), "t4")
    for turn in ("t1", "t2", "t3", "t4"):
        opened = await desk.ledger.open_turn(turn)
        assert opened is not None, turn


@question
async def a_clock_set_back_holds_no_burst_for_long(desk: Desk) -> None:
    owner = await desk.owner()
    await desk.ledger.accept(desk.inbound("m1", burst="b", more_s=9.0), "turn")
    desk.clock.step(-3600)
    desk.clock.reboot()
    owner = await desk.restart()
    assert await desk.run("turn", owner) is not None


@question
async def a_burst_is_one_line_of_the_history(desk: Desk) -> None:
    owner = await desk.owner()
    for id in ("m1", "m2"):
        await desk.ledger.accept(desk.inbound(id, text=id, burst="b"), "turn" if id == "m1" else "no")
    started = await desk.run("turn", owner)
    assert started is not None
    reply = NewDelivery("answer", started.lane, ("said",), attachments=((PICTURE, "a cat"),))
    await desk.ledger.finish_turn(started, "run of turn", RunEnd.ANSWERED, delivery=reply)
    lines = await desk.ledger.history(ADAPTER, "chat", 9)
    same((lines[0].role, lines[0].text), ("user", "m1\nm2"))
    same([line.text for line in lines[1:]], ["said\n\n[image: a cat.png] a cat"])
    same([part.attachment for part in lines[1].parts], [None, PICTURE])
    await desk.turn()
    last = (await desk.ledger.waiting_turns(9))[-1][0]
    seen = await desk.ledger.conversation(started.lane, last, 9)
    same([line.text for line in seen], [line.text for line in lines])
