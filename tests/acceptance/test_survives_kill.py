"""The story of the product, as a person lives it: ``kill -9`` in the middle of an answer.

A real ``angelia`` on a home of its own, killed at the worst moments and started again on the
same port; before it a chat page in Chromium that nobody touches, or a webhook receiver whose
list no crash of ours can change. What was seen is compared with what the record says: one
inbound, the runs that were interrupted by name, and every doubt in front of its copy.
"""

# ruff: noqa: F811 - pytest hands fixtures over by the names under which they were imported

from __future__ import annotations

import signal
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.acceptance.browser import Watched, watched
from tests.acceptance.chat_page import browser, context, write  # noqa: F401 - asked for by name
from tests.acceptance.daemon import Daemon, Home, killed_at, receiver, running
from tests.acceptance.record import all_delivered, deliveries, endings, until, why

pytestmark = [pytest.mark.crash, pytest.mark.asyncio(loop_scope="module")]

MARKER = "♻️ Recovered reply — the gateway restarted while sending this, so it may be a duplicate:"
TWICE_AND_MARKED = "One model run, two deliveries; the second carried the marker. You paid once."
TWICE_INTERRUPTED = "I was interrupted twice while answering. Please send that again."

#: What the browser itself writes to its console while nobody listens on the port.
GATEWAY_DOWN = ("WebSocket connection to", "Failed to load resource")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that does not exist yet."""
    return Home(tmp_path / "home")


def echo(delay_s: float = 0) -> dict[str, object]:
    return {"kind": "echo", "delay_s": delay_s}


def same_port(gateway: Daemon) -> str:
    """``gateway.listen`` for a gateway that takes the place of ``gateway``."""
    return gateway.address.removeprefix("http://").removesuffix("/")


async def opened(context: BrowserContext, gateway: Daemon) -> tuple[Page, Watched]:
    """The chat page of ``gateway``, connected."""
    page = await context.new_page()
    watch = await watched(page, gateway.address)
    watch.expected = GATEWAY_DOWN
    await page.goto(f"{gateway.address}#main")
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    return page, watch


async def sees(page: Page, mine: list[str], answers: list[str]) -> None:
    """The whole conversation as a person sees it, now and after a reload: nothing twice."""
    for reload in (False, True):
        if reload:
            await page.reload()
        await expect(page.locator(".message.bot .part")).to_have_text(answers)
        await expect(page.locator(".message.user .bubble")).to_have_text(mine)
        await expect(page.locator(".message.user[data-state=delivered]")).to_have_count(len(mine))
        await expect(page.locator("#typing")).to_be_hidden()


# -- the page ------------------------------------------------------------------------------------


@pytest.mark.browser
async def test_killed_in_the_middle_of_an_answer_the_page_shows_it_once(
    context: BrowserContext, home: Home
) -> None:
    home.configure(agent=echo(3), web_page=True)
    async with running(home) as first:
        page, watch = await opened(context, first)
        await write(page, "remember me")
        await expect(page.locator(".message.user")).to_have_attribute("data-state", "delivered")
        await expect(page.locator("#typing")).to_be_visible()
        await first.kill()
    await expect(page.get_by_text("Reconnecting…")).to_be_visible()
    await expect(page.locator(".message.bot")).to_have_count(0)
    async with running(home.configure(agent=echo(3), web_page=True, listen=same_port(first))) as second:
        assert second.address == first.address
        await sees(page, ["remember me"], ["remember me"])
        await expect(page.locator(".recovered")).to_have_count(0)  # it was never sent before: plain
        await all_delivered(home)
        story, _ = why(home)
        assert len(story.questions) == 1
        assert endings(story) == ["interrupted", "answered"]
        assert (await second.stop()) == 0
    assert await watch.all() == []


@pytest.mark.browser
@pytest.mark.parametrize("point", ["wire.before", "wire.after"])
async def test_killed_on_the_wire_the_page_shows_it_once_and_the_model_ran_once(
    context: BrowserContext, home: Home, point: str
) -> None:
    home.configure(agent=echo(), web_page=True)
    async with running(home, ANGELIA_CRASH_POINT=point) as first:
        page, watch = await opened(context, first)
        await write(page, "remember me")
        assert await first.ended() == -signal.SIGKILL
    async with running(home.configure(agent=echo(), web_page=True, listen=same_port(first))):
        await sees(page, ["remember me"], ["remember me"])
        await all_delivered(home)
        story, _ = why(home)
        assert endings(story) == ["answered"]
        outcomes = [attempt.outcome for attempt in story.deliveries[0].attempts]
        assert outcomes == ["died", "accepted"]
        # Its key makes a second copy impossible, so nothing has to be warned of.
        assert [attempt.marker for attempt in story.deliveries[0].attempts] == ["", ""]
    assert await watch.all() == []


@pytest.mark.browser
async def test_killed_before_the_acknowledgement_the_page_sends_again_and_is_answered_once(
    context: BrowserContext, home: Home
) -> None:
    home.configure(agent=echo(), web_page=True)
    async with running(home, ANGELIA_CRASH_POINT="ack.before") as first:
        page, watch = await opened(context, first)
        sent: list[str] = []
        page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
        await write(page, "remember me")
        assert await first.ended() == -signal.SIGKILL
    await expect(page.locator(".message.user")).to_have_attribute("data-state", "sending")
    async with running(home.configure(agent=echo(), web_page=True, listen=same_port(first))):
        await sees(page, ["remember me"], ["remember me"])
        assert any('"message"' in frame for frame in sent)  # it did send it again
        await all_delivered(home)
        story, _ = why(home)
        assert len(story.questions) == 1
        assert endings(story).count("answered") == 1
    assert await watch.all() == []


@pytest.mark.browser
async def test_a_page_that_comes_after_the_restart_finds_the_answer(
    context: BrowserContext, home: Home
) -> None:
    """Nobody looks while it happens: the answer waits for the next visit, and comes once."""
    home.configure(agent=echo(1), web_page=True)
    async with running(home) as first:
        page, _ = await opened(context, first)
        await write(page, "remember me")
        await expect(page.locator("#typing")).to_be_visible()
        await first.kill()
        await page.close()
    async with running(home.configure(agent=echo(), web_page=True, listen=same_port(first))) as second:
        await until(lambda: bool(deliveries(home)), "the answer is on record")
        page = await context.new_page()
        await page.goto(f"{second.address}#main")
        await sees(page, ["remember me"], ["remember me"])
        await all_delivered(home)


# -- the webhook ---------------------------------------------------------------------------------


async def asked_and_killed_at(home: Home, point: str) -> None:
    """One message, and the gateway's own death at ``point``."""
    async with running(home, ANGELIA_CRASH_POINT=point) as gateway:
        assert await gateway.say("remember me", "m1") == 202
        assert await gateway.ended() == -signal.SIGKILL


@pytest.mark.parametrize(("point", "arrived"), [("wire.before", False), ("wire.after", True)])
async def test_killed_on_the_wire_a_second_copy_says_so(home: Home, point: str, arrived: bool) -> None:
    async with receiver() as service:
        await asked_and_killed_at(home.configure(service.url), point)
        first = ["remember me"] if arrived else []
        assert service.texts == first
        async with running(home):
            await service.wait(len(first) + 1)
            await all_delivered(home)
            assert service.texts == [*first, f"{MARKER}\n\nremember me"]
            story, verdict = why(home)
        assert endings(story) == ["answered"]
        assert verdict.startswith("One model run, ")
        if arrived:  # wire.before looks the same on record: nobody can know
            assert verdict == TWICE_AND_MARKED
            assert len({request.key for request in service.requests}) == 2  # another text, another key


async def test_killed_on_the_wire_a_keyed_receiver_gets_the_same_bytes_again(home: Home) -> None:
    async with receiver() as service:
        await asked_and_killed_at(home.configure(service.url, idempotent=True), "wire.after")
        async with running(home):
            one, two = await service.wait(2)
            await all_delivered(home)
        assert (one.key, one.body) == (two.key, two.body)
        assert service.texts == ["remember me"] * 2


async def test_killed_before_the_acknowledgement_the_repeat_is_a_duplicate(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url)
        async with running(home, ANGELIA_CRASH_POINT="ack.before") as first:
            with pytest.raises(aiohttp.ClientError):  # no answer at all
                await first.say("remember me", "m1")
            assert await first.ended() == -signal.SIGKILL
        async with running(home) as second:
            assert await second.say("remember me", "m1") == 200
            await service.wait(1)
            await all_delivered(home)
            assert endings(why(home)[0]).count("answered") == 1
        assert service.texts == ["remember me"]


async def test_two_kills_in_the_middle_of_an_answer_end_with_a_word_to_the_person(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url, agent=echo())
        await asked_and_killed_at(home, "agent.before")
        await killed_at(home, "agent.before")
        async with running(home):
            await service.wait(1)
            await all_delivered(home)
            story, _ = why(home)
        assert service.texts == [TWICE_INTERRUPTED]
        assert endings(story) == ["interrupted", "interrupted"]
