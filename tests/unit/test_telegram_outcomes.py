"""What Telegram's answers teach: every sentence of the table, and which of them condemn a chat."""

from __future__ import annotations

import json

import pytest

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
from angelia.platforms.http import Answer
from angelia.platforms.telegram.api import BotApi, Reply
from angelia.platforms.telegram.outcomes import Floods, outcome_of
from angelia.testing.adapter_exam import bare

TOKEN = "123456789:" + "AAsecretsecretsecretsecretsecretsec"  # in two: it must not look like one
API = BotApi(TOKEN, "http://127.0.0.1:9", 1.0)


def reply(status: int, body: object, headers: dict[str, str] | None = None) -> Reply:
    answer = Answer(status, headers or {})
    answer.body = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer.whole = True
    return API._read(answer)


def refused(code: int, description: str, media: bool = False, **parameters: int) -> Outcome:
    body = {"ok": False, "error_code": code, "description": description, "parameters": parameters}
    outcome = outcome_of(reply(code, body), "5", media=media)
    assert isinstance(outcome, Accepted) or description in outcome.detail
    return bare(outcome)


@pytest.mark.parametrize(
    ("code", "description"),
    [
        (403, "Forbidden: bot was blocked by the user"),
        (403, "Forbidden: user is deactivated"),
        (403, "Forbidden: bot was kicked from the group chat"),
        (403, "Forbidden: bot was kicked from the supergroup chat"),
        (403, "Forbidden: bot was kicked from the channel chat"),
        (403, "Forbidden: bot is not a member of the supergroup chat"),
        (403, "Forbidden: bot is not a member of the channel chat"),
        (403, "Forbidden: the group chat was deleted"),
        (403, "Forbidden: bot can't initiate conversation with a user"),
        (403, "Forbidden: bots can't send messages to bots"),
        (400, "Bad Request: chat not found"),
        (400, "Bad Request: private chat not found"),
    ],
)
def test_d1_these_sentences_condemn_a_chat(code: int, description: str) -> None:
    assert refused(code, description) == Unreachable()


@pytest.mark.parametrize(
    ("code", "description"),
    [
        (400, "Bad Request: not enough rights to send text messages to the chat"),
        (400, "Bad Request: CHAT_WRITE_FORBIDDEN"),
        (400, "Bad Request: need administrator rights in the channel chat"),
        (400, "Bad Request: TOPIC_CLOSED"),
        (403, "Forbidden: not enough rights"),
        (400, "Bad Request: USER_IS_BOT"),
        (404, "Not Found: method not found"),
        (409, "Conflict: terminated by other getUpdates request"),
        (418, "I'm a teapot"),
    ],
)
def test_d2_these_condemn_nothing(code: int, description: str) -> None:
    assert refused(code, description) == Refused()


@pytest.mark.parametrize(
    ("code", "description", "media", "outcome"),
    [
        (400, "Bad Request: message thread not found", False, ThreadGone()),
        (400, "Bad Request: TOPIC_DELETED", False, ThreadGone()),
        (400, "Bad Request: message to be replied not found", False, ThreadGone(anchor_only=True)),
        (400, "Bad Request: replied message not found", True, ThreadGone(anchor_only=True)),
        (400, "Bad Request: message is too long", False, BadContent(ContentFault.TOO_LONG)),
        (400, "Bad Request: message caption is too long", True, BadContent(ContentFault.TOO_LONG)),
        (400, "Bad Request: text is too long", False, BadContent(ContentFault.TOO_LONG)),
        (400, "Bad Request: can't parse entities: byte offset 5", False, BadContent(ContentFault.MARKUP)),
        (400, "Bad Request: ENTITY_BOUNDS_INVALID", False, BadContent(ContentFault.MARKUP)),
        (400, "Bad Request: message text is empty", False, BadContent(ContentFault.MARKUP)),
        (413, "Request Entity Too Large", True, BadContent(ContentFault.MEDIA)),
        (413, "Request Entity Too Large", False, BadContent(ContentFault.TOO_LONG)),
        (400, "Bad Request: PHOTO_INVALID_DIMENSIONS", True, BadContent(ContentFault.MEDIA)),
        (400, "Bad Request: file is too big", True, BadContent(ContentFault.MEDIA)),
        (400, "Bad Request: VOICE_MESSAGES_FORBIDDEN", True, BadContent(ContentFault.MEDIA)),
        (400, "Bad Request: PHOTO_INVALID_DIMENSIONS", False, Refused()),
        (401, "Unauthorized", False, BadCredential()),
        (404, "Not Found", False, BadCredential()),
        (500, "Internal Server Error", False, Unconfirmed()),
        (502, "Bad Gateway", False, Unconfirmed()),
        (504, "Gateway Timeout", True, Unconfirmed()),
        (
            500,
            "Internal Server Error: sent message was immediately deleted and can't be returned",
            False,
            Accepted(),
        ),
    ],
)
def test_sentences_and_their_outcomes(code: int, description: str, media: bool, outcome: Outcome) -> None:
    assert refused(code, description, media) == outcome


def test_a_group_that_became_a_supergroup_has_moved() -> None:
    said = "Bad Request: group chat was upgraded to a supergroup chat"
    assert refused(400, said, migrate_to_chat_id=-1001234567890) == Moved("-1001234567890")


def test_c1_the_wait_is_the_parameter_s_then_the_header_s_then_the_words() -> None:
    too_many = {"ok": False, "error_code": 429, "description": "Too Many Requests: retry after 7"}
    for body, headers, wait_s in (
        ({**too_many, "parameters": {"retry_after": 5}}, {"Retry-After": "6"}, 5.0),
        (too_many, {"Retry-After": "6"}, 6.0),
        (too_many, {}, 7.0),
        ({**too_many, "description": "Too Many Requests"}, {}, 30.0),
    ):
        outcome = outcome_of(reply(429, body, headers), "5")
        assert isinstance(outcome, RateLimited)
        assert (outcome.wait_s, outcome.scope) == (wait_s, Scope.CHAT)


@pytest.mark.parametrize("status", [200, 400, 429])
def test_c10_a_limit_counts_whatever_the_status_line_says(status: int) -> None:
    body = {"ok": False, "error_code": 429, "description": "x", "parameters": {"retry_after": 3}}
    assert bare(outcome_of(reply(status, body), "5")) == RateLimited(3.0)


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, {"ok": True, "result": {"message_id": 9}}, Accepted("5/9")),
        (200, {"ok": True, "result": {"message_id": 0}}, Accepted("5/0")),
        (200, {"ok": True, "result": True}, Accepted()),
        (200, b'{"ok":true,"result":{"mess', Accepted()),
        (200, b"<html>welcome to the hotel</html>", Unconfirmed()),
        (200, b"", Unconfirmed()),
        (200, b"[1]", Unconfirmed()),
        (200, {"ok": "yes"}, Unconfirmed()),
        (200, {"ok": False, "error_code": 400, "description": "Bad Request: x"}, Refused()),
        (302, b"", Refused()),
        (400, b"<html>", Refused()),
        (401, b"<html>", BadCredential()),
        (404, b"<html>", Refused()),
        (502, b"<html>", Unconfirmed()),
    ],
)
def test_answers_that_are_not_what_was_expected(status: int, body: object, outcome: Outcome) -> None:
    assert bare(outcome_of(reply(status, body), "5")) == outcome


def test_what_the_connection_told_is_passed_on() -> None:
    for told in (NotSent("x"), Unconfirmed("y", dropped=True)):
        assert outcome_of(told, "5") is told


def test_the_token_is_masked_in_what_a_server_says() -> None:
    echoed = f"cannot POST /bot{TOKEN}/sendMessage"
    for body in (echoed.encode(), {"ok": False, "error_code": 400, "description": echoed}):
        said = reply(400, body).description
        assert "AAsecret" not in said
        assert "cannot POST" in said


def test_a_second_limited_chat_shows_that_it_is_the_bot() -> None:
    floods = Floods()
    assert floods.scope("1", 30, 0) is Scope.CHAT
    assert floods.scope("1", 30, 1_000) is Scope.CHAT, "the same chat again"
    assert floods.scope("2", 30, 2_000) is Scope.BOT


def test_limits_that_are_over_or_were_disproved_say_nothing_about_others() -> None:
    floods = Floods()
    floods.scope("1", 30, 0)
    assert floods.scope("2", 30, 30_000) is Scope.CHAT, "the first is over"
    floods.accepted()
    assert floods.scope("3", 30, 31_000) is Scope.CHAT, "a message got through between the two"
