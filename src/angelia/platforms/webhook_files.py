"""The files that come with a message to the webhook: read, fetched, judged and spooled.

All of it happens before the message is on record. A file that cannot be taken refuses the whole
message, with the field that is wrong (422), because half a message is a misunderstanding; what
may be otherwise in a while (a server that is down) is a 503, so the service tries again.

What a file is decides its content where that can be seen, then what the service says, then its
server, then its name. Only kinds that some agent can use are taken; programs and archives are not.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from yarl import URL

from angelia.model.errors import StoreUnavailableError
from angelia.model.media import Attachment, shown_name
from angelia.model.messages import well_formed
from angelia.platforms.base import Host
from angelia.platforms.webhook_fetch import Fetcher, NotFetchedError
from angelia.platforms.webhook_in import Refusal, try_again_s

files_max = 10  # of one message
name_characters_max = 255
address_characters_max = 4096

_TEXTS = frozenset(("text/plain", "text/markdown", "text/csv", "application/json"))
_OFFICE = "application/vnd.openxmlformats-officedocument."
_OFFICES = frozenset(_OFFICE + kind for kind in ("wordprocessingml.document", "spreadsheetml.sheet"))
#: Kinds whose content tells what they are: it has to fit.
_SEEN = frozenset(
    f"{family}/{kind}"
    for family, kinds in {
        "image": ("jpeg", "png", "webp", "gif"),
        "audio": ("ogg", "mpeg", "mp4", "wav", "flac", "webm"),
        "video": ("mp4", "webm"),
        "application": ("pdf",),
    }.items()
    for kind in kinds
)
#: What is taken.
KINDS = _SEEN | _TEXTS | _OFFICES
#: Other words for the same.
_SAME = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "audio/opus": "audio/ogg",
    "application/ogg": "audio/ogg",
    "text/x-markdown": "text/markdown",
}
#: For a name that has no ending of its own.
_ENDINGS = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
    "audio/mp4": ".m4a",
    "audio/wav": ".wav",
    "audio/flac": ".flac",
    "audio/webm": ".webm",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "application/pdf": ".pdf",
    "application/json": ".json",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "text/plain": ".txt",
}
#: Says nothing.
_VAGUE = ("", "application/octet-stream", "binary/octet-stream")


@dataclass(frozen=True, slots=True)
class Offered:
    """A file as a request names it: its bytes, or where they are. ``field``: where in the request."""

    field: str
    name: str
    mime: str
    data: bytes = b""
    url: str = ""


def offered(value: object) -> tuple[Offered, ...]:
    """The field ``attachments`` of a request, checked as far as that goes without asking anybody.
    Raises ``Refusal``."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _refused("attachments", "attachments is no list")
    if len(value) > files_max:
        raise _refused("attachments", f"a message has at most {files_max} attachments")
    return tuple(_offered(f"attachments[{index}]", one) for index, one in enumerate(value))


def _offered(field: str, value: object) -> Offered:
    if not isinstance(value, dict):
        raise _refused(field, "this attachment is no object")
    words = {name: value.get(name) for name in ("name", "mime", "data", "url")}
    for name, word in words.items():
        if word is not None and not isinstance(word, str):
            raise _refused(f"{field}.{name}", f"{name} is not a string")
    name, mime = words["name"] or "", words["mime"] or ""
    data, url = words["data"], words["url"]
    if len(name) > name_characters_max:
        raise _refused(f"{field}.name", f"name is longer than {name_characters_max} characters")
    if (data is None) == (url is None):
        raise _refused(field, "an attachment has either data or url")
    kind = _kind(mime)
    if kind not in _VAGUE and kind not in KINDS:
        raise _refused(f"{field}.mime", "files of this kind are not taken")
    if url is not None:
        if not url or len(url) > address_characters_max:
            raise _refused(
                f"{field}.url", f"url is empty, or longer than {address_characters_max} characters"
            )
        return Offered(field, well_formed(name), kind, url=url)
    try:
        decoded = base64.b64decode(data or "", validate=True)
    except (binascii.Error, ValueError):
        raise _refused(f"{field}.data", "data is not base64") from None
    if not decoded:
        raise _refused(f"{field}.data", "the file is empty")
    return Offered(field, well_formed(name), kind, decoded)


async def spooled(
    files: Sequence[Offered], host: Callable[[], Host], fetcher: Fetcher
) -> tuple[Attachment, ...]:
    """The files, each fetched if need be, judged and in the spool; synced when this returns.
    Raises ``Refusal``. One after the other, so that one message holds one file in memory. ``host``
    is asked anew after each fetch: the adapter may have been stopped meanwhile."""
    kept = []
    for file in files:
        data, named = file.data, ""
        if file.url:
            try:
                fetched = await fetcher.fetch(file.url)
            except NotFetchedError as error:
                raise _not_fetched(f"{file.field}.url", error) from None
            data, named = fetched.data, _kind(fetched.mime)
            if not data:
                raise _refused(f"{file.field}.url", "the file is empty")
        name = shown_name(file.name or (URL(file.url).name if file.url else ""))
        kind = await asyncio.to_thread(judged, data, file.mime, named, name)
        if not kind:
            source = "url" if file.url else "data"
            raise _refused(
                f"{file.field}.{source}", "the file is of no kind that is taken, or not what it says"
            )
        try:
            kept.append(await host().spool(data, _with_ending(name, kind), kind))
        except StoreUnavailableError:
            later = {"Retry-After": str(try_again_s)}
            raise Refusal(503, "the message cannot be stored just now", later) from None
    return tuple(kept)


def judged(data: bytes, said: str, served: str, name: str) -> str:
    """The kind of a file, or ``""`` for one that is not taken. ``said`` by the service, ``served``
    by the server it came from: ``""`` where they say nothing."""
    seen = seen_in(data)
    guessed = _kind(mimetypes.guess_type(name)[0] or "")
    kind = next((one for one in (said, served, guessed) if one not in _VAGUE), seen)
    if seen and kind != seen and not said:
        kind = seen  # a server or a name that errs about what can be seen
    if kind not in KINDS or (kind in _SEEN and not _fits(kind, seen)):
        return ""
    if kind in _OFFICES:
        return kind if data.startswith(b"PK\x03\x04") else ""
    return kind if kind not in _TEXTS or _is_text(data) else ""


def seen_in(data: bytes) -> str:
    """What the first bytes of a file say it is; ``""``: they do not say."""
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], "")
    if data.startswith(b"%PDF-"):
        return "application/pdf"
    return _sound_or_film(data)


def _sound_or_film(data: bytes) -> str:
    if data.startswith(b"OggS"):
        return "audio/ogg"
    if data.startswith(b"fLaC"):
        return "audio/flac"
    if data.startswith(b"ID3") or (len(data) > 1 and data[0] == 0xFF and data[1] & 0xE6 == 0xE2):
        return "audio/mpeg"  # a tag, or the head of a frame of layer III
    if data[4:8] == b"ftyp":
        return "audio/mp4" if data[8:11] in (b"M4A", b"M4B") else "video/mp4"
    if data.startswith(b"\x1a\x45\xdf\xa3"):
        return "video/webm"
    return ""


def _fits(kind: str, seen: str) -> bool:
    """The containers of sound and film are the same; which it is, the first bytes do not say."""
    either = ({"audio/mp4", "video/mp4"}, {"audio/webm", "video/webm"})
    return kind == seen or any(kind in one and seen in one for one in either)


def _is_text(data: bytes) -> bool:
    try:
        return "\x00" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _kind(mime: str) -> str:
    plain = mime.partition(";")[0].strip().lower()
    return _SAME.get(plain, plain)


def _with_ending(name: str, kind: str) -> str:
    """``name``, with the ending of its kind if it has none: people and agents go by it."""
    return name if "." in name else name + _ENDINGS.get(kind, "")


def _refused(field: str, reason: str) -> Refusal:
    return Refusal(422, reason, field=field)


def _not_fetched(field: str, error: NotFetchedError) -> Refusal:
    if error.passing:
        return Refusal(503, str(error), {"Retry-After": str(try_again_s)}, field=field)
    return _refused(field, str(error))
