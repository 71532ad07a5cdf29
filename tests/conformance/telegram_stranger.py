"""The stranger that judges our Telegram server: a bot of python-telegram-bot that talks to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from telegram import Bot
from telegram.error import BadRequest
from telegram.request import HTTPXRequest

from angelia.testing.telegram_server import TelegramServer

patience_s = 20.0  # for an answer that comes
impatience_s = 1.0  # for one that never comes


def stranger(server: TelegramServer, read_timeout_s: float = patience_s, token: str = "") -> Bot:
    """A bot that waits so long for each answer; to be used in ``async with``."""
    # No certificates: to load them takes longer than most of these tests.
    request, polling = (
        HTTPXRequest(read_timeout=read_timeout_s, httpx_kwargs={"verify": False}) for _ in range(2)
    )
    return Bot(
        token or server.token,
        base_url=f"{server.url}/bot",
        base_file_url=f"{server.url}/file/bot",
        request=request,
        get_updates_request=polling,
    )


@contextmanager
def refused(words: str) -> Iterator[None]:
    """The library must say BadRequest with ``words`` (it changes their first letter's case)."""
    with pytest.raises(BadRequest) as error:
        yield
    assert words.lower() in error.value.message.lower()
