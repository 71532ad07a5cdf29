"""One message for the wire: which method, which fields, which file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from angelia.model.media import Attachment, MediaKind
from angelia.model.messages import Outgoing, TextFormat, well_formed
from angelia.model.outcomes import BadContent, ContentFault, ThreadGone
from angelia.platforms.telegram.api import Upload
from angelia.platforms.telegram.markdown import Rendered, render
from angelia.platforms.telegram.pictures import photo_fits
from angelia.platforms.text import utf16_units

text_limit = 4096  # after entities parsing (Bot API documentation); counted as the strictest reading
caption_limit = 1024
media_bytes_max = 50 * 1000 * 1000  # of an upload

_VOICE = ("audio/ogg", "audio/opus")
_AUDIO = ("audio/mpeg", "audio/mp4", "audio/x-m4a", "audio/m4a")
_GENERAL = "1"  # the id of the topic General, under which nothing may be sent


@dataclass(frozen=True, slots=True)
class Call:
    """``method`` with ``fields`` and, if any, ``upload``."""

    method: str
    fields: dict[str, Any] = field(default_factory=dict)
    upload: Upload | None = None


def call_for(message: Outgoing, path: Path | None) -> Call | BadContent | ThreadGone:
    """How ``message`` goes out; ``path`` is where its file lies. Reads the file."""
    fields: dict[str, Any] = {"chat_id": chat_id(message.chat)}
    where = place(message.thread)
    if where is None:
        return ThreadGone(detail="this is no topic of Telegram")
    fields.update(where)
    if message.reply_to.isdecimal():
        # A message that is gone by now costs the anchor and not the answer.
        fields["reply_parameters"] = {
            "message_id": int(message.reply_to),
            "allow_sending_without_reply": True,
        }
    if message.attachment is not None and path is not None:
        return _media(message, message.attachment, path, fields)
    shown = _rendered(message, text_limit)
    if not shown.text.strip():
        return BadContent(ContentFault.MARKUP, "there is nothing to show")
    fields["text"] = shown.text
    if shown.entities:
        fields["entities"] = list(shown.entities)
    # A preview fetches an address that a model wrote: what is in it would leave for anywhere.
    fields["link_preview_options"] = {"is_disabled": True}
    return Call("sendMessage", fields)


def place(thread: str) -> dict[str, Any] | None:
    """The fields that name a topic; None if ``thread`` names none."""
    if thread in ("", _GENERAL):
        return {}
    kind, colon, number = thread.partition(":")
    if colon and kind == "direct" and number.isdecimal():
        return {"direct_messages_topic_id": int(number)}
    return {"message_thread_id": int(thread)} if thread.isdecimal() else None


def chat_id(chat: str) -> int | str:
    """A number where it is one: names such as ``@channel`` are taken, too."""
    return int(chat) if chat.removeprefix("-").isdecimal() else chat


def _rendered(message: Outgoing, limit: int) -> Rendered:
    text = well_formed(message.text)
    if message.format is TextFormat.PLAIN:
        return Rendered(text)
    shown = render(text)
    return shown if utf16_units(shown.text) <= limit else Rendered(text)


def _media(
    message: Outgoing, attachment: Attachment, path: Path, fields: dict[str, Any]
) -> Call | BadContent:
    try:
        data = path.read_bytes()
    except OSError as error:
        return BadContent(ContentFault.MEDIA, f"the file cannot be read ({error.strerror})")
    if not data:
        return BadContent(ContentFault.MEDIA, "the file is empty")
    if len(data) > media_bytes_max:
        return BadContent(ContentFault.MEDIA, "the file is larger than a bot may send")
    shown = _rendered(message, caption_limit)
    if shown.text.strip():
        fields["caption"] = shown.text
        if shown.entities:
            fields["caption_entities"] = list(shown.entities)
    name = _field_for(attachment, data)
    if name == "document":
        fields["disable_content_type_detection"] = True  # a file stays a file
    if name == "video":
        fields["supports_streaming"] = True
    mime = attachment.mime.partition(";")[0].strip() or "application/octet-stream"
    method = "send" + name.capitalize()
    return Call(method, fields, Upload(name, attachment.name, mime, data))


def _field_for(attachment: Attachment, data: bytes) -> str:
    """How Telegram shows it; what it would refuse to show so goes as a document."""
    mime = attachment.mime.partition(";")[0].strip().lower()
    if attachment.kind is MediaKind.IMAGE and photo_fits(data):
        return "photo"
    if attachment.kind is MediaKind.VOICE and mime in _VOICE:
        return "voice"
    if attachment.kind in (MediaKind.AUDIO, MediaKind.VOICE) and mime in _AUDIO:
        return "audio"
    return "video" if attachment.kind is MediaKind.VIDEO and mime == "video/mp4" else "document"
