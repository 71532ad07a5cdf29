"""What a log line must never show."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest
import structlog

from angelia.gateway import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_traceback_shows_no_values_of_variables(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = stream()
    monkeypatch.setattr(sys, "stderr", told)
    logs.configure()

    def send(token: str) -> None:
        raise ConnectionResetError("by peer")

    try:
        send("".join(["hush", "-", "hush"]))
    except ConnectionResetError:
        structlog.get_logger().exception("an adapter raised", action="send.raised")
    assert "an adapter raised" in told.getvalue()
    assert "by peer" in told.getvalue()
    assert "hush-hush" not in told.getvalue()
