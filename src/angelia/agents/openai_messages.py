"""What a model is told: the conversation so far, within its budget, and the question with its files.

**The budget.** Tokens are estimated, not counted, because every model counts otherwise: one for
every three bytes of UTF-8, and four for each message. That is about a third too many for English
and about right for Chinese; too many is the harmless side. History is cut from its oldest line on,
and what is left does not begin with an answer. The question itself and the system prompt are never
cut, so this cannot fail.

**What was heard.** The words of a voice message stand, as the gateway understood them, in the first
line of its answer: so they are on record, and the person sees them. Here they are put back into the
person's mouth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from angelia.model import notices
from angelia.model.messages import HistoryEntry, well_formed

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionContentPartParam, ChatCompletionMessageParam

_BYTES_PER_TOKEN = 3
_TOKENS_PER_MESSAGE = 4
#: Stands for what a person sent without a word, so that both go on taking turns.
_WORDLESS = "[A file without a text.]"
_BEFORE_WORDS, _AFTER_WORDS = notices.HEARD.split("{words}")
_HEARD = re.compile(rf"{re.escape(_BEFORE_WORDS)}([^\n]+){re.escape(_AFTER_WORDS)}(?:\n\n|$)")


def tokens_in(text: str) -> int:
    """An estimate of what a message of this text costs, in tokens."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN) + _TOKENS_PER_MESSAGE


def heard_line(words: str) -> str:
    """The line that says what was understood."""
    return notices.HEARD.format(words=" ".join(words.split()))


def told(history: Sequence[HistoryEntry], most: int, tokens: int) -> list[ChatCompletionMessageParam]:
    """The newest lines of a conversation, oldest first: at most ``most`` of them, and as many as
    fit into ``tokens``."""
    lines = _lines(history[-most:] if most else ())
    begin, room = len(lines), tokens
    while begin and tokens_in(lines[begin - 1][1]) <= room:
        begin -= 1
        room -= tokens_in(lines[begin][1])
    if begin:  # something was cut
        while begin < len(lines) and lines[begin][0] == "assistant":
            begin += 1
    return [_message(role, text) for role, text in lines[begin:]]


def asked(text: str, pictures: Sequence[str]) -> ChatCompletionMessageParam:
    """The question. ``pictures`` are addresses of the kind ``data:``."""
    if not pictures:
        return {"role": "user", "content": text}
    parts: list[ChatCompletionContentPartParam] = [{"type": "text", "text": text}] if text.strip() else []
    parts.extend({"type": "image_url", "image_url": {"url": picture}} for picture in pictures)
    return {"role": "user", "content": parts}


def _lines(history: Sequence[HistoryEntry]) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for entry in history:
        text = well_formed(entry.text)
        if entry.role != "assistant":
            lines.append(("user", text if text.strip() else _WORDLESS))
            continue
        heard = _HEARD.match(text)
        if heard and lines and lines[-1][0] == "user":
            said = lines[-1][1]
            lines[-1] = ("user", heard[1] if said == _WORDLESS else f"{said}\n{heard[1]}")
            text = text[heard.end() :]
        if text.strip():
            lines.append(("assistant", text))
    return lines


def _message(role: str, text: str) -> ChatCompletionMessageParam:
    if role == "assistant":
        return {"role": "assistant", "content": text}
    return {"role": "user", "content": text}
