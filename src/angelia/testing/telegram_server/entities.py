"""Texts and their entities, measured as Telegram measures them: in UTF-16 code units.

``given`` checks entities that a caller handed in, ``found_in`` finds the ones that Telegram adds
by itself (commands, mentions, hashtags, links), ``cleaned`` cuts the blank ends off a text and
moves its entities along. Source of the refusals' words: td MessageEntity.cpp.
"""

from __future__ import annotations

import bisect
import re
from typing import Any

from angelia.testing.telegram_server.answers import Json, bad_request

#: What ``type`` an entity may have in a call; others are ignored there.
_KINDS_IN_WORDS = (
    "mention hashtag cashtag bot_command url email phone_number bold italic underline strikethrough "
    "spoiler blockquote expandable_blockquote code pre text_link text_mention custom_emoji"
)
KINDS = frozenset(_KINDS_IN_WORDS.split())
#: Inside these Telegram finds nothing by itself.
_OPAQUE = ("code", "pre", "text_link", "url")
_FOUND = re.compile(
    r"(?P<url>\bhttps?://[^\s<>\"]+[^\s<>\".,;:!?)\]])"
    r"|(?<![\w/])(?P<bot_command>/[A-Za-z0-9_]{1,64}(?:@[A-Za-z]\w{2,31})?)\b"
    r"|(?<![\w@])(?P<mention>@[A-Za-z]\w{2,31})\b"
    r"|(?<![\w#])(?P<hashtag>#\w*[^\W\d]\w*)"
)
#: Letters that take room and show nothing: a text of these alone is empty for Telegram.
_BLANK = re.compile(r"[\s\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff\u00ad\u180e\u3164]*")


def units(text: str) -> int:
    """The length of ``text`` in UTF-16 code units."""
    return len(text) + sum(letter > "\uffff" for letter in text)


def blank(text: str) -> bool:
    """Whether ``text`` shows nothing at all."""
    return _BLANK.fullmatch(text) is not None


def found_in(text: str, among: list[Json]) -> list[Json]:
    """``among`` and the entities that Telegram finds by itself, by offset."""
    taken = [(entity["offset"], entity["offset"] + entity["length"]) for entity in among if _opaque(entity)]
    entities = list(among)
    for match in _FOUND.finditer(text):
        offset, length = units(text[: match.start()]), units(match.group())
        if not any(start < offset + length and offset < end for start, end in taken):
            entities.append({"type": match.lastgroup, "offset": offset, "length": length})
    return sorted(entities, key=lambda entity: (entity["offset"], -entity["length"]))


def _opaque(entity: Json) -> bool:
    return entity["type"] in _OPAQUE


def given(text: str, listed: Any) -> list[Json]:
    """The entities of a call, checked against ``text``.

    Raises a refusal for a list that is none, and for bounds outside the text or inside a letter."""
    if not isinstance(listed, list):
        raise bad_request("can't parse entities JSON object")
    borders = _borders(text)
    checked: list[Json] = []
    for entry in listed:
        entity = _one(entry)
        if entity is None:
            continue
        start, end = entity["offset"], entity["offset"] + entity["length"]
        for verb, place in (("begins", start), ("ends", end)):
            if place > borders[-1]:
                raise bad_request(f"entity {verb} after the end of the text at UTF-16 offset {place}")
            if borders[bisect.bisect_left(borders, place)] != place:
                raise bad_request(f"entity {verb} in a middle of a UTF-16 symbol at UTF-16 offset {place}")
        checked.append(entity)
    return checked


def _borders(text: str) -> list[int]:
    borders = [0]
    for letter in text:
        borders.append(borders[-1] + (2 if letter > "\uffff" else 1))
    return borders


def _one(entry: Any) -> Json | None:
    """One entity; ``None`` for one that is ignored."""
    if not isinstance(entry, dict):
        raise bad_request("can't parse MessageEntity: expected an Object")
    kind, offset, length = entry.get("type"), entry.get("offset"), entry.get("length")
    if not isinstance(kind, str):
        raise bad_request('can\'t parse MessageEntity: field "type" must be of type String')
    for name, value in (("offset", offset), ("length", length)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise bad_request(f'can\'t parse MessageEntity: field "{name}" must be of type Number')
    assert isinstance(offset, int)
    assert isinstance(length, int)
    if kind not in KINDS or length <= 0 or offset < 0:
        return None
    kept = {name: entry[name] for name in ("url", "language", "user", "custom_emoji_id") if name in entry}
    return {"type": kind, "offset": offset, "length": length, **kept}


def cleaned(text: str, entities: list[Json]) -> tuple[str, list[Json]]:
    """``text`` without blanks at its ends (not those an entity at the beginning covers), and
    ``entities`` moved along; one that is left with nothing is dropped."""
    text = text.replace("\r", "")
    lead = len(text) - len(text.lstrip())
    first = min((entity["offset"] for entity in entities), default=lead)
    cut = min(lead, first)  # blanks are one unit each, so units and letters agree here
    kept = text[cut:].rstrip()
    end = units(kept)
    moved = []
    for entity in entities:
        start = entity["offset"] - cut
        length = min(entity["length"], end - start)
        if length > 0:
            moved.append({**entity, "offset": start, "length": length})
    return kept, moved
