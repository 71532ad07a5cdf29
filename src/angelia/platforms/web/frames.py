"""What a page may say, read with suspicion. What the gateway says is built where it is said."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

frame_bytes_max = 4 * 1024 * 1024  # a message of text_characters_max fits, however it is encoded in UTF-8
chats_watched_max = 1000

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_NAME_RULE = "must be 1 to 64 letters, digits, - or _"


class NotAFrameError(ValueError):
    """This is no JSON object. Whoever is at the other end, it is not our page: the socket is closed."""


class BadFrameError(ValueError):
    """A frame that cannot be used; the text says why. The socket stays open."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a page: its type and its raw fields."""

    type: str
    fields: dict[str, Any]

    def name(self, field: str) -> str:
        """A chat id or a client id. Raises ``BadFrameError``."""
        value = self.fields.get(field)
        if not is_name(value):
            raise BadFrameError(f"{field} {_NAME_RULE}")
        return str(value)

    def text(self, field: str) -> str:
        """Raises ``BadFrameError``."""
        value = self.fields.get(field)
        if not isinstance(value, str):
            raise BadFrameError(f"{field} must be a text")
        return value

    def names(self, field: str) -> list[str]:
        """Several chat ids. Raises ``BadFrameError``."""
        value = self.fields.get(field)
        if not isinstance(value, list) or len(value) > chats_watched_max or not all(map(is_name, value)):
            raise BadFrameError(f"{field} must be at most {chats_watched_max} names, each {_NAME_RULE}")
        return [str(name) for name in value]

    def count(self, field: str, default: int, most: int) -> int:
        """A number from 1, cut to ``most``. Raises ``BadFrameError``."""
        value = self.fields.get(field, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadFrameError(f"{field} must be a whole number from 1")
        return min(value, most)


def is_name(value: object) -> bool:
    """Whether ``value`` may be a chat id or a client id."""
    return isinstance(value, str) and _NAME.match(value) is not None


def read(raw: str) -> Frame:
    """Raises ``NotAFrameError``."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise NotAFrameError("not JSON") from None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise NotAFrameError("not a JSON object with a type")
    return Frame(value["type"], value)
