"""Which pictures go as a photo: those whose measures Telegram takes."""

from __future__ import annotations

import struct

import pytest

from angelia.platforms.telegram.pictures import photo_fits


def png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
        + struct.pack(">II", width, height)
        + b"\x08\x02"
        + b"\x00" * 20
    )


def jpeg(width: int, height: int, before: bytes = b"\xff\xe0\x00\x04ab") -> bytes:
    return (
        b"\xff\xd8" + before + b"\xff\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x00" * 20
    )


def webp(kind: bytes, content: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + b"\x00\x00\x00\x00" + content + b"\x00" * 10


def small(width: int, height: int) -> bytes:
    return (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        (png(800, 600), True),
        (png(5000, 5000), True),
        (png(5001, 5000), False),
        (png(2000, 100), True),
        (png(2001, 100), False),
        (png(0, 100), False),
        (png(800, 600) + b"\x00" * 10_000_000, False),
        (png(800, 600)[:20], False),
        (jpeg(800, 600), True),
        (jpeg(100, 3000), False),
        (jpeg(800, 600, b""), True),
        (b"\xff\xd8\xff\xe0", False),
        (b"\xff\xd8\xff\xe0\xff\xff" + b"x" * 20, False),
        (webp(b"VP8X", b"\x00" * 4 + small(800, 600)), True),
        (webp(b"VP8X", b"\x00" * 4 + small(9000, 6000)), False),
        (webp(b"VP8L", b"\x2f" + (799 | 599 << 14).to_bytes(4, "little")), True),
        (webp(b"VP8 ", b"\x00" * 6 + struct.pack("<HH", 800, 600)), True),
        (webp(b"ALPH", b""), False),
        (b"GIF89a", False),
        (b"", False),
    ],
)
def test_measures(data: bytes, fits: bool) -> None:
    assert photo_fits(data) is fits
