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
from tests.simulation.world import Story, play

#: Seeds that have found something, and what it was.
STORIES: dict[int, str] = {
    4: "a further part went out inside a rate limit that another lane had learned meanwhile",
    1025: "a turn whose start was committed without an answer stayed running, and nobody worked on it",
}

#: Together they reach every branch below.
RARE_SEEDS: tuple[int, ...] = ()

#: What a batch must have lived through; a test that never gets there proves nothing.
RARE_BRANCHES: tuple[str, ...] = ()

#: Seconds of processor time for fresh seeds.
FRESH_BUDGET_S = float(os.environ.get("ANGELIA_SIM_BUDGET_S", "15"))


def told(story: Story) -> str:
    """What a person needs to go on from a red seed."""
    tail = "\n".join(story.trace[-40:])
    return f"make sim SEED={story.seed}\n" + "\n".join(story.flaws[:10]) + f"\n\n{tail}"


@pytest.mark.parametrize("seed", STORIES)
def test_a_seed_with_a_story(seed: int) -> None:
    story = play(seed)
    assert not story.flaws, told(story)


def test_the_batch_reaches_the_rare_branches() -> None:
    reached: Counter[str] = Counter()
    for seed in RARE_SEEDS:
        story = play(seed)
        assert not story.flaws, told(story)
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
