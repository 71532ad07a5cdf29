"""What belongs together: a paste that the client cut, an album.

A client cuts a long paste into messages of almost the limit and a rest, sent one after the
other. So a text of almost the limit waits for more, and the same person's next text within
seconds belongs to it. The pictures of an album carry the album's id and come one by one.

Marks are made of ids alone (the first message of a paste, the album), so an update that is
replayed after a restart gets the mark it had. What was seen lately is kept in memory; a paste
between whose pieces the gateway was restarted may become two turns, no piece is lost.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from angelia.platforms.telegram.updates import Message
from angelia.platforms.text import utf16_units

_NEARLY_FULL = 3600  # UTF-16 code units: clients cut at 4096, or at a space before it
_TOGETHER_S = 3  # between the dates of two pieces; clients send them within a second
_PASTE_MORE_S = 2.0
_ALBUM_MORE_S = 1.5
_REMEMBERED = 2000  # speakers and albums
_PIECES = 32  # of one speaker


@dataclass(frozen=True, slots=True)
class Piece:
    """``mark`` and ``more_s`` as in ``Inbound``. ``called``: a piece of it is addressed to us."""

    mark: str
    more_s: float
    called: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    message_id: int
    date: int
    full: bool
    mark: str
    called: bool


class Bursts:
    """Remembers the latest pieces."""

    def __init__(self) -> None:
        self._speakers: OrderedDict[tuple[int, str, str], list[_Seen]] = OrderedDict()
        self._albums: OrderedDict[str, None] = OrderedDict()

    def foresee(self, message: Message) -> None:
        """A piece of this album is addressed to us: so are the others, also those before it."""
        if message.media_group_id:
            self._albums[message.media_group_id] = None
            while len(self._albums) > _REMEMBERED:
                self._albums.popitem(last=False)

    def place(self, message: Message, thread: str, user: str, called: bool) -> Piece:
        """What ``message`` belongs to. To be asked once per arrival, in the order of arrival."""
        if message.media_group_id:
            if called:
                self.foresee(message)
            mark = f"album:{user}:{message.media_group_id}"
            return Piece(mark, _ALBUM_MORE_S, message.media_group_id in self._albums)
        if not message.text:
            return Piece("", 0.0, called)
        return self._paste(message, (message.chat.id, thread, user), called)

    def _paste(self, message: Message, speaker: tuple[int, str, str], called: bool) -> Piece:
        seen = self._speakers.setdefault(speaker, [])
        self._speakers.move_to_end(speaker)
        while len(self._speakers) > _REMEMBERED:
            self._speakers.popitem(last=False)
        full = utf16_units(message.text) >= _NEARLY_FULL
        number = message.message_id
        earlier = [one for one in seen if one.message_id < number]
        before = max(earlier, key=lambda one: one.message_id, default=None)
        goes_on = before is not None and before.full and 0 <= message.date - before.date <= _TOGETHER_S
        if before is not None and goes_on:
            mark, called = before.mark, before.called
        else:
            mark = f"paste:{speaker[2]}:{number}" if full else ""
        seen[:] = [one for one in seen if one.message_id != number][-_PIECES:]
        seen.append(_Seen(number, message.date, full, mark, called))
        return Piece(mark, _PASTE_MORE_S if full else 0.0, called)
