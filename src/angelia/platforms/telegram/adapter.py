"""One profile's bot on Telegram. Keeps nothing that must survive it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from aiohttp import web
from pydantic import ValidationError

from angelia.model.errors import AdapterDownError, BadCredentialError
from angelia.model.ids import AdapterId, Lane
from angelia.model.messages import Outgoing
from angelia.model.outcomes import Accepted, LookUp, NotSent, Outcome, RateLimited, Unconfirmed
from angelia.platforms.base import Capabilities, Host, Pace
from angelia.platforms.http import connect_limit_s
from angelia.platforms.telegram.api import BotApi, Reply
from angelia.platforms.telegram.intake import Intake
from angelia.platforms.telegram.menu import keep_menu
from angelia.platforms.telegram.outbound import (
    Call,
    call_for,
    caption_limit,
    chat_id,
    media_bytes_max,
    place,
    text_limit,
)
from angelia.platforms.telegram.outcomes import Floods, outcome_of, wait_of
from angelia.platforms.telegram.polling import Poller
from angelia.platforms.telegram.settings import TelegramSettings
from angelia.platforms.telegram.splitting import split_markdown
from angelia.platforms.telegram.updates import Me
from angelia.platforms.telegram.webhook_mode import WebhookMode, choose_mode
from angelia.platforms.text import utf16_units
from angelia.seams.clock import Clock

_start_waits_most_s = 20.0  # a start may take 30 s

_log = structlog.get_logger("angelia")


def _is_group(chat: str) -> bool:
    """Groups, supergroups and channels have negative ids."""
    return chat.startswith("-")


#: The limits that Telegram names in its FAQ for bots; what it enforces varies.
_PACE = Pace(chat_per_s=1.0, bot_per_s=30.0, group_per_min=20.0, burst=3, is_group=_is_group)


class TelegramAdapter:
    """``start`` makes sure of the token before anything else; see ``platforms.base``."""

    def __init__(
        self,
        adapter_id: AdapterId,
        settings: TelegramSettings,
        clock: Clock,
        *,
        connect_limit_s: float = connect_limit_s,
    ) -> None:
        self._id = adapter_id
        self._settings = settings
        self._clock = clock
        self._api = BotApi(
            settings.token.get_secret_value(),
            settings.base_url,
            settings.timeout_s,
            connect_limit_s=connect_limit_s,
        )
        self._webhook = WebhookMode(adapter_id, settings.webhook_secret.get_secret_value())
        self._floods = Floods()
        self._host: Host | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._silent = False
        self._capabilities = Capabilities(
            text_limit=text_limit,
            measure=utf16_units,
            text_unit="UTF-16 code units",
            call_limit_s=self._api.call_limit_s,
            typing=True,
            media_bytes=media_bytes_max,
            caption_limit=caption_limit,
            pace=_PACE,
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """The path that Telegram calls; none when we ask."""
        if self._settings.mode == "polling":
            return []
        return [web.post(f"/telegram/{self._id.profile}", self._webhook.receive)]

    async def start(self, host: Host) -> None:
        """Ask who we are, tell Telegram how updates come, begin to take them. Raises
        ``BadCredentialError`` for a token that is refused, else ``AdapterDownError``."""
        await self.open(host)
        me = await self._who_am_i()
        await self._checked(await choose_mode(self._api, self._settings))
        intake = Intake(self._id, self._api, me, self._settings.groups, host)
        if self._settings.mode == "polling":
            poller = Poller(self._id, self._api, intake, host, self._clock)
            self._tasks.append(asyncio.create_task(poller.run(), name=f"poll {self._id}"))
        else:
            self._webhook.intake = intake
        menu = keep_menu(self._id, self._api, self._clock)
        self._tasks.append(asyncio.create_task(menu, name=f"menu {self._id}"))
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def open(self, host: Host) -> None:
        """Get the wire ready; from here on ``send`` works. ``start`` does it first."""
        await self._api.open()
        self._host = host

    async def stop(self) -> None:
        self._host = None
        self._webhook.intake = None
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await self._api.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A loop that breaks is a bug: it is told, and a new instance takes its place."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error(
                "a task of the Telegram adapter broke",
                action="telegram.task_broke",
                adapter=str(self._id),
                exc_info=error,
            )
            if self._host is not None:
                self._host.lost(f"the adapter broke ({type(error).__name__})")

    async def _who_am_i(self) -> Me:
        reply = await self._checked(await self._api.call("getMe", {}))
        try:
            me = Me.model_validate(reply.result)
        except ValidationError:
            me = Me(id=0)
        if not me.is_bot:
            raise self._no_bot_api(reply)
        return me

    async def _checked(self, reply: Reply | NotSent | Unconfirmed) -> Reply:
        """``reply``, if it is a yes; else the error that says to the operator what is wrong."""
        if not isinstance(reply, Reply):
            raise AdapterDownError(f"the Bot API cannot be reached: {reply.detail}")
        if reply.ok:
            return reply
        if not reply.readable:
            raise self._no_bot_api(reply)
        if reply.code == 401 or reply.description == "Not Found":
            raise BadCredentialError(
                f"Telegram refused the token of profile {self._id.profile} ({reply.description}); "
                "get a valid one from @BotFather and put it into .env"
            )
        if reply.code == 429:  # the next try comes from a new instance that knows nothing of this
            await self._clock.sleep(min(wait_of(reply), _start_waits_most_s))
        raise AdapterDownError(f"the Bot API answered: {reply.description}")

    def _no_bot_api(self, reply: Reply) -> AdapterDownError:
        return AdapterDownError(
            f"what answers at base_url is no Bot API (HTTP {reply.status}); name the address without "
            "/bot and the token"
        )

    def split(self, text: str, limit: int | None = None) -> list[str]:
        return split_markdown(text, limit or text_limit)

    def present(self, chat: str) -> bool:
        """True unless stopped: each send is a request of its own."""
        return self._host is not None

    async def send(self, message: Outgoing) -> Outcome:
        """One request. 2xx is a receipt; whatever else Telegram says, ``outcomes`` reads."""
        host = self._host
        if host is None:
            return NotSent("the adapter is stopped")
        path = None if message.attachment is None else host.spooled(message.attachment)
        call = await asyncio.to_thread(call_for, message, path) if path else call_for(message, None)
        if not isinstance(call, Call):
            return call
        answer = await self._api.call(call.method, call.fields, call.upload)
        self._hear(isinstance(answer, Reply))
        outcome = outcome_of(answer, message.chat, media=call.upload is not None)
        return self._learned(outcome, message.chat)

    def _learned(self, outcome: Outcome, chat: str) -> Outcome:
        """``outcome`` with the scope of its limit."""
        if isinstance(outcome, Accepted):
            self._floods.accepted()
        if isinstance(outcome, RateLimited):
            scope = self._floods.scope(chat, outcome.wait_s, self._clock.now().steady)
            return RateLimited(outcome.wait_s, scope, detail=outcome.detail)
        return outcome

    def _hear(self, answered: bool) -> None:
        """After a silence the first answer brings what waits for a connection forward."""
        if answered and self._silent and self._host is not None:
            self._host.connected()
        self._silent = not answered

    async def look_up(self, message: Outgoing, since: int) -> Accepted | LookUp:
        """Telegram keeps no history that a bot could read."""
        return LookUp.CANNOT_TELL

    async def typing(self, lane: Lane, active: bool) -> Outcome | None:
        """It ends by itself, after five seconds or with the message (Bot API documentation)."""
        where = place(lane.thread)
        if not active or self._host is None or where is None or "direct_messages_topic_id" in where:
            return None
        fields = {"chat_id": chat_id(lane.chat), "action": "typing", **where}
        outcome = outcome_of(await self._api.call("sendChatAction", fields), lane.chat)
        if isinstance(outcome, RateLimited):
            return self._learned(outcome, lane.chat)
        return outcome if isinstance(outcome, NotSent | Unconfirmed) else None
