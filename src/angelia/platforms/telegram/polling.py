"""The loop around ``getUpdates``: the offset moves only behind what is committed.

Asking with an offset is the acknowledgement of everything before it. So a batch is asked past
only when each of its updates is on record or proved not ours; a crash before that makes
Telegram send the batch again, and the store knows what it has. The offset is kept nowhere:
without one, Telegram begins with what was never acknowledged.

Chats of a batch are taken side by side, the messages of one chat in their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import structlog

from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import AdapterId
from angelia.model.outcomes import NotSent, Unconfirmed
from angelia.platforms.base import Host
from angelia.platforms.telegram.api import BotApi, Reply, poll_limit_s
from angelia.platforms.telegram.intake import Intake
from angelia.platforms.telegram.outcomes import wait_of
from angelia.platforms.telegram.updates import ALLOWED_UPDATES
from angelia.seams import crash
from angelia.seams.clock import Clock

_BATCH = 100
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_HASTE_MS = 500  # an answer without news that came sooner was not waited for
_CONFLICT_PAUSE_S = 30.0  # two that ask in turns would each get a part of the messages
_STORE_FIRST_PAUSE_S = 0.1
_STORE_LONGEST_PAUSE_S = 5.0

_log = structlog.get_logger("angelia")


class Poller:
    """Asks for updates until it is cancelled, or until the token is refused."""

    def __init__(self, adapter_id: AdapterId, api: BotApi, intake: Intake, host: Host, clock: Clock) -> None:
        self._id = adapter_id
        self._api = api
        self._intake = intake
        self._host = host
        self._clock = clock
        self._offset: int | None = None
        self._asked: int | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._trouble = ""

    async def run(self) -> None:
        """Ends only with the token; whatever else happens is tried again, ever more slowly."""
        while True:
            began, before = self._clock.now().steady, self._offset
            reply = await self._api.call(
                "getUpdates",
                {
                    "offset": self._offset,
                    "limit": _BATCH,
                    "timeout": poll_limit_s,
                    "allowed_updates": ALLOWED_UPDATES,
                },
            )
            if isinstance(reply, Reply) and reply.ok and isinstance(reply.result, list):
                self._well()
                self._asked = self._offset
                await self._commit(reply.result)
                if self._offset == before and self._clock.now().steady - began < _HASTE_MS:
                    await self._clock.sleep(_FIRST_PAUSE_S)  # who answers so does not wait as Telegram does
            elif isinstance(reply, Reply) and (reply.code == 401 or reply.description == "Not Found"):
                self._host.lost(f"Telegram refused the token: {reply.description}")
                return
            else:
                await self._ill(reply)

    async def _commit(self, updates: Sequence[Any]) -> None:
        """Returns when every update of the batch may be acknowledged."""
        if not updates:
            return
        self._intake.foresee(updates)
        by_chat: dict[str, list[Any]] = {}
        for update in updates:
            by_chat.setdefault(_chat_of(update), []).append(update)
        async with asyncio.TaskGroup() as chats:
            for of_one_chat in by_chat.values():
                chats.create_task(self._in_order(of_one_chat))
        crash.point("ack.before")
        numbers = [one.get("update_id") for one in updates if isinstance(one, dict)]
        known = [number for number in numbers if isinstance(number, int)]
        if known:
            self._offset = known[-1] + 1  # the last, not the largest: ids may start anew

    async def _in_order(self, updates: Sequence[Any]) -> None:
        for update in updates:
            pause_s = _STORE_FIRST_PAUSE_S
            while True:
                try:
                    await self._intake.take(update)
                    break
                except StoreUnavailableError:
                    pass  # the gateway is not open yet, or its store cannot be written: nothing moves
                except Exception:
                    _log.exception(
                        "a message of Telegram could not be received; it is tried again",
                        action="telegram.receive_failed",
                        adapter=str(self._id),
                    )
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, _STORE_LONGEST_PAUSE_S)

    def _well(self) -> None:
        if self._asked != self._offset:
            crash.point("ack.after")
        self._pause_s = _FIRST_PAUSE_S
        if self._trouble:
            self._trouble = ""
            _log.info("Telegram answers again", action="telegram.polling_restored", adapter=str(self._id))
            self._host.troubled("")
            self._host.connected()

    async def _ill(self, reply: Reply | NotSent | Unconfirmed) -> None:
        """Tell the operator, once for each kind of trouble, and wait."""
        pause_s = self._pause_s
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        if not isinstance(reply, Reply):
            self._tell("telegram.polling_failed", "Telegram cannot be reached", reply.detail)
        elif reply.code == 409 and "webhook" in reply.description.lower():
            self._tell(
                "telegram.webhook_is_set",
                "somebody set a webhook for this bot while it polls; it is removed",
                reply.description,
                error=True,
            )
            await self._api.call("deleteWebhook", {})
        elif reply.code == 409:
            self._tell(
                "telegram.second_poller",
                "another program asks for the updates of this bot; stop it, or make a bot of its own: "
                "until then messages go now here, now there",
                reply.description,
                error=True,
            )
            pause_s = _CONFLICT_PAUSE_S
        elif reply.code == 429:
            self._tell("telegram.polling_limited", "Telegram limits the asking", reply.description)
            pause_s = max(wait_of(reply), _FIRST_PAUSE_S)
        else:
            self._tell("telegram.polling_failed", "Telegram does not answer as it should", reply.description)
        await self._clock.sleep(pause_s)

    def _tell(self, action: str, sentence: str, reason: str, error: bool = False) -> None:
        if self._trouble != action:
            self._trouble = action
            tell = _log.error if error else _log.warning
            tell(sentence, action=action, adapter=str(self._id), reason=reason)
            self._host.troubled(sentence)


def _chat_of(update: Any) -> str:
    """What keeps its order: the chat, where there is one."""
    if isinstance(update, dict):
        for kind in ALLOWED_UPDATES:
            message = update.get(kind)
            if isinstance(message, dict) and isinstance(message.get("chat"), dict):
                return str(message["chat"].get("id"))
    return ""
