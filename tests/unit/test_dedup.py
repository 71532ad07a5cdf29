"""The deduplicator for people who embed only that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from angelia.model.dedup import MessageDeduplicator
from angelia.model.limits import DAY_MS


def test_first_sight_is_no_duplicate_and_the_second_is() -> None:
    seen = MessageDeduplicator()
    assert not seen.is_duplicate("m1", 0)
    assert seen.is_duplicate("m1", 1)
    assert not seen.is_duplicate("m2", 1)


def test_the_window_is_seven_days_unless_said_otherwise() -> None:
    seen = MessageDeduplicator()
    seen.is_duplicate("m", 0)
    assert seen.contains("m", 7 * DAY_MS - 1)
    assert not seen.contains("m", 7 * DAY_MS)


def test_a_duplicate_does_not_refresh() -> None:
    seen = MessageDeduplicator(ttl_ms=300)
    assert not seen.is_duplicate("m", 0)
    assert seen.is_duplicate("m", 299)
    assert not seen.is_duplicate("m", 301)
    assert seen.seen_at("m") == 301


def test_an_empty_id_is_never_a_duplicate() -> None:
    seen = MessageDeduplicator()
    assert not seen.is_duplicate("", 0)
    assert not seen.is_duplicate("", 0)
    assert len(seen) == 0


def test_e2_seen_set_rebuilt_with_its_adapter_keeps_the_original_times() -> None:
    def rebuilt() -> MessageDeduplicator:
        old = MessageDeduplicator(ttl_ms=300)
        assert not old.is_duplicate("U", 0)
        new = MessageDeduplicator(ttl_ms=300)
        new.seed_from(old, 200)
        assert new.seen_at("U") == 0
        return new

    assert rebuilt().is_duplicate("U", 299)
    assert not rebuilt().is_duplicate("U", 301)
    one = rebuilt()
    assert one.is_duplicate("U", 299)
    assert not one.is_duplicate("U", 301)


def test_expired_ids_are_not_adopted() -> None:
    old = MessageDeduplicator(ttl_ms=300)
    old.is_duplicate("m", 0)
    new = MessageDeduplicator(ttl_ms=1000)
    new.seed_from(old, 300)
    assert not new.contains("m", 300)


def test_a_shorter_window_of_the_new_one_counts() -> None:
    old = MessageDeduplicator(ttl_ms=1000)
    old.is_duplicate("old", 0)
    old.is_duplicate("young", 300)
    new = MessageDeduplicator(ttl_ms=200)
    new.seed_from(old, 400)
    assert not new.contains("old", 400)
    assert new.contains("young", 499)
    assert not new.contains("young", 500)


def test_of_an_id_that_both_know_the_earlier_sight_counts() -> None:
    old = MessageDeduplicator(ttl_ms=300)
    old.is_duplicate("a", 0)
    old.is_duplicate("b", 150)
    new = MessageDeduplicator(ttl_ms=300)
    new.is_duplicate("b", 50)
    new.is_duplicate("a", 100)
    new.seed_from(old, 200)
    assert (new.seen_at("a"), new.seen_at("b")) == (0, 50)


def test_the_instance_that_is_replaced_is_left_alone() -> None:
    old = MessageDeduplicator(ttl_ms=300)
    old.is_duplicate("a", 0)
    new = MessageDeduplicator(ttl_ms=300)
    new.seed_from(old, 200)
    new.discard("a")
    assert old.contains("a", 200)


def test_over_capacity_the_first_seen_goes_first_however_often_it_came_again() -> None:
    seen = MessageDeduplicator(max_size=2)
    seen.is_duplicate("a", 0)
    seen.is_duplicate("b", 1)
    assert seen.is_duplicate("a", 2)
    seen.is_duplicate("c", 3)
    assert [seen.contains(name, 3) for name in "abc"] == [False, True, True]


def test_adopted_ids_take_their_place_in_the_order_of_first_sight() -> None:
    old = MessageDeduplicator(max_size=10)
    old.is_duplicate("oldest", 0)
    old.is_duplicate("middle", 50)
    new = MessageDeduplicator(max_size=2)
    new.is_duplicate("newest", 60)
    new.seed_from(old, 70)
    assert [new.contains(name, 70) for name in ("oldest", "middle", "newest")] == [False, True, True]


def test_the_expired_make_room_before_the_living() -> None:
    seen = MessageDeduplicator(max_size=2, ttl_ms=100)
    seen.is_duplicate("expired", 0)
    seen.is_duplicate("alive", 60)
    seen.is_duplicate("new", 120)
    assert seen.contains("alive", 120)
    assert seen.seen_at("expired") is None


def test_a_discarded_id_may_come_again() -> None:
    seen = MessageDeduplicator()
    seen.is_duplicate("m", 0)
    seen.discard("m")
    seen.discard("never seen")
    assert not seen.is_duplicate("m", 1)


def test_a_clock_that_steps_back_makes_no_id_immortal() -> None:
    seen = MessageDeduplicator(ttl_ms=300)
    seen.is_duplicate("m", 1_000_000)
    assert seen.is_duplicate("m", 0)
    assert seen.is_duplicate("m", 299)
    assert not seen.is_duplicate("m", 300)


def test_a_clock_that_steps_back_wakes_up_nothing_that_had_expired() -> None:
    seen = MessageDeduplicator(ttl_ms=300)
    seen.is_duplicate("m", 0)
    seen.is_duplicate("other", 400)
    assert not seen.is_duplicate("m", 100)


def test_ids_are_adopted_with_their_age_after_a_step_back() -> None:
    old = MessageDeduplicator(ttl_ms=300)
    old.is_duplicate("m", 1_000)
    old.is_duplicate("other", 1_200)
    new = MessageDeduplicator(ttl_ms=300)
    new.seed_from(old, 0)
    assert new.is_duplicate("m", 99)
    assert not new.is_duplicate("m", 100)


@pytest.mark.parametrize(("max_size", "ttl_ms"), [(0, 1), (1, 0), (-1, 5)])
def test_senseless_bounds_are_refused(max_size: int, ttl_ms: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        MessageDeduplicator(max_size, ttl_ms)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40), st.booleans()), max_size=60))
def test_any_run_equals_a_plain_book_of_first_sights(steps: list[tuple[str, int, bool]]) -> None:
    seen, book, now = MessageDeduplicator(max_size=100, ttl_ms=100), dict[str, int](), 0
    for name, pause, rebuild in steps:
        now += pause
        if rebuild:
            fresh = MessageDeduplicator(max_size=100, ttl_ms=100)
            fresh.seed_from(seen, now)
            seen = fresh
        known = name in book and now - book[name] < 100
        assert seen.contains(name, now) == known
        assert seen.is_duplicate(name, now) == known
        if not known:
            book[name] = now
        assert seen.seen_at(name) == book[name]


@given(st.integers(1, 5), st.lists(st.tuples(st.text(max_size=3), st.integers(-1000, 1000)), max_size=50))
def test_memory_stays_bounded_whatever_the_clock_does(size: int, steps: list[tuple[str, int]]) -> None:
    seen, now = MessageDeduplicator(max_size=size, ttl_ms=500), 0
    for name, step in steps:
        now += step
        seen.is_duplicate(name, now)
        other = MessageDeduplicator(max_size=size, ttl_ms=500)
        other.seed_from(seen, now)
        assert len(seen) <= size
        assert len(other) == len(seen)
