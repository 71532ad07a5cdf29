"""``init``, ``run`` and ``notify`` as people and service managers meet them: real processes.

What the desk's listings and verbs answer is in ``test_desk.py``.
"""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import apsw
import pytest
from tests.acceptance.daemon import Daemon, Home, receiver, running


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that does not exist yet."""
    return Home(tmp_path / "home")


def one_sentence(err: str) -> str:
    """What a command said when it failed: no traceback, and who speaks."""
    assert "Traceback" not in err
    said = [line for line in err.splitlines() if not line.startswith("{")]  # a log line is JSON
    assert said
    assert all(line.startswith("angelia: ") for line in said)
    return "\n".join(said)


# -- init ----------------------------------------------------------------------------------------


async def test_init_makes_a_home_that_runs_as_it_stands(home: Home) -> None:
    made = await home.run("init")
    assert made.code == 0
    assert str(home.path / "config.yaml") in made.out
    assert (home.path.stat().st_mode & 0o777) == 0o700
    assert ((home.path / "config.yaml").stat().st_mode & 0o777) == 0o600
    async with running(home, "--any-port") as gateway:
        assert (await gateway.health())[0] == 200
        assert await gateway.stop() == 0


async def test_a_second_init_changes_nothing(home: Home) -> None:
    home.write("mine")
    again = await home.run("init")
    assert again.code == 0
    assert "nothing was changed" in again.out
    assert (home.path / "config.yaml").read_text() == "mine"


async def test_init_where_no_folder_can_be_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = await Home(tmp_path / "file" / "home").run("init")
    assert ended.code == 78
    assert "choose another ANGELIA_HOME" in one_sentence(ended.err)


# -- run -----------------------------------------------------------------------------------------


async def test_the_address_stands_alone_on_a_line_and_answers(home: Home) -> None:
    async with running(home.configure(web_page=True)) as gateway:
        host, _, port = gateway.address.removeprefix("http://").removesuffix("/").partition(":")
        assert (host, port.isdigit()) == ("127.0.0.1", True)
        status, body = await gateway.health()
        assert (status, body["status"]) == (200, "ok")


async def test_home_option_goes_before_the_environment(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    assert (await home.run("--home", str(other.path), "init")).code == 0
    assert (other.path / "config.yaml").exists()
    assert not home.path.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_asked_to_stop_it_ends_with_0(home: Home, number: signal.Signals) -> None:
    async with running(home.configure()) as gateway:
        gateway.process.send_signal(number)
        assert await gateway.ended() == 0


async def test_a_second_gateway_on_the_home_is_refused(home: Home) -> None:
    async with running(home.configure()) as gateway:
        second = await home.run("run")
        assert second.code == 75
        assert "another gateway runs on" in one_sentence(second.err)
        assert (await gateway.health())[0] == 200


async def test_a_killed_gateway_locks_nobody_out(home: Home) -> None:
    async with running(home.configure()) as gateway:
        await gateway.kill()
    async with running(home):
        pass


async def test_a_taken_port_is_refused_or_replaced(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        home.configure(listen=f"127.0.0.1:{port}")
        refused = await home.run("run")
        assert refused.code == 78
        assert f"127.0.0.1:{port} is in use" in one_sentence(refused.err)
        async with running(home, "--any-port") as gateway:
            assert not gateway.address.endswith(f":{port}/")


async def test_without_a_home_it_says_how_to_make_one(home: Home) -> None:
    ended = await home.run("run")
    assert ended.code == 78
    assert "angelia init" in one_sentence(ended.err)


async def test_a_malformed_configuration_names_file_and_line_but_no_value(home: Home) -> None:
    home.write(
        "profiles:\n  default:\n    agent: {kind: echo}\n    platforms:\n"
        "      webhook: {secret: hunter2-hunter2, deliver_url: 'nowhere', text_limit: 1}\n  Other: {}\n"
    )
    for command in ("run", "doctor"):
        ended = await home.run(command)
        said = ended.err + ended.out
        assert ended.code == 78
        assert "config.yaml:5: profiles.default.platforms.webhook.deliver_url" in said
        assert "config.yaml:5: profiles.default.platforms.webhook.text_limit: must be at least 64" in said
        assert "config.yaml:6: profiles.Other" in said
        assert "Traceback" not in said
        assert "hunter2" not in said
        assert "nowhere" not in said


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ("a: [", "config.yaml:1"),
        ("\x00", "config.yaml"),
        ("- 1", "config.yaml:1"),
        ("", "the file is empty"),
    ],
)
async def test_what_is_no_configuration_is_refused(home: Home, document: str, word: str) -> None:
    ended = await home.write(document).run("run")
    assert ended.code == 78
    assert word in one_sentence(ended.err)


async def test_a_newer_store_is_refused_and_left_alone(home: Home) -> None:
    async with running(home.configure()) as gateway:
        assert await gateway.stop() == 0
    store = apsw.Connection(str(home.store))
    store.pragma("user_version", 9999)
    store.close()
    before = home.store.read_bytes()
    for words in (("run",), ("doctor",), ("deliveries",), ("notify", "--to", "default/webhook/c", "x")):
        ended = await home.run(*words)
        assert ended.code == 78, words
        assert "upgrade this program" in ended.err + ended.out
        assert "Traceback" not in ended.err
    assert home.store.read_bytes() == before


@pytest.mark.parametrize("damage", ["header", "page"])
async def test_a_damaged_store_is_refused_and_left_alone(home: Home, damage: str) -> None:
    async with running(home.configure()) as gateway:
        assert await gateway.stop() == 0
    whole = apsw.Connection(str(home.store))
    whole.execute(
        "PRAGMA wal_checkpoint(TRUNCATE)"
    ).fetchall()  # else the log would repair what is damaged here
    whole.close()
    content = bytearray(home.store.read_bytes())
    if damage == "header":
        content[:16] = b"not a database!!"
    else:
        content[4096 : 4096 + 2048] = b"\xff" * 2048
    home.store.write_bytes(content)
    for words in (("run",), ("doctor",)):
        ended = await home.run(*words)
        assert ended.code == 78, words
        assert "damaged" in ended.err + ended.out
        assert "Traceback" not in ended.err
    assert home.store.read_bytes() == bytes(content)


async def test_the_database_of_another_program_is_refused(home: Home) -> None:
    home.configure()
    other = apsw.Connection(str(home.store))
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    for words in (("run",), ("deliveries",), ("notify", "--to", "default/webhook/c", "x")):
        ended = await home.run(*words)
        assert ended.code == 78, words
        assert "another program" in one_sentence(ended.err)


@pytest.mark.parametrize("words", [("nothing",), ("run", "--nothing"), ("deliveries", "--state", "lost")])
async def test_usage_errors_end_with_2(home: Home, words: tuple[str, ...]) -> None:
    ended = await home.configure().run(*words)
    assert ended.code == 2
    assert "Traceback" not in ended.err


async def test_version_and_help(home: Home) -> None:
    version = await home.run("--version")
    assert (version.code, version.out.split()[0]) == (0, "angelia")
    listed = await home.run("--help")
    assert listed.code == 0
    for command in ("init", "run", "doctor", "status", "deliveries", "why", "notify", "chats"):
        assert f"\n  {command} " in listed.out


async def test_a_clock_that_makes_no_sense_is_refused(home: Home) -> None:
    ended = await home.configure().run("run", ANGELIA_TEST_CLOCK_SPEED="fast")
    assert ended.code == 78
    assert "ANGELIA_TEST_CLOCK_SPEED" in one_sentence(ended.err)


# -- notify --------------------------------------------------------------------------------------


async def test_notify_while_down_goes_out_at_the_next_start(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url)
        owed = await home.run("notify", "--to", "default/webhook/room:1/a/b", "the disk is nearly full")
        assert owed.code == 0
        delivery = owed.out.strip()
        assert len(delivery.split()) == 1
        async with running(home):
            (request,) = await service.wait(1)
        assert request.body["chat"] == "room:1/a/b"
        assert request.text == "the disk is nearly full"
        assert request.body["delivery"] == delivery


async def test_notify_beside_a_running_gateway(home: Home) -> None:
    async with receiver() as service, running(home.configure(service.url)) as gateway:
        owed = await home.run("notify", "--to", "default/webhook/c1", "--thread", "t:1", "now", "--json")
        assert owed.code == 0
        (request,) = await service.wait(1)
        assert request.body["thread"] == "t:1"
        assert request.body["delivery"] == owed.json["id"]
        assert await gateway.stop() == 0


async def test_notify_reads_stdin_and_cuts_for_the_platform(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url, text_limit=64)
        text = "word " * 40
        owed = await home.run("notify", "--to", "default/webhook/c1", "-", stdin=text.encode())
        assert owed.code == 0
        async with running(home):
            requests = await service.wait(4)
        assert all(len(request.text) <= 64 for request in requests)
        assert " ".join(request.text for request in requests).split() == text.split()


async def test_notify_replaces_what_no_platform_can_carry(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url)
        words = (b"notify", b"--to", b"default/webhook/c\xff1", "x\u202e שלום 👩‍👩‍👧 ".encode() + b"\xfe")
        assert (await home.run(*words)).code == 0
        listed = await home.run("deliveries")
        assert listed.code == 0
        assert "\u202e" not in listed.out
        async with running(home):
            (request,) = await service.wait(1)
        assert request.body["chat"] == "c\ufffd1"
        assert request.text.endswith("👩‍👩‍👧 \ufffd")


@pytest.mark.parametrize(
    ("to", "text", "said"),
    [
        ("other/webhook/c", "x", "default/webhook"),
        ("default/telegram/c", "x", "default/webhook"),
        ("default/webhook", "x", "PROFILE/PLATFORM/CHAT"),
        ("default/webhook/", "x", "PROFILE/PLATFORM/CHAT"),
        ("default/webhook/c", "", "empty"),
        ("default/webhook/c", " \n", "empty"),
        ("default/webhook/" + "c" * 10_000, "x", "10000 characters"),
    ],
)
async def test_notify_refuses_what_it_cannot_address(home: Home, to: str, text: str, said: str) -> None:
    ended = await home.configure().run("notify", "--to", to, text)
    assert ended.code == 2
    assert said in one_sentence(ended.err)
    assert not home.store.exists()


async def test_notify_refuses_more_than_a_text_may_have(home: Home) -> None:
    home.configure()
    ended = await home.run("notify", "--to", "default/webhook/c", "-", stdin=b"x" * 1_000_001)
    assert ended.code == 2
    assert "1,000,000" in one_sentence(ended.err)


async def test_notify_refuses_stdin_that_is_no_text(home: Home) -> None:
    home.configure()
    ended = await home.run("notify", "--to", "default/webhook/c", "-", stdin=b"\xff\xfe\x00")
    assert ended.code == 2
    assert "UTF-8" in one_sentence(ended.err)


async def test_notify_without_the_ledger_promises_nothing(home: Home) -> None:
    ended = await home.configure(delivery_ledger=False).run("notify", "--to", "default/webhook/c", "x")
    assert ended.code == 78
    assert "nothing was recorded" in one_sentence(ended.err)


async def test_a_home_that_may_not_be_written_is_refused(home: Home) -> None:
    """A full or read-only disk at the start, as far as a test can make one without mounting."""
    home.configure()
    home.store.mkdir()  # no file can be made here
    for words in (("run",), ("notify", "--to", "default/webhook/c", "x")):
        ended = await home.run(*words)
        assert ended.code in (75, 78), words
        assert "state.db" in one_sentence(ended.err)


async def test_a_crash_point_of_a_test_build_kills_it(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url)
        gateway = await Daemon.start(home, ANGELIA_CRASH_POINT="wire.after")
        assert await gateway.say("hello", "m1") == 202
        assert await gateway.ended() == -signal.SIGKILL
        assert service.texts == ["hello"]
