"""The verbs of the ledger under power cuts and failing calls: a few seeds of ``world.py``.

``python -m tests.powerloss --images N`` plays as many as there is time for.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.powerloss.world import play

SEEDS = range(1, 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_image_is_the_store_before_or_after_the_verb_under_way(seed: int) -> None:
    told = play(seed, images_of_a_verb=3)
    assert told.flaws == [], f"seed {seed}"
    assert set(told.images) == {"kept", "lost", "torn"}
    assert told.images.total() > 80, "too few images to mean anything"


def test_faults_of_every_kind_are_met_by_verbs_and_told_by_name() -> None:
    faults: Counter[str] = Counter()
    refused = 0
    for seed in range(100, 106):
        told = play(seed, images_of_a_verb=0)
        assert told.flaws == [], f"seed {seed}"
        faults.update(told.faults)
        refused += told.refused
    assert refused > 0
    for kind in ("write", "sync", "disk full"):
        assert faults[kind] + faults[f"{kind}, lasting"] > 0, f"no {kind} failed: {faults}"


def test_canary_a_ledger_that_is_not_synced_is_caught() -> None:
    told = play(1, synchronous="normal", faulty=False)
    assert any("lost image" in flaw or "torn image" in flaw for flaw in told.flaws)
