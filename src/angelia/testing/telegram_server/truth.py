"""What was accepted, in order: the one thing that every checker compares with.

The list lives in memory and, if a file is named, in that file: one JSON line for each message,
written and synced before the call is answered, so a test that kills anybody at any moment can
read what the people saw. A server started on the same file goes on with it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from angelia.testing.telegram_server.answers import Json


@dataclass(frozen=True, slots=True)
class Accepted:
    """One message (or one edit: ``method`` ``editmessagetext``) that a chat now shows.

    ``text``: the text, or the caption of a medium, after parsing; offsets of ``entities`` in
    UTF-16 units. ``thread``: the topic, ``None`` for none and for General. ``sha256``: of the
    medium's bytes. ``call``: the number of the call; an album has one number and many messages.
    """

    chat: int
    thread: int | None
    message_id: int
    method: str
    text: str = ""
    entities: tuple[Json, ...] = ()
    sha256: str | None = None
    file_name: str | None = None
    reply_to: int | None = None
    quote: str | None = None
    album: str | None = None
    call: int = 0
    at_ms: int = 0


def accepted_from(values: Json) -> Accepted:
    """The record that was taken apart for a wire or a file."""
    return Accepted(**{**values, "entities": tuple(values.get("entities", ()))})


def read_truth(path: Path) -> list[Accepted]:
    """What the file holds. A last line that is not complete yet is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [accepted_from(json.loads(line)) for line in lines]


class Truth:
    """The list, and its file where there is one."""

    def __init__(self, path: Path | None = None) -> None:
        self.accepted: list[Accepted] = [] if path is None else read_truth(path)
        self._file = None if path is None else path.open("a", encoding="utf-8")

    def append(self, message: Accepted) -> None:
        """On return the message is in the list and on the disk."""
        if self._file is not None:
            self._file.write(json.dumps(asdict(message)) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        self.accepted.append(message)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
