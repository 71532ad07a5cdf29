"""What people do: they write, answer, quote, paste, send pictures and voices, and edit.

Each verb puts a message into the chat as Telegram would show it, and into the bot's queue if
the bot gets to see it. Commands, mentions and links in a text get their entities as people's
clients and servers make them. Two habits of forums and supergroups are kept, because bots
stumble over them: in a topic a message that answers nobody still carries the topic's beginning
as ``reply_to_message``, and in a supergroup without topics an answer carries a
``message_thread_id`` that no bot can write to.
"""

from __future__ import annotations

from collections.abc import Sequence

from angelia.seams.clock import Clock
from angelia.testing.telegram_server.answers import Json
from angelia.testing.telegram_server.entities import found_in, units
from angelia.testing.telegram_server.files import Files, StoredFile, shown
from angelia.testing.telegram_server.places import Chat, Person, general_thread
from angelia.testing.telegram_server.world import Tell, World

paste_units = 4096  # people's clients cut a longer text into messages of this size

#: A picture that is one: a white dot.
dot_png = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8ffffff7f0009fb03fd05434580"
    "0000000049454e44ae426082"
)


class Acts(World):
    """The world with people in it. Every ``chat`` is a chat's id and every ``sender`` a person's;
    0 means the person of a private chat, or the channel itself. The verbs return message ids.
    """

    def __init__(self, clock: Clock, bot: Person, tell: Tell, files: Files) -> None:
        super().__init__(clock, bot, tell)
        self.files = files
        self._albums = 0

    def say(
        self,
        chat: int,
        text: str,
        sender: int = 0,
        thread: int | None = None,
        reply_to: int | None = None,
        quote: str = "",
        age_s: int = 0,
    ) -> int:
        """Write ``text``. ``quote``: the words of the answered message that are quoted.
        ``age_s``: so many seconds ago (the update expires a day after that)."""
        content: Json = {"text": text}
        entities = found_in(text, [])
        if entities:
            content["entities"] = entities
        return self._put(chat, content, sender, thread, reply_to, quote, age_s)

    def start(self, chat: int) -> int:
        """The person presses Start: from now on the bot may write to them."""
        self.chats[chat].standing = "member"
        return self.say(chat, "/start")

    def paste(self, chat: int, text: str, sender: int = 0, thread: int | None = None) -> list[int]:
        """A long text, cut by the person's client into messages of 4096 units."""
        return [self.say(chat, piece, sender, thread) for piece in _pieces(text)]

    def picture(
        self, chat: int, caption: str = "", sender: int = 0, data: bytes = dot_png, thread: int | None = None
    ) -> int:
        return self._medium(chat, self.files.keep("photo", data), "photo", caption, sender, thread)

    def voice(self, chat: int, sender: int = 0, data: bytes = b"OggS voice", caption: str = "") -> int:
        stored = self.files.keep("voice", data, mime_type="audio/ogg")
        return self._medium(chat, stored, "voice", caption, sender, None)

    def document(
        self, chat: int, name: str, data: bytes, caption: str = "", sender: int = 0, mime_type: str = ""
    ) -> int:
        stored = self.files.keep("document", data, name, mime_type)
        return self._medium(chat, stored, "document", caption, sender, None)

    def album(
        self,
        chat: int,
        pictures: Sequence[bytes] = (dot_png, dot_png),
        caption: str = "",
        sender: int = 0,
        thread: int | None = None,
    ) -> list[int]:
        """Several pictures sent together; the caption stands under the first."""
        self._albums += 1
        more: Json = {"media_group_id": str(13_000_000_000_000_000 + self._albums)}
        made = []
        for number, data in enumerate(pictures):
            stored = self.files.keep("photo", data)
            words = caption if number == 0 else ""
            made.append(self._medium(chat, stored, "photo", words, sender, thread, more))
        return made

    def edit(self, chat: int, message: int, text: str) -> None:
        """The sender changes the text (or the caption) of a message."""
        place = self.chats[chat]
        message_now = place.messages[message]
        field = "text" if "text" in message_now else "caption"
        entities_field = "entities" if field == "text" else "caption_entities"
        changed = {**message_now, field: text, "edit_date": self.date()}
        changed.pop(entities_field, None)
        entities = found_in(text, [])
        if entities:
            changed[entities_field] = entities
        place.messages[message] = changed
        self.show(place, changed, edited=True)

    def touch(self, chat: int, message: int) -> None:
        """The message changes in a way that is none of the sender's doing (a preview appears):
        an edit with the same text."""
        place = self.chats[chat]
        changed = {**place.messages[message], "edit_date": self.date()}
        place.messages[message] = changed
        self.show(place, changed, edited=True)

    # -- how a message comes to be -----------------------------------------------------------

    def _medium(
        self,
        chat: int,
        stored: StoredFile,
        kind: str,
        caption: str,
        sender: int,
        thread: int | None,
        more: Json | None = None,
    ) -> int:
        content: Json = {kind: shown(kind, stored), **(more or {})}
        if caption:
            content["caption"] = caption
            entities = found_in(caption, [])
            if entities:
                content["caption_entities"] = entities
        return self._put(chat, content, sender, thread)

    def _put(
        self,
        chat: int,
        content: Json,
        sender: int,
        thread: int | None,
        reply_to: int | None = None,
        quote: str = "",
        age_s: int = 0,
    ) -> int:
        place = self.chats[chat]
        message = self.compose(place, self._author(place, sender), thread, reply_to, quote)
        message.update(content)
        message["date"] -= age_s
        place.messages[message["message_id"]] = message
        if place.standing == "not_started" and place.kind == "private":
            place.standing = "member"  # who writes to a bot can be answered
        self.show(place, message)
        if place.kind == "channel":
            self.forward_to_linked(place, message)
        return int(message["message_id"])

    def _author(self, place: Chat, sender: int) -> Person | None:
        if sender:
            return self.people[sender]
        if place.person is None and place.kind != "channel":
            raise ValueError(f"chat {place.id} is a group: name the sender")
        return place.person

    def compose(
        self, place: Chat, author: Person | None, thread: int | None, reply_to: int | None, quote: str = ""
    ) -> Json:
        """A new message without content, not yet in its chat. ``author`` ``None``: the channel."""
        message: Json = {"message_id": self.next_id(place), "chat": place.to_json(), "date": self.date()}
        message |= {"from": author.to_json()} if author is not None else {"sender_chat": place.to_json()}
        if thread not in (None, general_thread):
            message |= {"message_thread_id": thread, "is_topic_message": True}
        answered = place.messages.get(reply_to) if reply_to is not None else None
        if answered is not None:
            message["reply_to_message"] = _without_chain(answered)
            if place.kind == "supergroup" and not place.forum:
                message["message_thread_id"] = answered.get("message_thread_id", answered["message_id"])
        elif thread is not None and thread in place.messages:
            message["reply_to_message"] = _without_chain(place.messages[thread])
        if answered is not None and quote:
            at = str(answered.get("text", answered.get("caption", ""))).find(quote)
            position = units(str(answered.get("text", ""))[:at]) if at > 0 else 0
            message["quote"] = {"text": quote, "position": position, "is_manual": True}
        return message

    def show(self, place: Chat, message: Json, edited: bool = False) -> None:
        """The update, if the bot gets to see the message."""
        if place.standing in ("kicked", "left", "deleted", "blocked") or place.moved_to:
            return
        if self.privacy and place.kind in ("group", "supergroup") and not self._meant_for_bot(message):
            return
        kind = "channel_post" if place.kind == "channel" else "message"
        self._tell(f"edited_{kind}" if edited else kind, message)

    def _meant_for_bot(self, message: Json) -> bool:
        text = str(message.get("text", message.get("caption", "")))
        command = text.startswith("/") and ("@" not in text.split()[0] or self._names_bot(text.split()[0]))
        answered = message.get("reply_to_message", {}).get("from", {}).get("id") == self.bot.id
        return command or answered or self._names_bot(text)

    def _names_bot(self, text: str) -> bool:
        return f"@{self.bot.username}".lower() in text.lower()

    def forward_to_linked(self, channel: Chat, post: Json) -> None:
        """A channel's post appears by itself in the channel's discussion group."""
        if not channel.linked_group:
            return
        group = self.chats[channel.linked_group]
        content = {key: post[key] for key in ("text", "entities", "caption", "photo") if key in post}
        message = self.compose(group, None, None, None) | content
        message["from"] = {"id": 777000, "is_bot": False, "first_name": "Telegram"}
        message["sender_chat"] = channel.to_json()
        message["is_automatic_forward"] = True
        group.messages[message["message_id"]] = message
        self.show(group, message)


def _without_chain(message: Json) -> Json:
    """A message as it is shown inside an answer to it: without what it answers itself."""
    return {name: value for name, value in message.items() if name != "reply_to_message"}


def _pieces(text: str) -> list[str]:
    pieces, room = [""], paste_units
    for letter in text:
        size = 2 if letter > "\uffff" else 1
        if size > room:
            pieces.append("")
            room = paste_units
        pieces[-1] += letter
        room -= size
    return pieces
