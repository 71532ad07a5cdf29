"""Who talks to whom: the addresses of the house."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class AdapterId(NamedTuple):
    """One live connection: a platform, seen as one profile."""

    profile: str
    platform: str

    def __str__(self) -> str:
        return f"{self.profile}/{self.platform}"


class Lane(NamedTuple):
    """A conversation. Its deliveries go out in the order in which they were written.

    ``thread`` is ``""`` where the chat has no threads or the message stands outside one.
    """

    profile: str
    platform: str
    chat: str
    thread: str = ""

    @property
    def adapter(self) -> AdapterId:
        return AdapterId(self.profile, self.platform)

    def __str__(self) -> str:
        thread = f"#{self.thread}" if self.thread else ""
        return f"{self.profile}/{self.platform}/{self.chat}{thread}"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on a row. Every write to a claimed row names it."""

    delivery: str
    owner: str
    fence: int


def idempotency_key(delivery: str, part: int, revision: int) -> str:
    """The key under which a platform may recognise a repeated revision (guarantees §4)."""
    return f"{delivery}.{part}.{revision}"
