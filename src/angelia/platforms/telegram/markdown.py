"""Markdown as Telegram shows it: a plain text and the entities that lie over it.

Agents write CommonMark. Telegram's own markup languages need escapes and refuse a text whose
marks do not match; entities need neither, so what an agent wrote can always be sent. The
parser is markdown-it-py, the renderer is this file.

Two things hold of every text: nothing that a person could read is left out (reference
definitions and HTML are shown as they stand), and the rendering is, in UTF-16 code units, no
longer than the source. So a source that fits fits rendered, and fits as plain text, too, if
Telegram refuses the markup. Should one of them fail, ``render`` gives the source as it is.

Offsets and lengths count UTF-16 code units (Bot API documentation, MessageEntity). Entities
nest properly: ``code`` and ``pre`` contain nothing and lie in nothing but a quotation, and a
quotation lies in no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from angelia.platforms.text import utf16_units

Entity = dict[str, Any]
_LINKED = ("http://", "https://", "tg://", "mailto:")
_STYLES = {"strong": "bold", "em": "italic", "s": "strikethrough"}


def parser() -> MarkdownIt:
    """CommonMark with tables and strikethrough; without what would make text disappear."""
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 1000})
    made.enable(["table", "strikethrough"])
    return made.disable(["reference", "html_block", "html_inline"])


_PARSER = parser()


@dataclass(frozen=True, slots=True)
class Rendered:
    """``text`` and what lies over it, ready for ``entities`` of a call."""

    text: str
    entities: tuple[Entity, ...] = ()


def render(source: str) -> Rendered:
    """``source`` as text and entities. Never raises; never longer than ``source``."""
    try:
        tokens = _PARSER.parse(source)
        page = _Page(source.replace("\r\n", "\n").replace("\r", "\n").split("\n"))  # as the parser does
        page.blocks(tokens)
        rendered = page.finished()
    except Exception:  # a text nested beyond the parser's reach is sent as it is
        return Rendered(source)
    if not rendered.text.strip() or utf16_units(rendered.text) > utf16_units(source):
        return Rendered(source)
    return rendered


class _Page:
    """What is written so far. ``units`` is the length of the text in UTF-16 code units."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._pieces: list[str] = []
        self._units = 0
        self._entities: list[Entity] = []
        #: Inline styles that are open, with where the present stretch of each began.
        self._styles: list[tuple[str, int, str]] = []
        self._quotes: list[int] = []
        #: For each open list: the number, or the bullet, of its items.
        self._lists: list[str] = []
        #: Markers of items that have begun and show nothing yet.
        self._markers: list[str] = []

    # -- writing ------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._units += utf16_units(text)

    def lay(self, kind: str, start: int, **more: str) -> None:
        """An entity from ``start`` to here."""
        if self._units > start:
            self._entities.append({"type": kind, "offset": start, "length": self._units - start, **more})

    def finished(self) -> Rendered:
        order = {"blockquote": 0, "bold": 1, "italic": 2, "strikethrough": 3, "text_link": 4}
        self._entities.sort(key=lambda e: (e["offset"], -e["length"], order.get(e["type"], 5)))
        return Rendered("".join(self._pieces), tuple(self._entities))

    # -- blocks -------------------------------------------------------------------------------

    def blocks(self, tokens: Sequence[Token]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.type == "table_open":
                at = _closing(tokens, at)
                self._source(token, "pre")
            else:
                self._block(token, tokens[at - 1] if at else token)
            at += 1

    def _block(self, token: Token, before: Token) -> None:
        kind = token.type
        if kind == "inline":
            self._begin(before)
            start = self._units
            self.inline(token.children or [])
            if before.type == "heading_open":
                self._heading(start)
        elif kind in ("fence", "code_block"):
            self._code(token)
        elif kind == "hr":
            self._begin(token)
            self.write("———")
        elif kind == "blockquote_open":
            self._quotes.append(-1)  # begins with the first thing that it shows
        elif kind == "blockquote_close":
            start = self._quotes.pop()
            if not self._quotes and start >= 0:
                self.lay("blockquote", start)
        elif kind in ("bullet_list_open", "ordered_list_open"):
            self._lists.append("")
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self._lists.pop()
        elif kind == "list_item_open":
            self._markers.append(f"{token.info}{token.markup} " if token.info else "• ")
        elif kind == "list_item_close" and self._markers:
            self._markers[-1] = self._markers[-1].rstrip()
            self._begin(token)  # an item without content is an item all the same

    def _begin(self, token: Token) -> None:
        """Get to the beginning of a block that shows something: lines, indentation, markers."""
        if self._units:
            first = token.map[0] if token.map else 0
            gap = 0 < first <= len(self._lines) and not self._lines[first - 1].strip(" \t>")
            self.write("\n\n" if gap else "\n")
        depth = len(self._lists)
        outer = max(0, depth - len(self._markers)) if self._markers else depth
        for index, start in enumerate(self._quotes):
            if start < 0:
                self._quotes[index] = self._units
        if token.map and self._indented(token.map[0], 2 * outer):
            self.write("  " * outer)
        self.write("".join(self._markers))
        self._markers.clear()

    def _indented(self, line: int, columns: int) -> bool:
        """Whether a line of the source has at least that much white space in front."""
        text = self._lines[line].lstrip(">") if line < len(self._lines) else ""
        return len(text) - len(text.lstrip(" ")) >= columns

    def _heading(self, start: int) -> None:
        """A heading is bold, save where it is code or bold already."""
        taken = sorted(
            (e["offset"], e["offset"] + e["length"])
            for e in self._entities
            if e["offset"] >= start and e["type"] in ("code", "bold")
        )
        end = self._units
        for left, right in [*taken, (end, end)]:
            if left > start:
                self._entities.append({"type": "bold", "offset": start, "length": left - start})
            start = max(start, right)

    def _code(self, token: Token) -> None:
        code = token.content.rstrip("\n")
        if not code.strip():
            self._source(token, "")
            return
        self._begin(token)
        start = self._units
        self.write(code)
        words = token.info.split()
        self.lay("pre", start, **({"language": words[0]} if words else {}))

    def _source(self, token: Token, kind: str) -> None:
        """A block as it stands in the source: a table keeps its columns so."""
        first, last = token.map or (0, 0)
        lines = [line.strip() if kind else line.rstrip() for line in self._lines[first:last]]
        self._begin(token)
        start = self._units
        self.write("\n".join(lines).rstrip())
        if kind:
            self.lay(kind, start)

    # -- lines --------------------------------------------------------------------------------

    def inline(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            name = token.type.removesuffix("_open").removesuffix("_close")
            if token.type in ("text", "text_special"):
                self.write(token.content)
            elif token.type in ("softbreak", "hardbreak"):
                self.write("\n")
            elif token.type == "code_inline":
                self._code_inline(token.content)
            elif token.type == "image":
                address = str(token.attrs.get("src", ""))
                start = self._units
                self.write(token.content or address)
                self._link(address, start)
            elif token.type == "link_open":
                self._styles.append(("text_link", self._units, str(token.attrs.get("href", ""))))
            elif token.nesting > 0 and name in _STYLES:
                self._styles.append((_STYLES[name], self._units, ""))
            elif token.nesting < 0 and self._styles:
                self._close()
            else:
                self.write(token.content)
        self._styles.clear()

    def _close(self) -> None:
        kind, start, address = self._styles.pop()
        if kind == "text_link":
            if self._units == start:
                self.write(address)  # a link that shows nothing shows where it leads
            self._link(address, start)
        elif not any(kind == open_kind for open_kind, _, _ in self._styles):
            self.lay(kind, start)

    def _link(self, address: str, start: int) -> None:
        inside = any(kind == "text_link" for kind, _, _ in self._styles)
        if address.lower().startswith(_LINKED) and not inside:
            self.lay("text_link", start, url=address)

    def _code_inline(self, code: str) -> None:
        """Code lies in no style: the styles end before it and go on after it."""
        if any(kind == "text_link" for kind, _, _ in self._styles):
            self.write(code)
            return
        begun: set[str] = set()
        for kind, start, _ in self._styles:
            if kind not in begun:
                self.lay(kind, start)
            begun.add(kind)
        start = self._units
        self.write(code)
        self.lay("code", start)
        self._styles = [(kind, self._units, address) for kind, _, address in self._styles]


def _closing(tokens: Sequence[Token], at: int) -> int:
    """Where the block that ``tokens[at]`` opens is closed."""
    level = tokens[at].level
    for index in range(at + 1, len(tokens)):
        if tokens[index].level == level and tokens[index].nesting < 0:
            return index
    return len(tokens) - 1
