"""The stop-watch that every ledger under measurement shares.

``drive`` keeps a fixed number of replies going at once and times each of them from "the
answer is finished" to "the platform confirmed it and that is on record". Standard library
only: this file also runs inside the peer's own virtual environment.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

#: One reply is this long, in characters.
REPLY_CHARACTERS = 800

#: Replies sent before the clock starts, so that imports, caches and the first page
#: allocations are nobody's disadvantage.
WARM_UP_REPLIES = 32


@dataclass(slots=True)
class Sample:
    """One measurement in one process: ``replies`` replies, ``at_once`` of them at any time.

    ``latencies_ms`` holds one entry per reply where replies could be timed one by one (the
    raw limit has none). ``notes`` are facts that the report prints beside the figures.
    """

    system: str
    at_once: int
    replies: int
    seconds: float
    latencies_ms: list[float] = field(default_factory=list)
    notes: dict[str, str | int | float] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        return self.replies / self.seconds

    def write(self, path: Path | None) -> None:
        """Store the sample as JSON in ``path``, or print it."""
        text = json.dumps(asdict(self))
        if path is None:
            sys.stdout.write(text + "\n")
        else:
            path.write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Sample:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def reply_text(number: int) -> str:
    """A reply of ``REPLY_CHARACTERS`` characters that no other number has."""
    words = f"Reply {number}: the commit comes before the world. "
    return (words * (REPLY_CHARACTERS // len(words) + 1))[:REPLY_CHARACTERS]


async def drive(
    system: str,
    reply: Callable[[int], Awaitable[None]],
    replies: int,
    at_once: int,
    on_start: Callable[[], None] | None = None,
) -> Sample:
    """Run ``reply(number)`` for ``replies`` fresh numbers, ``at_once`` at a time, after a warm-up.

    ``on_start`` is called when the warm-up is over. An exception of a reply ends the
    measurement: a figure for work that failed is no figure.
    """
    await _rounds(reply, iter(range(WARM_UP_REPLIES)), min(at_once, WARM_UP_REPLIES))
    if on_start:
        on_start()
    numbers = iter(range(WARM_UP_REPLIES, WARM_UP_REPLIES + replies))
    start = time.perf_counter()
    latencies = await _rounds(reply, numbers, at_once)
    return Sample(system, at_once, replies, time.perf_counter() - start, latencies)


async def _rounds(
    reply: Callable[[int], Awaitable[None]], numbers: Iterator[int], at_once: int
) -> list[float]:
    latencies: list[float] = []

    async def one_lane() -> None:
        for number in numbers:
            start = time.perf_counter()
            await reply(number)
            latencies.append(round((time.perf_counter() - start) * 1000, 4))

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(one_lane())
    return latencies
