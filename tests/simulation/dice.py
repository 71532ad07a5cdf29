"""Everything that is left to chance in a simulated world, drawn from one seed.

Each actor throws dice of its own, so that one more throw of one of them does not change the
luck of all the others: a story stays the same story while a test is being changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

from angelia.seams.rng import SeededRng

T = TypeVar("T")


class Dice:
    """The dice of the actor ``name`` in the world ``seed``."""

    def __init__(self, seed: int, name: str) -> None:
        self.rng = SeededRng(zlib.crc32(f"{seed}/{name}".encode()))

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.rng.fraction() < probability

    def between(self, least: float, most: float) -> float:
        return least + (most - least) * self.rng.fraction()

    def whole(self, least: int, most: int) -> int:
        """A whole number from ``least`` to ``most``, both included."""
        return least + int(self.rng.fraction() * (most - least + 1))

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.fraction() * len(choices))]

    def weighted(self, weights: Mapping[str, float]) -> str:
        point = self.rng.fraction() * sum(weights.values())
        for name, weight in weights.items():
            point -= weight
            if point < 0:
                return name
        return next(iter(weights))
