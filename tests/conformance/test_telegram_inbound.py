"""The inbound half of the Telegram platform, against a server with Telegram's own rules."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import structlog
from tests.conformance.telegram_bot import adapter, bot, to, until_idle

from angelia.model.messages import Inbound, Outgoing
from angelia.testing.fake_host import FakeHost
from angelia.testing.telegram_server import TelegramServer, steps


async def heard(server: TelegramServer, host: FakeHost, groups: str = "mention") -> list[Inbound]:
    """What has come to the gateway once all that waits on the server is confirmed."""
    async with bot(server, host, groups=groups):
        await until_idle(server)
    return host.received


# -- the offset ------------------------------------------------------------------------------


async def test_a_message_comes_in_whole() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private("Ada")
        number = server.world.say(ada, "hello 😀")
        (inbound,) = await heard(server, host)
        (call,) = {tuple(call.values["allowed_updates"]) for call in server.calls_of("getUpdates")}
    assert inbound == Inbound(
        "default", "telegram", str(ada), str(number), str(ada), "hello 😀",
        user_name="Ada", sent_at=inbound.sent_at,
    )  # fmt: skip
    assert inbound.sent_at is not None
    assert inbound.sent_at % 1000 == 0
    assert set(call) == {"message", "edited_message", "channel_post", "edited_channel_post"}


async def test_e8_the_offset_moves_only_after_the_commit() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        host.open.clear()
        async with bot(server, host) as one:
            server.world.say(ada, "one")
            await host.until(lambda: host.calls)
            for _ in range(3):  # time enough for a confirmation that must not come
                await one.send(to(ada))
            assert len(server.updates.pending) == 1, "the commit has not ended"
            host.open.set()
            await until_idle(server)
    assert [inbound.text for inbound in host.received] == ["one"]


async def test_e7_a_store_that_cannot_be_written_holds_the_offset_and_loses_nothing() -> None:
    host = FakeHost()
    host.unavailable = True
    async with TelegramServer() as server:
        ada, bob = server.world.private("Ada"), server.world.private("Bob")
        async with bot(server, host):
            for number in range(3):
                server.world.say(ada, f"a{number}")
                server.world.say(bob, f"b{number}")
            await host.until(lambda: host.calls >= 2)
            assert len(server.updates.pending) == 6
            host.unavailable = False
            await until_idle(server)
    for chat, texts in ((ada, ["a0", "a1", "a2"]), (bob, ["b0", "b1", "b2"])):
        assert [one.text for one in host.received if one.chat == str(chat)] == texts, "in their order"


async def test_e1_e2_what_was_not_confirmed_comes_again_to_the_next_instance_under_its_id() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        host.open.clear()
        async with bot(server, host):
            server.world.say(ada, "one")
            await host.until(lambda: host.calls)
        assert host.received == []
        (update,) = server.updates.pending
        host.open.set()
        await heard(server, host)
        server.updates.repeat(update)
        await heard(server, host)
    assert [inbound.message_id for inbound in host.received] == ["1"]


async def test_ids_that_start_anew_after_an_idle_week_are_taken() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        async with bot(server, host):
            server.world.say(ada, "before")
            await until_idle(server)
            server.updates.renumber(5)
            server.world.say(ada, "after")
            await host.until(lambda: len(host.received) == 2)
            await until_idle(server)
    assert [inbound.text for inbound in host.received] == ["before", "after"]


async def test_o3_a_stop_needs_no_last_confirmation() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        async with bot(server, host):
            server.world.say(ada, "one")
            await host.until(lambda: host.received)
        await heard(server, host)
    assert len(host.received) == 1


async def test_e16_what_was_written_before_and_during_the_start_is_taken() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        server.world.say(ada, "before")
        server.script(steps.hold("gate", steps.accept()), method="deleteWebhook")
        one = adapter(server.url, server.token)
        starting = asyncio.create_task(one.start(host))
        await server.until(lambda: server.calls_of("deleteWebhook"))
        server.world.say(ada, "during")
        server.release("gate")
        await starting
        await until_idle(server)
        await one.stop()
    assert [inbound.text for inbound in host.received] == ["before", "during"]


async def test_an_update_that_nobody_can_read_holds_up_nothing() -> None:
    host = FakeHost()
    broken: list[dict[str, Any]] = [
        {"message": {"message_id": "x", "chat": {"id": 1, "type": "private"}}},
        {"message": {"message_id": 5}},
        {"message": {"message_id": 5, "date": 1, "chat": {"id": 1, "type": "private"}, "text": [1]}},
        {"something_new": {"a": 1}},
    ]
    async with TelegramServer() as server:
        ada = server.world.private()
        updates = [{"update_id": 100 + n, **one} for n, one in enumerate(broken)]
        answer = json.dumps({"ok": True, "result": [*updates, "nonsense", None]})
        server.script(steps.say(200, answer), method="getUpdates")
        server.world.say(ada, "readable")
        with structlog.testing.capture_logs() as logs:
            await heard(server, host)
    assert [inbound.text for inbound in host.received] == ["readable"]
    unreadable = [one for one in logs if one["action"] == "telegram.update_unreadable"]
    assert sorted(one["update"] for one in unreadable) == [100, 101, 102]


# -- who is listened to ----------------------------------------------------------------------


async def test_e15_strangers_are_not_seen_and_told_to_the_operator_once() -> None:
    host = FakeHost()
    host.refuse = True
    async with TelegramServer() as server:
        eve = server.world.private("Eve")
        server.world.say(eve, "let me in")
        server.world.picture(eve, "look")
        with structlog.testing.capture_logs() as logs:
            await heard(server, host)
        assert server.calls_of("getFile") == [], "nothing is fetched for a stranger"
    assert host.received == []
    (told,) = [one for one in logs if one["action"] == "telegram.not_allowed"]
    assert told["user"] == str(eve)


async def test_groups_are_answered_where_the_bot_is_addressed() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        server.world.privacy = False
        name = server.world.bot.username
        group, ada = server.world.supergroup(), server.world.person("Ada")
        ours = server.world.say(group, f"hey @{name}, when?", ada)
        server.world.say(group, "just talk", ada)
        server.world.say(group, f"see https://t.me/@{name}x and a@{name}y", ada)
        server.world.say(group, f"/new@{name.upper()}", ada)
        server.world.say(group, "/new@another_bot", ada)
        server.world.say(group, "/unknown", ada)
        server.world.say(group, "/why", ada)
        server.world.say(group, "a reply to a person", ada, reply_to=ours)
        await heard(server, host)
    texts = [one.text for one in host.received]
    assert texts == [f"hey @{name}, when?", "/new", "/why"]
    assert [one.reply_to for one in host.received] == [one.message_id for one in host.received]
    assert host.received[0].reply_to == str(ours)


async def test_with_groups_all_everything_is_taken_but_another_bot_s_commands() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        server.world.privacy = False
        group, ada = server.world.supergroup(), server.world.person("Ada")
        server.world.say(group, "just talk", ada)
        server.world.say(group, "/new@another_bot", ada)
        await heard(server, host, groups="all")
    assert [one.text for one in host.received] == ["just talk"]


async def test_a_reply_to_the_bot_addresses_it_and_comes_with_a_quotation() -> None:
    host = FakeHost()
    async with TelegramServer() as server, bot(server, host) as one:
        group, ada = server.world.supergroup(), server.world.person("Ada")
        await one.send(Outgoing("d", 1, 1, "k", str(group), "the answer\nis 42"))
        sent = server.accepted[0].message_id
        server.world.say(group, "why?", ada, reply_to=sent)
        server.world.say(group, "and this?", ada, reply_to=sent, quote="is 42")
        server.world.say(group, "/why", ada, reply_to=sent)
        await until_idle(server)
    assert [one.text for one in host.received] == [
        "> the answer\n> is 42\n\nwhy?",
        "> is 42\n\nand this?",
        "/why",
    ]


async def test_topics_are_threads_and_replies_in_a_plain_group_are_not() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.person("Ada")
        forum, plain = server.world.supergroup(forum=True), server.world.supergroup()
        topic = server.world.topic(forum)
        name = server.world.bot.username
        server.world.say(forum, f"@{name} in the topic", ada, thread=topic)
        server.world.say(forum, f"@{name} in General", ada)
        first = server.world.say(plain, f"@{name} one", ada)
        server.world.say(plain, f"@{name} two", ada, reply_to=first)
        await heard(server, host)
    in_forum = [one for one in host.received if one.chat == str(forum)]
    # The bot's name in front only addressed it; a topic's beginning is no quotation.
    assert [(one.thread, one.text) for one in in_forum] == [(str(topic), "in the topic"), ("", "in General")]
    assert [one.thread for one in host.received if one.chat == str(plain)] == ["", ""]


async def test_a_channel_speaks_as_itself_and_its_copy_in_the_group_is_not_answered_again() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        server.world.privacy = False
        group = server.world.supergroup()
        channel = server.world.channel("News", linked_group=group)
        server.world.say(channel, f"@{server.world.bot.username} summarise")
        await heard(server, host)
    (post,) = host.received
    assert (post.chat, post.user, post.user_name) == (str(channel), str(channel), "News")


async def test_e23_the_bot_s_own_words_start_nothing() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        server.world.privacy = False
        server.world.own_posts_come_back = True
        async with bot(server, host, groups="all") as one:
            group = server.world.supergroup()
            await one.send(Outgoing("d", 1, 1, "k", str(group), "my own words"))
            ada = server.world.person("Ada")
            server.world.say(group, "a person's words", ada)
            await host.until(lambda: host.received)
            await until_idle(server)
    assert [one.text for one in host.received] == ["a person's words"]


async def test_a_start_button_asks_for_help_without_a_model_run() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        server.world.start(server.world.person("Ada"))
        await heard(server, host)
    assert [one.text for one in host.received] == ["/help"]


async def test_a_group_that_moves_says_nothing_and_goes_on_under_its_new_id() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        group, ada = server.world.group(), server.world.person("Ada")
        new = server.world.migrate(group)
        server.world.say(new, f"@{server.world.bot.username} hi", ada)
        await heard(server, host)
    assert [(one.chat, one.text) for one in host.received] == [(str(new), "hi")]


# -- what belongs together -------------------------------------------------------------------


async def test_j3_a_paste_that_the_client_cut_is_one_burst_counted_in_its_units() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        numbers = server.world.paste(ada, "😀" * 2200 + " and the rest of 6000 units")
        server.world.say(ada, "another thought")
        await heard(server, host)
    assert len(numbers) == 2
    first, second, other = host.received
    assert first.burst == second.burst == f"paste:{ada}:{numbers[0]}"
    assert first.more_s > 0
    assert (second.more_s, other.burst, other.more_s) == (0.0, "", 0.0), "a short piece is the last one"
    replayed = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        server.world.paste(ada, "x" * 9000)
        await heard(server, replayed)
    assert len({one.burst for one in replayed.received}) == 1
    assert [one.more_s > 0 for one in replayed.received] == [True, True, False]


async def test_a_paste_keeps_its_mark_when_its_first_piece_comes_again() -> None:
    host, store = FakeHost(), FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        server.world.paste(ada, "x" * 5000)
        store.unavailable = True
        async with bot(server, store):
            await store.until(lambda: store.calls)
        await heard(server, host)
    assert host.received[0].burst == host.received[1].burst != ""


async def test_an_album_is_one_burst_also_where_only_its_caption_addresses_us(tmp_path: Path) -> None:
    host = FakeHost()
    host.spool_folder = tmp_path
    async with TelegramServer() as server:
        server.world.privacy = False
        group, ada = server.world.supergroup(), server.world.person("Ada")
        server.world.album(group, caption=f"@{server.world.bot.username} compare", sender=ada)
        server.world.album(group, caption="not for the bot", sender=ada)
        await heard(server, host)
    assert [one.text for one in host.received] == ["[a photo]\n\ncompare", "[a photo]"]
    assert len({one.burst for one in host.received}) == 1
    assert all(one.burst and one.more_s > 0 for one in host.received)


# -- edits -----------------------------------------------------------------------------------


async def test_n6_an_edit_goes_to_the_gateway_as_an_edit() -> None:
    host = FakeHost()
    async with TelegramServer() as server:
        ada = server.world.private()
        number = server.world.say(ada, "helo")
        server.world.edit(ada, number, "hello")
        await heard(server, host)
    assert [(one.message_id, one.text) for one in host.received] == [(str(number), "helo")]
    assert [(one.message_id, one.text) for one in host.edits] == [(str(number), "hello")]
