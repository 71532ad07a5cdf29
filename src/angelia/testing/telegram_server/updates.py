"""The bot's queue of updates: what was not confirmed yet comes again.

An update leaves the queue only when a later offset confirms it, when it is a day old, when it is
dropped by ``drop_pending_updates`` or a negative offset, or when the webhook took it. Ids go up
by one, but after a week without updates the next one is random, as the documentation warns.
Source: api getUpdates, Update; Client.cpp do_get_updates, add_message_update.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from angelia.seams.clock import Clock
from angelia.seams.rng import Rng
from angelia.testing.telegram_server.answers import Json, named

keep_ms = 24 * 3600 * 1000
idle_ms = 7 * 24 * 3600 * 1000
long_poll_s_max = 50
limit_max = 100
ahead_max = 10  # td TQueue: an offset further ahead is "in the future" and not taken
#: The kinds that happen here. R: api Update has more.
KINDS = frozenset(
    ("message", "edited_message", "channel_post", "edited_channel_post", "my_chat_member", "chat_member")
)
#: Kinds that come only to those who ask for them by name.
_UNASKED = frozenset({"chat_member", "message_reaction", "message_reaction_count"})


@dataclass(frozen=True, slots=True)
class Waiting:
    """One update in the queue. ``chat``: its lane for the webhook."""

    id: int
    chat: int
    until_ms: int
    content: Json


class Updates:
    """``handed_out``: every answer that a poller got, as the ids in it. ``allowed``: the kinds
    that the bot asked for, empty for the usual ones; it holds for updates that come later."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self.queue: list[Waiting] = []
        self.allowed: list[str] = []
        self.handed_out: list[list[int]] = []
        self.next_id = self._random_id()
        self.on_arrival: Callable[[], None] = lambda: None
        self._last_ms = clock.now().wall
        self._parked: asyncio.Future[str] | None = None

    def _random_id(self) -> int:
        return 100_000_000 + int(self._rng.fraction() * 800_000_000)

    # -- arrival -----------------------------------------------------------------------------

    def add(self, kind: str, content: Json) -> int | None:
        """Queue an update. Returns its id, or ``None`` if the bot does not want its kind or the
        message is a day old."""
        wanted = kind in self.allowed if self.allowed else kind not in _UNASKED
        now = self._clock.now().wall
        until = int(content.get("edit_date") or content.get("date", now // 1000)) * 1000 + keep_ms
        if not wanted or until <= now:
            return None
        if now - self._last_ms >= idle_ms:
            self.next_id = self._random_id()
        self._last_ms = now
        number, self.next_id = self.next_id, self.next_id + 1
        chat = int(content.get("chat", {}).get("id", 0))
        self.queue.append(Waiting(number, chat, until, {"update_id": number, kind: content}))
        if self._parked is not None and not self._parked.done():
            self._parked.set_result("")
        self.on_arrival()
        return number

    def renumber(self, first: int | None = None) -> None:
        """The next update gets the id ``first``, or a random one: as after an idle week."""
        self.next_id = self._random_id() if first is None else first

    def repeat(self, update: Json) -> None:
        """Put an update that was confirmed already into the queue again, as it was: what the
        platform does at its worst."""
        content = next(value for name, value in update.items() if name != "update_id")
        until = self._clock.now().wall + keep_ms
        chat = int(content.get("chat", {}).get("id", 0))
        self.queue.append(Waiting(update["update_id"], chat, until, update))
        if self._parked is not None and not self._parked.done():
            self._parked.set_result("")
        self.on_arrival()

    @property
    def pending(self) -> list[Json]:
        """What waits, oldest first."""
        self._expire()
        return [update.content for update in self.queue]

    def drop(self, ids: set[int] | None = None) -> None:
        """Drop those of ``ids``, all if ``None``."""
        self.queue = [] if ids is None else [update for update in self.queue if update.id not in ids]

    def _expire(self) -> None:
        now = self._clock.now().wall
        self.queue = [update for update in self.queue if update.until_ms > now]

    # -- polling -----------------------------------------------------------------------------

    def confirm(self, offset: int) -> None:
        """Take the meaning of ``offset``: confirm what is before it; a negative one keeps only
        so many of the newest; one that lies well beyond the last id means nothing."""
        if offset < 0:
            self.queue = self.queue[offset:]
        elif 0 < offset <= self.next_id + ahead_max:
            self.queue = [update for update in self.queue if update.id >= offset]

    async def poll(self, offset: int, limit: int, timeout_s: int) -> list[Json]:
        """One ``getUpdates``. Who has to wait sends away the poller that waits already.

        Raises the conflict for a poller that another one sends away."""
        self._expire()
        self.confirm(offset)
        if not self.queue and timeout_s > 0:
            await self._park(min(timeout_s, long_poll_s_max))
        given = self.queue[: min(max(limit, 1), limit_max)]
        self.handed_out.append([update.id for update in given])
        return [update.content for update in given]

    def leave(self, reason: str) -> None:
        """Send the parked poller away; ``reason`` is the name of a refusal."""
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(reason)

    @property
    def parked(self) -> bool:
        """Whether a poller waits for something to come."""
        return self._parked is not None and not self._parked.done()

    async def _park(self, timeout_s: int) -> None:
        self.leave("conflict")
        mine: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._parked = mine
        self.on_arrival()
        pause = asyncio.ensure_future(self._clock.sleep(timeout_s))
        both: set[asyncio.Future[Any]] = {mine, pause}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            if self._parked is mine:
                self._parked = None
            if not mine.done():
                mine.cancel()
        if not mine.cancelled() and mine.result():
            raise named(mine.result())


def kinds_from(values: Any) -> Sequence[str] | None:
    """``allowed_updates`` of a call; ``None`` if it was not given or is no list of strings, which
    the real server takes for the same. What nobody knows is left out."""
    if not isinstance(values, list) or not all(isinstance(kind, str) for kind in values):
        return None
    return [kind.lower() for kind in values if kind.lower() in KINDS]
