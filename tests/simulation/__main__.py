"""Simulated worlds by hand.

``python -m tests.simulation SEED [THEME]``: one world with its readable trace (``mixture.THEMES``).

``python -m tests.simulation --seeds FIRST-LAST``: many worlds. Stops at nothing; each red seed is
told with its first flaw, and at the end the figures and the branches that were reached. With
``--journal FILE`` what is done is kept, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.simulation.figures import many
from tests.simulation.mixture import THEMES, themed
from tests.simulation.world import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("theme", nargs="?", default="", choices=["", *THEMES])
    parser.add_argument("--seeds", metavar="FIRST-LAST")
    parser.add_argument("--theme", dest="theme_of_many", default="", choices=["", *THEMES])
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (1)")
    parser.add_argument("--minutes", type=float, default=0.0, metavar="M", help="begin nothing after that")
    parser.add_argument("--journal", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.seeds:
        first, _, last = given.seeds.partition("-")
        if not (first.isdigit() and last.isdigit() and int(first) <= int(last)):
            parser.error(f"--seeds {given.seeds}: say FIRST-LAST, for example 1-100000")
        total = many(
            int(first), int(last), given.theme_of_many, max(1, given.jobs), given.minutes, given.journal
        )
        print(total)
        for branch, count in sorted(total.reached.items()):
            print(f"  {count:9} {branch}")
        for seed, flaw in sorted(total.red):
            print(f"red: seed {seed}: {flaw}")
        return 1 if total.red else 0
    if given.seed is None:
        parser.error("a seed, or --seeds FIRST-LAST")
    story = play(given.seed, themed(given.theme, given.seed) if given.theme else None)
    print("\n".join(story.trace))
    print(f"\n{story.digest[:16]} {story.virtual_s:.0f} s, {story.deaths} deaths, {story.arrivals} seen")
    print("\n".join(story.flaws) or "no flaw")
    return 1 if story.flaws else 0


if __name__ == "__main__":
    sys.exit(main())
