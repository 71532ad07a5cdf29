"""Files that belong to a message, as plain values.

The bytes lie in the home's spool under a name made of their own content, written and synced
before anything on record names them. A value of this module is what the record keeps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath


class MediaKind(StrEnum):
    """How a platform shows a file, where it can; what it cannot show so goes as a file."""

    IMAGE = "image"
    VOICE = "voice"
    AUDIO = "audio"
    VIDEO = "video"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A spooled file. ``file``: its name in the spool (the content's SHA-256 in hexadecimal).

    ``name``: what a person sees as its name. ``mime``: its media type. ``size`` in bytes.
    """

    file: str
    kind: MediaKind
    name: str
    mime: str
    size: int

    def to_text(self) -> str:
        """As it stands in a column."""
        return json.dumps([self.file, self.kind.value, self.name, self.mime, self.size])

    @classmethod
    def from_text(cls, text: str) -> Attachment:
        """Back from a column."""
        file, kind, name, mime, size = json.loads(text)
        return cls(file, MediaKind(kind), name, mime, size)


def worded(text: str, attachment: Attachment | None) -> str:
    """A part in words, where its file cannot be shown."""
    if attachment is None:
        return text
    named = f"[{attachment.kind}: {attachment.name}]"
    return f"{named} {text}" if text else named


#: Media types that go out as something else than a plain file. GIF moves, SVG is a program:
#: platforms differ about them, so they are files.
_SHOWN = {
    "image/jpeg": MediaKind.IMAGE,
    "image/png": MediaKind.IMAGE,
    "image/webp": MediaKind.IMAGE,
    "audio/ogg": MediaKind.VOICE,
    "audio/mpeg": MediaKind.AUDIO,
    "audio/mp4": MediaKind.AUDIO,
    "video/mp4": MediaKind.VIDEO,
}


def kind_of(mime: str) -> MediaKind:
    """How a file of this media type is shown where nobody said otherwise."""
    return _SHOWN.get(mime.partition(";")[0].strip().lower(), MediaKind.FILE)


def shown_name(name: str) -> str:
    """``name`` without folders, control characters and excess: what may stand in a header."""
    last = PurePosixPath(name.replace("\\", "/")).name
    kept = "".join(c for c in last if c.isprintable() and c not in '"<>|:*?')
    return kept.strip(". ")[-120:] or "file"
