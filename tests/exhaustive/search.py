"""Walking the bounded world: every word up to a depth, and long random ones."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.exhaustive.moves import answered, fair_end, successors
from tests.exhaustive.world import Alphabet, World, canonical

from angelia.model.record import open_attempt


@dataclass
class Count:
    """What a search has seen, so that it cannot shrink unnoticed."""

    states: int = 0
    calls: int = 0
    ends: int = 0


def search(first: World, alphabet: Alphabet, calls: int) -> Count:
    """Visit every world within ``calls`` answered calls; from each the row must come to an end."""
    count = Count()
    known: set[int] = set()
    fair: dict[int, int] = {}
    level = [first]
    for depth in range(calls + 1):
        below: list[World] = []
        while level:
            world = level.pop()
            mark = hash(canonical(world))
            if mark in known:
                continue
            known.add(mark)
            count.states += 1
            if world.final:
                count.ends += 1
                continue
            if open_attempt(world.record) is None:
                if world.trail and world.trail[-1] in alphabet.words:
                    fair_end(world, fair=fair)
                level.extend(successors(world, alphabet))
            elif depth == calls:
                fair_end(world, fair=fair)
            else:
                for later in successors(world, alphabet):
                    count.calls += 1
                    below.append(later)
        level = below
    return count


def random_words(first: World, alphabet: Alphabet, seed: int, words: int, length: int) -> Count:
    """``words`` random words of at most ``length`` moves, the same ones for the same seed."""
    dice = random.Random(seed)
    count = Count()
    for _ in range(words):
        world = first
        for _ in range(length):
            if world.final:
                count.ends += 1
                break
            if open_attempt(world.record) is not None:
                count.calls += 1
                world = answered(world, dice.choice(alphabet.words))
            else:
                world = dice.choice(list(successors(world, alphabet)))
            count.states += 1
        else:
            fair_end(world)
    return count
