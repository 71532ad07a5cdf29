"""Power cuts by hand: ``python -m tests.powerloss --images N``.

Plays worlds (``world.py``), one seed after another and each with its own workload, faults and
moments, until N images were opened. Stops at no violation; tells each with its seed. With
``--journal FILE`` what is done is kept, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.powerloss.figures import many


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.powerloss", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--images", type=int, required=True, metavar="N")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="the first seed (1)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (1)")
    parser.add_argument("--minutes", type=float, default=0.0, metavar="M", help="begin nothing after that")
    parser.add_argument("--journal", type=Path, metavar="FILE")
    given = parser.parse_args()
    total = many(given.first, given.images, max(1, given.jobs), given.minutes, given.journal)
    print(total)
    for fault, count in sorted(total.faults.items()):
        print(f"  {count:9} {fault}")
    for seed, flaw in sorted(total.red):
        print(f"red: seed {seed}: {flaw}")
    return 1 if total.red else 0


if __name__ == "__main__":
    sys.exit(main())
