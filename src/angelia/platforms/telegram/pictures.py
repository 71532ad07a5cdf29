"""Whether Telegram would take a picture as a photo: it refuses odd measures.

A photo's width and height together are at most 10,000, and their ratio is at most 20 (Bot API
documentation, sendPhoto). The measures stand at the beginning of a file. What cannot be read
here goes as a file, which Telegram always takes.
"""

from __future__ import annotations

import struct

photo_bytes_max = 10 * 1000 * 1000
_SIDES_MOST = 10_000
_RATIO_MOST = 20


def photo_fits(data: bytes) -> bool:
    """Whether ``data`` is a JPEG, PNG or WebP that ``sendPhoto`` takes."""
    if len(data) > photo_bytes_max:
        return False
    try:
        sides = _sides(data)
    except (struct.error, IndexError):
        return False
    if sides is None or min(sides) < 1:
        return False
    return sum(sides) <= _SIDES_MOST and max(sides) <= _RATIO_MOST * min(sides)


def _sides(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, where the header tells."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if data.startswith(b"\xff\xd8"):
        return _jpeg_sides(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp_sides(data)
    return None


def _jpeg_sides(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or 0xD0 <= marker <= 0xD9 or marker == 0x01:  # padding, or without a length
            at += 1 if marker == 0xFF else 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])
    return None


def _webp_sides(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None
