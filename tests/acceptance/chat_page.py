"""What the tests of the chat page share: Chromium, a served adapter, a page that is watched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect
from pydantic import SecretStr
from tests.acceptance.browser import Watched, chromium, watched

from angelia.model.ids import AdapterId, idempotency_key
from angelia.model.messages import Outgoing
from angelia.platforms.web import WebAdapter, WebSettings
from angelia.seams.clock import SystemClock
from angelia.seams.rng import SystemRng
from angelia.testing.fake_host import FakeHost, Served

expect.set_options(timeout=20_000)  # a bound, not a measure: a busy machine is no failure


def build(password: str | None = None) -> WebAdapter:
    settings = WebSettings(password=None if password is None else SecretStr(password))
    adapter_id = AdapterId("default", "web")
    return WebAdapter(adapter_id, settings, SystemClock(), SystemRng(), listen_host="127.0.0.1")


def outgoing(delivery: str, text: str, part: int = 1, revision: int = 1, **more: Any) -> Outgoing:
    fields: dict[str, Any] = {"parts": 1, "chat": "main", **more}
    key = idempotency_key(delivery, part, revision)
    return Outgoing(delivery=delivery, part=part, key=key, text=text, **fields)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(viewport={"width": 1100, "height": 760})
    context.set_default_timeout(20_000)
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def host() -> FakeHost:
    return FakeHost()


@pytest_asyncio.fixture(loop_scope="module")
async def served(host: FakeHost) -> AsyncIterator[Served]:
    async with Served(build(), host) as served:
        yield served


async def visit(
    context: BrowserContext, served: Served, *, expected: tuple[str, ...] = ()
) -> tuple[Page, Watched]:
    """Open the chat "main". ``expected``: beginnings of console messages that the test provokes."""
    page = await context.new_page()
    watch = await watched(page, served.url)
    watch.expected = expected
    await page.goto(f"{served.url}#main")
    return page, watch


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")
