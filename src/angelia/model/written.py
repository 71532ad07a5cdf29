"""An address and a signing key as an operator writes them. No error shows what was written."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import urlsplit


def http_address(text: str) -> str:
    """``text``, if it is an ``http://`` or ``https://`` address with a host. Raises ``ValueError``."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or text != text.strip():
        raise ValueError("must be an http:// or https:// address with a host")
    return text


def signing_key(text: str) -> bytes:
    """The key of Standard Webhooks that ``text`` stands for: what follows ``whsec_`` is base64, of
    anything else its UTF-8 bytes are the key. Raises ``ValueError``."""
    if not text.strip():
        raise ValueError("must not be empty")
    if text != text.strip() or not text.isprintable():
        raise ValueError("must not begin or end with a space, nor contain control characters")
    if not text.startswith("whsec_"):
        return text.encode()
    digits = text.removeprefix("whsec_")
    try:
        # Some write it without the padding at its end.
        key = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ValueError("begins with whsec_, but what follows is not base64")
    return key
