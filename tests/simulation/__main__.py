"""``python -m tests.simulation SEED``: one world with its readable trace. With two numbers,
the worlds from the first to before the second, one line for each that is flawed. A theme (see
``mixture.THEMES``) may follow."""

from __future__ import annotations

import sys
from collections import Counter

from tests.simulation.mixture import themed
from tests.simulation.world import play


def main(arguments: list[str]) -> int:
    theme = arguments.pop() if arguments and not arguments[-1].isdigit() else ""
    numbers = [int(argument) for argument in arguments]
    if not 1 <= len(numbers) <= 2:
        print(__doc__)
        return 2
    if len(numbers) == 1:
        story = play(numbers[0], themed(theme, numbers[0]) if theme else None)
        print("\n".join(story.trace))
        print(f"\n{story.digest[:16]} {story.virtual_s:.0f} s, {story.deaths} deaths, {story.arrivals} seen")
        print("\n".join(story.flaws) or "no flaw")
        return 1 if story.flaws else 0
    reached: Counter[str] = Counter()
    hours, deaths, flawed = 0.0, 0, 0
    for seed in range(*numbers):
        story = play(seed, themed(theme, seed) if theme else None)
        hours += story.virtual_s / 3600
        deaths += story.deaths
        reached.update(story.reached)
        if story.flaws:
            flawed += 1
            print(f"seed {seed}: {len(story.flaws)} flaws: {story.flaws[0]}", flush=True)
    print(f"{len(range(*numbers))} worlds, {hours:.0f} virtual hours, {deaths} deaths, {flawed} flawed")
    for branch, count in sorted(reached.items()):
        print(f"  {count:7} {branch}")
    return 1 if flawed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
