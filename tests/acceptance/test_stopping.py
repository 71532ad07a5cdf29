"""Stopping in the middle of things, and clocks that jump between two lives."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from aiohttp import web
from tests.acceptance.daemon import Home, Received, accepted, eventually, receiver, running
from tests.acceptance.record import all_delivered, counted, deliveries, endings, until, why

RATE_LIMITED = "♻️ Recovered reply — the platform's rate limit delayed this"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def echo(delay_s: float) -> dict[str, object]:
    return {"kind": "echo", "delay_s": delay_s}


def ahead(seconds: float) -> dict[str, str]:
    """A clock that is ``seconds`` ahead of the machine's (negative: behind) and runs one part in
    a thousand faster, which nobody notices."""
    speed = 1.001
    return {
        "ANGELIA_TEST_CLOCK_SPEED": str(speed),
        "ANGELIA_TEST_CLOCK_ORIGIN": str(time.time() - seconds / (speed - 1)),
    }


# -- stopping ------------------------------------------------------------------------------------


async def test_a_stop_lets_a_run_finish_and_sends_its_answer(home: Home) -> None:
    async with receiver() as service, running(home.configure(service.url, agent=echo(1.5))) as gateway:
        assert await gateway.say("hello", "m1") == 202
        assert await gateway.stop() == 0
        assert service.texts == ["hello"]
    assert endings(why(home)[0]) == ["answered"]


async def test_a_drain_cuts_a_long_run_which_is_no_interruption(home: Home) -> None:
    """Thirty seconds for turns, lived through six times faster."""
    fast = {"ANGELIA_TEST_CLOCK_SPEED": "6", "ANGELIA_TEST_CLOCK_ORIGIN": str(time.time())}
    async with receiver() as service:
        home.configure(service.url, agent=echo(3600))
        async with running(home, **fast) as gateway:
            assert await gateway.say("hello", "m1") == 202
            await until(lambda: counted(home).turns["running"] == 1, "the agent works")
            assert await gateway.stop() == 0
        assert counted(home).turns["waiting"] == 1
        async with running(home.configure(service.url, agent=echo(0)), **fast):
            await all_delivered(home)
        assert service.texts == ["hello"]
        story, verdict = why(home)
        assert story.turn is not None
        assert story.turn.interruptions == 0
        assert endings(story)[1:] == ["answered"]
        assert verdict.startswith("Two model runs")


async def test_a_kill_in_the_middle_of_the_drain_loses_nothing(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url, agent=echo(3600))
        async with running(home) as gateway:
            assert await gateway.say("hello", "m1") == 202
            await until(lambda: counted(home).turns["running"] == 1, "the agent works")
            gateway.process.terminate()

            async def draining() -> bool:
                status, body = await gateway.health()
                return status == 503 and "the gateway is draining" in body["reasons"]

            await eventually(draining, "it drains")
            assert await gateway.say("too late", "m2") == 503
            await gateway.kill()
        async with running(home.configure(service.url, agent=echo(0))) as again:
            await all_delivered(home)
            assert endings(why(home)[0]) == ["interrupted", "answered"]
            assert await again.say("too late", "m2") == 202  # it was refused, so it is no duplicate
            await all_delivered(home, 2)
        assert service.texts == ["hello", "too late"]


# -- clocks --------------------------------------------------------------------------------------


async def test_after_a_step_backwards_a_wait_is_no_longer_than_it_was(home: Home) -> None:
    """The rate limit was recorded by a clock that was a day ahead."""

    async def limited(_: Received) -> web.StreamResponse:
        service.answer = accepted
        return web.Response(status=429, headers={"Retry-After": "2"})

    async with receiver() as service:
        service.answer = limited
        async with running(home.configure(service.url), **ahead(86_400)) as gateway:
            assert await gateway.say("hello", "m1") == 202
            await until(lambda: [one.state for one in deliveries(home)] == ["failed"], "it waits")
            await gateway.kill()
        async with running(home):
            await all_delivered(home)
        assert service.texts[0] == "hello"
        assert service.texts[1].startswith(RATE_LIMITED)
        assert len(service.texts) == 2


async def refused(home: Home, after: int = 0) -> int:
    """Wait until the only delivery rests because nobody took the call; when it is due again. A
    kill before that may cut a call, and a row that two deaths have cut waits for half a minute."""
    due = 0

    def rests() -> bool:
        nonlocal due
        for one in deliveries(home):
            due = one.due or 0 if one.state == "pending" else 0
            return due > max(after, one.created)
        return False

    await until(rests, "a call was refused, the reply waits for the next")
    return due


@pytest.mark.parametrize("step_s", [-86_000, 3600])
async def test_a_clock_that_jumps_under_a_run_and_an_owed_row_repeats_nothing(
    home: Home, step_s: float
) -> None:
    """``step_s``: what the clock of the second life is ahead of that of the first."""
    async with receiver() as service:
        port = int(service.url.rstrip("/").rpartition(":")[2])
    async with running(home.configure(service.url, agent=echo(0))) as gateway:
        assert await gateway.say("owed", "m1") == 202
        before = await refused(home)
        await gateway.kill()
    async with running(home.configure(service.url, agent=echo(3600))) as gateway:
        assert await gateway.say("running", "m2", chat="c2") == 202
        await until(lambda: counted(home).turns["running"] == 1, "the agent works")
        await refused(home, before)
        await gateway.kill()
    home.configure(service.url, agent=echo(0))
    async with receiver(port) as late, running(home, **ahead(step_s)) as gateway:
        await all_delivered(home, 2)
        # The first may have died with a call that was just being refused: then its copy says so.
        assert sorted(text.rpartition("\n")[2] for text in late.texts) == ["owed", "running"]
        assert await gateway.say("owed", "m1") == 200  # still known
        assert endings(why(home, "m1")[0]) == ["answered"]
        assert sorted(endings(why(home, "m2")[0])) == ["answered", "interrupted"]
