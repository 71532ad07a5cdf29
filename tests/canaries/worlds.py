"""The simulated worlds that a canary is looked for in; run by name, never collected by itself.

``ANGELIA_CANARY_WORLDS`` lists them: ``17`` is the world of that seed, ``deaths/2`` one with a
theme. The same worlds every time: a canary must not be found by luck.
"""

from __future__ import annotations

import os

import pytest
from tests.simulation.mixture import themed
from tests.simulation.world import play

WORLDS = os.environ.get("ANGELIA_CANARY_WORLDS", "").split(",")


@pytest.mark.parametrize("world", WORLDS)
def test_world(world: str) -> None:
    theme, _, seed = world.rpartition("/")
    story = play(int(seed), themed(theme, int(seed)) if theme else None)
    assert not story.flaws, "\n".join(story.flaws[:5])
