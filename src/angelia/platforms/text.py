"""How a long text becomes several messages.

A cut is made at the best place that the last half of a full message offers: between
paragraphs, else lines, else sentences, else words, else graphemes. A grapheme is cut only if
it alone is longer than a message, and a code point never. A cut drops nothing but white space
around it, so the parts side by side are the text again, in order.

A code block that has to be cut is closed at the end of the one message and opened again, with
the same fence and info string, in the next; inside it nothing but line ends is dropped. A
block that fits into one message is rather moved there whole. Links, inline code and emphasis
stay whole where a break nearby allows it.

The work is linear in the text: each window of one message is measured and looked at a few
times, nothing is ever looked at from the beginning again (case J4).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import regex  # knows graphemes (\\X), which the standard library does not

from angelia.model.messages import well_formed

_BLANK_LINES = re.compile(r"\n[ \t\r]*\n")
_SENTENCE_END = re.compile(r"(?:(?<![\d\s.!?…])[.!?…]+[\"'”’»)\]*_]*(?=\s))|(?:[。！？]+[」』”’）]*)")
_SPACE = re.compile(r"\s")
_SPACES = re.compile(r"\s*")
_INK = re.compile(r"\S")
_EMPTY_LINES = re.compile(r"(?:[ \t\r]*\n)*")
_FENCE_LINE = re.compile(
    r"^ {0,3}(?:(?P<ticks>`{3,})[^`\n]*|(?P<tildes>~{3,})[^\n]*)$",
    re.MULTILINE,
)
_GRAPHEME = regex.compile(r"\X")
#: What reads badly when it is cut in half. Looked for within one line, near a cut.
_WHOLE = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`)[^`\n]+(?P=ticks)(?!`)"
    r"|!?\[[^\[\]\n]*\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?: \"[^\"\n]*\")?\)"
    r"|<https?://[^<>\s]+>|https?://[^\s<>]+"
    r"|\*\*[^*\n]+\*\*|__[^_\n]+__|~~[^~\n]+~~"
    r"|\\[!-/:-@\[-`{-~]"
)
_PIECE = 64  # code points of which the graphemes are found at a time
_NEAR = 512  # code points on either side of a cut in which _WHOLE is looked for


def utf16_units(text: str) -> int:
    """The length of ``text`` in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8_bytes(text: str) -> int:
    """The length of ``text`` in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def split(text: str, limit: int, measure: Callable[[str], int] = len) -> list[str]:
    """``text`` as messages of at most ``limit``, counted by ``measure``.

    ``measure`` must be such that two texts together never count more than the sum of both.
    A text that is not empty gives at least one part; no part is blank unless the whole text
    is. NUL and lone surrogates become U+FFFD. With a limit below what one code point measures, a
    part is one code point: there is always progress. Raises ``ValueError`` for a limit < 1.
    """
    if limit < 1:
        raise ValueError("a message cannot be shorter than 1")
    text = well_formed(text)
    if not text:
        return []
    if measure(text) <= limit:
        return [text]
    return _Splitter(text, limit, measure).parts()


@dataclass(frozen=True, slots=True)
class _Fence:
    """A code block: where its lines stand, and what reopens and closes it in a new message.

    ``start``: of the opening line; ``inside``: of its first line of code; ``outside``: of the
    closing line; ``stop``: the end of the closing line's ink. Unclosed: both are the text's end.
    """

    start: int
    inside: int
    outside: int
    stop: int
    opening: str
    closing: str


def _fences(text: str, worth: Callable[[_Fence], bool]) -> list[_Fence]:
    """The code blocks of ``text`` in order, as CommonMark sees them outside lists and quotes."""
    found: list[_Fence] = []
    if "```" not in text and "~~~" not in text:
        return found
    opener: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        if opener is None:
            opener = line
        elif _closes(line, opener):
            found.append(_fence(text, opener, line.start(), line.start() + len(line[0].rstrip())))
            opener = None
    if opener is not None:
        found.append(_fence(text, opener, len(text), len(text)))
    return [fence for fence in found if _INK.search(text, fence.inside, fence.outside) and worth(fence)]


def _marks(line: re.Match[str]) -> str:
    return line["ticks"] or line["tildes"]


def _closes(line: re.Match[str], opener: re.Match[str]) -> bool:
    return _marks(line).startswith(_marks(opener)) and line[0].strip() == _marks(line)


def _fence(text: str, opener: re.Match[str], outside: int, stop: int) -> _Fence:
    closing = text[outside:stop] or opener[0][: opener[0].index(_marks(opener)[0])] + _marks(opener)
    inside = min(opener.end() + 1, len(text))
    return _Fence(opener.start(), inside, outside, stop, opener[0].rstrip() + "\n", closing)


def _joined(before: str, after: str) -> bool:
    """Whether no grapheme ends between these two, of which one is a space or a plain mark."""
    if before < "\u0300" and after < "\u0300":
        return before == "\r" and after == "\n"
    found = _GRAPHEME.match(before + after)
    return found is not None and found.end() == 2


def _last_grapheme_end(text: str, at: int, reach: int) -> int:
    """The last end of a grapheme in ``(at, reach]``, where one begins at ``at``; else ``at``.

    Looked for in short pieces: the library counts a run of flags from its beginning for
    every flag in it.
    """
    before, after = text[reach - 1], text[reach]
    if before < "\u0300" and after < "\u0300":
        return reach - 1 if before == "\r" and after == "\n" else reach
    place, size = at, _PIECE
    while True:
        stop = min(len(text), place + size)
        ends = [place + found.end() for found in _GRAPHEME.finditer(text[place:stop])]
        sure = [end for end in (ends if stop == len(text) else ends[:-1]) if end <= reach]
        if sure:
            place, size = sure[-1], _PIECE
        else:
            size *= 2
        if stop > reach:
            return place


@dataclass(frozen=True, slots=True)
class _Cut:
    """One decision: the message ends at ``stop`` and is closed by ``closing``; the next begins
    at ``following``. What stands between the two is white space, or a closing line that
    ``closing`` repeats."""

    stop: int
    following: int
    closing: str = ""


class _Splitter:
    """The text that is being split, and the marks in it that matter."""

    def __init__(self, text: str, limit: int, measure: Callable[[str], int]) -> None:
        self.text = text
        self.limit = limit
        self.measure = measure
        self.fences = _fences(text, self._affordable)
        self._starts = [fence.start for fence in self.fences]

    def parts(self) -> list[str]:
        text, parts, at = self.text, [], 0
        while (ink := _INK.search(text, at)) is not None:
            fence = self._around(at)
            opening = fence.opening if fence else ""
            if self.measure(text[at : ink.start()]) * 2 > self.limit:
                at = ink.start()  # more indentation than a message could show
            cut = self._cut(at, ink.start(), self.limit - self.measure(opening))
            if cut is None:  # nothing but indentation fits before a long grapheme
                at = ink.start()
                continue
            body = text[at : cut.stop]
            if not body.isspace():
                if cut.closing:
                    body = body.rstrip("\r\n") + "\n" + cut.closing
                parts.append(opening + body)
            at = cut.following
        if not parts:  # the whole text is white space
            parts.append(text[: self._reach(0, self.limit)])
        return parts

    def _affordable(self, fence: _Fence) -> bool:
        """Whether its fences leave room for code; else they are treated as plain text."""
        return self.measure(fence.opening) + self.measure("\n" + fence.closing) <= self.limit * 3 // 4

    def _around(self, at: int) -> _Fence | None:
        """The code block whose code ``at`` stands in."""
        fence = self._last_opened(at)
        if fence is None or at < fence.inside:
            return None
        endless = fence.outside == len(self.text)
        return fence if endless or at < fence.outside else None

    def _last_opened(self, at: int) -> _Fence | None:
        index = bisect_right(self._starts, at) - 1
        return self.fences[index] if index >= 0 else None

    def _reach(self, at: int, room: int) -> int:
        """The furthest end with which ``text[at:end]`` measures at most ``room``; at least one
        code point further."""
        text, end, step = self.text, at, max(1, room)
        while step and room > 0 and end < len(text):
            size = self.measure(text[end : end + step])
            if size <= room:
                end = min(len(text), end + step)
                room -= size
                step = min(step, max(1, room)) if size else step
            else:
                step //= 2
        return max(end, at + 1)

    def _cut(self, at: int, ink: int, room: int) -> _Cut | None:
        """Where the message that begins at ``at``, with ``room`` left for its text, ends."""
        text, reserve = self.text, 0
        while True:
            reach = self._reach(at, room - reserve)
            if reach >= len(text):
                place = reach
            else:
                chosen = self._choose(at, ink, reach)
                if chosen is None:
                    return None
                place = chosen
            fence = self._around(place)
            closing = fence.closing if fence else ""
            needed = self.measure("\n" + closing) if closing else 0
            if needed <= reserve:
                break
            reserve = needed
        if fence is None:
            return self._trimmed(at, place) if place < len(text) else _Cut(place, place)
        if _INK.search(text, place, fence.outside) is None:
            return _Cut(place, self._after_empty_lines(fence.stop), closing)
        if text[place] == "\n":
            return _Cut(place, self._after_empty_lines(place + 1), closing)
        return _Cut(place, place, closing)

    def _after_empty_lines(self, at: int) -> int:
        lines = _EMPTY_LINES.match(self.text, at)
        return lines.end() if lines else at

    def _trimmed(self, at: int, place: int) -> _Cut:
        """A cut in plain text: the white space around it goes, a new line's indentation stays."""
        text = self.text
        stop = at + len(text[at:place].rstrip())
        spaces = _SPACES.match(text, place)
        following = spaces.end() if spaces else place
        following = text.rfind("\n", stop, following) + 1 or following
        if stop < following < len(text) and _joined(text[following - 1], text[following]):
            following -= 1
        if stop < following and _joined(text[stop - 1], text[stop]):
            stop += 1
        return _Cut(stop, max(stop, following))

    # -- the choice of a place ----------------------------------------------------------------

    def _choose(self, at: int, ink: int, reach: int) -> int | None:
        """The best place to cut in ``(ink, reach]``; None if none is there without the
        indentation being dropped first."""
        place = self._natural(max(ink + 1, at + (reach - at) // 2), reach)
        if place is None:
            place = self._word(ink, reach)
        if place is None:
            place = self._grapheme(at, ink, reach)
            if place is None:
                return None
        return self._beside_fences(at, ink, reach, place)

    def _natural(self, low: int, reach: int) -> int | None:
        """The last paragraph, line, sentence or word that ends in ``[low, reach]``."""
        text = self.text
        for paragraph in reversed(list(_BLANK_LINES.finditer(text, low, min(len(text), reach + 2)))):
            if paragraph.start() <= reach:
                return paragraph.start()
        line = text.rfind("\n", low, reach + 1)
        if line >= 0:
            return line
        for end in reversed([found.end() for found in _SENTENCE_END.finditer(text, low, reach + 1)]):
            if low <= end <= reach and not self._around(end) and not _joined(text[end - 1], text[end]):
                return self._whole(low, end)
        return None

    def _word(self, ink: int, reach: int) -> int | None:
        """The last space, unless the word after it would have to be cut anyway."""
        text = self.text
        place = None
        for found in _SPACE.finditer(text, max(ink + 1, reach - (reach - ink) // 4), reach + 1):
            place = found.start()
        if place is None:
            for found in _SPACE.finditer(text, ink + 1, reach + 1):
                place = found.start()
            if place is None or not _SPACE.search(text, place + 1, place + 1 + max(reach - ink, 1)):
                return None
        if _joined(text[place - 1], text[place]):
            return None
        return place if self._around(place) else self._whole(ink + 1 + (place - ink) // 4, place)

    def _grapheme(self, at: int, ink: int, reach: int) -> int | None:
        """The last end of a grapheme; ``reach`` itself inside one that is longer than a message."""
        place = _last_grapheme_end(self.text, at, reach)
        if place > ink:
            return place if self._around(place) else self._whole(ink + 1 + (place - ink) // 2, place)
        return None if ink > at and self._around(at) is None else reach

    def _whole(self, low: int, place: int) -> int:
        """``place``, or the beginning of what it would cut in half, if that is not before ``low``."""
        text = self.text
        begin = max(low, place - _NEAR, text.rfind("\n", low, place) + 1)
        for found in _WHOLE.finditer(text, begin, min(len(text), place + _NEAR)):
            if found.start() >= place:
                break
            if found.end() > place and found.start() > begin:
                start = found.start()
                return place if _joined(text[start - 1], text[start]) else start
        return place

    def _beside_fences(self, at: int, ink: int, reach: int, place: int) -> int:
        """``place``, moved out of the lines of fences and out of a block that fits in one message."""
        text, fence = self.text, self._last_opened(place)
        if fence is None:
            return place
        if place < fence.outside and fence.start > ink:
            first_code = _INK.search(text, fence.inside, fence.outside)
            whole = fence.stop - fence.start <= self.limit and (
                self.measure(text[fence.start : fence.stop]) <= self.limit
            )
            if first_code is None or place <= first_code.start():
                return fence.start
            if whole and (fence.start - at) * 3 >= reach - at:
                return fence.start
        elif place < fence.inside:
            return self._grapheme(at, ink, reach) or reach
        elif fence.outside < place < fence.stop and fence.outside - 1 > ink:
            return fence.outside - 1
        return place
