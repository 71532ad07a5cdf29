"""Debian's Chromium for the tests that drive the page.

Without it those tests are reported as skipped; in CI (``CI=true``) they fail, so that nobody
believes the page to be tested when it was not. The flags keep the browser from calling anybody.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

#: Puts every violation of the page's own security policy where a test can read it.
WATCH_POLICY = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`);
});
"""


def need_chromium() -> None:
    """Skip the test that calls this where there is no Chromium; in CI fail it."""
    if CHROMIUM.exists():
        return
    reason = f"{CHROMIUM} is not installed (apt-get install chromium): the page was not driven"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A fresh Chromium with an empty profile; it ends with the block."""
    need_chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


class Watched:
    """What went wrong in a page while nobody looked: console errors, exceptions, foreign requests."""

    def __init__(self, page: Page, origin: str) -> None:
        self.problems: list[str] = []
        #: Beginnings of messages that a test provokes on purpose.
        self.expected: tuple[str, ...] = ()
        self._page = page
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        page.on("request", lambda request: self._request(request.url, origin))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not text.startswith(self.expected):
            self.problems.append(f"{kind}: {text}")

    def _request(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "blob:", "data:")):
            self.problems.append(f"a foreign request: {url}")

    async def all(self) -> list[str]:
        """Everything noted so far, violations of the security policy included."""
        return self.problems + list(await self._page.evaluate("window.violations ?? ['not watched']"))


async def watched(page: Page, origin: str) -> Watched:
    """Watch ``page``, which was not opened yet."""
    await page.add_init_script(WATCH_POLICY)
    return Watched(page, origin)
