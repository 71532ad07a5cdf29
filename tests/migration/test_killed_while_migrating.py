"""A real gateway that dies while it brings its store up to date.

The gateway is of a later release, whose made-up step rebuilds a table; the store is of this one
and owes a notice. Killed before or after the commit of the step, once or twice in a row, the
next start finishes the work, and what was owed goes out once. ``make soak`` tells the same
story with a death at every point of it and of every recovery (``tests/crash``).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.conftest import ram, zygote  # noqa: F401 - asked for by name
from tests.crash.homes import prepare
from tests.crash.nursery import Zygote
from tests.crash.stories import STORIES
from tests.crash.telling import Telling
from tests.crash.truth import check

# ruff: noqa: F811 - pytest hands fixtures over by the names under which they were imported

pytestmark = pytest.mark.crash

_STORY = next(story for story in STORIES if story.later)

_BEFORE, _AFTER = "migrate.before_commit", "migrate.after_commit"


_DEATHS = ((_BEFORE,), (_AFTER,), (_BEFORE, _BEFORE), (_BEFORE, _AFTER))


def test_killed_while_migrating_the_next_start_finishes(zygote: Zygote, ram: Path) -> None:
    prepared = prepare(_STORY, zygote, ram)
    for number, kills in enumerate(_DEATHS):
        telling = Telling(_STORY, zygote, ram / f"home{number}", prepared, kills)
        telling.tell()
        check(telling)
        assert telling.died == len(kills), "it died in each of these lives"


def test_killed_while_the_first_schema_is_made(zygote: Zygote, ram: Path) -> None:
    """From an empty file: a home on which a gateway has never lived."""
    story = STORIES[0]
    telling = Telling(story, zygote, ram / "home", prepare(story, zygote, ram), (_BEFORE, _AFTER))
    telling.tell()
    check(telling)
    assert telling.died == 2, "the second start found everything still to be done"
