"""Every crash point that is documented is one at which somebody is killed.

The sweeps kill at every point that a story passes, so it is enough to see that each is passed:
by the two stories of CI all but a few with a name, by all stories together all but those that
nothing can pass.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import angelia.gateway.daemon  # noqa: F401 - whatever it imports declares its points
from angelia.seams import crash
from tests.crash import commands
from tests.crash.commands import CHANGING
from tests.crash.keeping import KEEPING
from tests.crash.nursery import Zygote
from tests.crash.stories import AT_LENGTH_ONLY, NEVER_PASSED, STORIES
from tests.crash.sweep import passed

pytestmark = pytest.mark.crash

#: As the package declares them: other tests add to the table for a while.
DOCUMENTED = frozenset(crash.POINTS)


def verbs(points: set[str] | frozenset[str]) -> set[str]:
    return {point.partition(".")[0] for point in points}


def test_ci_passes_every_point_but_those_with_a_story_at_length(zygote: Zygote, ram: Path) -> None:
    found: set[str] = set()
    for number, story in enumerate(one for one in STORIES if one.ci):
        found.update(passed(story, zygote, ram / str(number)))
    assert verbs(DOCUMENTED - found) <= set(AT_LENGTH_ONLY) | set(NEVER_PASSED)


@pytest.mark.soak
def test_all_stories_together_pass_every_point(zygote: Zygote, ram: Path) -> None:
    found: set[str] = set()
    for number, story in enumerate(STORIES):
        found.update(passed(story, zygote, ram / str(number)))
        if story.leave:
            found.update(passed(story, zygote, ram / f"{number} next", ("",)))
    for order in (*CHANGING, *KEEPING):
        found.update(commands.passed(order, zygote, ram / order.name))
    assert verbs(DOCUMENTED - found) == set(NEVER_PASSED)
