"""How fast we send of our own accord, so that a platform seldom has to say "too many".

Each bound is a theoretical arrival time: a message moves it on by its interval, and may go
while it is not further ahead of now than the burst allows. Kept in memory: a platform's own
answer (a rate limit, on record) is the truth, this only makes it rare.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from angelia.platforms.base import Pace

#: Chats are forgotten, once their time is over, beyond this many.
_CHATS_MOST = 10_000

#: How many messages of one bot may go at once.
_BOT_BURST = 10


@dataclass(slots=True)
class _Line:
    """One bound. ``interval`` in milliseconds between messages, ``slack`` how far ahead of now
    the next one may be planned."""

    interval: float
    slack: float
    planned: float = 0.0

    def ready(self, now: float) -> float:
        return max(now, self.planned - self.slack)

    def take(self, at: float) -> None:
        self.planned = max(at, self.planned) + self.interval


def _line(per_ms: float, burst: int) -> _Line:
    interval = 1 / per_ms
    return _Line(interval, (burst - 1) * interval)


@dataclass(slots=True)
class Pacer:
    """The bounds of one bot. Times in steady milliseconds."""

    pace: Pace
    _bot: _Line | None = None
    _chats: dict[str, tuple[_Line, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pace.bot_per_s:
            self._bot = _line(self.pace.bot_per_s / 1000, _BOT_BURST)

    def reserve(self, chat: str, now: int) -> float:
        """A place for one message to ``chat``: how many seconds from now it may go."""
        lines = self._lines(chat, now)
        at = max([line.ready(now) for line in lines], default=float(now))
        for line in lines:
            line.take(at)
        return (at - now) / 1000

    def _lines(self, chat: str, now: int) -> tuple[_Line, ...]:
        known = self._chats.get(chat)
        if known is None:
            if len(self._chats) >= _CHATS_MOST:
                over = (name for name, its in self._chats.items() if all(one.planned <= now for one in its))
                for name in list(over):
                    del self._chats[name]
            known = self._chats[chat] = self._new(chat)
        return known if self._bot is None else (*known, self._bot)

    def _new(self, chat: str) -> tuple[_Line, ...]:
        lines = []
        if self.pace.chat_per_s:
            lines.append(_line(self.pace.chat_per_s / 1000, self.pace.burst))
        if self.pace.group_per_min and self.pace.is_group(chat):
            lines.append(_line(self.pace.group_per_min / 60_000, self.pace.burst))
        return tuple(lines)
