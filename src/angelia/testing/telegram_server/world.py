"""The world behind the API: who is where, which messages stand in which chat, who may write.

Everything is named by its id, so the same verbs work from a test in this process and through
the control address of a server in another one. What people do that the bot gets to see becomes
an update at once. ``acts`` adds the verbs of people who write; this file has the places, and
what happens to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from angelia.seams.clock import Clock
from angelia.testing.telegram_server.answers import Json, RefusalError, bad_request, moved, named
from angelia.testing.telegram_server.places import Chat, Person, Standing, Topic, general_thread

#: Gets the kind of an update and its content, and puts it into the bot's queue.
Tell = Callable[[str, Json], None]

_NUMBER = re.compile(r"-?\d{1,20}")
first_person_id = 1001
first_group_id = -5001
first_supergroup_id = -1001000000001


class World:
    """``bot``: the account that the token belongs to. ``privacy``: the bot's privacy mode; on,
    groups show it commands, replies to it, mentions of it and service messages alone.
    ``own_posts_come_back``: its posts in channels come back as updates, as they do where an
    administrator's client or another copy of the bot mirrors them."""

    def __init__(self, clock: Clock, bot: Person, tell: Tell) -> None:
        self.clock = clock
        self.bot = bot
        self.privacy = False
        self.own_posts_come_back = False
        self.people: dict[int, Person] = {}
        self.chats: dict[int, Chat] = {}
        #: Chats and message ids that an earlier server on the same record gave out.
        self.taken: list[tuple[int, int]] = []
        self._tell = tell
        self._common_id = 0

    # -- people and places -------------------------------------------------------------------

    def person(self, first_name: str = "Ada", username: str = "", language: str = "en") -> int:
        """A new person who has never met the bot. Returns the id."""
        person = Person(first_person_id + len(self.people), first_name, username, language)
        self.people[person.id] = person
        self.chats[person.id] = Chat(person.id, "private", standing="not_started", person=person)
        return person.id

    def private(self, first_name: str = "Ada", username: str = "", language: str = "en") -> int:
        """A new person who has started the bot. Returns the id, which is the chat's as well."""
        person = self.person(first_name, username, language)
        self.chats[person].standing = "member"
        return person

    def group(self, title: str = "The group") -> int:
        """A basic group with the bot in it. Returns its id, as all that follow."""
        made = sum(chat.kind == "group" for chat in self.chats.values())
        return self._place(Chat(first_group_id - made, "group", title))

    def supergroup(self, title: str = "The supergroup", forum: bool = False, username: str = "") -> int:
        chat = Chat(self._next_big_id(), "supergroup", title, username, forum)
        if forum:
            chat.topics[general_thread] = Topic("General")
        chat.last_id = 1 if forum else 0  # id 1 is taken by the group's own beginning
        return self._place(chat)

    def channel(self, title: str = "The channel", username: str = "", linked_group: int = 0) -> int:
        """A channel with the bot as an administrator. Posts appear in ``linked_group``, too."""
        return self._place(Chat(self._next_big_id(), "channel", title, username, linked_group=linked_group))

    def topic(self, chat: int, name: str = "A topic", by: int = 0) -> int:
        """A new topic of a forum, made by the person ``by`` (0: the bot). Returns its id."""
        place = self.chats[chat]
        if not place.forum:
            raise ValueError(f"chat {chat} is no forum")
        thread = self.next_id(place)
        made_by = self.people[by] if by else self.bot
        place.topics[thread] = Topic(name)
        place.messages[thread] = {
            "message_id": thread,
            "from": made_by.to_json(),
            "chat": place.to_json(),
            "date": self.date(),
            "message_thread_id": thread,
            "is_topic_message": True,
            "forum_topic_created": {"name": name, "icon_color": 7322096},
        }
        if by:
            self._tell("message", place.messages[thread])
        return thread

    def _place(self, chat: Chat) -> int:
        self.chats[chat.id] = chat
        return chat.id

    def _next_big_id(self) -> int:
        return first_supergroup_id - sum(chat.own_row for chat in self.chats.values())

    # -- what happens to them ----------------------------------------------------------------

    def stand(self, chat: int, standing: Standing) -> None:
        """The bot's standing becomes ``standing``, unseen: no update tells of it."""
        self.chats[chat].standing = standing

    def block(self, person: int) -> None:
        """The person blocks the bot, which sees it."""
        self._membership(person, "blocked", "member", "kicked")

    def unblock(self, person: int) -> None:
        """The person takes the block back, without writing anything."""
        self._membership(person, "member", "kicked", "member")

    def kick(self, chat: int) -> None:
        """Somebody removes the bot from a group or channel."""
        self._membership(chat, "kicked", "member", "kicked")

    def leave(self, chat: int) -> None:
        self._membership(chat, "left", "member", "left")

    def invite(self, chat: int) -> None:
        """Somebody adds the bot again."""
        self._membership(chat, "member", "left", "member")

    def migrate(self, chat: int) -> int:
        """The group becomes a supergroup; both say so. Returns the supergroup's id."""
        old = self.chats[chat]
        new = self.chats[self.supergroup(old.title)]
        old.moved_to = new.id
        self.service(old, {"migrate_to_chat_id": new.id})
        self.service(new, {"migrate_from_chat_id": old.id})
        return new.id

    def close_topic(self, chat: int, thread: int) -> None:
        """Only administrators may write there from now on; the bot sees it closed."""
        place = self.chats[chat]
        place.topics[thread].closed = True
        where = {} if thread == general_thread else {"message_thread_id": thread, "is_topic_message": True}
        self.service(place, {**where, "forum_topic_closed": {}})

    def delete_topic(self, chat: int, thread: int) -> None:
        """The topic and all its messages are gone; nobody is told."""
        place = self.chats[chat]
        del place.topics[thread]
        gone = [key for key, shown in place.messages.items() if shown.get("message_thread_id") == thread]
        for message in gone:
            del place.messages[message]

    def delete_message(self, chat: int, message: int) -> None:
        """The message is gone; bots are not told."""
        del self.chats[chat].messages[message]

    def forbid_writing(self, chat: int) -> None:
        """The bot stays in the chat, but may not write there."""
        self.chats[chat].may_write = False

    def _membership(self, chat: int, standing: Standing, old: str, new: str) -> None:
        place = self.chats[chat]
        place.standing = standing
        by = place.person or next(iter(self.people.values()), self.bot)
        update = {
            "chat": place.to_json(),
            "from": by.to_json(),
            "date": self.date(),
            "old_chat_member": self._member(old),
            "new_chat_member": self._member(new),
        }
        self._tell("my_chat_member", update)

    def _member(self, status: str) -> Json:
        shown: Json = {"user": self.bot.to_json(), "status": status}
        return {**shown, "until_date": 0} if status == "kicked" else shown

    # -- messages ----------------------------------------------------------------------------

    def date(self) -> int:
        """Now, in seconds since the epoch."""
        return self.clock.now().wall // 1000

    def next_id(self, place: Chat) -> int:
        """A fresh message id of ``place``."""
        if place.own_row:
            used = [message for chat, message in self.taken if chat == place.id]
            place.last_id = max([place.last_id, *used]) + 1
            return place.last_id
        used = [message for chat, message in self.taken if chat > first_supergroup_id]
        self._common_id = max([self._common_id, *used]) + 1
        return self._common_id

    def service(self, place: Chat, content: Json) -> int:
        """A service message that everybody sees. Returns its id."""
        by = place.person or next(iter(self.people.values()), self.bot)
        shown = {
            "message_id": self.next_id(place),
            "from": by.to_json(),
            "chat": place.to_json(),
            "date": self.date(),
            **content,
        }
        place.messages[shown["message_id"]] = shown
        self._tell("message", shown)
        return int(shown["message_id"])

    def id_of(self, chat_id: Any) -> int | None:
        """The id that ``chat_id`` of a call means, a number or the @username of a public chat."""
        text = str(chat_id if chat_id is not None else "")
        for chat in self.chats.values() if text.startswith("@") else ():
            if chat.kind != "private" and chat.username.lower() == text[1:].lower():
                return chat.id
        return int(text) if _NUMBER.fullmatch(text) else None

    def found(self, chat_id: Any) -> Chat:
        """The chat that a call names. Raises the API's refusals for one that it cannot find."""
        if chat_id in (None, ""):
            raise bad_request("chat_id is empty")
        number = self.id_of(chat_id)
        if number is None or number not in self.chats:
            raise named("chat_not_found")
        return self.chats[number]

    def check_standing(self, chat: Chat) -> None:
        """Raises the refusal that the bot gets where it cannot reach the chat.

        Source: Client.cpp check_chat_access."""
        if chat.moved_to:
            raise moved(chat.moved_to)
        names = {"deleted": "group_deleted", "left": "not_a_member"}
        if chat.standing != "member":
            raise named(names.get(chat.standing, chat.standing), chat.kind)

    def check_right_to_write(self, chat: Chat) -> None:
        """Raises the refusal of a chat that can be reached but takes no messages."""
        self.check_standing(chat)
        if not chat.may_write:
            raise named("channel_rights" if chat.kind == "channel" else "no_right_to_send")

    def check_thread(self, chat: Chat, thread: int | None) -> None:
        """Raises the refusal for a topic that is gone, closed, or General by its number.

        Source: Client.cpp check_message_topic; a chat without topics has no thread to name."""
        refused: RefusalError | None = None
        if thread is None:
            general = chat.topics.get(general_thread)
            refused = named("topic_closed") if general is not None and general.closed else None
        elif thread == general_thread or thread not in chat.topics:
            refused = named("thread_not_found")
        elif chat.topics[thread].closed:
            refused = named("topic_closed")
        if refused is not None:
            raise refused
