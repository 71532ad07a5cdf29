"""Which troubles a world has: its own mixture, often none of a kind.

If everything went wrong everywhere, nothing would ever get far enough to go wrong in an
interesting way. So most worlds know only a few troubles, and some know none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.simulation.dice import Dice

PLATFORM_KINDS = ("key for ever", "key 24 h", "key 2 min", "read back", "neither", "no part receipts")

#: What a platform may do with a call besides accepting it, and how heavy that may weigh.
ANSWERS: dict[str, float] = {
    "lost": 0.6,  # accepted; the answer never comes
    "dropped": 0.5,  # accepted; the connection breaks
    "vanished": 0.5,  # not accepted; nobody says so
    "broken": 0.5,  # not accepted; 5xx
    "late": 0.4,  # accepted after the call's time is over
    "refused": 0.6,
    "limited": 0.6,
    "unsent": 0.8,
    "unreachable": 0.1,
    "moved": 0.3,
    "thread gone": 0.2,
    "anchor gone": 0.3,
    "markup": 0.3,
    "too long": 0.3,
    "credential": 0.03,
    "raises": 0.2,
    "slow": 0.5,
}

AGENT_MOODS: dict[str, float] = {
    "slow": 1.0,
    "fails": 0.3,
    "empty": 0.3,
    "hangs": 0.2,
    "falls back": 0.4,
    "raises": 0.2,
}


@dataclass(frozen=True)
class Mixture:
    """Times in seconds (0: never), ``*_p`` probabilities, the rest weights beside 1 for "well"."""

    nodes: int
    lock: bool
    length_s: float
    platforms: tuple[str, ...]
    chats: int
    pace_s: float
    pause_p: float
    connect_p: float
    kill_every_s: float
    crash_point_p: float
    freeze_every_s: float
    stop_every_s: float
    step_every_s: float
    down_every_s: float
    lost_commit_p: float
    loss_every_s: float
    absent_every_s: float
    operator_every_s: float
    gap: str
    gap_s: float
    duplicate_p: float
    edit_p: float
    command_p: float
    answers: dict[str, float]
    moods: dict[str, float]
    stall_p: float  # stands still right after a commit, before its caller hears of it
    in_file: bool  # the store is a file with a connection for each, not shared memory
    ledger_off: str  # "", "always", "at times": gateway.delivery_ledger is false
    full_p: float  # of the store's troubles: the disk is really full, or another process writes
    batch_p: float  # several messages at once, acknowledged together


def draw(seed: int) -> Mixture:
    """The mixture of the world ``seed``."""
    dice = Dice(seed, "mixture")

    def every(least: float, most: float, probability: float = 0.4) -> float:
        chosen = dice.between(least, most)
        return chosen if dice.chance(probability) else 0.0

    def some(weights: dict[str, float], probability: float) -> dict[str, float]:
        drawn = {name: most * dice.between(0.1, 1.0) for name, most in weights.items()}
        return {name: weight for name, weight in drawn.items() if dice.chance(probability)}

    lock = dice.chance(0.4)
    kinds = dict.fromkeys(dice.pick(PLATFORM_KINDS) for _ in range(dice.whole(1, 3)))
    gap = dice.pick(("", "", "", "down", "suspended"))
    return Mixture(
        nodes=1 if lock else dice.whole(1, 3),
        lock=lock,
        length_s=dice.pick((60.0, 150.0, 150.0, 300.0)),
        platforms=tuple(kinds),
        chats=dice.whole(1, 3),
        pace_s=dice.between(5, 30),
        pause_p=dice.pick((0.0, 0.1, 0.5)),
        connect_p=dice.pick((0.0, 0.0, 0.3)),
        kill_every_s=every(8, 80, 0.5),
        crash_point_p=dice.pick((0.0, 0.0, 0.002, 0.01, 0.04)),
        freeze_every_s=every(15, 90, 0.3),
        stop_every_s=every(20, 120, 0.3),
        step_every_s=every(20, 120, 0.25),
        down_every_s=every(20, 90, 0.3),
        lost_commit_p=dice.pick((0.0, 0.0, 0.0, 0.01, 0.05)),
        loss_every_s=every(15, 90, 0.3),
        absent_every_s=every(15, 60, 0.2),
        operator_every_s=every(3, 30, 0.4),
        gap=gap,
        gap_s=dice.pick((900.0, 4000.0, 86_000.0, 87_000.0, 200_000.0, 700_000.0)),
        duplicate_p=dice.pick((0.0, 0.2, 0.5)),
        edit_p=dice.pick((0.0, 0.3)),
        command_p=dice.pick((0.0, 0.1)),
        answers=some(ANSWERS, dice.pick((0.0, 0.15, 0.3, 0.5))),
        moods=some(AGENT_MOODS, 0.3),
        stall_p=dice.pick((0.0, 0.0, 0.0, 0.005, 0.03)),
        in_file=dice.chance(0.1),
        ledger_off=dice.pick(("",) * 10 + ("always", "at times")),
        full_p=dice.pick((0.0, 0.5)),
        batch_p=dice.pick((0.0, 0.0, 0.3)),
    )


_HARSH = {
    "unreachable": 0.1,
    "moved": 0.15,
    "thread gone": 0.5,
    "markup": 0.4,
    "too long": 0.5,
    "anchor gone": 0.4,
}

#: Worlds with a theme, for the branches that chance alone visits too seldom.
THEMES: dict[str, dict[str, Any]] = {
    "rough platforms": {
        "platforms": ("neither", "read back"),
        "answers": {name: 0.35 * most for name, most in ANSWERS.items()} | _HARSH,
        "chats": 3,
        "kill_every_s": 50.0,
        "operator_every_s": 12.0,
        "duplicate_p": 0.2,
    },
    "rough keys": {
        "platforms": ("key 2 min", "no part receipts"),
        "answers": {name: 0.35 * most for name, most in ANSWERS.items()} | {"limited": 0.5},
        "chats": 2,
        "kill_every_s": 40.0,
    },
    "limits": {
        "platforms": ("neither",),
        "answers": {"limited": 0.3, "too long": 0.1, "thread gone": 0.1},
        "pace_s": 5.0,
        "chats": 3,
        "pause_p": 0.5,
    },
    "long texts": {
        "platforms": ("neither",),
        "answers": {"too long": 1.0, "dropped": 0.3, "unreachable": 0.05, "credential": 0.02},
        "kill_every_s": 40.0,
    },
    "refusals": {
        "platforms": ("neither",),
        "answers": {"refused": 4.0, "vanished": 1.0, "limited": 1.0},
        "length_s": 420.0,
        "pace_s": 40.0,
        "kill_every_s": 60.0,
    },
    "deaths": {
        "nodes": 3,
        "lock": False,
        "platforms": ("key 24 h", "neither"),
        "kill_every_s": 25.0,
        "crash_point_p": 0.01,
        "freeze_every_s": 20.0,
        "stall_p": 0.02,
        "pause_p": 0.5,
        "answers": {"slow": 1.0, "late": 0.3, "credential": 0.02},
    },
    "drains": {
        "stop_every_s": 14.0,
        "moods": {"slow": 2.0, "hangs": 0.3, "falls back": 0.3},
        "command_p": 0.2,
        "edit_p": 0.5,
    },
    "store": {
        "nodes": 2,
        "lock": False,
        "down_every_s": 45.0,
        "length_s": 300.0,
        "lost_commit_p": 0.02,
        "kill_every_s": 200.0,
        "crash_point_p": 0.001,
        "stop_every_s": 0.0,
        "moods": {"slow": 3.0},
    },
    "ledger off": {
        "ledger_off": "at times",
        "nodes": 2,
        "lock": False,
        "kill_every_s": 20.0,
        "platforms": ("key 24 h", "neither"),
        "operator_every_s": 10.0,
        "command_p": 0.15,
        "answers": {"slow": 1.0, "lost": 0.3, "refused": 0.3, "too long": 0.2},
    },
    "clocks": {
        "step_every_s": 25.0,
        "freeze_every_s": 30.0,
        "nodes": 2,
        "lock": False,
        "answers": {"limited": 0.4, "lost": 0.3},
    },
    "full disks": {
        "down_every_s": 25.0,
        "full_p": 1.0,
        "in_file": False,
        "length_s": 300.0,
        "batch_p": 0.4,
        "kill_every_s": 30.0,
        "loss_every_s": 30.0,
    },
    "locked files": {
        "down_every_s": 25.0,
        "full_p": 1.0,
        "in_file": True,
        "nodes": 2,
        "lock": False,
        "batch_p": 0.4,
        "lost_commit_p": 0.05,
        "length_s": 100.0,
    },
    "gaps": {
        "kill_every_s": 30.0,
        "gap": "suspended",
        "gap_s": 700_000.0,
        "answers": {"vanished": 0.5, "limited": 0.5},
        "duplicate_p": 0.5,
    },
}


def themed(theme: str, seed: int) -> Mixture:
    """The mixture of the world ``seed``, with the troubles of a theme for certain."""
    return replace(draw(seed), **({"length_s": 150.0, "pace_s": 9.0, "chats": 2} | THEMES[theme]))
