"""The calls that carry files: ``sendPhoto`` and its relatives, albums, ``getFile``.

A file arrives in a multipart body (under its own name or as ``attach://name``), or it is named
by the id it got when it was sent before. Addresses are not fetched: nothing here calls out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from angelia.testing.telegram_server.answers import Json, bad_request, named
from angelia.testing.telegram_server.entities import cleaned, found_in, given
from angelia.testing.telegram_server.files import (
    Files,
    StoredFile,
    download_bytes_max,
    image,
    photo_bytes_max,
    shown,
)
from angelia.testing.telegram_server.markup import parse
from angelia.testing.telegram_server.parameters import Call, Upload, upload_bytes_max
from angelia.testing.telegram_server.sending import Sending, Target

sent_kinds = ("photo", "document", "voice", "audio", "video")
album_min, album_max = 2, 10
#: Which kinds may stand together in an album. R: api sendMediaGroup.
_FAMILIES = {"photo": "seen", "video": "seen", "document": "document", "audio": "audio"}


@dataclass(frozen=True, slots=True)
class Item:
    """One medium of an album, looked at and found good."""

    kind: str
    stored: StoredFile
    caption: str
    entities: list[Json]


class Media:
    """The calls with files, over the calls that send. The limits are in bytes; a test may lower
    them rather than send so much."""

    def __init__(self, sending: Sending, files: Files) -> None:
        self._sending = sending
        self._files = files
        self._albums = 0
        self.photo_bytes_max = photo_bytes_max
        self.upload_bytes_max = upload_bytes_max
        self.download_bytes_max = download_bytes_max

    def send(self, kind: str, call: Call) -> Json:
        """``sendPhoto`` for the kind photo, and so on."""
        stored = self._stored(call, kind, call.text(kind), call.files.get(kind))
        caption, entities = self._sending.caption(call)
        target = self._sending.target(call)
        self._sending.check_caption(caption)
        self._sending.admit(call, target)
        return self._put(call, target, Item(kind, stored, caption, entities))

    def send_album(self, call: Call) -> list[Json]:
        listed = call.parsed("media", "media")
        if not isinstance(listed, list) or not listed:
            raise bad_request("can't parse media JSON object")
        if not album_min <= len(listed) <= album_max:
            raise bad_request("wrong number of messages to send")
        items = [self._item(call, entry) for entry in listed]
        if len({_FAMILIES[item.kind] for item in items}) > 1:
            raise bad_request("Can't use the media of the specified type in the album")
        target = self._sending.target(call)
        for item in items:
            self._sending.check_caption(item.caption)
        self._sending.admit(call, target, len(items))
        self._albums += 1
        album = str(14_000_000_000_000_000 + self._albums)
        return [self._put(call, target, item, album) for item in items]

    def get_file(self, call: Call) -> Json:
        file_id = call.text("file_id")
        if not file_id:
            raise bad_request("file_id not specified")
        stored = self._files.by_id(file_id)
        if stored is None:
            raise bad_request("invalid file_id")
        if len(stored.data) > self.download_bytes_max:
            raise bad_request("file is too big")
        return {**stored.to_json(), "file_path": stored.path}

    def _item(self, call: Call, entry: Any) -> Item:
        if not isinstance(entry, dict) or entry.get("type") not in _FAMILIES:
            raise bad_request("can't parse InputMedia: type must be one of the supported ones")
        kind, medium = str(entry["type"]), str(entry.get("media", ""))
        upload = None
        if medium.startswith("attach://"):
            upload = call.files.get(medium.removeprefix("attach://"))
            medium = ""
        stored = self._stored(call, kind, medium, upload)
        raw, mode = str(entry.get("caption") or ""), str(entry.get("parse_mode") or "")
        listed = entry.get("caption_entities")
        text, entities = parse(raw, mode) if mode else (raw, given(raw, listed) if listed else [])
        return Item(kind, stored, *cleaned(text, entities))

    def _stored(self, call: Call, kind: str, medium: str, upload: Upload | None) -> StoredFile:
        if medium.startswith("attach://"):
            upload = call.files.get(medium.removeprefix("attach://"))
        if upload is None and not medium:
            raise bad_request(f"there is no {kind} in the request")
        if upload is None:
            known = self._files.by_id(medium)
            if known is not None:
                return known
            if medium.startswith(("http://", "https://")):
                raise bad_request("failed to get HTTP URL content")
            raise bad_request("wrong file identifier/HTTP URL specified")
        size = len(upload.data)
        if not size:
            raise bad_request("file must be non-empty")
        if size > self.upload_bytes_max:
            raise named("too_large")
        if kind == "photo" and size > self.photo_bytes_max:
            raise bad_request(
                f"file of size {size} bytes is too big for a photo; "
                f"the maximum size is {self.photo_bytes_max} bytes"
            )
        if kind == "photo" and not image(upload.data):
            raise bad_request("IMAGE_PROCESS_FAILED")
        return self._files.keep(kind, upload.data, upload.name, upload.mime_type)

    def _put(self, call: Call, target: Target, item: Item, album: str | None = None) -> Json:
        content: Json = {item.kind: shown(item.kind, item.stored)}
        if item.caption:
            content["caption"] = item.caption
            entities = found_in(item.caption, item.entities)
            if entities:
                content["caption_entities"] = entities
        if album is not None:
            content["media_group_id"] = album
        record = {
            "text": item.caption,
            "entities": tuple(item.entities),
            "sha256": item.stored.sha256,
            "file_name": item.stored.name or None,
            "album": album,
        }
        return self._sending.put(call, target, content, record)
