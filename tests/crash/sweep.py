"""Kills at every point of a story, and at every point of every recovery.

An undisturbed telling writes down the points it passes; then the story is told again with a
death at each. The deaths before it, if any, are always the same: so a recovery is swept like
a story, with the death that made it necessary in front.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.homes import prepare
from tests.crash.nursery import Zygote
from tests.crash.stories import Story
from tests.crash.telling import Telling
from tests.crash.truth import check

#: How often one point of a loop that goes on for as long as a story waits is worth a death.
_LOOPS_MOST = 3
_LOOPS = ("renew.", "take_over.")


@dataclass
class Swept:
    """What a sweep came to: tellings in which the last of the deaths happened, processes killed,
    and the names of the points at which they died."""

    points: int = 0
    kills: int = 0
    names: set[str] = field(default_factory=set)

    def add(self, other: Swept) -> None:
        self.points += other.points
        self.kills += other.kills
        self.names |= other.names


def passed(story: Story, zygote: Zygote, folder: Path, before: tuple[str, ...] = ()) -> list[str]:
    """The points that the gateway after the deaths ``before`` passes, in their order. The
    telling is checked."""
    return _scouted(story, zygote, folder, before)[0]


def _scouted(
    story: Story, zygote: Zygote, folder: Path, before: tuple[str, ...]
) -> tuple[list[str], Telling]:
    folder.mkdir(exist_ok=True)
    if "openai" in story.agent:
        zygote.imports("openai.resources.chat.completions")
    telling = Telling(story, zygote, folder / "scout", prepare(story, zygote, folder / "past"), before)
    telling.tell()
    check(telling)
    points = telling.trace(len(before))
    shutil.rmtree(telling.home)
    return points, telling


def sweep(story: Story, zygote: Zygote, folder: Path, before: tuple[str, ...] = ()) -> Swept:
    """Tell the story with a death at each point after those of ``before`` ("" is no death: a
    life that the story itself ends)."""
    deaths_before = sum(map(bool, before))
    trace, scout = _scouted(story, zygote, folder, before)
    swept = Swept()
    for number, point in enumerate(targets(trace)):
        telling = Telling(story, zygote, folder / f"home{number}", scout.prepared, (*before, point))
        telling.tell()
        try:
            check(telling)
        except AssertionError as error:
            raise AssertionError(f"{story.name}, killed at {(*before, point)}: {error}") from error
        swept.kills += telling.died
        if telling.died > deaths_before:
            swept.points += 1
            swept.names.add(point.partition(":")[0])
        shutil.rmtree(telling.home)
    return swept


def sweep_recoveries(story: Story, zygote: Zygote, folder: Path) -> Swept:
    """A first death at each point by name, and after each of them a sweep of the recovery. Right
    before a commit the record is what it was after the commit before, and so is the recovery."""
    folder.mkdir(exist_ok=True)
    swept = Swept()
    if story.leave:  # the life after the stop, in which nobody has died yet
        swept.add(sweep(story, zygote, folder / "next life", ("",)))
    firsts = sorted(set(passed(story, zygote, folder / "story")))
    for number, first in enumerate(one for one in firsts if not one.endswith(".before_commit")):
        place = folder / f"after{number}"
        swept.add(sweep(story, zygote, place, (f"{first}:1",)))
        shutil.rmtree(place)
    return swept


def targets(trace: list[str]) -> list[str]:
    """``name:k`` for every point passed, the k-th time. What the lease loop repeats every five
    seconds for as long as a story waits is killed the first few times only."""
    passed_by: Counter[str] = Counter()
    found = []
    for name in trace:
        passed_by[name] += 1
        if passed_by[name] <= _LOOPS_MOST or not name.startswith(_LOOPS):
            found.append(f"{name}:{passed_by[name]}")
    return found
