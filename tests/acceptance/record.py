"""What the record of a home says, asked in this process as ``angelia deliveries``, ``why`` and
``doctor`` ask it, without the price of a process for each look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tests.acceptance.daemon import Home, eventually

from angelia.gateway.doctor import Level, examine
from angelia.gateway.operator import Operator
from angelia.store.views import DeliveryView, StatusView, Timeline


def deliveries(home: Home) -> list[DeliveryView]:
    """All deliveries, newest first."""
    return Operator(home.path, home.environ).deliveries(limit=1000)


def why(home: Home, id: str = "") -> tuple[Timeline, str]:
    """The story behind ``id`` (without one: behind the only delivery of the home) and its verdict."""
    if not id:
        (only,) = deliveries(home)
        id = only.id
    return Operator(home.path, home.environ).why(id)


def endings(story: Timeline) -> list[str]:
    """How each model run of a story ended, in their order."""
    return [run.ending for run in story.runs]


def counted(home: Home) -> StatusView:
    """Deliveries and turns by their states."""
    _, counts, _ = Operator(home.path, home.environ).status()
    assert counts is not None
    return counts


def problems(home: Home) -> list[str]:
    """What ``angelia doctor`` complains of: the invariants of the store among it."""
    found = examine(home.path, home.environ)
    return [one.sentence for one in found if one.level in (Level.PROBLEM, Level.UNUSABLE)]


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until the record says so; it is asked again and again, beside the event loop."""

    async def asked() -> bool:
        return await asyncio.to_thread(holds)

    await eventually(asked, what)


async def all_delivered(home: Home, count: int = 1, known: Sequence[str] = ()) -> None:
    """Wait until all ``count`` deliveries are delivered; then the books must balance. Problems
    that begin with a word of ``known`` are expected."""

    def delivered() -> bool:
        found = deliveries(home)
        return len(found) == count and all(one.state == "delivered" for one in found)

    await until(delivered, f"{count} deliveries, all of them delivered")
    found = await asyncio.to_thread(problems, home)
    assert [one for one in found if not one.startswith(tuple(known))] == []
