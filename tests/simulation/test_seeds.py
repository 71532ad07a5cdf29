"""Simulated worlds in CI: those that had a story to tell, those that reach the rare branches,
and fresh ones, other ones for every commit, as many as the budget allows.

A red seed is committed here with its story before the fix. ``make sim SEED=n`` replays one.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.simulation.mixture import THEMES, themed
from tests.simulation.story import Story
from tests.simulation.world import play

#: Seeds that have found something, and what it was.
STORIES: dict[int, str] = {
    4: "a further part went out inside a rate limit that another lane had learned meanwhile",
    73: "a look-up by another gateway beside a call in flight; a false alarm of the checker, kept for that",
    100932: "a limit stored by a clock that was ahead held a row of a younger gateway for two hours",
    101049: "a frozen process had decided to show its typing; a false alarm of the checker",
    100264: "a late copy of a frozen process was the only one of its part; a false alarm of the checker",
    100365: "the clock was set back while nobody ran: a key outlived its window unseen, which is the residue",
    5098: "with the ledger off, two gateways answered the same chat command",
    1025: "a turn whose start was committed without an answer stayed running, and nobody worked on it",
}

#: How many worlds of each theme make the batch.
WORLDS_OF_A_THEME = 3

#: What the batch must have lived through; a test that never gets there proves nothing.
RARE_BRANCHES: tuple[str, ...] = (
    "receipt recorded late or by look-up",
    "look-up found",
    "look-up absent",
    "repeat recognised by its key",
    "keyed repeat after a restart",
    "marker as a message of its own",
    "marked with its doubt",
    "resting row released",
    "third redelivery",
    "reason tries_used_up",
    "reason stale",
    "reason rejected",
    "reason unreachable",
    "unreachable chat revived",
    "moved",
    "rerouted",
    "anchor dropped",
    "split",
    "ending rate_limited",
    "ending bad_markup",
    "ending bad_credential",
    "ending died",
    "ending taken_over",
    "sent unprotected",
    "sent unprotected, then committed",
    "answer of a commit lost",
    "owner reborn",
    "claim lapsed",
    "claim behind",
    "claim held",
    "advance stale",
    "advance lapsed",
    "advance held",
    "turn interrupted twice",
    "turn cut by a drain",
    "turn stopped",
    "turn timeout",
    "turn expired",
    "edited in time",
    "sent again on request",
    "reason cancelled",
    "reason marked",
    "killed at a crash point",
    "drained",
    "pruned",
    "claim changed",
    "turn empty",
    "turn error",
    "answered inside a rate limit",
    "sent with the ledger off",
    "store busy in earnest",
    "store full in earnest",
    "lease renewed without an answer",
    "clock set ahead",
    "clock set back",
    "gap: suspended",
    "platform outage",
    "batch cut in the middle",
    "replayed after its acknowledgement",
    "notice by the operator",
    "recovery rehearsed with a row in flight",
)

#: Seconds of processor time for fresh seeds.
FRESH_BUDGET_S = float(os.environ.get("ANGELIA_SIM_BUDGET_S", "10"))


def told(story: Story) -> str:
    """What a person needs to go on from a red seed."""
    tail = "\n".join(story.trace[-40:])
    return f"make sim SEED={story.seed}\n" + "\n".join(story.flaws[:10]) + f"\n\n{tail}"


#: The same for worlds with a theme.
THEMED_STORIES: dict[tuple[str, int], str] = {
    ("store", 1): "sent unprotected, died, ran again: other words under the same key were swallowed",
    ("deaths", 0): "a start while an attempt was under way releases what that attempt leaves resting",
}


@pytest.mark.parametrize(("theme", "seed"), THEMED_STORIES)
def test_a_themed_seed_with_a_story(theme: str, seed: int) -> None:
    story = play(seed, themed(theme, seed))
    assert not story.flaws, told(story)


@pytest.mark.parametrize("seed", STORIES)
def test_a_seed_with_a_story(seed: int) -> None:
    story = play(seed)
    assert not story.flaws, told(story)


def test_the_batch_reaches_the_rare_branches() -> None:
    reached: Counter[str] = Counter()
    for theme in THEMES:
        for seed in range(WORLDS_OF_A_THEME):
            story = play(seed, themed(theme, seed))
            assert not story.flaws, f"theme: {theme}\n{told(story)}"
            reached.update(story.reached)
    assert [branch for branch in RARE_BRANCHES if not reached[branch]] == []


def test_the_same_seed_tells_the_same_story() -> None:
    first, second = play(11), play(11)
    assert first.digest == second.digest, "\n".join(
        f"{a}\n{b}" for a, b in zip(first.trace, second.trace, strict=False) if a != b
    )


def first_fresh_seed() -> int:
    """Another one for every commit; ``ANGELIA_SIM_FIRST`` names one."""
    named = os.environ.get("ANGELIA_SIM_FIRST")
    if named:
        return int(named)
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return 1_000_000 + int(asked.stdout.strip()[:7] or "0", 16) * 1000


def test_fresh_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    first = seed = first_fresh_seed()
    end = time.process_time() + FRESH_BUDGET_S
    while seed == first or (time.process_time() < end and seed < first + 1000):
        story = play(seed)
        assert not story.flaws, told(story)
        seed += 1
    with capsys.disabled():
        print(f"\nsimulation: fresh seeds {first} to {seed - 1}: no flaw")
