"""The benchmark's own accounting must be able to fail: a fast gateway that loses, repeats, misdirects
or reorders a message has no figures."""

from __future__ import annotations

from typing import Any

import pytest
from bench.gateway import NotAccountedError, account

MS = 1_000_000


def posted(*messages: tuple[int, str]) -> list[list[Any]]:
    """Handed in one millisecond after another: (number, chat)."""
    return [[f"step-{number} hello", chat, number * MS] for number, chat in messages]


def arrived(*messages: tuple[int, str]) -> list[list[Any]]:
    """Arrived in this order, each 10 ms after it was due."""
    return [[f"step-{number} hello", chat, f"key-{number}", (number + 10) * MS] for number, chat in messages]


def test_latency_is_counted_from_when_a_message_was_due() -> None:
    found = account(posted((1, "a"), (2, "b"), (3, "a")), arrived((2, "b"), (1, "a"), (3, "a")))
    assert found == [10.0, 10.0, 10.0]


def test_conversations_may_overtake_each_other_but_not_themselves() -> None:
    handed_in = posted((9, "a"), (10, "a"), (11, "b"))
    assert len(account(handed_in, arrived((11, "b"), (9, "a"), (10, "a")))) == 3
    with pytest.raises(NotAccountedError, match="out of order in 1 conversations, first a"):
        account(handed_in, arrived((10, "a"), (9, "a"), (11, "b")))


@pytest.mark.parametrize(
    ("arrivals", "verdict"),
    [
        (arrived((1, "a")), "of 2 messages 1 lost, 0 repeated, 0 unknown"),
        (arrived((1, "a"), (2, "a"), (2, "a")), "of 2 messages 0 lost, 1 repeated, 0 unknown"),
        (arrived((1, "a"), (2, "a"), (3, "a")), "of 2 messages 0 lost, 0 repeated, 1 unknown"),
        (arrived((1, "a"), (2, "b")), "of 2 messages 1 lost, 0 repeated, 1 unknown"),
        ([], "of 2 messages 2 lost, 0 repeated, 0 unknown"),
    ],
    ids=["lost", "repeated", "invented", "misdirected", "nothing arrived"],
)
def test_what_did_not_arrive_exactly_once_in_its_chat_ends_the_run(
    arrivals: list[list[Any]], verdict: str
) -> None:
    with pytest.raises(NotAccountedError, match=verdict):
        account(posted((1, "a"), (2, "a")), arrivals)


def test_a_load_that_posted_the_same_message_twice_proves_nothing() -> None:
    twice = [*posted((1, "a")), *posted((1, "a"))]
    with pytest.raises(NotAccountedError, match="of 2 messages 0 lost"):
        account(twice, arrived((1, "a")))
