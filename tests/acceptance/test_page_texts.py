"""Texts on the chat page in Debian's Chromium: drawn where they are Markdown, inert whatever they are."""

# ruff: noqa: F811 - pytest hands fixtures over by the names under which they were imported

from __future__ import annotations

import pytest
from playwright.async_api import BrowserContext, expect
from tests.acceptance.chat_page import (  # noqa: F401 - the fixtures are asked for by name
    browser,
    context,
    host,
    outgoing,
    served,
    visit,
    write,
)

from angelia.model.messages import ChatSummary, HistoryEntry, HistoryPart
from angelia.model.outcomes import Accepted
from angelia.testing.fake_host import FakeHost, Served

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

#: What a browser must never run, whoever wrote it. ``pwned`` is set if it does.
HOSTILE = [
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg/onload=window.pwned=1>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "[click](javascript:window.pwned=1)",
    "[click](JaVaScRiPt:window.pwned=1)",
    "[click](java\tscript:window.pwned=1)",
    "[click](&#106;avascript:window.pwned=1)",
    "[click](data:text/html,<script>window.pwned=1</script>)",
    "[click](vbscript:window.pwned=1)",
    "[click](//evil.example/)",
    "![x](javascript:window.pwned=1)",
    '![x](x" onerror="window.pwned=1)',
    "<javascript:window.pwned=1>",
    "[<img src=x onerror=window.pwned=1>](https://example.org)",
    '[x](https://example.org/"onmouseover="window.pwned=1)',
    "`<img src=x onerror=window.pwned=1>`",
    "```<script>\n<img src=x onerror=window.pwned=1>\n```",
    "# <img src=x onerror=window.pwned=1>",
    "| <img src=x onerror=window.pwned=1> |\n|---|\n| <b onclick=pwned=1>x</b> |",
    "> <style>*{display:none}</style>",
    "<a href='javascript:window.pwned=1'>x</a><form action=//evil.example><button>",
    "♻️ <img src=x onerror=window.pwned=1>\n\n<script>window.pwned=1</script>",
    "\u202eevil\u2066 <script>window.pwned=1</script>",
]

#: 16,000 characters each, made to keep a careless parser busy.
LABORIOUS = [
    piece * (16_000 // len(piece))
    for piece in (
        "*a **b ",
        "[",
        "[a](",
        "`",
        "`` ` ",
        "_",
        "~~a ",
        "> ",
        "- ",
        "1. ",
        "* * a\n",
        "|-",
        "<http://",
        "![",
    )
] + [
    "# " + " " * 15_000 + "x",
    "-" + " " * 15_000 + "x",
    "|\n-" + " " * 15_000 + "x",
    "```" + " " * 15_000 + "`",
]


async def test_hostile_texts_are_only_texts(context: BrowserContext, served: Served, host: FakeHost) -> None:
    host.summaries = [ChatSummary("other", HOSTILE[1], 1)]
    part = (HistoryPart(1, HOSTILE[0], True),)
    host.histories["main"] = [
        HistoryEntry("user", HOSTILE[1], 1, "i1", "answered", client_id="c1"),
        HistoryEntry("assistant", HOSTILE[0], 2, "d0", "delivered", parts=part),
    ]
    page, watch = await visit(context, served)
    await expect(page.locator("[data-delivery=d0]")).to_be_visible()
    for number, text in enumerate(HOSTILE):
        assert isinstance(await served.adapter.send(outgoing(f"x{number}", text)), Accepted)
        await write(page, text)
    await expect(page.locator(".user[data-state=delivered]")).to_have_count(len(HOSTILE) + 1)
    for link in await page.locator(".bot a").all():
        await link.hover()
        assert await link.get_attribute("rel") == "noopener noreferrer"
        address = await link.get_attribute("href")
        assert address is not None
        assert address.startswith("https://example.org")
    found = "#log :is(script, img, iframe, style, form, input, object, embed, b), #chats :is(img, script)"
    assert await page.locator(found).count() == 0
    attributes = "[...document.querySelectorAll('#log *')].flatMap((node) => node.getAttributeNames())"
    assert not [name for name in await page.evaluate(attributes) if name.startswith("on")]
    assert await page.evaluate("window.pwned") is None
    assert await watch.all() == []


async def test_laborious_texts_are_shown_before_the_call_ends(
    context: BrowserContext, served: Served
) -> None:
    page, _ = await visit(context, served)
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    for number, text in enumerate(LABORIOUS):
        assert isinstance(await served.adapter.send(outgoing(f"x{number}", text)), Accepted), text[:20]


async def test_markdown_is_drawn(context: BrowserContext, served: Served) -> None:
    text = """# Head
Some **bold**, *italic*, ~~gone~~, `code`, snake_case_name, 2 * 3 * 4, **use `**kwargs`** and \\*stars\\*
next line, see [site](https://example.org/a_(b)) or https://example.org/x. ![pic](https://example.org/p.png)

- one
- two
  1. inner
  2. more

  a paragraph
- [mail](mailto:a@example.org)

3. three
4. four

> quoted
> **words**

| a | b |
|:--|--:|
| 1 | x \\| y |

---
```js
let a = "<b>";

  indented
```
end"""
    page, watch = await visit(context, served)
    await expect(page.get_by_text("Say hello…")).to_be_visible()
    await served.adapter.send(outgoing("d1", text))
    part = page.locator(".part")
    for tag, texts in {
        "h3": ["Head"],
        "strong": ["bold", "use **kwargs", "words"],
        "em": ["italic"],
        "del": ["gone"],
        ":not(pre) > code": ["code", "**kwargs"],
        "a": ["site", "https://example.org/x", "pic", "mail"],
        "ol:not(li ol) > li": ["three", "four"],
        "li li": ["inner", "more"],
        "li > p": ["a paragraph"],
        "th": ["a", "b"],
        "td": ["1", "x | y"],
        "pre code": ['let a = "<b>";\n\n  indented'],
    }.items():
        assert await part.locator(tag).all_text_contents() == texts, tag
    assert await part.locator("ol:not(li ol)").get_attribute("start") == "3"
    assert await part.locator("a").first.get_attribute("href") == "https://example.org/a_(b)"
    assert await part.locator("hr").count() == 1
    await expect(part).to_contain_text("snake_case_name, 2 * 3 * 4")
    await expect(part).to_contain_text("*stars*")
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await part.get_by_role("button", name="Copy").click()
    await expect(part.get_by_role("button")).to_have_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == 'let a = "<b>";\n\n  indented'
    assert await watch.all() == []
