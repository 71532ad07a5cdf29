"""Has this message been here before? For people who embed only that.

The gateway itself keeps its inbound keys in the store, where they survive a crash. This is the
small form of it for a program that has no store: a bounded memory of message ids that belongs
to the program and not to its connection. When a connection is rebuilt together with its
deduplicator, the new one adopts what the old one knew with ``seed_from``, at the times at
which the ids were *first* seen; a rebuild therefore neither forgets nor refreshes (case E2).

Time is given, never asked for. What counts is time that was seen to pass: a clock that steps
back makes no id live longer than its window, and wakes up none that had expired. Nothing here
survives the process. Not for several threads at once.
"""

from __future__ import annotations

from typing import NamedTuple

from angelia.model.limits import DAY_MS


class _Sight(NamedTuple):
    """When an id was first seen: by the caller's clock, and by the time that has passed here."""

    seen_at: int
    passed: int


class MessageDeduplicator:
    """A memory of at most ``max_size`` message ids, each kept for ``ttl_ms`` milliseconds from
    the time it was first seen. All times are milliseconds of one clock of the caller's choice.

    Over capacity the expired ids go first, then those first seen longest ago.
    """

    def __init__(self, max_size: int = 2000, ttl_ms: int = 7 * DAY_MS) -> None:
        if max_size < 1 or ttl_ms < 1:
            raise ValueError("max_size and ttl_ms are at least 1")
        self._max_size = max_size
        self._ttl_ms = ttl_ms
        self._sights: dict[str, _Sight] = {}  # in the order of ``passed``
        self._passed = 0
        self._newest: int | None = None

    def __len__(self) -> int:
        """How many ids are remembered, expired ones included until they are dropped."""
        return len(self._sights)

    def is_duplicate(self, message_id: str, now_ms: int) -> bool:
        """Whether ``message_id`` was first seen less than ``ttl_ms`` ago. If not, it is now
        seen for the first time. A duplicate refreshes nothing. An empty id is never one, and
        is not remembered: there is nothing to tell it by."""
        self._advance(now_ms)
        if not message_id:
            return False
        if message_id in self._sights:
            return True
        self._sights[message_id] = _Sight(now_ms, self._passed)
        self._trim()
        return False

    def contains(self, message_id: str, now_ms: int) -> bool:
        """Whether ``is_duplicate`` would say so; nothing is recorded."""
        sight = self._sights.get(message_id)
        return sight is not None and self._age(sight, now_ms) < self._ttl_ms

    def seen_at(self, message_id: str) -> int | None:
        """When ``message_id`` was first seen, in milliseconds, if it is still remembered."""
        sight = self._sights.get(message_id)
        return sight.seen_at if sight else None

    def discard(self, message_id: str) -> None:
        """Forget ``message_id``, so that its next sight is the first: for an event that was
        not admitted after all."""
        self._sights.pop(message_id, None)

    def seed_from(self, other: MessageDeduplicator, now_ms: int) -> None:
        """Adopt the ids of ``other`` that are still live, at their original times. Of an id
        that both know, the earlier sight counts. ``other`` is not changed."""
        self._advance(now_ms)
        for message_id, sight in other._sights.items():
            age = other._age(sight, now_ms)
            if age >= min(self._ttl_ms, other._ttl_ms):
                continue
            adopted = _Sight(sight.seen_at, self._passed - age)
            known = self._sights.get(message_id)
            if known is None or adopted.passed < known.passed:
                self._sights[message_id] = adopted
        self._sights = dict(sorted(self._sights.items(), key=lambda item: item[1].passed))
        self._trim()

    def _age(self, sight: _Sight, now_ms: int) -> int:
        """How much time was seen to pass since ``sight``."""
        since = max(0, now_ms - self._newest) if self._newest is not None else 0
        return self._passed + since - sight.passed

    def _advance(self, now_ms: int) -> None:
        """Let the time pass that the caller's clock says; a step back is no time."""
        if self._newest is not None:
            self._passed += max(0, now_ms - self._newest)
        self._newest = now_ms
        while self._sights and self._passed - next(iter(self._sights.values())).passed >= self._ttl_ms:
            del self._sights[next(iter(self._sights))]

    def _trim(self) -> None:
        while len(self._sights) > self._max_size:
            del self._sights[next(iter(self._sights))]
