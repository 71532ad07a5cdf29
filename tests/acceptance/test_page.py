"""The chat page in Debian's Chromium: what a person sees, and what the page promises the gateway."""

# ruff: noqa: F811 - pytest hands fixtures over by the names under which they were imported

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, expect
from tests.acceptance.chat_page import (  # noqa: F401 - the fixtures are asked for by name
    browser,
    build,
    context,
    host,
    outgoing,
    served,
    visit,
    write,
)

from angelia.model.ids import Lane
from angelia.model.messages import ChatSummary, HistoryEntry, HistoryPart, TextFormat
from angelia.model.outcomes import Accepted
from angelia.seams.clock import SystemClock
from angelia.testing.fake_host import FakeHost, Served

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

MARKER = "♻️ Recovered reply — the platform did not confirm it, so it may be a duplicate:"

#: What the browser itself writes to the console while the gateway is down or asks for a password.
GATEWAY_DOWN = ("WebSocket connection to", "Failed to load resource")


async def test_a_person_writes_and_gets_an_answer(
    context: BrowserContext, served: Served, host: FakeHost
) -> None:
    page, watch = await visit(context, served)
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    await write(page, "Good morning")
    mine = page.locator(".message.user")
    await expect(mine).to_contain_text("Good morning")
    await expect(mine).to_have_attribute("data-state", "delivered")
    await expect(mine).to_contain_text("delivered")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Good morning")
    assert [inbound.text for inbound in host.received] == ["Good morning"]
    await served.adapter.typing(Lane("default", "web", "main"), True)
    await expect(page.locator("#typing")).to_be_visible()
    assert isinstance(await served.adapter.send(outgoing("d1", "And **to** you")), Accepted)
    await expect(page.locator(".message.bot strong")).to_have_text("to")
    await expect(page.locator("#typing")).to_be_hidden()
    assert await watch.all() == []


async def test_a_repeated_key_is_acknowledged_again_and_shown_once(
    context: BrowserContext, served: Served
) -> None:
    page, _ = await visit(context, served)
    acknowledged: list[str] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: acknowledged.append(str(frame))))
    await page.reload()
    await page.wait_for_function("document.querySelector('#banner').hidden")
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    for _ in range(3):
        assert isinstance(await served.adapter.send(outgoing("d1", "only once")), Accepted)
    await expect(page.get_by_text("only once")).to_have_count(1)
    assert sum('"ack"' in frame for frame in acknowledged) == 3  # one for each time it was sent


async def test_a_part_shows_its_newest_revision(context: BrowserContext, served: Served) -> None:
    page, _ = await visit(context, served)
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    await served.adapter.send(outgoing("d1", "the answer"))
    await served.adapter.send(outgoing("d1", f"{MARKER}\n\nthe answer", revision=2, recovered=True))
    await served.adapter.send(outgoing("d1", "the answer"))  # an older one comes late
    await expect(page.locator(".part")).to_have_count(1)
    await expect(page.locator(".recovered")).to_have_text(
        "Recovered reply — the platform did not confirm it, so it may be a duplicate"
    )
    await expect(page.get_by_text("the answer", exact=True)).to_have_count(1)


async def test_parts_stand_in_their_order(context: BrowserContext, served: Served) -> None:
    page, _ = await visit(context, served)
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    await served.adapter.send(outgoing("d1", "third", part=3, parts=3))
    await expect(page.locator(".bot footer")).to_contain_text("the rest is on its way")
    await served.adapter.send(outgoing("d1", "first", part=1, parts=3))
    await served.adapter.send(outgoing("d1", "second", part=2, parts=3, format=TextFormat.PLAIN))
    await expect(page.locator(".part")).to_have_text(["first", "second", "third"])
    await expect(page.locator(".message.bot")).to_have_count(1)
    await expect(page.locator(".bot footer")).not_to_contain_text("on its way")


async def test_history_is_there_after_a_reload(
    context: BrowserContext, served: Served, host: FakeHost
) -> None:
    at = SystemClock().now().wall - 3_600_000
    both = (HistoryPart(1, "received part", True), HistoryPart(2, "missing part", False))
    host.histories["main"] = [
        HistoryEntry("user", "a question", at, "i1", "answered", client_id="c1"),
        HistoryEntry("assistant", "", at + 1, "d1", "delivered", True, (HistoryPart(1, "an answer", True),)),
        HistoryEntry("assistant", "", at + 2, "d2", "failed", False, both),
        HistoryEntry(
            "assistant", "", at + 3, "d3", "abandoned(stale)", False, (HistoryPart(1, "too late", False),)
        ),
    ]
    host.summaries = [ChatSummary("main", "a question", at), ChatSummary("second", "another chat", at - 1)]
    page, watch = await visit(context, served)
    for visits in range(2):
        if visits:
            await page.reload()
        await expect(page.locator(".user .bubble")).to_have_text(["a question"])
        await expect(page.locator("[data-delivery=d1] .recovered")).to_have_text("Recovered reply")
        await expect(page.locator("[data-delivery=d2] .part")).to_have_text(["received part"])
        await expect(page.locator("[data-delivery=d3]")).to_contain_text("was not delivered: stale")
        await expect(page.locator("#chats a .name")).to_have_text(["a question", "another chat"])
    assert isinstance(await served.adapter.send(outgoing("d2", "missing part", part=2, parts=2)), Accepted)
    await expect(page.locator("[data-delivery=d2] .part")).to_have_text(["received part", "missing part"])
    assert await watch.all() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_phone_has_a_drawer_and_nothing_sticks_out(
    browser: Browser, served: Served, host: FakeHost, scheme: Any
) -> None:
    host.summaries = [ChatSummary("main", "first", 2), ChatSummary("second", "another chat", 1)]
    context = await browser.new_context(
        viewport={"width": 360, "height": 640}, color_scheme=scheme, is_mobile=True, has_touch=True
    )
    try:
        page, watch = await visit(context, served)
        await expect(page.locator("#chats a")).to_have_count(2)
        await served.adapter.send(
            outgoing(
                "d1", "w" * 300 + "\n\n```\n" + "c" * 300 + "\n```\n\n|a|b|\n|-|-|\n|" + "t" * 99 + "|b|"
            )
        )
        await expect(page.locator("#sidebar")).to_be_hidden()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await page.evaluate("document.querySelector('#scroll').scrollWidth <= innerWidth")
        await page.get_by_role("button", name="Chats").tap()
        await page.get_by_role("link", name="another chat").tap()
        await expect(page.locator("#sidebar")).to_be_hidden()
        await expect(page.get_by_role("heading", level=1)).to_have_text("another chat")
        assert len(await page.screenshot()) > 0
        assert await watch.all() == []
    finally:
        await context.close()


async def test_a_restart_of_the_gateway_loses_and_doubles_no_message(
    context: BrowserContext, host: FakeHost
) -> None:
    async with Served(build(), host) as first:
        page, watch = await visit(context, first, expected=GATEWAY_DOWN)
        await write(page, "one")
        await expect(page.locator("[data-state=delivered]")).to_have_count(1)
        host.open.clear()  # the store takes its time, and then the machine is gone
        await write(page, "two")
        await host.until(lambda: host.calls == 2)
        await expect(page.locator("[data-state=sending]")).to_have_count(1)
        first.cut()
    await expect(page.get_by_text("Reconnecting…")).to_be_visible()
    await write(page, "three")
    await expect(page.locator("[data-state=sending]")).to_have_count(2)
    host.open.set()
    async with Served(build(), host, first.port):
        await expect(page.locator("[data-state=delivered]")).to_have_count(3)
        await expect(page.locator("#banner")).to_be_hidden()
        assert [inbound.text for inbound in host.received] == ["one", "two", "three"]
        assert (
            await page.evaluate("Object.keys(localStorage).filter((key) => key.includes('outbox')).length")
            == 0
        )
    assert await watch.all() == []


async def test_an_unacknowledged_message_survives_a_reload(
    context: BrowserContext, served: Served, host: FakeHost
) -> None:
    host.unavailable = True
    page, _ = await visit(context, served)
    await write(page, "keep me")
    await host.until(lambda: host.calls >= 1)
    await page.reload()
    await expect(page.locator("[data-state=sending]")).to_contain_text("keep me")
    host.unavailable = False
    await expect(page.locator("[data-state=delivered]")).to_contain_text("keep me")
    assert [inbound.text for inbound in host.received] == ["keep me"]


async def test_a_refused_message_can_be_written_again(
    context: BrowserContext, served: Served, host: FakeHost
) -> None:
    page, _ = await visit(context, served)
    host.refuse = True
    await write(page, "let me in")
    await expect(page.locator("[data-state=refused]")).to_contain_text("not sent: this page is not allowed")
    host.refuse = False
    await page.get_by_role("button", name="Write it again").click()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("let me in")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".user")).to_have_count(1)
    await expect(page.locator(".user")).to_have_attribute("data-state", "delivered")


async def test_two_tabs_show_the_same_conversation(context: BrowserContext, served: Served) -> None:
    one, _ = await visit(context, served)
    two, _ = await visit(context, served)
    await expect(two.get_by_text("Say hello…")).to_be_visible()
    await write(one, "seen in both")
    for page in (one, two):
        await expect(page.locator(".user .bubble")).to_have_text(["seen in both"])
    await served.adapter.send(outgoing("d1", "so is this"))
    for page in (one, two):
        await expect(page.locator(".bot .bubble")).to_have_text(["so is this"])


async def test_enter_sends_shift_enter_breaks_and_a_composition_is_left_alone(
    context: BrowserContext, served: Served, host: FakeHost
) -> None:
    page, _ = await visit(context, served)
    box = page.get_by_label("Message", exact=True)
    await expect(page.get_by_role("button", name="Send")).to_be_disabled()
    await box.press("Enter")
    await box.press_sequentially("first")
    height = await box.evaluate("(box) => box.clientHeight")
    await box.press("Shift+Enter")
    await box.press_sequentially("second")
    assert await box.evaluate("(box) => box.clientHeight") > height
    await box.evaluate(
        "(box) => box.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'Enter', isComposing: true, bubbles: true}))"
    )
    await expect(box).to_have_value("first\nsecond")
    await box.press("Enter")
    await expect(box).to_have_value("")
    await expect(page.locator("[data-state=delivered]")).to_have_count(1)
    assert [inbound.text for inbound in host.received] == ["first\nsecond"]


async def test_other_chats_get_unread_marks_and_the_address_names_the_chat(
    context: BrowserContext, served: Served, host: FakeHost
) -> None:
    page, watch = await visit(context, served)
    await write(page, "the first chat")
    await expect(page.locator("[data-state=delivered]")).to_have_count(1)
    await page.get_by_role("button", name="New chat").first.click()
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    await write(page, "the second chat")
    await expect(page.locator("#chats .name")).to_have_text(["the second chat", "the first chat"])
    assert isinstance(await served.adapter.send(outgoing("d1", "ping")), Accepted)
    await expect(page.locator("#chats a", has_text="the first chat").locator(".unread")).to_contain_text("1")
    await expect(page).to_have_title("(1) the second chat · Angelia")
    second = page.url
    await page.locator("#chats a", has_text="the first chat").click()
    await expect(page.locator(".bot .bubble")).to_have_text(["ping"])
    await expect(page.locator(".unread")).to_have_count(0)
    await page.go_back()
    await expect(page.get_by_role("heading", level=1)).to_have_text("the second chat")
    assert page.url == second
    await page.reload()
    assert page.url == second
    assert await watch.all() == []


async def test_the_reader_is_not_pulled_away_from_what_he_reads(
    context: BrowserContext, served: Served
) -> None:
    page, _ = await visit(context, served)
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    await served.adapter.send(outgoing("d1", "line\n\n" * 100))
    at_end = """(() => {
      const box = document.querySelector("#scroll");
      return box.scrollHeight - box.scrollTop - box.clientHeight < 2;
    })()"""
    assert await page.evaluate(at_end)
    await page.evaluate("document.querySelector('#scroll').scrollTop = 0")
    await served.adapter.send(outgoing("d2", "news"))
    assert await page.evaluate("document.querySelector('#scroll').scrollTop") == 0
    await page.get_by_role("button", name="New messages").click()
    await page.wait_for_function(at_end)
    await expect(page.get_by_role("button", name="New messages")).to_be_hidden()


async def test_the_door_opens_with_the_password_and_what_was_written_is_kept(
    context: BrowserContext, host: FakeHost
) -> None:
    async def enter(password: str) -> None:
        await page.get_by_label("Password").fill(password)
        await page.get_by_role("button", name="Open the chat").click()

    async with Served(build("open sesame"), host) as first:
        page, watch = await visit(context, first, expected=GATEWAY_DOWN)
        await enter("guess")
        await expect(page.get_by_role("alert")).to_have_text("That is not the password.")
        await enter("open sesame")
        await expect(page.get_by_text("Say hello…")).to_be_visible()
        await write(page, "one")
        await expect(page.locator("[data-state=delivered]")).to_have_count(1)
    await write(page, "two")  # the gateway is down, and when it is back it asks again
    async with Served(build("open sesame"), host, first.port):
        await expect(page.get_by_label("Password")).to_be_visible()
        await enter("open sesame")
        await expect(page.locator("[data-state=delivered]")).to_contain_text("two")
        assert [inbound.text for inbound in host.received] == ["one", "two"]
    assert await watch.all() == []


async def test_everything_that_can_be_used_has_a_name(context: BrowserContext, served: Served) -> None:
    page, _ = await visit(context, served)
    await served.adapter.send(outgoing("d1", "```\ncode\n```"))
    nameless = """[...document.querySelectorAll("button, a, textarea, [tabindex], [role]")].filter((node) =>
      !node.hidden && node.role !== "status" &&
      !(node.textContent.trim() || node.ariaLabel || node.labels?.length)
    ).map((node) => node.outerHTML)"""
    assert await page.evaluate(nameless) == []
    assert await page.locator("#log").get_attribute("role") == "log"
    assert await page.locator("#log").get_attribute("aria-live") == "polite"
