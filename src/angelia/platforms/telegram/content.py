"""What a message says, in words that an agent can be given.

What is no text becomes an honest line in brackets, such as ``[a photo]``, so that nothing is
answered as if it had not been there. What a person replied to, or chose to quote, comes first
as a quotation. The bot's own name is taken out where it only addressed the bot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from angelia.platforms.telegram.updates import File, Me, Message, MessageEntity
from angelia.platforms.text import split, utf16_units

_QUOTED_MOST = 600  # UTF-16 code units of a quotation that nobody chose


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that came with a message. ``what``: as it stands in the line; ``size`` in bytes."""

    file_id: str
    what: str
    name: str
    mime: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Content:
    """``text``: what was written, without the bot's name; ``line``: what else there is, or "";
    ``quoted``: what it refers to; ``wanted``: the file that came with it."""

    text: str
    line: str
    quoted: str
    wanted: Wanted | None
    command: bool

    @property
    def empty(self) -> bool:
        return not (self.text.strip() or self.line)

    def worded(self, missing: str = "") -> str:
        """The whole for the agent. ``missing``: why the file is not there."""
        line = f"[{self.line}{', which could not be fetched: ' + missing if missing else ''}]"
        said = "\n\n".join(part for part in (line if self.line else "", self.text.strip("\n")) if part)
        if not self.quoted or self.command:
            return said
        quotation = "\n".join(f"> {row}" for row in self.quoted.split("\n"))
        return f"{quotation}\n\n{said}"


def content_of(message: Message, me: Me) -> Content:
    """What ``message`` says."""
    text = message.text or message.caption
    entities = message.entities if message.text else message.caption_entities
    text, command = _without_own_name(text, entities, me)
    if text == "/start" or text.startswith("/start "):
        text = "/help"  # what Telegram's own button writes for a person who comes first
    wanted = _file(message)
    line = wanted.what if wanted else _other(message)
    return Content(text, line, _quoted(message), wanted, command)


def piece(text: str, entity: MessageEntity) -> str:
    """What an entity lies over; offsets count UTF-16 code units."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")


def _without_own_name(text: str, entities: tuple[MessageEntity, ...], me: Me) -> tuple[str, bool]:
    """``text`` without ``@me`` behind a command or at its beginning; whether it is a command."""
    first = next((one for one in entities if one.offset == 0), None)
    if first is None:
        return text, text.startswith("!")
    written = piece(text, first)
    name = f"@{me.username}".lower()
    if first.type == "bot_command":
        word, at, addressee = written.partition("@")
        own = f"{at}{addressee}".lower() == name
        return (word + text[len(written) :] if own else text), True
    if first.type == "mention" and written.lower() == name:
        rest = text[len(written) :].lstrip(" ,:\n")
        return rest or text, rest.startswith(("/", "!"))
    return text, text.startswith("!")


def _quoted(message: Message) -> str:
    if message.quote is not None and message.quote.text:
        return message.quote.text
    replied = message.reply_to_message
    if replied is None:
        return ""
    file = _file(replied)
    line = file.what if file else _other(replied)
    text = replied.text or replied.caption or (f"[{line}]" if line else "")
    if utf16_units(text) > _QUOTED_MOST:
        text = split(text, _QUOTED_MOST, utf16_units)[0] + " …"
    return text


def _file(message: Message) -> Wanted | None:
    number = message.message_id
    if message.photo:
        largest = message.photo[-1]
        return Wanted(largest.file_id, "a photo", f"photo-{number}.jpg", "image/jpeg", largest.file_size)
    kinds: tuple[tuple[File | None, str, str, str], ...] = (
        (message.voice, "a voice message", f"voice-{number}.ogg", "audio/ogg"),
        (message.video_note, "a video message", f"video-{number}.mp4", "video/mp4"),
        (message.animation, "an animation", f"animation-{number}.mp4", "video/mp4"),
        (message.video, "a video", f"video-{number}.mp4", "video/mp4"),
        (message.audio, "an audio file", f"audio-{number}.mp3", "audio/mpeg"),
        (message.document, "a file", f"file-{number}", "application/octet-stream"),
    )
    for file, what, name, mime in kinds:
        if file is not None:
            shown = file.title or file.file_name
            what += f": {shown}" if shown and what in ("an audio file", "a file") else ""
            what += f" of {file.duration} s" if file.duration and what == "a voice message" else ""
            return Wanted(file.file_id, what, file.file_name or name, file.mime_type or mime, file.file_size)
    return None


def _other(message: Message) -> str:
    """What a message without text and file is; "" for a service message."""
    for name, say in _OTHERS.items():
        value = getattr(message, name)
        if value is not None:
            fields = value if isinstance(value, dict) else {}
            return " ".join(say(fields).split())
    return ""


def _named(what: str, *keys: str) -> Callable[[Mapping[str, Any]], str]:
    def say(fields: Mapping[str, Any]) -> str:
        said = ", ".join(str(fields[key]) for key in keys if fields.get(key) not in (None, ""))
        return f"{what}: {said}" if said else what

    return say


#: In this order: a venue has a location, too.
_OTHERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "sticker": _named("a sticker", "emoji"),
    "venue": _named("a place", "title", "address"),
    "location": _named("a location", "latitude", "longitude"),
    "contact": _named("a contact", "first_name", "last_name", "phone_number"),
    "poll": _named("a poll", "question"),
    "dice": _named("a die", "emoji", "value"),
    "story": _named("a story"),
    "paid_media": _named("paid media"),
    "game": _named("a game", "title"),
    "invoice": _named("an invoice", "title"),
    "checklist": _named("a checklist", "title"),
    "giveaway": _named("a giveaway"),
}
