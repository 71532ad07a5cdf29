"""The Telegram platform outwards: its exam over real sockets, and what people see of an answer."""

from __future__ import annotations

import json

import pytest
from tests.conformance.telegram_bot import ID, TOKEN, adapter, bot, to

from angelia.model.ids import Lane
from angelia.model.messages import TextFormat
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    BadCredential,
    ContentFault,
    LookUp,
    Moved,
    NotSent,
    Outcome,
    RateLimited,
    Refused,
    Scope,
    ThreadGone,
    Unconfirmed,
    Unreachable,
)
from angelia.platforms.base import Adapter, Host
from angelia.platforms.telegram.adapter import TelegramAdapter
from angelia.platforms.telegram.settings import TelegramSettings
from angelia.seams.clock import SystemClock
from angelia.testing.adapter_exam import (
    CONNECTION_BREAKAGES,
    Breakage,
    after_a_kept_connection,
    answered,
    bare,
    broken_bodies,
    examine,
    examine_stop,
    redirects,
)
from angelia.testing.breaking_server import BreakingServer, answer
from angelia.testing.fake_host import FakeHost
from angelia.testing.telegram_server import TelegramServer, steps


class OnlyTheWire(TelegramAdapter):
    """Asks nobody who it is: the exam counts every request."""

    async def start(self, host: Host) -> None:
        await self.open(host)


def examined(url: str, timeout_s: float = 0.4) -> Adapter:
    settings = TelegramSettings.model_validate({"token": TOKEN, "base_url": url, "timeout_s": timeout_s})
    return OnlyTheWire(ID, settings, SystemClock(), connect_limit_s=0.4)


def said(name: str, code: int, description: str, expected: Outcome, **parameters: int) -> Breakage:
    body = {"ok": False, "error_code": code, "description": description, "parameters": parameters}
    return answered(name, code, expected, body=json.dumps(body).encode())


ANSWERS = (
    answered("accepted", 200, Accepted("chat/7"), body=b'{"ok":true,"result":{"message_id":7}}'),
    answered("200 that is no Bot API", 200, Unconfirmed(), body=b"<html>"),
    said("flood", 429, "Too Many Requests: retry after 5", RateLimited(5.0), retry_after=5),
    said("blocked", 403, "Forbidden: bot was blocked by the user", Unreachable()),
    said("moved", 400, "Bad Request: group chat was upgraded", Moved("-100"), migrate_to_chat_id=-100),
    said("topic gone", 400, "Bad Request: message thread not found", ThreadGone()),
    said("token", 401, "Unauthorized", BadCredential()),
    said("malformed token", 404, "Not Found", BadCredential()),
    said("no right", 400, "Bad Request: CHAT_WRITE_FORBIDDEN", Refused()),
    said("server error", 500, "Internal Server Error", Unconfirmed()),
    answered("proxy error", 502, Unconfirmed(), body=b"<html>Bad Gateway</html>"),
)
EXAM = (
    *CONNECTION_BREAKAGES,
    *ANSWERS,
    *broken_bodies(Unconfirmed()),
    *redirects(Refused()),
    *after_a_kept_connection(Unconfirmed()),
)


@pytest.mark.parametrize("breakage", EXAM, ids=str)
async def test_exam(breakage: Breakage) -> None:
    outcome = await examine(examined, breakage)
    assert "AAthe-secret" not in repr(outcome)


async def test_every_call_has_a_connection_of_its_own() -> None:
    async with BreakingServer(answer(200, None, b'{"ok":true,"result":{"message_id":7}}')) as server:
        sender = examined(server.url)
        await sender.start(FakeHost())
        for _ in range(3):
            assert await sender.send(to(5)) == Accepted("5/7")
        await sender.stop()
        await server.settle()
        assert len(server.connections) == 3, "a kept one that went stale looks like a lost answer"


async def test_exam_of_stopping() -> None:
    await examine_stop(lambda url: examined(url, 60))


# -- a bot among people ----------------------------------------------------------------------


async def test_markdown_arrives_as_text_and_entities_and_plain_text_as_it_is() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        ada = server.world.private()
        assert await sender.send(to(ada, "**b** 😀 `c`")) == Accepted(f"{ada}/1")
        assert await sender.send(to(ada, "**b**", format=TextFormat.PLAIN)) == Accepted(f"{ada}/2")
        rich, plain = server.accepted
        assert (rich.text, plain.text) == ("b 😀 c", "**b**")
        assert rich.entities == (
            {"type": "bold", "offset": 0, "length": 1},
            {"type": "code", "offset": 5, "length": 1},
        )
        assert not plain.entities


async def test_no_preview_is_fetched_of_what_a_model_wrote() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        await sender.send(to(server.world.private(), "https://x.y/?secret"))
        (call,) = server.calls_of("sendMessage")
        assert call.values["link_preview_options"] == {"is_disabled": True}


async def test_g1_thread_and_reply_anchor_are_kept_and_a_lost_anchor_costs_no_answer() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        group = server.world.supergroup(forum=True)
        topic = server.world.topic(group)
        asked = server.world.say(group, "question", server.world.person("Ada"), thread=topic)
        await sender.send(to(group, thread=str(topic), reply_to=str(asked)))
        server.world.delete_message(group, asked)
        outcome = await sender.send(to(group, thread=str(topic), reply_to=str(asked)))
        assert isinstance(outcome, Accepted)
        first, second = server.accepted
        assert (first.thread, first.reply_to, second.thread, second.reply_to) == (topic, asked, topic, None)


async def test_d2_a_deleted_topic_is_not_a_dead_chat_and_a_closed_one_is_a_refusal() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        group = server.world.supergroup(forum=True)
        gone, closed = server.world.topic(group), server.world.topic(group)
        server.world.delete_topic(group, gone)
        server.world.close_topic(group, closed)
        assert isinstance(await sender.send(to(group, thread=str(gone))), ThreadGone)
        assert isinstance(await sender.send(to(group, thread=str(closed))), Refused)
        assert isinstance(await sender.send(to(group)), Accepted)
        assert isinstance(await sender.send(to(group, thread="1")), Accepted), "General has no thread"
        assert isinstance(await sender.send(to(group, thread="nonsense")), ThreadGone)


async def test_d1_a_chat_that_is_gone_is_unreachable() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        ada, group = server.world.private(), server.world.supergroup()
        never = server.world.person("Bob")
        server.world.block(ada)
        server.world.kick(group)
        for chat in (ada, group, never, 424242):
            assert isinstance(await sender.send(to(chat)), Unreachable), chat
        server.world.unblock(ada)
        assert isinstance(await sender.send(to(ada)), Accepted)


async def test_a_group_that_became_a_supergroup_is_followed() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        group = server.world.group()
        new = server.world.migrate(group)
        moved = await sender.send(to(group))
        assert isinstance(moved, Moved)
        assert moved.chat == str(new)


async def test_j1_the_longest_message_is_taken_and_every_piece_of_a_longer_one() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        ada = server.world.private()
        assert isinstance(await sender.send(to(ada, "x" * 4096)), Accepted)
        assert isinstance(await sender.send(to(ada, "😀" * 2048)), Accepted)
        too_long = await sender.send(to(ada, "x" * 4097))
        assert isinstance(too_long, BadContent)
        assert too_long.fault is ContentFault.TOO_LONG
        for piece in sender.split("**" + "wörd 😀 " * 2000 + "**"):
            assert isinstance(await sender.send(to(ada, piece)), Accepted)


async def test_j6_refused_markup_is_bad_markup() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        server.script(steps.refuse("cannot_parse"), method="sendMessage")
        outcome = await sender.send(to(server.world.private()))
        assert isinstance(outcome, BadContent)
        assert outcome.fault is ContentFault.MARKUP


async def test_a1_a_request_that_left_and_had_no_answer_is_in_doubt_and_made_once() -> None:
    async with TelegramServer() as server, bot(server, timeout_s=0.5) as sender:
        ada = server.world.private()
        for step, dropped in (
            (steps.accept_and_hang(), False),
            (steps.accept_and_reset(), True),
            (steps.accept_and_fail(), False),
        ):
            server.script(step, method="sendMessage")
            assert bare(await sender.send(to(ada))) == Unconfirmed(dropped=dropped)
        assert len(server.accepted) == len(server.calls_of("sendMessage")) == 3


async def test_sent_and_deleted_at_once_is_sent() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        server.script(steps.deleted_immediately(), method="sendMessage")
        assert await sender.send(to(server.world.private())) == Accepted()


async def test_c1_c6_a_flood_holds_its_chat_and_two_of_them_the_bot() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        ada, bob, cy = (server.world.private(name) for name in ("Ada", "Bob", "Cy"))
        server.script(steps.flood(40), method="sendMessage", chat=ada)
        limited = await sender.send(to(ada))
        assert isinstance(limited, RateLimited)
        assert (limited.wait_s, limited.scope) == (40.0, Scope.CHAT)
        server.script(steps.flood(40), steps.flood(40), method="sendMessage")
        again = await sender.send(to(bob))
        assert isinstance(again, RateLimited)
        assert again.scope is Scope.BOT, "nothing got through since another chat was limited"
        server.rules.clear()
        assert isinstance(await sender.send(to(cy)), Accepted)
        server.script(steps.flood(40), method="sendMessage", chat=bob)
        last = await sender.send(to(bob))
        assert isinstance(last, RateLimited)
        assert last.scope is Scope.CHAT, "a message got through in between"


async def test_c7_typing_shows_is_kept_in_its_topic_and_hands_on_its_limit() -> None:
    async with TelegramServer() as server, bot(server) as sender:
        group = server.world.supergroup(forum=True)
        lane = Lane("default", "telegram", str(group), str(server.world.topic(group)))
        assert await sender.typing(lane, True) is None
        assert await sender.typing(lane, False) is None
        (call,) = server.calls_of("sendChatAction")
        assert (call.values["action"], str(call.values["message_thread_id"])) == ("typing", lane.thread)
        server.script(steps.flood(9), method="sendChatAction")
        limited = await sender.typing(lane, True)
        assert isinstance(limited, RateLimited)
        assert (limited.wait_s, limited.scope) == (9.0, Scope.CHAT)


async def test_c11_the_menu_is_set_once_and_its_limit_holds_nothing_else() -> None:
    async with TelegramServer() as server:
        server.script(steps.flood(600), method="setMyCommands")
        async with bot(server) as sender:
            await server.until(lambda: server.calls_of("setMyCommands"))
            assert isinstance(await sender.send(to(server.world.private())), Accepted)
        async with bot(server):
            await server.until(lambda: server.account.commands)
        async with bot(server) as sender:
            await server.until(lambda: len(server.calls_of("getMyCommands")) == 3)
            for _ in range(3):  # time enough for a call that must not come
                await sender.send(to(server.world.private()))
        assert len(server.calls_of("setMyCommands")) == 2


async def test_the_quiet_verbs_and_the_capabilities() -> None:
    one = adapter("http://127.0.0.1:9")
    can = one.capabilities
    assert (can.text_limit, can.caption_limit, can.text_unit) == (4096, 1024, "UTF-16 code units")
    assert (can.key_window_s, can.read_back, can.typing) == (0.0, False, True)
    assert can.measure("😀") == 2
    assert can.pace is not None
    assert (can.pace.is_group("-5"), can.pace.is_group("5")) == (True, False)
    assert await one.look_up(to(1), 0) is LookUp.CANNOT_TELL
    assert one.routes() == []
    assert not one.present("5")
    assert isinstance(await one.send(to(1)), NotSent)
    assert await one.typing(Lane("default", "telegram", "1"), True) is None
    assert bare(await one.send(to(1))) == NotSent()
