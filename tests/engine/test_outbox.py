"""The ledger for a bot of one's own: the outbox, and the example as a real process that dies."""

from __future__ import annotations

import asyncio
import json
import random
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from angelia import Accepted, BadCredential, Outbox, Outcome, Outgoing, Unconfirmed
from angelia.model.errors import BadCredentialError
from angelia.testing.manual_clock import ManualClock

ROOT = Path(__file__).resolve().parents[2]

#: Forks bots: pays the imports once. Each command is one run of the example, on clocks that are
#: 60 times faster, so that the lease of a dead library owner is over in a quarter of a second.
NURSERY = """
import faulthandler, functools, json, os, runpy, sys
import angelia, angelia.outbox as outbox
from angelia.seams import clock, crash
print("ready", flush=True)
for line in sys.stdin:
    command = json.loads(line)
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        out = os.open(command["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(null, 0); os.dup2(out, 1); os.dup2(out, 2)
        faulthandler.dump_traceback_later(20, exit=True)  # says where it hangs, and ends
        os.environ.update(command["env"])
        crash.install_from_environment()
        outbox.SystemClock = functools.partial(clock.SystemClock, 60.0)
        sys.argv = command["argv"]
        code = 1
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


async def test_what_is_owed_is_sent_once_and_its_record_can_be_read(ram: Path) -> None:
    sent: list[str] = []

    async def send(message: Outgoing) -> Outcome:
        sent.append(message.text)
        return Accepted("r")

    async with Outbox(ram / "bot.db", send) as outbox:
        id = await outbox.owe("room", "hello", id="once")
        assert await outbox.owe("room", "hello", id="once") == id
        record = await outbox.settled(id)
    assert (record.state, record.parts[0].receipt, sent) == ("delivered", "r", ["hello"])


async def test_an_empty_text_is_refused_and_nothing_is_on_record(ram: Path) -> None:
    async def send(_message: Outgoing) -> Outcome:
        return Accepted()

    async with Outbox(ram / "bot.db", send) as outbox:
        with pytest.raises(ValueError, match="part"):
            await outbox.owe("room", "")


async def test_a_long_text_goes_out_in_parts_of_the_platform_s_length(ram: Path) -> None:
    sent: list[str] = []

    async def send(message: Outgoing) -> Outcome:
        sent.append(message.text)
        return Accepted()

    async with Outbox(ram / "bot.db", send, text_limit=64) as outbox:
        record = await outbox.settled(await outbox.owe("room", "word " * 40))
    assert record.state == "delivered"
    assert len(sent) > 2
    assert all(len(text) <= 64 for text in sent)


async def test_what_the_function_raises_is_unconfirmed_and_repeated_with_the_marker(ram: Path) -> None:
    sent: list[str] = []
    clock = ManualClock()

    async def send(message: Outgoing) -> Outcome:
        sent.append(message.text)
        if len(sent) == 1:
            raise ConnectionResetError("by peer")
        if len(sent) == 2:
            return Unconfirmed("503")
        return Accepted()

    async with Outbox(ram / "bot.db", send, clock=clock) as outbox:
        settled = asyncio.ensure_future(outbox.settled(await outbox.owe("room", "hello")))
        async with asyncio.timeout(10):
            while not settled.done():  # the store has threads of its own here
                await clock.advance(1)
        assert (await settled).state == "delivered"
    assert [text.startswith("♻️ Recovered reply — ") for text in sent] == [False, True, True]


@pytest.mark.parametrize("receipt", [None, 17, "lone \ud800"])
async def test_an_acceptance_with_any_receipt_is_one(ram: Path, receipt: Any) -> None:
    """A platform that gives none must not be asked for it by sending again."""
    sent: list[str] = []

    async def send(message: Outgoing) -> Outcome:
        sent.append(message.text)
        assert len(sent) < 5
        return Accepted(receipt)

    async with Outbox(ram / "bot.db", send) as outbox:
        async with asyncio.timeout(10):
            record = await outbox.settled(await outbox.owe("room", "hello"))
    assert (sent, record.state) == (["hello"], "delivered")


async def test_a_refused_credential_stops_the_sending_and_is_told(ram: Path) -> None:
    sent: list[str] = []

    async def send(message: Outgoing) -> Outcome:
        sent.append(message.text)
        return BadCredential("401")

    async with Outbox(ram / "bot.db", send) as outbox:
        id = await outbox.owe("room", "hello")
        async with asyncio.timeout(10):
            with pytest.raises(BadCredentialError, match="401"):
                await outbox.settled(id)
        await outbox.owe("room", "and more")
        record = await outbox.record(id)
    assert (sent, record.state, record.tries) == (["hello"], "failed", 0)


class Nursery:
    """Runs the example in processes of its own and tells how each one ended."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 30.0)
        assert ready, "the bot does not end"
        return self._process.stdout.readline().strip()

    def run(self, folder: Path, texts: tuple[str, ...], **env: object) -> int:
        argv = [
            str(ROOT / "examples" / "own_bot.py"),
            str(folder / "bot.db"),
            str(folder / "room.txt"),
            *texts,
        ]
        command: dict[str, Any] = {
            "argv": argv,
            "env": {name: str(value) for name, value in env.items()},
            "out": str(folder / "out"),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        return int(self._answer())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


@pytest.mark.crash
def test_the_example_bot_loses_nothing_wherever_it_is_killed(nursery: Nursery, ram: Path) -> None:
    texts = ("first", "second")
    whole = ram / "whole"
    whole.mkdir()
    assert nursery.run(whole, texts, ANGELIA_CRASH_TRACE=whole / "trace") == 0
    assert (whole / "room.txt").read_text().splitlines() == ["first", "second"]
    trace = (whole / "trace").read_text().split()
    assert "wire.after" in trace
    dice = random.Random(len(trace))
    points = {
        trace.index("wire.before") + 1,
        trace.index("wire.after") + 1,
        *dice.sample(range(1, len(trace)), 6),
    }
    for point in sorted(points):
        folder = ram / f"at{point}"
        folder.mkdir()
        died = nursery.run(folder, texts, ANGELIA_CRASH_AT=point)
        assert died in (-9, 0), (folder / "out").read_text()  # the number of loop rounds varies
        assert nursery.run(folder, texts) == 0, (folder / "out").read_text()
        room = folder / "room.txt"
        _once_or_marked(room.read_text(), point, trace[point - 1])


def _once_or_marked(room: str, point: int, name: str) -> None:
    """Every line is there once or, where nobody can know, a second time with the marker."""
    lines = room.splitlines()
    for text in ("first", "second"):
        places = [number for number, line in enumerate(lines) if line == text]
        assert 1 <= len(places) <= 2, (point, name, lines)
        for place in places[1:]:
            line = lines[place - 2] if place >= 2 else ""
            assert "so it may be a duplicate" in line, (point, name, lines)
