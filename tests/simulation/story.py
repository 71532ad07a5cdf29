"""What is left of a simulated world, and what its gateways logged meanwhile."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import structlog


@dataclass
class Story:
    """What is left of a world."""

    seed: int
    flaws: list[str]
    notes: list[tuple[float, str, str]]
    reached: dict[str, int]
    virtual_s: float
    deaths: int
    arrivals: int
    deliveries: int
    #: Passes after one that had made an attempt; and the messages that people saw with a marker.
    redeliveries: int
    marked: int

    @property
    def trace(self) -> list[str]:
        return [f"{t:12.3f} {who:9} {what}" for t, who, what in self.notes]

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


#: What the fakes do on purpose; any other exception that was logged is a bug.
_EXPECTED = ("send.raised", "look_up.raised", "agent.raised")


@contextlib.contextmanager
def overheard(unexpected: list[str]) -> Iterator[None]:
    """Nobody reads the log of a simulated gateway, but an exception in it is told."""

    def hear(_logger: Any, _name: str, event: Any) -> Any:
        if event.get("exc_info") and event.get("action") not in _EXPECTED:
            unexpected.append("".join(traceback.format_exc().splitlines(True)[-12:]))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[hear],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
