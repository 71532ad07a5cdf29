"""Kill -9 at every crash point of a story, recover, and compare with the platform's truth.

An undisturbed telling writes down every point passed; then the gateway is killed by SIGKILL at
each of them, and the recovery from a death in the middle of a call at each of its own. What
people saw is recorded outside. CI tells the two stories that pass the most different points;
all others, and every recovery from every point, are told by ``make soak``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.crash.nursery import Zygote
from tests.crash.stories import STORIES, Story
from tests.crash.sweep import Swept, sweep, sweep_recoveries

pytestmark = pytest.mark.crash

#: In the middle of a call; most depends on it.
_IN_FLIGHT = ("wire.after:1",)

IN_CI = [story for story in STORIES if story.ci]
AT_LENGTH = [story for story in STORIES if not story.ci]


def named(story: Story) -> str:
    return story.name.replace(" ", "-")


def tell(what: str, story: Story, swept: Swept) -> None:
    """For the figures of a long run (``-s``)."""
    print(json.dumps({"story": story.name, "swept": what, "points": swept.points, "kills": swept.kills}))
    assert swept.points >= 8, "a story passes at least the points of one commit each"


@pytest.mark.parametrize("story", IN_CI, ids=named)
def test_kill_at_every_point(story: Story, zygote: Zygote, ram: Path) -> None:
    tell("story", story, sweep(story, zygote, ram))


@pytest.mark.parametrize("story", IN_CI, ids=named)
def test_kill_the_recovery_at_every_point(story: Story, zygote: Zygote, ram: Path) -> None:
    """The first death is in the middle of the wire call; the second anywhere in the recovery."""
    tell("recovery of a call in flight", story, sweep(story, zygote, ram, _IN_FLIGHT))


@pytest.mark.soak
@pytest.mark.parametrize("story", AT_LENGTH, ids=named)
def test_kill_at_every_point_at_length(story: Story, zygote: Zygote, ram: Path) -> None:
    tell("story", story, sweep(story, zygote, ram))


@pytest.mark.soak
@pytest.mark.parametrize("story", STORIES, ids=named)
def test_kill_every_recovery_at_every_point(story: Story, zygote: Zygote, ram: Path) -> None:
    """The first death is at each point of the story, the second at each of the recovery."""
    tell("every recovery", story, sweep_recoveries(story, zygote, ram))
