"""Commit, then acknowledge: the one door for everything that comes in.

When ``receive`` returns, the inbound is on record under its dedup key; only then does the
adapter acknowledge it. A crash before means that the platform replays it; a crash after,
that its turn waits in the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from angelia.model.errors import StoreDamagedError, StoreUnavailableError
from angelia.model.ids import Lane
from angelia.model.messages import Inbound, Reception, well_formed
from angelia.seams.rng import Rng
from angelia.store.ledger import Ledger, TurnKind

#: The fields of an inbound that somebody outside has written.
_FROM_OUTSIDE = ("chat", "thread", "message_id", "user", "user_name", "text", "reply_to")


class Receiver:
    """``on_turn`` is hinted with each new turn; ``is_command`` tells commands from messages."""

    def __init__(
        self,
        ledger: Ledger,
        rng: Rng,
        on_turn: Callable[[str, Lane, TurnKind], None],
        is_command: Callable[[str], bool] = lambda _text: False,
    ) -> None:
        self._ledger = ledger
        self._rng = rng
        self._on_turn = on_turn
        self._is_command = is_command
        self.open = False

    async def receive(self, inbound: Inbound) -> Reception:
        """Commit an admitted inbound. Raises ``StoreUnavailableError`` when it is not on
        record (also before the start and while stopping): do not acknowledge it."""
        if not self.open:
            raise StoreUnavailableError("the gateway takes no messages now")
        clean = _clean(inbound)
        kind = TurnKind.COMMAND if self._is_command(clean.text) else TurnKind.MESSAGE
        turn = self._rng.token()
        try:
            reception = await self._ledger.accept(clean, turn, kind)
        except StoreDamagedError as error:
            raise StoreUnavailableError(str(error)) from error
        if reception is Reception.ACCEPTED:
            self._on_turn(turn, clean.lane, kind)
        return reception

    async def edit(self, inbound: Inbound) -> bool:
        """A message was edited: replaces the text while its turn waits, else starts nothing."""
        if not self.open:
            raise StoreUnavailableError("the gateway takes no messages now")
        return await self._ledger.edit(_clean(inbound))


def _clean(inbound: Inbound) -> Inbound:
    """Lone surrogates and NUL are replaced at the border."""
    said = {name: getattr(inbound, name) for name in _FROM_OUTSIDE}
    repaired: dict[str, Any] = {
        name: clean for name, text in said.items() if (clean := well_formed(text)) != text
    }
    return replace(inbound, **repaired) if repaired else inbound
