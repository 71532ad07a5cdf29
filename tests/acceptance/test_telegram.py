"""A bot on Telegram as a person lives it: the installed daemon, ``kill -9``, and a Bot API server
in a process of its own whose list of accepted messages no crash of ours can change.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.acceptance.daemon import Daemon, Home, killed_at, patience_s, running
from tests.acceptance.record import all_delivered, deliveries, endings, problems, until, why

from angelia.testing.telegram_server import ControlledTelegram, steps

pytestmark = pytest.mark.crash

RESTARTED = "♻️ Recovered reply — the gateway restarted while sending this, so it may be a duplicate:\n\n"
LIMITED = "♻️ Recovered reply — the platform's rate limit delayed this:\n\n"
REROUTED = "♻️ Recovered reply — its topic is gone, so it comes here:\n\n"
ECHO: dict[str, object] = {"kind": "echo"}


@pytest.fixture
async def telegram() -> AsyncIterator[ControlledTelegram]:
    """Telegram, in a process that lives as long as the test."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "angelia.testing.telegram_server",
        "--with-parent",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(patience_s):
            said = json.loads(await process.stdout.readline())
        async with ControlledTelegram(said["url"]) as one:
            yield one
    finally:
        process.stdin.close()
        async with asyncio.timeout(patience_s):
            await process.wait()


async def configured(
    path: Path,
    telegram: ControlledTelegram,
    agent: dict[str, object] = ECHO,
    listen: str = "127.0.0.1:0",
    token: str = "",
    **more: object,
) -> Home:
    """A home with one bot; its token comes from the environment, as the guide says."""
    token = token or (await telegram.do("info"))["token"]
    bot = {"token": "${TELEGRAM_BOT_TOKEN}", "base_url": telegram.url, "allow": ["*"], **more}
    document = {
        "gateway": {"listen": listen},
        "profiles": {"default": {"agent": agent, "platforms": {"telegram": bot}}},
    }
    return Home(path, {"TELEGRAM_BOT_TOKEN": token}).write(json.dumps(document))


async def texts(telegram: ControlledTelegram, count: int) -> list[str]:
    """What people see once there are ``count`` messages."""
    seen = await telegram.until_accepted(lambda accepted: len(accepted) >= count, 2 * patience_s)
    return [one.text for one in seen]


async def died(gateway: Daemon) -> None:
    assert await gateway.ended() == -signal.SIGKILL


# -- killed ----------------------------------------------------------------------------------


async def test_b1_killed_after_the_wire_the_answer_comes_again_and_says_so(
    tmp_path: Path, telegram: ControlledTelegram
) -> None:
    home = await configured(tmp_path / "home", telegram)
    ada = await telegram.do("private")
    await telegram.do("say", chat=ada, text="remember me")
    await killed_at(home, "wire.after")
    assert await texts(telegram, 1) == ["remember me"]
    async with running(home) as second:
        assert await texts(telegram, 2) == ["remember me", RESTARTED + "remember me"]
        await all_delivered(home)
        assert await second.stop() == 0
    story, said = why(home)
    assert endings(story) == ["answered"]
    assert "One model run, two deliveries" in said
    assert len(await telegram.accepted()) == 2


async def test_b1_killed_before_the_wire_it_comes_once_with_the_doubt_it_deserves(
    tmp_path: Path, telegram: ControlledTelegram
) -> None:
    home = await configured(tmp_path / "home", telegram)
    ada = await telegram.do("private")
    await telegram.do("say", chat=ada, text="remember me")
    await killed_at(home, "wire.before")
    async with running(home):
        assert await texts(telegram, 1) == [RESTARTED + "remember me"]
        await all_delivered(home)


@pytest.mark.parametrize("point", ["ack.before", "accept.before_commit"])
async def test_e3_e8_killed_around_the_commit_the_message_is_answered_once(
    tmp_path: Path, telegram: ControlledTelegram, point: str
) -> None:
    home = await configured(tmp_path / "home", telegram)
    ada = await telegram.do("private")
    await telegram.do("say", chat=ada, text="remember me")
    await killed_at(home, point)
    assert len((await telegram.do("info"))["pending"]) == 1, "nothing was confirmed"
    async with running(home) as second:
        seen = await texts(telegram, 1)
        await all_delivered(home)

        async def pending() -> list[object]:
            found: list[object] = (await telegram.do("info"))["pending"]
            return found

        await telegram.until(pending, lambda left: not left)
        assert await second.stop() == 0
    # It may have been on its way already when the process died before the confirmation.
    assert [one.removeprefix(RESTARTED) for one in seen] == ["remember me"] * len(seen)
    assert endings(why(home)[0]) in (["answered"], ["interrupted", "answered"])
    if point != "ack.before":
        assert seen == ["remember me"]
    assert problems(home) == []


# -- limits, tokens, pollers -----------------------------------------------------------------


async def test_c3_a_flood_wait_survives_a_restart_and_nothing_is_called_inside_it(
    tmp_path: Path, telegram: ControlledTelegram
) -> None:
    home = await configured(tmp_path / "home", telegram)
    ada = await telegram.do("private")
    await telegram.script(steps.flood(4, "chat"), method="sendMessage")
    await telegram.do("say", chat=ada, text="remember me")
    async with running(home) as first:
        await until(lambda: any(one.state == "failed" for one in deliveries(home)), "the limit is on record")
        await first.kill()
    assert await telegram.accepted() == []
    async with running(home):
        assert await texts(telegram, 1) == [LIMITED + "remember me"]
        await all_delivered(home)
    assert (await telegram.do("info"))["trespasses"] == []


async def test_a_revoked_token_keeps_what_is_owed_until_there_is_a_new_one(
    tmp_path: Path, telegram: ControlledTelegram
) -> None:
    home = await configured(tmp_path / "home", telegram)
    ada = await telegram.do("private")
    await telegram.do("say", chat=ada, text="remember me")
    await killed_at(home, "wire.before")
    old, new = home.environ["TELEGRAM_BOT_TOKEN"], await telegram.do("revoke_token")
    async with running(home) as second:
        assert (await second.health())[0] in (200, 503)
        await until(lambda: "@BotFather" in second.logged(), "the operator is told")
        assert [one.state for one in deliveries(home)] == ["failed"]
        assert await second.stop() == 0
    assert old not in second.logged()
    home.environ["TELEGRAM_BOT_TOKEN"] = new
    async with running(home) as third:
        assert await texts(telegram, 1) == [RESTARTED + "remember me"]
        await all_delivered(home)
    assert new not in third.logged()


async def test_m3_two_gateways_on_one_token_are_told_and_answer_nothing_twice(
    tmp_path: Path, telegram: ControlledTelegram
) -> None:
    one, two = [await configured(tmp_path / name, telegram) for name in ("one", "two")]
    ada = await telegram.do("private")
    async with running(one) as first, running(two) as second:

        def told() -> bool:
            return any("telegram.second_poller" in gateway.logged() for gateway in (first, second))

        await until(told, "one of them says that there is another")
        health = [await gateway.health() for gateway in (first, second)]
        assert [status for status, _ in health] == [200, 200]
        assert "another program asks for the updates" in str(health)
        await telegram.do("say", chat=ada, text="remember me")
        assert await texts(telegram, 1) == ["remember me"]
        assert await first.stop() == 0
        assert await second.stop() == 0
    assert len(await telegram.accepted()) == 1


# -- places ----------------------------------------------------------------------------------


async def test_webhook_mode_over_a_kill(tmp_path: Path, telegram: ControlledTelegram) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    home = await configured(
        tmp_path / "home",
        telegram,
        listen=f"127.0.0.1:{port}",
        mode="webhook",
        webhook_url=f"http://127.0.0.1:{port}/telegram/default",
        webhook_secret="the-secret-of-the-webhook",
    )
    ada = await telegram.do("private")
    async with running(home, ANGELIA_CRASH_POINT="accept.after_commit") as first:
        await telegram.do("say", chat=ada, text="remember me")
        await died(first)
    async with running(home):
        assert await texts(telegram, 1) == ["remember me"]
        await telegram.do("say", chat=ada, text="and me")
        assert await texts(telegram, 2) == ["remember me", "and me"]
        await all_delivered(home, 2)
    assert await telegram.calls("getUpdates") == []


async def test_d2_g6_an_answer_goes_to_its_topic_and_to_the_chat_when_the_topic_is_gone(
    tmp_path: Path, telegram: ControlledTelegram
) -> None:
    home = await configured(tmp_path / "home", telegram, groups="all")
    await telegram.do("set", name="privacy", value=False)
    group, ada = await telegram.do("supergroup", forum=True), await telegram.do("person")
    topic = await telegram.do("topic", chat=group)
    async with running(home):
        asked = await telegram.do("say", chat=group, text="here", sender=ada, thread=topic)
        (answer,) = await telegram.until_accepted(len, 2 * patience_s)
        assert (answer.text, answer.thread, answer.reply_to) == ("here", topic, asked)
        await telegram.script(steps.hold("gate", steps.accept()), method="sendMessage")
        await telegram.do("say", chat=group, text="there", sender=ada, thread=topic)
        await telegram.until(lambda: telegram.calls("sendMessage"), lambda calls: len(calls) == 2)
        await telegram.do("delete_topic", chat=group, thread=topic)
        await telegram.do("release", gate="gate")
        seen = await telegram.until_accepted(lambda accepted: len(accepted) == 2, 2 * patience_s)
        assert (seen[1].text, seen[1].thread) == (REROUTED + "there", None)
        await all_delivered(home, 2)


async def test_j3_a_paste_is_one_question_and_its_long_answer_arrives_in_whole_pieces(
    tmp_path: Path, telegram: ControlledTelegram
) -> None:
    home = await configured(tmp_path / "home", telegram)
    ada = await telegram.do("private")
    pasted = "**" + "a wörd 😀 " * 900 + "the end**"
    async with running(home):
        numbers = await telegram.do("paste", chat=ada, text=pasted)
        assert len(numbers) > 1
        await all_delivered(home)
        story, _ = await asyncio.to_thread(why, home)
    assert len(story.questions) == len(numbers)
    assert endings(story) == ["answered"]
    seen = await telegram.accepted()
    assert "".join(one.text for one in seen).count("😀") == 900
    assert all(one.entities for one in seen)


AGENT = r"""
import os, pathlib, sys
sys.stdin.read()
folder = pathlib.Path(os.environ["ANGELIA_ATTACH"])
head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x08\x00\x00\x00\x08\x08\x02\x00\x00\x00"
(folder / "1-picture.png").write_bytes(head + b"a picture of eight by eight")
(folder / "2-voice.ogg").write_bytes(b"OggS a voice")
(folder / "3-report.pdf").write_bytes(b"%PDF a report")
print("Here are **three** files.")
"""


@pytest.mark.parametrize("point", ["wire.after:3", "wire.before:2"])
async def test_b10_f10_files_are_parts_of_one_delivery_also_over_a_kill(
    tmp_path: Path, telegram: ControlledTelegram, point: str
) -> None:
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    agent: dict[str, object] = {"kind": "command", "argv": [sys.executable, str(script)]}
    home = await configured(tmp_path / "home", telegram, agent)
    ada = await telegram.do("private")
    await telegram.do("say", chat=ada, text="files, please")
    await killed_at(home, point)
    async with running(home):
        await all_delivered(home)
    seen = await telegram.accepted()
    methods = [one.method for one in seen]
    for method, data in (
        ("sendvoice", b"OggS a voice"),
        ("senddocument", b"%PDF a report"),
    ):
        sums = [one.sha256 for one in seen if one.method == method]
        copies = 2 if (point, method) == ("wire.after:3", "sendvoice") else 1
        assert sums == [hashlib.sha256(data).hexdigest()] * copies
    assert methods.count("sendphoto") == 1
    assert [one.text for one in seen].count("Here are three files.") == 1
    assert any("may be a duplicate" in one.text for one in seen), "the copy in doubt is marked"
    assert endings(why(home)[0]) == ["answered"]


async def test_a_photo_that_came_in_is_in_the_spool_of_the_agent(
    tmp_path: Path, telegram: ControlledTelegram
) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "import os, sys\n"
        "said = sys.stdin.read().strip()\n"
        "paths = os.environ.get('ANGELIA_FILES', '').splitlines()\n"
        "print(said, [open(path, 'rb').read().decode() for path in paths])\n"
    )
    agent: dict[str, object] = {"kind": "command", "argv": [sys.executable, str(script)]}
    home = await configured(tmp_path / "home", telegram, agent)
    ada = await telegram.do("private")
    await telegram.do("picture", chat=ada, caption="what is it?", data=b"the bytes")
    async with running(home):
        (said,) = await texts(telegram, 1)
    assert "[a photo]" in said
    assert "what is it?" in said
    assert "['the bytes']" in said
