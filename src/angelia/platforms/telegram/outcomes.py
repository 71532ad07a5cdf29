"""What an answer of the Bot API teaches (guarantees §3).

Telegram names what happened in an English sentence and only roughly in its code: a server text
in capitals is re-coded to 400, a 403 may mean a right that is missing. So the sentence is
looked at first. Sentences are those of tdlib/telegram-bot-api ``Client.cpp`` (May 2026) and
of td ``MessagesManager.cpp``; they are compared without regard to case.

Only a sentence that says that the chat or the person is gone for us condemns a chat. A topic
that is gone does not, nor does a closed topic or a right that the bot lacks: those are refused.
"""

from __future__ import annotations

import re

from angelia.model.outcomes import (
    Accepted,
    BadContent,
    BadCredential,
    ContentFault,
    Moved,
    NotSent,
    Outcome,
    RateLimited,
    Refused,
    Scope,
    ThreadGone,
    Unconfirmed,
    Unreachable,
)
from angelia.platforms.telegram.api import Reply

rate_limit_default_s = 30.0  # of a 429 that names no wait

_GONE = (
    "bot was blocked by the user",
    "user is deactivated",
    "bot was kicked from the",
    "bot is not a member of the",
    "the group chat was deleted",
    "bot can't initiate conversation with a user",
    "can't send messages to the bot",
    "can't send messages to bots",
    "chat not found",
)
_THREAD_GONE = (
    "message thread not found",
    "topic_deleted",
    "topic_id_invalid",
    "direct messages topic not found",
)
_ANCHOR_GONE = ("message to be replied not found", "replied message not found", "reply message not found")
_TOO_LONG = ("message is too long", "caption is too long", "text is too long", "media_caption_too_long")
_MARKUP = ("can't parse", "entit", "text is empty", "text must be non-empty", "message_empty")
_MEDIA = (
    "file is too big",
    "too large",
    "photo_",
    "image_process_failed",
    "wrong file identifier",
    "file must be non-empty",
    "voice_messages_forbidden",
    "media_invalid",
    "media_empty",
    "video_content_type_invalid",
    "wrong type of the web page content",
    "file_part",
)
_DELETED_AT_ONCE = "sent message was immediately deleted"
_WAIT_IN_WORDS = re.compile(r"retry after ([0-9]{1,8})", re.ASCII)


def outcome_of(
    answer: Reply | NotSent | Unconfirmed, chat: str, *, media: bool = False, scope: Scope = Scope.CHAT
) -> Outcome:
    """What ``answer`` to a send to ``chat`` teaches. ``scope``: of a 429, which names none."""
    if not isinstance(answer, Reply):
        return answer
    said, code = answer.description.lower(), answer.code
    if answer.ok:
        return Accepted(_receipt(answer, chat))
    if _DELETED_AT_ONCE in said:
        return Accepted()
    if code == 429:
        return RateLimited(wait_of(answer), scope, detail=answer.description)
    if code == 401 or (code == 404 and said == "not found"):  # 404: a token that cannot be one
        return BadCredential(answer.description)
    if code >= 500 or code < 300:
        return Unconfirmed(answer.description)
    if code == 413:
        return BadContent(ContentFault.MEDIA if media else ContentFault.TOO_LONG, answer.description)
    if code < 400 or not answer.readable:
        return Refused(answer.description)
    return _refusal(answer, said, media)


def _refusal(answer: Reply, said: str, media: bool) -> Outcome:
    """A definite no, in Telegram's own words."""
    detail = answer.description

    def has(sentences: tuple[str, ...]) -> bool:
        return any(sentence in said for sentence in sentences)

    if answer.moved_to:
        return Moved(answer.moved_to, detail)
    if has(_GONE):
        return Unreachable(detail)
    if has(_THREAD_GONE):
        return ThreadGone(detail=detail)
    if has(_ANCHOR_GONE):
        return ThreadGone(anchor_only=True, detail=detail)
    if has(_TOO_LONG):
        return BadContent(ContentFault.TOO_LONG, detail)
    if media and has(_MEDIA):
        return BadContent(ContentFault.MEDIA, detail)
    if has(_MARKUP):
        return BadContent(ContentFault.MARKUP, detail)
    return Refused(detail)


def wait_of(answer: Reply) -> float:
    """The wait of a 429, in seconds: the parameter, the header, the words, else 30 s."""
    if answer.retry_after is not None:
        return answer.retry_after
    words = _WAIT_IN_WORDS.search(answer.description)
    return float(words[1]) if words else rate_limit_default_s


def _receipt(answer: Reply, chat: str) -> str:
    """A message's id is unique in its chat only, so the receipt names both."""
    result = answer.result
    number = result.get("message_id") if isinstance(result, dict) else None
    return f"{chat}/{number}" if isinstance(number, int) and not isinstance(number, bool) else ""


class Floods:
    """Whether a 429 holds a chat or the bot: Telegram does not say.

    One chat that is limited says nothing about the others. A second chat that is limited while
    the first still is, with no message accepted between the two, says that it is the bot.
    Kept in memory: it chooses a scope, the deadline itself is stored by the engine.
    """

    def __init__(self) -> None:
        self._limited: dict[str, int] = {}

    def accepted(self) -> None:
        """A message got through: the limits so far are those of their chats."""
        self._limited.clear()

    def scope(self, chat: str, wait_s: float, steady_ms: int) -> Scope:
        """Of a 429 that ``chat`` was answered just now."""
        self._limited = {known: until for known, until in self._limited.items() if until > steady_ms}
        others = any(known != chat for known in self._limited)
        self._limited[chat] = steady_ms + int(wait_s * 1000)
        return Scope.BOT if others else Scope.CHAT
