"""``python -m tests.soak MINUTES [SEED]``: rounds of random deaths, two at a time, each with its
own mixture.

Prints the seed at once, a line for each round and the figures of all at the end. Ends with 1
and keeps the home and the log of every round in which something was wrong. A seed draws the
same mixture, the same words and the same plan of deaths again; what meets what is up to the
machine.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.crash.nursery import Zygote
from tests.soak.mixture import mixture
from tests.soak.round import Round, play

#: A round is long enough for a backlog, and short enough to be looked at.
ROUND_S = 120.0

#: Half of a round waits: for a start, a death, an answer.
_AT_ONCE = 2


def main(arguments: list[str]) -> int:
    try:
        minutes = float(arguments[0])
        seed = int(arguments[1]) if len(arguments) > 1 else int(time.time())
    except (IndexError, ValueError):
        print(__doc__)
        return 2
    return soak(minutes, seed)


def soak(minutes: float, seed: int) -> int:
    """Rounds for ``minutes``, the first with ``seed``; 1 if anything was wrong, or if nothing
    died, which proves nothing."""
    print(f"soak: {minutes:g} minutes, seed {seed}", flush=True)
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="angelia-soak-", dir=parent))
    total: Counter[str] = Counter()
    wrong = 0
    zygote = Zygote()
    try:
        zygote.imports("openai.resources.chat.completions")
        began, end = time.monotonic(), time.monotonic() + minutes * 60
        while (seconds := min(ROUND_S, end - time.monotonic())) >= 1:
            for done in asyncio.run(_side_by_side(range(seed, seed + _AT_ONCE), folder, seconds, zygote)):
                _tell(done)
                total.update(done.figures)
                wrong += len(done.violations)
                if not done.violations:
                    shutil.rmtree(done.home)
            seed += _AT_ONCE
    finally:
        zygote.close()
        if not any(folder.iterdir()):
            folder.rmdir()
    passed = (time.monotonic() - began) / 60
    print(f"{passed:.1f} minutes, {total['kills'] / passed:.0f} kills a minute")
    for name, count in sorted(total.items()):
        print(f"  {count:8} {name}")
    print(f"  {wrong:8} violations")
    return 1 if wrong or not total["kills"] else 0


async def _side_by_side(seeds: range, folder: Path, seconds: float, zygote: Zygote) -> list[Round]:
    """Rounds that know nothing of each other."""
    homes = [_home(folder, seed) for seed in seeds]
    rounds = (play(mixture(seed), home, seconds, zygote) for seed, home in zip(seeds, homes, strict=True))
    return await asyncio.gather(*rounds)


def _home(folder: Path, seed: int) -> Path:
    home = folder / f"seed{seed}"
    home.mkdir(mode=0o700)
    return home


def _tell(done: Round) -> None:
    """One line for a round; every violation of it."""
    names = ("messages", "lives", "kills", "kills with a call in flight", "copies", "marked copies")
    told = ", ".join(f"{done.figures[name]} {name}" for name in names)
    print(f"seed {done.seed}: {told}, {len(done.violations)} violations", flush=True)
    for sentence in done.violations[:30]:
        print(f"  VIOLATION {sentence}")
    if done.violations:
        print(f"  kept in {done.home}; again: python -m tests.soak 2 {done.seed}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
