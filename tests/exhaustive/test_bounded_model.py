"""The bounded model: every short word and many long ones over all that can happen to a delivery.

The guarantees are checked at every move (see ``moves`` and ``world``): copies and markers,
plain first sends, at most three counted redeliveries, the waits of §6, nothing after 24 h,
nothing twice that has a receipt, nothing stranded. The counts have floors, so that the search
cannot shrink without anybody noticing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from tests.exhaustive.moves import answered, fair_end, successors
from tests.exhaustive.search import random_words, search
from tests.exhaustive.world import CORE, DEATHS, DEEP, FILES, FULL, OUTCOMES, WILD, Alphabet, fresh

from angelia.model.plan import Promise
from angelia.model.states import Reason, State

HOUR = 3_600_000.0
PROMISES = {
    "none": Promise(4096),
    "key 24 h": Promise(4096, key_window_ms=24 * HOUR),
    "key 120 s": Promise(4096, key_window_ms=120_000.0),
    "key for ever": Promise(4096, key_window_ms=float("inf")),
    "read back": Promise(4096, read_back=True),
    "key and read back": Promise(4096, key_window_ms=120_000.0, read_back=True),
    "receipts unknown": Promise(4096, part_receipts=False),
    "line apart": Promise(40),
    "line apart, read back": Promise(40, read_back=True),
    "line apart, key": Promise(40, key_window_ms=24 * HOUR),
}
KINDS = pytest.mark.parametrize("kind", PROMISES)


@KINDS
def test_every_word_over_the_whole_alphabet(kind: str) -> None:
    count = search(fresh(PROMISES[kind], 1, addressed=True), FULL, calls=2)
    print(kind, count)
    assert count.calls >= 300
    assert count.states >= 600


@KINDS
def test_every_word_over_the_core_with_two_parts(kind: str) -> None:
    count = search(fresh(PROMISES[kind], 2), CORE, calls=2)
    print(kind, count)
    assert count.calls >= 200
    assert count.states >= 500


@KINDS
def test_every_longer_word_with_three_parts(kind: str) -> None:
    count = search(fresh(PROMISES[kind], 3), DEEP, calls=3)
    print(kind, count)
    assert count.calls >= 200
    assert count.states >= 400


@KINDS
def test_every_word_over_files_with_and_without_a_caption(kind: str) -> None:
    promise = replace(PROMISES[kind], caption_limit=PROMISES[kind].text_limit // 4)
    for captions in (("", "a cat"), ("a cat", "")):
        count = search(fresh(promise, 0, captions=captions), FILES, calls=2)
        print(kind, count)
        assert count.calls >= 90


@pytest.mark.parametrize("fact", ["requested", "inherited_doubt"])
@KINDS
def test_requested_and_inherited(kind: str, fact: str) -> None:
    first = fresh(PROMISES[kind], 2)
    first = replace(first, record=replace(first.record, **{fact: True}))  # type: ignore[arg-type]
    count = search(first, CORE, calls=2)
    assert count.states >= 200


@pytest.mark.parametrize(("parts", "addressed"), [(1, True), (2, False), (3, True)])
@KINDS
def test_long_random_words(kind: str, parts: int, addressed: bool) -> None:
    first = fresh(PROMISES[kind], parts, addressed)
    count = random_words(first, WILD, seed=parts, words=40, length=50)
    print(kind, count)
    assert count.ends >= 10


@KINDS
def test_a_platform_that_always_says_the_same_comes_to_an_end(kind: str) -> None:
    """After any first outcome, the same outcome for ever: a bounded number of calls."""
    beginnings = ("ok", "unconfirmed+", "died-", "refused", "too long", "topic gone")
    for first, ever in product(beginnings, (*OUTCOMES, *DEATHS)):
        if ever in ("not sent", "bad credential"):  # they wait for a connection, 24 h long
            continue
        world = next(successors(fresh(PROMISES[kind], 2, addressed=True), FULL))
        end = fair_end(answered(world, first), ever, calls_most=20)
        if ever == "ok":
            assert end.record.state is State.DELIVERED


@pytest.mark.parametrize("word", ["unconfirmed-", "dropped-", "refused", "limit 5 s", "died-", "taken over-"])
def test_four_passes_and_no_more(word: str) -> None:
    """The first send and three redeliveries, then it is given up (guarantees §6)."""
    world = next(successors(fresh(PROMISES["none"], 1), FULL))
    end = fair_end(answered(world, word), word)
    assert end.reason is Reason.TRIES_USED_UP
    assert len(end.record.attempts) == 4


def test_not_sent_for_a_day_is_stale_and_was_never_marked() -> None:
    world = next(successors(fresh(PROMISES["none"], 1), Alphabet(())))
    calls = 0
    while not world.final:
        if world.record.state is State.ATTEMPTING:
            world, calls = answered(world, "not sent"), calls + 1
        else:
            world = next(successors(world, Alphabet(("not sent",), jumps=(600_000,))))
    assert world.reason is Reason.STALE
    assert not world.record.attempts
    assert not any(r.marker for r in world.record.revisions)
    assert calls > 100
