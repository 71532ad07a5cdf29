"""The places and people of the world, and what they look like on the wire.

Ids are as in Telegram: people and private chats positive and the same, groups negative, super-
groups and channels below -100...; message ids of private chats and basic groups come from one
row for the bot, each supergroup and channel has a row of its own that starts at 1. So ids repeat
between chats, as they do in life.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from angelia.testing.telegram_server.answers import Json

ChatKind = Literal["private", "group", "supergroup", "channel"]
#: How the bot stands to a chat; all but "member" make every send fail.
Standing = Literal["member", "not_started", "blocked", "deactivated", "kicked", "left", "deleted"]

general_thread = 1


@dataclass(slots=True)
class Person:
    """Somebody who writes; the bot is one, too."""

    id: int
    first_name: str
    username: str = ""
    language: str = "en"
    is_bot: bool = False

    def to_json(self) -> Json:
        shown: Json = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        if self.username:
            shown["username"] = self.username
        if not self.is_bot:
            shown["language_code"] = self.language
        return shown


@dataclass(slots=True)
class Topic:
    """One topic of a forum; its id is the id of the service message that made it."""

    name: str
    closed: bool = False


@dataclass(slots=True)
class Chat:
    """One chat. ``messages`` holds what is still there, as the API shows it."""

    id: int
    kind: ChatKind
    title: str = ""
    username: str = ""
    forum: bool = False
    standing: Standing = "member"
    may_write: bool = True
    moved_to: int = 0
    linked_group: int = 0
    person: Person | None = None
    topics: dict[int, Topic] = field(default_factory=dict)
    messages: dict[int, Json] = field(default_factory=dict)
    last_id: int = 0

    @property
    def own_row(self) -> bool:
        return self.kind in ("supergroup", "channel")

    def to_json(self) -> Json:
        shown: Json = {"id": self.id, "type": self.kind}
        if self.person is not None:
            shown["first_name"] = self.person.first_name
        if self.title:
            shown["title"] = self.title
        username = self.person.username if self.person is not None else self.username
        if username:
            shown["username"] = username
        if self.forum:
            shown["is_forum"] = True
        return shown
