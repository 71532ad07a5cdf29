"""Commands of the operator that die in the middle, and the person who repeats them.

Each works on a home whose gateway is down, is killed at its n-th crash point, and is repeated
if nothing came of it. Then a gateway lives on that home, and what people saw is compared with
what was ordered: a notice once, a reply that was sent again twice with its marker, a cancelled
one never. Commands that keep a store rather than change it are in ``keeping.py``.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from angelia.model.markers import OPENING, Cause
from angelia.seams.clock import clock_from
from angelia.store.connection import open_connection
from angelia.testing.checks import Arrived, problems_of
from tests.crash.homes import command
from tests.crash.nursery import CLOCK, CONFIG, Zygote, address_of, ask, is_gone, until
from tests.crash.platform import Platform

NOTICE = "good news"


@dataclass
class Stage:
    """Where an order is given: a home that owes a notice, and its platform. ``folder`` is around
    the home, for what a command writes."""

    zygote: Zygote
    folder: Path
    platform: Platform

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def set(self) -> None:
        """A home that owes a notice."""
        self.home.mkdir(parents=True)
        self.configure(self.home)
        command(self.home, "notify", "--to", "default/webhook/c", NOTICE)

    def configure(self, home: Path) -> None:
        text = CONFIG.format(agent="{kind: echo}", url=self.platform.url, keyed="false", limit=4096)
        (home / "config.yaml").write_text(text)

    def live(self) -> None:
        """A gateway until nothing is due, and its clean end."""
        (self.home / "gateway.lock").unlink(missing_ok=True)
        pid = self.zygote.start(self.home)
        until(lambda: address_of(self.home), "the gateway listens")
        due = "SELECT count(*) FROM deliveries WHERE state = 'attempting'"
        due += " OR (state IN ('pending', 'failed') AND due_at IS NOT NULL)"
        until(lambda: self.ask(due) == [0], "nothing is due")
        os.kill(pid, signal.SIGTERM)
        until(lambda: is_gone(pid), "the gateway stops")
        assert self.zygote.wait(pid) == 0

    def ask(self, sql: str) -> list[object]:
        """The first column of what the store answers."""
        return [row[0] for row in ask(self.home, sql)]

    @property
    def states(self) -> list[object]:
        return self.ask("SELECT state FROM deliveries ORDER BY seq")

    @property
    def texts(self) -> list[str]:
        """What people saw."""
        return [message.text for message in self.platform.seen]


@dataclass(frozen=True)
class Order:
    """``words`` of the command; ``given``: whether it has come to what it is for, which may be so
    although it died. ``before`` and ``after`` it things happen; ``after`` checks them.
    ``remembers``: the store still knows everything that people saw."""

    name: str
    words: Callable[[Stage], list[str]]
    given: Callable[[Stage], bool]
    after: Callable[[Stage], None]
    before: Callable[[Stage], None] = lambda stage: None
    remembers: bool = True


def give(order: Order, zygote: Zygote, folder: Path, kill: int = 0, trace: Path | None = None) -> bool:
    """Give the order on a new home, killed at its ``kill``-th point; live on; check. Whether the
    command died."""
    with Platform() as platform:
        stage = Stage(zygote, folder, platform)
        stage.set()
        order.before(stage)
        words = order.words(stage)
        died = command(stage.home, *words, kill=kill, trace=trace) != 0
        if not order.given(stage):
            assert died, "the command said that it was done"
            command(stage.home, *words)
            assert order.given(stage)
        order.after(stage)
        connection = open_connection(stage.home / "state.db", read_only=True)
        try:
            arrived = [Arrived(one.key, one.text, one.chat) for one in platform.seen]
            truth = arrived if order.remembers else None
            assert problems_of(connection, clock_from(CLOCK).now().wall, truth) == []
        finally:
            connection.close()
    return died


def passed(order: Order, zygote: Zygote, folder: Path) -> list[str]:
    """The points that the command passes. What it leads to is checked."""
    trace = folder.with_suffix(".trace")
    give(order, zygote, folder, trace=trace)
    return trace.read_text().split()


def sweep(order: Order, zygote: Zygote, folder: Path) -> int:
    """The order with a death at each point of the command; how many there were."""
    for kill in range(1, 50):
        place = folder / f"{order.name}{kill}"
        if not give(order, zygote, place, kill):
            return kill - 1
        shutil.rmtree(place)
    raise AssertionError("the sweep does not end")


# -- orders that change what is owed ---------------------------------------------------------------


def _id(stage: Stage) -> str:
    return str(stage.ask("SELECT id FROM deliveries")[0])


def _noticed(stage: Stage) -> None:
    stage.live()
    assert stage.states == ["delivered", "delivered"]
    assert stage.texts == [NOTICE, "more"] or stage.texts == ["more", NOTICE]


def _sent_again(stage: Stage) -> None:
    stage.live()
    assert stage.states == ["delivered", "delivered"]
    first, second = stage.texts
    assert first == NOTICE
    assert second.startswith(f"{OPENING}{Cause.REQUESTED}"), second


def _cancelled(stage: Stage) -> None:
    stage.live()
    assert (stage.states, stage.texts) == (["abandoned"], [])


CHANGING = (
    Order(
        "notify",
        lambda stage: ["notify", "--to", "default/webhook/other", "more"],
        lambda stage: len(stage.states) == 2,
        _noticed,
    ),
    Order(
        "send-again",
        lambda stage: ["deliveries", "send-again", _id(stage)],
        lambda stage: len(stage.states) == 2,
        _sent_again,
        before=Stage.live,
    ),
    Order(
        "cancel",
        lambda stage: ["deliveries", "cancel", _id(stage)],
        lambda stage: stage.states == ["abandoned"],
        _cancelled,
    ),
)
