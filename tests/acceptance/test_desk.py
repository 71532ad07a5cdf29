"""The operator's desk against a real gateway and store: listings, orders, ``why``, the doctor."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from aiohttp import web
from tests.acceptance.daemon import Daemon, Home, Received, eventually, receiver, running

ALWAYS = {
    *("id", "state", "reason", "profile", "platform", "chat", "thread", "text"),
    *("parts", "redeliveries", "due", "created"),
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that does not exist yet."""
    return Home(tmp_path / "home")


async def listed(home: Home, *words: str) -> list[dict[str, Any]]:
    """What ``deliveries --json`` answers."""
    ended = await home.run("deliveries", "--json", *words)
    assert (ended.code, ended.err) == (0, "")
    answer: list[dict[str, Any]] = ended.json
    return answer


async def until_state(home: Home, state: str) -> dict[str, Any]:
    """Wait until the newest delivery is in ``state``."""

    async def holds() -> bool:
        return [one["state"] for one in await listed(home, "--limit", "1")] == [state]

    await eventually(holds, f"the newest delivery is {state}")
    return (await listed(home, "--limit", "1"))[0]


async def test_a_home_without_a_store_owes_nothing_and_stays_so(home: Home) -> None:
    home.configure()
    assert await listed(home) == []
    assert (await home.run("deliveries")).out == "no deliveries\n"
    assert (await home.run("chats", "--json")).json == {"chats": [], "waits": []}
    assert (await home.run("status", "--json")).json["running"] is False
    for words in (("why", "x"), ("deliveries", "cancel", "x"), ("deliveries", "show", "x")):
        ended = await home.run(*words)
        assert ended.code == 1
        assert ended.err.startswith("angelia: there is no ")
    assert not home.store.exists()


async def test_an_answer_is_listed_shown_and_explained(home: Home) -> None:
    async with receiver() as service, running(home.configure(service.url)) as gateway:
        assert await gateway.say("how are you?", "m:1/2", chat="room:1/a", thread="t") == 202
        await service.wait(1)
        one = await until_state(home, "delivered")
        assert one.keys() >= ALWAYS
        assert (one["chat"], one["thread"], one["text"]) == ("room:1/a", "t", "how are you?")
        assert (one["profile"], one["platform"], one["parts"]) == ("default", "webhook", 1)
        assert (one["redeliveries"], one["due"], one["reason"]) == (0, None, "")
        assert datetime.fromisoformat(one["created"]).utcoffset() is not None
        table = await home.run("deliveries")
        assert one["id"] in table.out
        shown = (await home.run("deliveries", "show", one["id"], "--json")).json
        assert shown["attempts"][0]["outcome"] == "accepted"
        assert shown["messages"][0]["receipt"] == "receipt"
        for name in (one["id"], "m:1/2"):
            story = await home.run("why", name)
            assert story.code == 0
            assert story.out.splitlines()[-1].startswith("One model run, one delivery")
            assert "first seen" in story.out
            assert "model run 1" in story.out
        state = (await home.run("status", "--json")).json
        assert (state["running"], state["health"], state["deliveries"]["delivered"]) == (True, "ok", 1)
        assert (await home.run("doctor")).code == 0


async def test_filters_and_the_newest_first(home: Home) -> None:
    home.configure()
    ids = []
    for chat in ("a", "b", "a"):
        ids.append((await home.run("notify", "--to", f"default/webhook/{chat}", "x")).out.strip())
    assert [one["id"] for one in await listed(home)] == ids[::-1]
    assert [one["id"] for one in await listed(home, "--chat", "a")] == [ids[2], ids[0]]
    assert [one["id"] for one in await listed(home, "--limit", "1")] == [ids[2]]
    assert await listed(home, "--state", "delivered") == []
    assert len(await listed(home, "--state", "pending")) == 3


async def test_orders_and_what_does_not_allow_them(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url)
        first = (await home.run("notify", "--to", "default/webhook/c", "once")).out.strip()
        refused = await home.run("deliveries", "mark-delivered", first)
        assert (refused.code, refused.err.startswith("angelia: delivery")) == (1, True)
        refused = await home.run("deliveries", "send-again", first)
        assert refused.code == 1
        assert (await home.run("deliveries", "cancel", first)).code == 0
        assert (await listed(home))[0]["reason"] == "cancelled"
        again = await home.run("deliveries", "send-again", first)
        assert again.code == 0
        async with running(home):
            (request,) = await service.wait(1)
            assert request.body["delivery"] == again.out.strip()
            assert request.text.startswith("♻️")
            assert request.text.endswith("once")
            delivered = await until_state(home, "delivered")
            assert delivered["again_of"] == first
            assert (await home.run("deliveries", "cancel", delivered["id"])).code == 1


async def test_what_is_being_sent_answers_try_again(home: Home) -> None:
    async with receiver() as service, running(home.configure(service.url)) as gateway:

        async def later(_: Received) -> web.StreamResponse:
            ended = await home.run("deliveries", "cancel", service.requests[0].body["delivery"])
            return web.json_response({"id": f"{ended.code}"})

        service.answer = later
        assert await gateway.say("hello", "m1") == 202
        one = await until_state(home, "delivered")
        shown = (await home.run("deliveries", "show", one["id"], "--json")).json
        assert shown["messages"][0]["receipt"] == "75"


async def test_a_second_delivery_after_a_kill_is_explained(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url)
        gateway = await Daemon.start(home, ANGELIA_CRASH_POINT="wire.after")
        assert await gateway.say("how much?", "m1") == 202
        await gateway.ended()
        async with running(home):
            await service.wait(2)
            await until_state(home, "delivered")
        assert service.texts[0] == "how much?"
        assert service.texts[1].startswith("♻️")
        story = await home.run("why", "m1", COLUMNS="40")
        assert story.out.splitlines()[-1] == (
            "One model run, two deliveries; the second carried the marker. You paid once."
        )


async def test_an_unreachable_chat_is_listed_and_notices_to_it_say_so(home: Home) -> None:
    async def gone(_: Received) -> web.StreamResponse:
        return web.Response(status=410)

    async with receiver() as service, running(home.configure(service.url)) as gateway:
        service.answer = gone
        assert await gateway.say("hello", "m1", chat="left") == 202
        one = await until_state(home, "abandoned")
        assert one["reason"] == "unreachable"
        (chat,) = (await home.run("chats", "--json")).json["chats"]
        assert (chat["chat"], chat["unreachable_since"] is not None) == ("left", True)
        assert "unreachable since" in (await home.run("chats")).out
        notice = await home.run("notify", "--to", "default/webhook/left", "x")
        assert notice.code == 1
        assert "unreachable" in notice.err


async def test_the_doctor_names_what_is_wrong(home: Home) -> None:
    home.configure(agent={"kind": "command", "argv": ["/nowhere/bot"]})
    await home.run("notify", "--to", "default/webhook/c", "x")
    home.store.chmod(0o644)
    ended = await home.run("doctor", "--json")
    assert ended.code == 1
    found = {(one["area"], one["level"]) for one in ended.json["findings"]}
    assert ("store", "problem") in found  # others may read it
    assert ("configuration", "problem") in found  # the program is not there
    assert ("durability", "ok") in found
    assert ("invariants", "ok") in found
    assert ("worst case", "ok") in found
    assert [one["text"] for one in ended.json["would_send"]] == ["x"]


async def test_the_doctor_finds_a_broken_invariant(home: Home) -> None:
    home.configure()
    delivery = (await home.run("notify", "--to", "default/webhook/c", "x")).out.strip()
    store = apsw.Connection(str(home.store))
    store.execute(
        "UPDATE deliveries SET state = 'delivered', ended_at = 1, reason = '' WHERE id = ?", (delivery,)
    )
    store.close()
    ended = await home.run("doctor")
    assert ended.code == 1
    assert f"delivery {delivery} is delivered, but part 1 has no receipt" in ended.out


async def test_texts_of_strangers_do_no_harm_in_a_table(home: Home) -> None:
    home.configure()
    text = "\x1b[31mred\u202eder\n" + "long " * 100
    await home.run("notify", "--to", "default/webhook/c", text)
    table = await home.run("deliveries")
    assert "\x1b" not in table.out
    assert "\u202e" not in table.out
    assert len(table.out.splitlines()) == 2
    assert (await listed(home))[0]["text"].startswith(text[:100])
