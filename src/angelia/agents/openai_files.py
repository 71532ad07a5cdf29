"""What a model gets of the files that came with a question.

A picture goes along as it is, if the model can see (``vision: true``); what a picture is, its
content says and not its name. A voice message becomes words. Whatever cannot be taken becomes a
line in square brackets for the model, which then can say so; nothing fails for a file.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from angelia.agents.base import Question, ReceivedFile
from angelia.agents.openai_hearing import Hearing, NotHeardError
from angelia.model.media import Attachment, MediaKind

log = structlog.get_logger("angelia")

picture_bytes_max = 8 * 1024 * 1024
pictures_max = 8  # of one question
pictures_bytes_max = 20 * 1024 * 1024  # all of them together

_UNSEEN = "[The person sent a picture, {name}, which you cannot see. Tell them so.]"
_NOT_SHOWN = (
    "[The person sent a picture, {name}, which is too large or broken to be shown to you. Tell them so.]"
)
_UNHEARD = "[The person sent a sound or a voice message, {name}, which you cannot hear. Tell them so.]"
_NOT_UNDERSTOOD = "[The person sent a voice message, {name}, but it could not be understood. Tell them so.]"
_UNOPENED = "[The person sent a file, {name} ({mime}, {size} bytes), which you cannot open. Tell them so.]"


@dataclass(slots=True)
class Taken:
    """``pictures``: addresses of the kind ``data:``. ``words``: what was said, a voice message each.
    ``lines``: what is to be said of the rest. ``deaf``: voice came that cannot be heard at all;
    ``unclear``: voice came that was not understood. ``silent``: voice is all that came."""

    pictures: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    deaf: bool = False
    unclear: bool = False
    silent: bool = True


async def taken(question: Question, vision: bool, hearing: Hearing | None) -> Taken:
    """Look at the files of a question, one after the other, in their order."""
    result = Taken()
    room = pictures_bytes_max
    for file in question.files:
        about = file.attachment
        if is_sound(about):
            await _listen(file, question.attempt, hearing, result)
            continue
        result.silent = False
        if not is_picture(about):
            result.lines.append(_UNOPENED.format(name=about.name, mime=about.mime, size=about.size))
        elif not vision:
            result.lines.append(_UNSEEN.format(name=about.name))
        else:
            fits = about.size <= min(room, picture_bytes_max) and len(result.pictures) < pictures_max
            picture = await asyncio.to_thread(picture_of, file) if fits else ""
            if picture:
                room -= about.size
                result.pictures.append(picture)
            else:
                result.lines.append(_NOT_SHOWN.format(name=about.name))
    return result


async def _listen(file: ReceivedFile, attempt: int, hearing: Hearing | None, result: Taken) -> None:
    if hearing is None:
        result.deaf = True
        result.lines.append(_UNHEARD.format(name=file.attachment.name))
        return
    try:
        result.words.append(await hearing.words(file, attempt))
    except NotHeardError as error:
        log.warning("a voice message was not understood", action="voice.not_heard", error=str(error))
        result.unclear = True
        result.lines.append(_NOT_UNDERSTOOD.format(name=file.attachment.name))


def is_sound(attachment: Attachment) -> bool:
    return attachment.kind in (MediaKind.VOICE, MediaKind.AUDIO) or attachment.mime.startswith("audio/")


def is_picture(attachment: Attachment) -> bool:
    return attachment.kind is MediaKind.IMAGE or attachment.mime.startswith("image/")


def picture_of(file: ReceivedFile) -> str:
    """A picture as an address of the kind ``data:``; ``""`` if it is none that models take."""
    try:
        data = file.path.read_bytes()
    except OSError:
        return ""
    mime = _picture_type(data)
    return f"data:{mime};base64,{base64.b64encode(data).decode()}" if mime else ""


def _picture_type(data: bytes) -> str:
    beginnings: Sequence[tuple[bytes, str]] = (
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
    )
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for beginning, mime in beginnings if data.startswith(beginning)), "")
