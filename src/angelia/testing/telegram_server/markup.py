"""``parse_mode``: HTML, MarkdownV2 and the older Markdown become text and entities.

As strict as the real thing: what is not closed, not escaped or not known is refused with the
words and the byte offset that clients look for ("can't parse entities: …"). Source: the
formatting chapter of the API's documentation; refusals as in td MessageEntity.cpp.
"""

from __future__ import annotations

import html
import re
from typing import NoReturn

from angelia.testing.telegram_server.answers import Json, bad_request
from angelia.testing.telegram_server.entities import units

_TAGS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "code": "code",
    "pre": "pre",
    "a": "text_link",
    "span": "spoiler",
    "tg-spoiler": "spoiler",
    "blockquote": "blockquote",
    "tg-emoji": "custom_emoji",
}
_ATTRIBUTE = re.compile(r"([\w-]+)(?:\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>\"']+))?")
_TAG = re.compile(r"<(/?)([^\s/>]*)([^>]*)>")
_REFERENCE = re.compile(r"&(lt|gt|amp|quot|#\d{1,7}|#x[0-9A-Fa-f]{1,6});")


def _fail(words: str) -> NoReturn:
    raise bad_request(f"can't parse entities: {words}")


def _bytes_before(text: str, place: int) -> int:
    return len(text[:place].encode())


def parse(text: str, mode: str) -> tuple[str, list[Json]]:
    """The plain text and its entities. Raises a refusal for markup that is broken, and for a
    mode that is none."""
    kinds = {"html": parse_html, "markdownv2": parse_markdown_v2, "markdown": parse_markdown}
    if mode.lower() not in kinds:
        raise bad_request("unsupported parse_mode")
    plain, entities = kinds[mode.lower()](text)
    ordered = sorted(entities, key=lambda entity: (entity["offset"], -entity["length"]))
    return plain, [entity for entity in ordered if entity["length"] > 0]


# -- HTML ------------------------------------------------------------------------------------


def parse_html(text: str) -> tuple[str, list[Json]]:
    out = ""
    entities: list[Json] = []
    nested: list[tuple[str, int, Json]] = []
    place = 0
    while place < len(text):
        if text[place] == "<":
            match = _TAG.match(text, place)
            if match is None:
                _fail(f"Unclosed start tag at byte offset {_bytes_before(text, place)}")
            closing, tag, rest = match.group(1), match.group(2).lower(), match.group(3)
            if closing:
                _close_tag(tag, nested, entities, units(out), _bytes_before(text, place))
            else:
                nested.append((tag, units(out), _open_tag(tag, rest, _bytes_before(text, place))))
            place = match.end()
            continue
        reference = _REFERENCE.match(text, place)
        out += html.unescape(reference.group()) if reference else text[place]
        place = reference.end() if reference else place + 1
    if nested:
        tag = nested[-1][0]
        _fail(f'Can\'t find end tag corresponding to start tag "{tag}"')
    return out, _joined_pre(entities)


def _open_tag(tag: str, rest: str, at: int) -> Json:
    """The entity that begins here, without its bounds."""
    if tag not in _TAGS:
        _fail(f'Unsupported start tag "{tag}" at byte offset {at}')
    values = {name: value.strip("\"'") for name, value in _ATTRIBUTE.findall(rest)}
    if tag == "span" and values.get("class") != "tg-spoiler":
        _fail(f'Tag "span" must have class "tg-spoiler" at byte offset {at}')
    if tag == "a":
        return {"type": "text_link", "url": html.unescape(values.get("href", ""))}
    if tag == "code" and values.get("class", "").startswith("language-"):
        return {"type": "code", "language": values["class"].removeprefix("language-")}
    if tag == "blockquote" and "expandable" in values:
        return {"type": "expandable_blockquote"}
    return {"type": _TAGS[tag]}


def _close_tag(tag: str, nested: list[tuple[str, int, Json]], into: list[Json], end: int, at: int) -> None:
    if not nested:
        _fail(f"Unexpected end tag at byte offset {at}")
    opened, start, entity = nested.pop()
    if tag not in ("", opened):
        _fail(f'Unmatched end tag at byte offset {at}, expected "</{opened}>", found "</{tag}>"')
    if entity["type"] == "text_link" and not entity["url"]:
        return
    into.append({"type": entity.pop("type"), "offset": start, "length": end - start, **entity})


def _joined_pre(entities: list[Json]) -> list[Json]:
    """``<pre><code class="language-…">`` is one entity; a language elsewhere is nothing."""
    bounds = {(entity["offset"], entity["length"]): entity for entity in entities if entity["type"] == "pre"}
    kept = []
    for entity in entities:
        around = bounds.get((entity["offset"], entity["length"]))
        language = entity.pop("language", None) if entity["type"] == "code" else None
        if around is not None and entity["type"] == "code":
            if language:
                around["language"] = language
            continue
        kept.append(entity)
    return kept


# -- MarkdownV2 ------------------------------------------------------------------------------

_RESERVED = set("_*[]()~`>#+-=|{}.!")
_PAIRS = {"*": "bold", "_": "italic", "__": "underline", "~": "strikethrough", "||": "spoiler"}
_NAMES = {
    "bold": "Bold",
    "italic": "Italic",
    "underline": "Underline",
    "strikethrough": "Strikethrough",
    "spoiler": "Spoiler",
    "[": "TextUrl",
}


def parse_markdown_v2(text: str) -> tuple[str, list[Json]]:
    reader = _Reader(text)
    line_start = True
    while reader.place < len(text):
        letter = text[reader.place]
        if letter == "\\" and reader.place + 1 < len(text) and 0 < ord(text[reader.place + 1]) <= 126:
            reader.take(text[reader.place + 1], 2)
            line_start = False
            continue
        if line_start and (letter == ">" or text.startswith("**>", reader.place)):
            reader.quote_line()
            line_start = False
            continue
        if letter == "\n":
            reader.end_quote_unless_next()
        if not reader.special(letter):
            if letter in _RESERVED:
                _fail(f"Character '{letter}' is reserved and must be escaped with the preceding '\\'")
            reader.take(letter, 1)
        line_start = letter == "\n"
    reader.finish()
    return reader.out, reader.entities


class _Reader:
    """Where a reading of MarkdownV2 stands: the text so far, what is open, what was closed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.out = ""
        self.entities: list[Json] = []
        self._open: list[tuple[str, int, int]] = []  # kind, units at its start, byte offset
        self._quote: int | None = None

    def take(self, shown: str, length: int) -> None:
        self.out += shown
        self.place += length

    def special(self, letter: str) -> bool:
        """Read a mark at this place, if there is one."""
        text, place = self.text, self.place
        if letter == "`":
            self._code("```" if text.startswith("```", place) else "`")
        elif letter in "[!" and (letter == "[" or text.startswith("![", place)):
            self._begin("[", 2 if letter == "!" else 1)
        elif letter == "]" and self._open and self._open[-1][0] == "[":
            self._link()
        elif letter in "*_~" or text.startswith("||", place):
            mark = letter * 2 if text.startswith(("__", "||"), place) else letter
            self._toggle(mark)
        else:
            return False
        return True

    def _begin(self, kind: str, length: int) -> None:
        self._open.append((kind, units(self.out), _bytes_before(self.text, self.place)))
        self.place += length

    def _toggle(self, mark: str) -> None:
        kind = _PAIRS[mark]
        if self._open and self._open[-1][0] == kind:
            _, start, _ = self._open.pop()
            self._add(kind, start)
            self.place += len(mark)
        elif mark == "__" and self._open and self._open[-1][0] == "italic":
            self._toggle("_")
        else:
            self._begin(kind, len(mark))

    def _add(self, kind: str, start: int, **more: str) -> None:
        self.entities.append({"type": kind, "offset": start, "length": units(self.out) - start, **more})

    def _code(self, fence: str) -> None:
        kind = "Pre" if len(fence) == 3 else "Code"
        start, began = units(self.out), _bytes_before(self.text, self.place)
        place = self.place + len(fence)
        language = re.compile(r"([^\s`]+)\n|\n").match(self.text, place) if kind == "Pre" else None
        place = language.end() if language else place
        shown = ""
        while not self.text.startswith(fence, place):
            if place >= len(self.text):
                _fail(f"Can't find end of {kind} entity at byte offset {began}")
            escaped = self.text[place] == "\\" and place + 1 < len(self.text)
            shown += self.text[place + 1] if escaped else self.text[place]
            place += 2 if escaped else 1
        self.out += shown
        self.place = place + len(fence)
        named = language.group(1) if language else None
        self._add(kind.lower(), start, **({"language": named} if named else {}))

    def _link(self) -> None:
        _, start, began = self._open.pop()
        self.place += 1
        if not self.text.startswith("(", self.place):
            return
        place, url = self.place + 1, ""
        while place < len(self.text) and self.text[place] != ")":
            escaped = self.text[place] == "\\" and place + 1 < len(self.text)
            url += self.text[place + 1] if escaped else self.text[place]
            place += 2 if escaped else 1
        if place >= len(self.text):
            _fail(f"Can't find end of a URL at byte offset {began}")
        self.place = place + 1
        self._add("text_link", start, url=url)

    def quote_line(self) -> None:
        """A ``>`` at the beginning of a line: a quotation begins or goes on."""
        if self._quote is None:
            self._quote = units(self.out)
        self.place += 1 if self.text[self.place] == ">" else 3

    def end_quote_unless_next(self) -> None:
        if self._quote is not None and not self.text.startswith(">", self.place + 1):
            self._add("blockquote", self._quote)
            self._quote = None

    def finish(self) -> None:
        if self._open:
            kind, _, began = self._open[-1]
            _fail(f"Can't find end of {_NAMES[kind]} entity at byte offset {began}")
        if self._quote is not None:
            self._add("blockquote", self._quote)


# -- Markdown, the older one -----------------------------------------------------------------


def parse_markdown(text: str) -> tuple[str, list[Json]]:
    out = ""
    entities: list[Json] = []
    place = 0
    while place < len(text):
        letter = text[place]
        if letter == "\\" and text[place + 1 : place + 2] in ("_", "*", "`", "["):
            out += text[place + 1]
            place += 2
            continue
        if letter not in "_*`[":
            out += letter
            place += 1
            continue
        fence = "```" if text.startswith("```", place) else letter
        end = text.find("]" if letter == "[" else fence, place + len(fence))
        if end < 0:
            at = _bytes_before(text, place)
            _fail(f"Can't find end of the entity starting at byte offset {at}")
        inner, start = text[place + len(fence) : end], units(out)
        place = end + len(fence)
        more: Json = {}
        kind = {"_": "italic", "*": "bold", "`": "code", "```": "pre", "[": "text_link"}[fence]
        if kind == "text_link":
            link = re.compile(r"\(([^)]*)\)").match(text, place)
            place = link.end() if link else place
            more = {"url": link.group(1) if link else ""}
        elif kind == "pre":
            named = re.match(r"([^\s`]+)\n|\n", inner)
            inner = inner[named.end() :] if named else inner
            more = {"language": named.group(1)} if named and named.group(1) else {}
        out += inner
        if more.get("url") != "":
            entities.append({"type": kind, "offset": start, "length": units(inner), **more})
    return out, entities
