"""What the Bot API says, word for word: refusals by name, and the shape of every answer.

Descriptions and codes are those of the public Bot API server (its ``Client.cpp``, ``Query.cpp``
and what clients in the field report); clients tell cases apart by these words, so a word that
is wrong here proves nothing there. A refusal is raised as ``RefusalError`` wherever it is found
out and becomes an answer in one place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


class RefusalError(Exception):
    """The call is refused: nothing was accepted. ``parameters`` as the API gives them."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer: status, body, further headers."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def success(result: object) -> Answer:
    """The answer to a call that was carried out."""
    return Answer(200, json.dumps({"ok": True, "result": result}, separators=(",", ":")).encode())


def refusal(error: RefusalError) -> Answer:
    """The answer to a call that was refused; a wait stands in the header, too."""
    body: Json = {"ok": False, "error_code": error.code, "description": error.description}
    if error.parameters:
        body["parameters"] = error.parameters
    wait = error.parameters.get("retry_after")
    headers = {} if wait is None else {"Retry-After": str(wait)}
    return Answer(error.code, json.dumps(body, separators=(",", ":")).encode(), headers)


def bad_request(words: str) -> RefusalError:
    return RefusalError(400, f"Bad Request: {words}")


def flooded(wait_s: int) -> RefusalError:
    """Source: Query.cpp set_retry_after_error; ``wait_s`` in seconds."""
    return RefusalError(429, f"Too Many Requests: retry after {wait_s}", retry_after=wait_s)


def moved(chat: int) -> RefusalError:
    words = "Bad Request: group chat was upgraded to a supergroup chat"
    return RefusalError(400, words, migrate_to_chat_id=chat)


#: Refusals by a name for scripts. A group's kind is filled in from the chat that is called.
REFUSALS: dict[str, tuple[int, str]] = {
    "blocked": (403, "Forbidden: bot was blocked by the user"),
    "deactivated": (403, "Forbidden: user is deactivated"),
    "not_started": (403, "Forbidden: bot can't initiate conversation with a user"),
    "kicked": (403, "Forbidden: bot was kicked from the {kind} chat"),
    "not_a_member": (403, "Forbidden: bot is not a member of the {kind} chat"),
    "group_deleted": (403, "Forbidden: the group chat was deleted"),
    "to_a_bot": (403, "Forbidden: bots can't send messages to bots"),
    "chat_not_found": (400, "Bad Request: chat not found"),
    "no_right_to_send": (400, "Bad Request: not enough rights to send text messages to the chat"),
    "write_forbidden": (400, "Bad Request: CHAT_WRITE_FORBIDDEN"),
    "plain_forbidden": (400, "Bad Request: CHAT_SEND_PLAIN_FORBIDDEN"),
    "channel_rights": (400, "Bad Request: need administrator rights in the channel chat"),
    "thread_not_found": (400, "Bad Request: message thread not found"),
    "topic_closed": (400, "Bad Request: TOPIC_CLOSED"),
    "topic_deleted": (400, "Bad Request: TOPIC_DELETED"),
    "topic_id_invalid": (400, "Bad Request: TOPIC_ID_INVALID"),
    "reply_not_found": (400, "Bad Request: message to be replied not found"),
    "reply_not_found_before_2024": (400, "Bad Request: replied message not found"),
    "reply_not_found_before_2021": (400, "Bad Request: reply message not found"),
    "too_long": (400, "Bad Request: message is too long"),
    "caption_too_long": (400, "Bad Request: message caption is too long"),
    "text_empty": (400, "Bad Request: message text is empty"),
    "cannot_parse": (
        400,
        "Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 5",
    ),
    "unauthorized": (401, "Unauthorized"),
    "not_found": (404, "Not Found"),
    "conflict": (
        409,
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
    ),
    "webhook_active": (
        409,
        "Conflict: can't use getUpdates method while webhook is active; "
        "use deleteWebhook to delete the webhook first",
    ),
    "taken_away_by_webhook": (409, "Conflict: terminated by setWebhook request"),
    "too_large": (413, "Request Entity Too Large"),
    "internal": (500, "Internal Server Error"),
    "deleted_immediately": (
        500,
        "Internal Server Error: sent message was immediately deleted and can't be returned",
    ),
    "restarting": (500, "Internal Server Error: restart"),
    "bad_gateway": (502, "Bad Gateway"),
    "unavailable": (503, "Service Unavailable"),
    "gateway_timeout": (504, "Gateway Timeout"),
}


def named(name: str, kind: str = "group") -> RefusalError:
    """The refusal called ``name`` in ``REFUSALS``. Raises ``KeyError`` for any other name."""
    code, description = REFUSALS[name]
    return RefusalError(code, description.format(kind=kind))
