"""What follows from outcomes that are no wait and no doubt: other text, other place, nobody there."""

from __future__ import annotations

from tests.engine.stage import BOT, Stage

from angelia.model.ids import AdapterId
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    BadCredential,
    ContentFault,
    Moved,
    RateLimited,
    Refused,
    ThreadGone,
    Unconfirmed,
    Unreachable,
)
from angelia.testing.fakes import ScriptedAdapter

TOO_LONG = BadContent(ContentFault.TOO_LONG)


async def test_j6_rejected_markup_goes_once_as_plain_text_in_the_same_pass(stage: Stage) -> None:
    stage.platform(Accepted("1"), BadContent())
    node = await stage.start()
    id = await node.owe("first", "**bold*")
    assert [(m.text, m.format) for m in stage.talk.seen] == [("first", "markdown"), ("**bold*", "plain")]
    assert (stage.record(id).state, stage.record(id).tries) == ("delivered", 0)


async def test_a_text_that_is_too_long_is_split_once(stage: Stage) -> None:
    stage.platform(TOO_LONG)
    node = await stage.start()
    text = "word " * 700
    id = await node.owe(text)
    assert len(stage.talk.seen) == 2
    assert " ".join(stage.talk.texts).split() == text.split()
    assert [(m.part, m.parts) for m in stage.talk.seen] == [(1, 2), (2, 2)]
    assert stage.record(id).state == "delivered"


async def test_a_child_that_is_too_long_again_is_rejected(stage: Stage) -> None:
    stage.platform(otherwise=TOO_LONG)
    node = await stage.start()
    id = await node.owe("word " * 700)
    assert (stage.record(id).state, stage.record(id).reason) == ("abandoned", "rejected")
    assert len(stage.talk.calls) == 2


async def test_d2_a_deleted_topic_sends_the_reply_to_the_chat_and_says_so(stage: Stage) -> None:
    stage.platform(ThreadGone())
    node = await stage.start()
    id = await node.owe("text", thread="1")
    await node.owe("two", thread="2")
    await node.owe("root")
    assert [(m.thread, m.text) for m in stage.talk.seen] == [
        ("", "♻️ Recovered reply — its topic is gone, so it comes here:\n\ntext"),
        ("2", "two"),
        ("", "root"),
    ]
    assert stage.record(id).rerouted
    assert stage.ask("SELECT count(*) FROM chats WHERE unreachable_at IS NOT NULL") == [(0,)]


async def test_g6_a_rerouted_reply_is_delivered_and_shown_as_rerouted(stage: Stage) -> None:
    stage.platform(ThreadGone())
    node = await stage.start()
    id = await node.owe("text", thread="1")
    await stage.advance(300)
    assert (stage.record(id).state, stage.record(id).rerouted, len(stage.talk.calls)) == (
        "delivered",
        True,
        2,
    )


async def test_d6_topics_switched_off_cost_no_answer(stage: Stage) -> None:
    stage.platform(otherwise=lambda m: ThreadGone() if m.thread == "7" else Accepted("ok"))
    node = await stage.start()
    for number in range(3):
        await node.say(f"n{number}", thread="7")
    assert [m.thread for m in stage.talk.seen] == ["", "", ""]
    assert [text.rsplit("\n", 1)[-1] for text in stage.talk.texts] == [f"You said: n{n}" for n in range(3)]


async def test_d7_a_chat_whose_topics_all_vanish_for_a_while_is_not_condemned(stage: Stage) -> None:
    def regression(message: object) -> ThreadGone | Accepted:
        return ThreadGone() if getattr(message, "thread", "") and broken else Accepted("ok")

    broken = True
    stage.platform(otherwise=regression)
    node = await stage.start()
    for number in range(5):
        await node.owe("text", chat=f"c{number}", thread="1")
    broken = False
    await node.owe("text", chat="c0", thread="1")
    assert [m.thread for m in stage.talk.seen] == ["", "", "", "", "", "1"]


async def test_a_thread_that_is_gone_twice_is_a_refusal(stage: Stage) -> None:
    stage.platform(ThreadGone(), ThreadGone())
    node = await stage.start()
    id = await node.owe("text", thread="1")
    assert [a.ending for a in stage.record(id).attempts] == ["thread_gone", "refused"]


async def test_g1_a_lost_reply_anchor_is_dropped_in_the_same_thread(stage: Stage) -> None:
    stage.platform(ThreadGone(anchor_only=True))
    node = await stage.start()
    await node.owe("text", thread="5", reply_to="77")
    assert [(m.thread, m.reply_to, m.text) for m in stage.talk.seen] == [("5", "", "text")]


async def test_moved_readdresses_every_owed_row_of_the_chat(stage: Stage) -> None:
    stage.platform(Refused("no"), Moved("new"))
    node = await stage.start()
    await node.owe("first")
    await node.owe("second")
    await node.owe("other thread", thread="t")
    await stage.advance(32)
    assert [(m.chat, m.text) for m in stage.talk.seen] == [
        ("new", "other thread"),
        ("new", "first"),
        ("new", "second"),
    ]


async def test_a_reply_to_a_chat_that_has_moved_goes_to_the_new_one(stage: Stage) -> None:
    stage.platform(Moved("new"))
    node = await stage.start()
    await node.owe("first")
    await node.owe("later")
    assert [(m.chat, m.text) for m in stage.talk.seen] == [("new", "first"), ("new", "later")]


async def test_a_third_move_is_a_refusal(stage: Stage) -> None:
    stage.platform(Moved("b"), Moved("d"), Moved("e"))
    node = await stage.start()
    id = await node.owe("text")
    assert [a.ending for a in stage.record(id).attempts] == ["moved", "moved", "refused"]
    await stage.advance(32)
    assert stage.talk.texts == ["text"]


async def test_d1_one_call_condemns_the_chat_for_good(stage: Stage) -> None:
    stage.platform(RateLimited(5), Unreachable("blocked"))
    node = await stage.start()
    for _ in range(3):
        await node.owe("owed")
    await stage.advance(7)
    for _ in range(10):
        await node.owe("later")
    await node.connect()
    await node.kill()
    await stage.start()
    await stage.advance(200)
    assert len(stage.talk.calls) == 2
    assert {(r.state, r.reason) for r in stage.records()} == {("abandoned", "unreachable")}


async def test_d1_an_inbound_revives_the_chat(stage: Stage) -> None:
    stage.platform(Unreachable("blocked"))
    node = await stage.start()
    await node.owe("lost")
    await stage.advance(1)
    await node.say("I am back")
    assert stage.talk.texts == ["You said: I am back"]


async def test_d1_an_inbound_older_than_the_attempt_revives_nothing(stage: Stage) -> None:
    stage.platform(Unreachable("blocked"))
    node = await stage.start()
    sent_at = stage.clock.wall - 1000
    await node.owe("lost")
    await node.say("sent before", sent_at=sent_at)
    assert stage.talk.texts == []
    assert stage.record().reason == "unreachable"


async def test_d4_rows_of_dead_chats_starve_nobody(stage: Stage) -> None:
    stage.platform(otherwise=lambda m: Unreachable("gone") if m.chat.startswith("dead") else Accepted("ok"))
    node = await stage.node().start(connect=False)
    for number in range(20):
        await node.owe("text", chat=f"dead{number}")
    for number in range(5):
        await node.owe("text", chat=f"good{number}")
    await node.connect()
    assert len(stage.talk.seen) == 5
    await node.stop()
    await stage.start()
    await stage.advance(5)
    assert len(stage.talk.calls) == 25


async def test_k3_one_failing_target_of_three_is_retried_alone(stage: Stage) -> None:
    stage.platform(Accepted("a"), Unconfirmed("503"), Accepted("c"))
    node = await stage.start()
    for chat in "abc":
        await node.owe("news", chat=chat)
    await stage.advance(31)
    assert [m.chat for m in stage.talk.calls] == ["a", "b", "c", "b"]


async def test_a_bad_credential_stops_its_adapter_and_no_other(stage: Stage) -> None:
    other = AdapterId("bot", "other")
    stage.adapters[other] = ScriptedAdapter()
    stage.platform(BadCredential("revoked"))
    node = await stage.start()
    told: list[str] = []

    def remove(adapter_id: AdapterId, detail: str) -> None:
        told.append(f"{adapter_id}: {detail}")
        node.engine.roster.remove(adapter_id)

    node.engine.roster.on_bad_credential = remove
    id = await node.owe("first")
    await node.owe("second")
    await node.owe("goes on", adapter=other)
    await stage.advance(100)
    assert told == ["bot/talk: revoked"]
    assert len(stage.talk.calls) == 1
    assert stage.adapters[other].texts == ["goes on"]
    assert (stage.record(id).state, stage.record(id).tries) == ("failed", 0)
    await node.connect(BOT)  # the next start, with a valid one
    assert stage.talk.texts == ["first", "second"]
