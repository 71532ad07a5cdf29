"""How an agent's Markdown becomes several messages that are each whole.

``platforms.text`` finds the places and keeps code blocks whole. What it cannot avoid to cut,
such as emphasis over more than a message, is mended here: the marks that are open at a cut
are closed at the end of the one piece and opened again in the next; a quotation goes on as
one. Which marks are open is asked of the parser itself, by a sign put where the cut is.

Pieces are measured by their source, in UTF-16 code units. Rendered they are no longer, and
the same piece fits as plain text, too, if Telegram should refuse its markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it.token import Token

from angelia.model.messages import well_formed
from angelia.platforms.telegram.markdown import parser
from angelia.platforms.text import split, utf16_units

_ROOM = 48  # for marks that are closed and opened again, and for quotation signs
_PARSED_MOST = 60_000  # characters given to the parser for one text; beyond, cuts stay as they are
_MARKS = re.compile(r"[*_~`\[>]")
_BLANK_LINE = re.compile(r"\n[ \t\r>]*\n")
_QUOTED = re.compile(r"[ \t]{0,3}(?:>[ \t]?)*")
_SIGNS = ("\ue0f1", "\ue0f2", "\ue0f3")  # private use: neither space nor punctuation
_PARSER = parser()


def split_markdown(text: str, limit: int) -> list[str]:
    """``text`` as pieces of at most ``limit`` UTF-16 code units of source, none blank."""
    text = well_formed(text)
    if utf16_units(text) <= limit or limit < 4 * _ROOM:
        return split(text, limit, utf16_units)
    pieces = split(text, limit - _ROOM, utf16_units)
    sign = next((one for one in _SIGNS if one not in text), None)
    return pieces if sign is None else _mended(text, pieces, limit, sign)


@dataclass(frozen=True, slots=True)
class _Open:
    """What is open at a cut, from the outside in: what closes and what opens each mark again."""

    marks: tuple[tuple[str, str], ...] = ()
    quotes: int = 0


def _mended(text: str, pieces: Sequence[str], limit: int, sign: str) -> list[str]:
    mended = list(pieces)
    spans = _spans(text, pieces)
    left = _PARSED_MOST
    for index in range(len(spans) - 1):
        (_, end), (begin, _) = spans[index], spans[index + 1]
        gap = text[end:begin]
        if "`" in gap or "~" in gap or _BLANK_LINE.search(gap):
            continue  # between paragraphs, or beside a code block
        before, after = _paragraph(mended[index], text, begin)
        left -= len(before) + len(after)
        if left < 0 or not _MARKS.search(before):
            continue
        open_here = _at_cut(before, gap, after, sign)
        ended, going_on = _sewn(mended[index], mended[index + 1], open_here, "\n" in gap)
        if ended.strip() and max(utf16_units(ended), utf16_units(going_on)) <= limit:
            mended[index], mended[index + 1] = ended, going_on
    return mended


def _sewn(piece: str, follower: str, open_here: _Open, new_line: bool) -> tuple[str, str]:
    """Both pieces with their marks closed and opened again. A span of which nothing stands on
    one side of the cut gets no marks there: empty, they would show."""
    quoted = _QUOTED.match(follower)
    signs = quoted[0] if quoted and (new_line or not open_here.quotes) else ""
    rest = follower[len(signs) :]
    signs = signs or "> " * open_here.quotes
    marks = list(open_here.marks)
    again = "".join(opening for _, opening in marks)
    while marks and piece.endswith(marks[-1][1]):
        piece = piece[: -len(marks.pop()[1])].rstrip()
    closing = "".join(close for close, _ in reversed(marks))
    inner = list(open_here.marks)
    while inner and rest.startswith(inner[-1][0]):
        close, opening = inner.pop()
        rest, again = rest[len(close) :].lstrip(" "), again[: -len(opening)]
    return piece + closing, signs + again + rest


def _spans(text: str, pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Where each piece stands in ``text``, without what closes and reopens code blocks; the
    list ends where a piece is not found."""
    spans: list[tuple[int, int]] = []
    at = 0
    for piece in pieces:
        first, last = piece.find("\n") + 1, piece.rfind("\n")
        bodies = (piece, piece[:last], piece[first:], piece[first:last])
        for body in bodies:
            ink = body.strip()
            start = _skipped(text, at)
            if ink and text.startswith(ink, start):
                at = start + len(ink)
                spans.append((start, at))
                break
            start = _skipped(text, _line_after(text, at))  # a closing fence that the piece repeats
            if ink and spans and text.startswith(ink, start):
                at = start + len(ink)
                spans.append((start, at))
                break
        else:
            return spans
    return spans


def _skipped(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _line_after(text: str, at: int) -> int:
    start = _skipped(text, at)
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _paragraph(piece: str, text: str, begin: int) -> tuple[str, str]:
    """The paragraph that is cut: its end in ``piece``, its rest from ``begin`` in ``text``."""
    starts = [found.end() for found in _BLANK_LINE.finditer(piece)]
    blank = _BLANK_LINE.search(text, begin, begin + _PARSED_MOST)
    return piece[starts[-1] if starts else 0 :], text[
        begin : blank.start() if blank else begin + _PARSED_MOST
    ]


def _at_cut(before: str, gap: str, after: str, sign: str) -> _Open:
    """What the parser says is open where ``gap`` stands between ``before`` and ``after``."""
    try:
        tokens = _PARSER.parse(before + (f" {sign}" if gap else sign) + gap + after)
    except Exception:  # nested beyond the parser's reach: the cut stays as it is
        return _Open()
    quotes = 0
    for token in tokens:
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "inline" and sign in token.content:
            return _open_marks(token.children or [], sign, quotes)
    return _Open()


def _open_marks(tokens: Sequence[Token], sign: str, quotes: int) -> _Open:
    stack: list[tuple[str, str]] = []
    for token in tokens:
        if sign in token.content:
            if token.type == "code_inline":
                stack.append((token.markup, token.markup))
            break
        if token.nesting > 0:
            address = str(token.attrs.get("href", ""))
            link = token.type == "link_open"
            stack.append((f"](<{address}>)" if link else token.markup, "[" if link else token.markup))
        elif token.nesting < 0 and stack:
            stack.pop()
    return _Open(tuple(stack), quotes)
