"""Flood control: waits that were imposed, and the limits that impose them.

A wait holds a chat or the whole bot until a time by the server's clock; whoever calls before
that is refused with what is left and written down as a trespass. The limits are the ones the
documentation speaks of (about one message a second for a chat, twenty a minute for a group,
thirty a second for a bot); the real ones are not published. They are off unless switched on.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from angelia.seams.clock import Clock
from angelia.testing.telegram_server.answers import RefusalError, flooded


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``messages`` in any ``seconds``."""

    messages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one chat, of a group or channel beside that, and of the bot as a whole."""

    chat: Limit = Limit(1, 1.0)
    group: Limit = Limit(20, 60.0)
    bot: Limit = Limit(30, 1.0)


@dataclass(slots=True)
class Floods:
    """``limits`` ``None``: no limit of its own. ``trespasses``: the numbers of the calls that
    came inside a wait, in order."""

    clock: Clock
    limits: Limits | None = None
    trespasses: list[int] = field(default_factory=list)
    _until_ms: dict[int | None, int] = field(default_factory=dict)
    _seen_ms: dict[tuple[str, int | None], deque[int]] = field(default_factory=lambda: defaultdict(deque))

    def impose(self, chat: int | None, wait_s: int) -> None:
        """Hold ``chat`` (``None``: the bot) for ``wait_s`` seconds from now."""
        end = self.clock.now().steady + wait_s * 1000
        self._until_ms[chat] = max(self._until_ms.get(chat, 0), end)

    def lift(self) -> None:
        """Forget every wait and every count."""
        self._until_ms.clear()
        self._seen_ms.clear()

    def left_s(self, chat: int | None) -> int:
        """Whole seconds for which calls of ``chat`` are still refused, 0 for none."""
        ends = (self._until_ms.get(None, 0), self._until_ms.get(chat, 0))
        left_ms = max(ends) - self.clock.now().steady
        return max(0, -(-left_ms // 1000))

    def check(self, chat: int | None, number: int) -> None:
        """Raises the refusal if call ``number`` comes inside a wait."""
        left = self.left_s(chat)
        if left:
            self.trespasses.append(number)
            raise flooded(left)

    def count(self, chat: int, messages: int) -> None:
        """Count ``messages`` that are about to be accepted.

        Raises the refusal, and imposes its wait, if they are too many; then none is counted."""
        if self.limits is None:
            return
        found: RefusalError | None = None
        rows = [("chat", chat, self.limits.chat), ("bot", None, self.limits.bot)]
        if chat < 0:
            rows.append(("group", chat, self.limits.group))
        for name, whom, limit in rows:
            wait_s = self._too_many(name, whom, limit)
            if wait_s:
                self.impose(whom, wait_s)
                found = flooded(wait_s)
        if found is not None:
            raise found
        for name, whom, _ in rows:
            self._seen_ms[name, whom].extend([self.clock.now().steady] * messages)

    def _too_many(self, name: str, whom: int | None, limit: Limit) -> int:
        now = self.clock.now().steady
        seen = self._seen_ms[name, whom]
        while seen and seen[0] <= now - limit.seconds * 1000:
            seen.popleft()
        if len(seen) < limit.messages:
            return 0
        left_ms = seen[len(seen) - limit.messages] + int(limit.seconds * 1000) - now
        return max(1, -(-left_ms // 1000))
