"""The one place where chance enters: fresh ids and jitter."""

from __future__ import annotations

import random
import secrets
from typing import Protocol


class Rng(Protocol):
    """Randomness that a simulation can replace by a seeded one."""

    def token(self) -> str:
        """A fresh id of 20 lower-case hexadecimal characters (80 bits)."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1), for jitter."""
        ...


class SystemRng:
    """The machine's randomness."""

    def token(self) -> str:
        return secrets.token_hex(10)

    def fraction(self) -> float:
        return random.random()  # noqa: S311 - jitter, not a secret


class SeededRng:
    """The same numbers for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311

    def token(self) -> str:
        return f"{self._random.getrandbits(80):020x}"

    def fraction(self) -> float:
        return self._random.random()
