"""Bad input at every door of a real gateway: a clear error at the right place, and nothing that
was accepted before is lost.

Agents, receivers, full disks and clocks have files of their own beside this one; what a
malformed file says in detail is in ``tests/unit/test_config.py``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import apsw
import pytest
from tests.acceptance.daemon import Home, receiver, running
from tests.acceptance.record import all_delivered, deliveries, problems

VALUE = "hunter2-hunter2"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


# -- configuration -------------------------------------------------------------------------------

WEBHOOK = "{secret: hunter2-hunter2, deliver_url: 'http://127.0.0.1:9/', allow: ['*']}"
PLATFORMS = f"    platforms:\n      webhook: {WEBHOOK}\n"
PROFILE = f"profiles:\n  default:\n    agent: {{kind: echo}}\n{PLATFORMS}"

#: What is wrong, and what has to be said of it. The value stands in none of it.
CONFIGURATIONS: dict[str, tuple[str | bytes, str]] = {
    "an unknown key": (PROFILE + f"    color: {VALUE}\n", "config.yaml:6: profiles.default.color"),
    "an unknown agent": (PROFILE.replace("echo", VALUE), "config.yaml:3: profiles.default.agent.kind"),
    "a word for a number": (
        PROFILE.replace("kind: echo", f"kind: echo, delay_s: {VALUE}"),
        "config.yaml:3: profiles.default.agent.delay_s",
    ),
    "no secret": (PROFILE.replace(f"secret: {VALUE}, ", ""), "profiles.default.platforms.webhook.secret"),
    "an undefined variable": (
        PROFILE.replace(VALUE, '"${NOT_DEFINED}"'),
        "config.yaml:5: profiles.default.platforms.webhook.secret",
    ),
    "no UTF-8": (PROFILE.encode() + b"# \xff\xfe\n", "config.yaml"),
}


@pytest.mark.parametrize("wrong", CONFIGURATIONS)
async def test_a_malformed_configuration_is_refused_at_its_place(home: Home, wrong: str) -> None:
    content, said = CONFIGURATIONS[wrong]
    home.write("")
    (home.path / "config.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    ended = await home.run("run")
    assert ended.code == 78
    assert said in ended.err
    assert VALUE not in ended.err + ended.out
    assert all(line.startswith("angelia: ") for line in ended.err.splitlines())
    assert not home.store.exists()


async def test_a_home_that_is_a_file_is_refused_by_every_command(home: Home) -> None:
    home.path.write_text("a file")
    for words in (("run",), ("init",)):
        ended = await home.run(*words)
        assert ended.code == 78, words
        assert "is not a folder" in ended.err + ended.out
        assert "Traceback" not in ended.err
    assert home.path.read_text() == "a file"


async def test_a_home_that_may_not_be_read_is_refused(home: Home) -> None:
    home.configure()
    home.path.chmod(0)
    try:
        if os.access(home.path, os.R_OK):
            pytest.skip("root may read everything; tests/unit/test_home.py asks as somebody else")
        ended = await home.run("run")
    finally:
        home.path.chmod(0o700)
    assert ended.code == 78
    assert "may not be read" in ended.err


# -- the store -----------------------------------------------------------------------------------


async def test_a_damaged_page_in_the_middle_is_found_and_nothing_is_changed(home: Home) -> None:
    async with receiver() as service:
        async with running(home.configure(service.url)) as gateway:
            for number in range(20):
                assert await gateway.say("x" * 3000, f"m{number}", chat=f"c{number}") == 202
            await all_delivered(home, 20)
            assert await gateway.stop() == 0
        store = apsw.Connection(str(home.store))
        page_size, pages = int(str(store.pragma("page_size"))), int(str(store.pragma("page_count")))
        store.close()
        content = bytearray(home.store.read_bytes())
        middle = pages // 2 * page_size
        content[middle : middle + page_size] = os.urandom(page_size)
        home.store.write_bytes(content)
        ended = await home.run("run")
        assert ended.code == 78
        assert "damaged" in ended.err
        assert "Traceback" not in ended.err
        assert home.store.read_bytes() == bytes(content)
        assert len(service.texts) == 20


# -- the webhook ---------------------------------------------------------------------------------


def message(**fields: object) -> bytes:
    return json.dumps({"id": "m", "chat": "c", "user": "u", "text": "t", **fields}).encode()


#: Bodies that must be refused, and how.
BODIES = [
    (b"", 400),
    (b"hello", 400),
    (b"[1, 2]", 400),
    (b'{"id": "m"', 400),
    (b"\xff\xfe\x00\x01", 400),
    (message().replace(b'"t"', b'"\xff"'), 400),
    (b"[" * 100_000, 400),
    (message(id="i" * 10_240), 422),
    (message(chat="c" * 10_240), 422),
    (message(thread="t" * 10_240), 422),
    (message(user="u" * 10_240), 422),
    (message(text=7), 422),
    (message(text="   "), 422),
    (message(id=None), 422),
    (message(text="x" * 1_000_001), 422),
    (message(text="x" * (1 << 20)), 413),
]


async def test_bodies_that_cannot_be_taken_are_refused_and_harm_nobody(home: Home) -> None:
    async with receiver() as service, running(home.configure(service.url)) as gateway:
        assert await gateway.say("before", "before", chat="before") == 202
        for body, expected in BODIES:
            status, answer = await gateway.post(body)
            assert status == expected, body[:60]
            assert "error" in answer
        assert (await gateway.post(message(), secret="wrong"))[0] == 401
        assert await gateway.say("after", "m") == 202  # none of them marked its id as seen
        await all_delivered(home, 2)
        assert sorted(service.texts) == ["after", "before"]
        assert (await gateway.health())[0] == 200


async def test_texts_with_nul_and_lone_surrogates_come_back_readable(home: Home) -> None:
    async with receiver() as service, running(home.configure(service.url)) as gateway:
        assert (await gateway.post(message(text="a\x00b\ud800c\udfffd 👩‍👩‍👧 \u202e", chat="\x00c\ud800")))[
            0
        ] == 202
        await all_delivered(home)
        (request,) = service.requests
        assert request.text == "a\ufffdb\ufffdc\ufffdd 👩‍👩‍👧 \u202e"
        assert request.body["chat"] == "\ufffdc\ufffd"
        assert (await home.run("deliveries")).code == 0


async def test_a_text_of_a_million_characters_comes_back_whole(home: Home) -> None:
    text = "".join(f"{number:08} " for number in range(111_111)) + "x"
    assert len(text) == 1_000_000
    async with receiver() as service, running(home.configure(service.url, text_limit=100_000)) as gateway:
        assert await gateway.say(text, "m1") == 202
        await all_delivered(home)
        assert "".join(service.texts).split() == text.split() or " ".join(service.texts) == text
        assert [request.body["part"] for request in service.requests] == [
            number + 1 for number in range(len(service.requests))
        ]
        assert deliveries(home)[0].received == len(service.requests)
    assert problems(home) == []
