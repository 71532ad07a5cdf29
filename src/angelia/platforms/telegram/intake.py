"""From an update to the commit. When ``take`` returns, the update may be acknowledged.

That is so when the message is on record (or was), when it is not for us, or when nobody may
read it. Only a store that cannot be written leaves it unacknowledged: ``take`` raises, and
the update comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog
from pydantic import ValidationError

from angelia.model.ids import AdapterId
from angelia.model.media import Attachment
from angelia.model.messages import Inbound, Reception
from angelia.platforms.base import Host
from angelia.platforms.telegram.admission import addressed, sender, spoken_by_a_person, thread_of
from angelia.platforms.telegram.api import BotApi, Reply, download_bytes_max
from angelia.platforms.telegram.bursts import Bursts, Piece
from angelia.platforms.telegram.content import Content, Wanted, content_of
from angelia.platforms.telegram.updates import ALLOWED_UPDATES, EDITS, Me, Message

_log = structlog.get_logger("angelia")
_STRANGERS_MOST = 1000  # that are told to the operator, each once


class Intake:
    """Hands the messages of one bot to its host."""

    def __init__(self, adapter_id: AdapterId, api: BotApi, me: Me, groups: str, host: Host) -> None:
        self._id = adapter_id
        self._api = api
        self._me = me
        self._groups = groups
        self._host = host
        self._bursts = Bursts()
        self._strangers: set[str] = set()

    def foresee(self, updates: Sequence[Any]) -> None:
        """A look at a whole batch: the caption that addresses us may be on any picture of an album."""
        for update in updates:
            with suppress(ValidationError):  # ``take`` will say so
                found = _message_of(update)
                if found is not None and found[1].media_group_id:
                    message = found[1]
                    if addressed(message, self._me, self._groups):
                        self._bursts.foresee(message)

    async def take(self, update: Any) -> None:
        """Commit what ``update`` says. Raises ``StoreUnavailableError``: do not acknowledge it."""
        try:
            found = _message_of(update)
            if found is None:
                return
            kind, message = found
            edited = kind in EDITS
            inbound, content = self._inbound(message, edited)
        except Exception as error:  # one that nobody can read must not hold up all the others
            kind_of_error = type(error).__name__
            detail = _where(error) if isinstance(error, ValidationError) else kind_of_error
            number = update.get("update_id") if isinstance(update, dict) else None
            _log.error(
                "an update of Telegram cannot be read and is left out",
                action="telegram.update_unreadable",
                adapter=str(self._id),
                update=number,
                reason=detail,
            )
            return
        if inbound is None or content is None:
            return
        if edited:
            await self._host.edit(inbound)
        elif not self._host.allows(inbound.user):
            self._say_stranger(inbound.user)
        else:
            reception = await self._host.receive(await self._with_file(inbound, content))
            if reception is Reception.NOT_ALLOWED:
                self._say_stranger(inbound.user)

    def _inbound(self, message: Message, edited: bool) -> tuple[Inbound | None, Content | None]:
        """The message as the gateway takes it; None if it is not for us or says nothing."""
        if message.migrate_to_chat_id is not None:
            _log.info(
                "a group became a supergroup; what is owed to it moves with the next send",
                action="telegram.group_moved",
                adapter=str(self._id),
            )
        if not spoken_by_a_person(message, self._me):
            return None, None
        content = content_of(message, self._me)
        if content.empty:
            return None, None
        thread, (user, user_name) = thread_of(message), sender(message)
        called = addressed(message, self._me, self._groups)
        piece = Piece("", 0.0, True) if edited else self._bursts.place(message, thread, user, called)
        if not piece.called:
            return None, None
        private = message.chat.type == "private"
        command = content.command and not piece.mark
        inbound = Inbound(
            self._id.profile,
            self._id.platform,
            str(message.chat.id),
            str(message.message_id),
            user,
            content.worded(),
            thread=thread,
            user_name=user_name,
            reply_to="" if private else str(message.message_id),
            sent_at=message.date * 1000 if message.date else None,
            burst="" if command else piece.mark,
            more_s=0.0 if command else piece.more_s,
        )
        return inbound, content

    async def _with_file(self, inbound: Inbound, content: Content) -> Inbound:
        """``inbound`` with its file in the spool, or with a line that says why it is not."""
        if content.wanted is None:
            return inbound
        fetched = await self._fetch(content.wanted)
        if isinstance(fetched, Attachment):
            return _replaced(inbound, content.worded(), (fetched,))
        _log.warning(
            "a file that came in could not be fetched",
            action="telegram.file_not_fetched",
            adapter=str(self._id),
            reason=fetched,
        )
        return _replaced(inbound, content.worded(fetched), ())

    async def _fetch(self, wanted: Wanted) -> Attachment | str:
        """The file in the spool, or why it is not there. Raises ``StoreUnavailableError``."""
        if (wanted.size or 0) > download_bytes_max:
            return "it is too large"
        answer = await self._api.call("getFile", {"file_id": wanted.file_id})
        if not isinstance(answer, Reply):
            return answer.detail
        path = answer.result.get("file_path") if answer.ok and isinstance(answer.result, dict) else None
        if not isinstance(path, str) or not path:
            return "it is too large" if "too big" in answer.description else answer.description
        data = await self._api.download(path)
        if isinstance(data, str):
            return data
        if not data:
            return "it is empty"
        return await self._host.spool(data, wanted.name, wanted.mime)

    def _say_stranger(self, user: str) -> None:
        """Tell the operator, once, whose id ``allow`` does not name."""
        if user in self._strangers or len(self._strangers) >= _STRANGERS_MOST:
            return
        self._strangers.add(user)
        _log.warning(
            "somebody who is not in allow wrote to the bot",
            action="telegram.not_allowed",
            adapter=str(self._id),
            user=user,
        )


def _replaced(inbound: Inbound, text: str, attachments: tuple[Attachment, ...]) -> Inbound:
    return replace(inbound, text=text, attachments=attachments)


def _message_of(update: Any) -> tuple[str, Message] | None:
    """The message in an update, with the kind of update; None if there is none of our kinds."""
    if not isinstance(update, dict):
        return None
    for kind in ALLOWED_UPDATES:
        if isinstance(update.get(kind), dict):
            return kind, Message.model_validate(update[kind])
    return None


def _where(error: ValidationError) -> str:
    """Which fields were not as expected; never what stood in them."""
    return ", ".join(".".join(str(step) for step in one["loc"]) for one in error.errors()[:5])
