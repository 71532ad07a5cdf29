"""What one round of the soak is made of, drawn from its seed.

Every round has its own mixture: a fault that is rare or missing in one is common in another,
so that each gets its turn to be met with each. Times of the gateway are virtual (its clock runs
``speed`` times faster); times of processes and sockets are real.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

#: How the platform may treat a call, with its weight where it is common. ``ok`` is apart.
FAULTS: dict[str, float] = {
    "slow": 3.0,  # takes it, answers a little later
    "limited": 2.0,  # 429 with a Retry-After
    "busy": 1.0,  # 503 with a Retry-After
    "refused": 1.0,  # 400
    "broken before": 1.0,  # 500, not taken
    "broken after": 1.5,  # 500, but taken
    "reset before": 1.0,  # cut without being taken
    "reset after": 2.0,  # taken, then cut
    "hangs before": 0.7,  # not taken, no answer until the caller gives up
    "hangs after": 1.5,  # taken, no answer until the caller gives up
    "garbage": 1.0,  # taken, then bytes that are no HTTP
    "half": 0.7,  # taken, 200, and cut in the middle of the body
    "too long": 0.4,  # 413
    "bad markup": 0.4,  # 422
    "gone": 0.15,  # 410
    "credential": 0.1,  # 401
}

#: How the model server may treat a call, likewise.
MOODS: dict[str, float] = {"slow": 3.0, "fails": 1.0, "cut": 1.0, "hangs": 0.5, "empty": 0.3}

#: How a life of the gateway ends, likewise. Most end by SIGKILL at a random moment.
ENDS: dict[str, float] = {
    "killed": 10.0,
    "killed at its start": 4.0,
    "stopped": 1.0,
    "killed while stopping": 1.5,
    "frozen, then killed": 0.7,
}


@dataclass(frozen=True)
class Mixture:
    """``ok``: the share of calls that go well. ``pace_s``: seconds between two messages of one
    person. ``life_s``: the mean of a life until its kill. ``delay_s``: virtual seconds that the
    echo takes. ``text_limit``: of the platform, in characters. ``repeats``: how likely an old
    message is repeated. ``pays``: one profile asks a model server, whose library makes each start
    about three times as long."""

    seed: int
    speed: float
    ok: float
    faults: dict[str, float]
    moods: dict[str, float]
    ends: dict[str, float]
    pace_s: float
    life_s: float
    delay_s: float
    text_limit: int
    repeats: float
    pays: bool

    def fault(self, dice: Random) -> str:
        """How the platform treats this call."""
        return "ok" if dice.random() < self.ok else _pick(self.faults, dice)

    def mood(self, dice: Random) -> str:
        """How the model server treats this call."""
        return "ok" if dice.random() < self.ok else _pick(self.moods, dice)

    def end(self, dice: Random) -> str:
        """How this life ends."""
        return _pick(self.ends, dice)


def _pick(weights: dict[str, float], dice: Random) -> str:
    return dice.choices(list(weights), list(weights.values()))[0]


def mixture(seed: int) -> Mixture:
    """The mixture of ``seed``."""
    dice = Random(f"mixture {seed}")

    def some(weights: dict[str, float]) -> dict[str, float]:
        """Each of them more common, rarer or, now and then, missing."""
        return {name: weight * dice.choice((0, 0.5, 1, 1, 2, 4)) for name, weight in weights.items()}

    return Mixture(
        seed=seed,
        speed=dice.choice((20.0, 40.0, 60.0)),
        ok=dice.choice((0.4, 0.6, 0.8)),
        faults={**some(FAULTS), "slow": 1.0},
        moods={**some(MOODS), "slow": 1.0},
        ends={**some(ENDS), "killed": 10.0},
        pace_s=dice.choice((0.3, 0.7, 1.5)),
        life_s=dice.choice((0.1, 0.3, 0.8)),
        delay_s=dice.choice((0.0, 2.0, 15.0)),
        text_limit=dice.choice((64, 160, 4096)),
        repeats=dice.choice((0.1, 0.4)),
        pays=dice.random() < 0.25,
    )
