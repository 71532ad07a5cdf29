"""The files that the platform keeps: what people and the bot sent, by file id.

Ids are good for sending again and for ``getFile``; the path that ``getFile`` gives is where the
bytes are downloaded from.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

download_bytes_max = 20 * 1024 * 1024  # R: api getFile: bots can download files of up to 20 MB
photo_bytes_max = 10 * 1024 * 1024  # R: api sendPhoto

_FOLDERS = {"photo": "photos", "voice": "voice", "audio": "music", "video": "videos"}
_SUFFIXES = {"photo": ".jpg", "voice": ".oga", "audio": ".mp3", "video": ".mp4"}
_IMAGES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF", b"BM")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file. ``path`` is its path below ``/file/bot<token>/``."""

    id: str
    path: str
    name: str
    mime_type: str
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def to_json(self) -> dict[str, object]:
        return {"file_id": self.id, "file_unique_id": f"u{self.sha256[:14]}", "file_size": len(self.data)}


class Files:
    """All of them."""

    def __init__(self) -> None:
        self._by_id: dict[str, StoredFile] = {}
        self._by_path: dict[str, StoredFile] = {}

    def keep(self, kind: str, data: bytes, name: str = "", mime_type: str = "") -> StoredFile:
        """Store ``data`` as a file of ``kind`` (photo, document, voice, audio, video)."""
        number = len(self._by_id) + 1
        path = f"{_FOLDERS.get(kind, 'documents')}/file_{number}{_SUFFIXES.get(kind, '')}"
        file_id = f"AgAC{kind[:3]}{number:06d}{hashlib.sha256(data).hexdigest()[:24]}"
        kept = StoredFile(file_id, path, name, mime_type or "application/octet-stream", data)
        self._by_id[kept.id] = self._by_path[kept.path] = kept
        return kept

    def by_id(self, file_id: str) -> StoredFile | None:
        return self._by_id.get(file_id)

    def by_path(self, path: str) -> StoredFile | None:
        return self._by_path.get(path)


def image(data: bytes) -> bool:
    """Whether ``data`` begins as a picture does."""
    return data.startswith(_IMAGES)


def shown(kind: str, stored: StoredFile) -> object:
    """How a message shows the file: its field ``kind``."""
    plain = stored.to_json()
    named = {"file_name": stored.name} if stored.name else {}
    if kind == "photo":
        sizes = [{"width": 90, "height": 60}, {"width": 800, "height": 533}]
        return [{**plain, **size} for size in sizes]
    if kind == "voice":
        return {**plain, "duration": 1, "mime_type": stored.mime_type}
    if kind == "audio":
        return {**plain, "duration": 1, "mime_type": stored.mime_type, **named}
    if kind == "video":
        return {**plain, "width": 640, "height": 360, "duration": 1, "mime_type": stored.mime_type, **named}
    return {**plain, "mime_type": stored.mime_type, **named}
