"""What a person can tell the gateway itself in a chat: new, stop, why, help (with / or !).

Commands are answered without a model run. Anything else that begins with / or ! is a message.
"""

from __future__ import annotations

import re

from angelia.engine.engine import Engine
from angelia.model import notices
from angelia.store.ledger import Turn
from angelia.store.sqlite import SqliteLedger
from angelia.store.sqlite_reading import latest_answer
from angelia.store.views import timeline, verdict

_COMMAND = re.compile(r"\s*[/!](new|stop|why|help)(@\S+)?\s*", re.IGNORECASE)


def is_command(text: str) -> bool:
    """Whether ``text`` is a command and nothing but a command."""
    return len(text) < 200 and _COMMAND.fullmatch(text) is not None


class Commands:
    """Answers command turns."""

    def __init__(self, engine: Engine, ledger: SqliteLedger) -> None:
        self._engine = engine
        self._ledger = ledger

    async def answer(self, turn: Turn) -> str:
        """What to say to the command of ``turn``."""
        match = _COMMAND.fullmatch(turn.text)
        word = match.group(1).lower() if match else "help"
        if word == "new":
            await self._ledger.new_conversation(turn.lane, turn.id)
            return notices.NEW_CONVERSATION
        if word == "stop":
            return notices.STOPPED if self._engine.turner.stop(turn.lane) else notices.NOTHING_TO_STOP
        if word == "why":
            return await self._why(turn)
        return notices.HELP

    async def _why(self, turn: Turn) -> str:
        """The verdict on the newest answer of this conversation."""
        delivery = await self._ledger.read(lambda c: latest_answer(c, turn.lane))
        if delivery is None:
            return notices.NOTHING_TO_EXPLAIN
        return verdict(await self._ledger.read(lambda c: timeline(c, delivery)))
