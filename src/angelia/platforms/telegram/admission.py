"""Whether a message is for this bot. What is not is never marked as seen.

In a private chat every message of a person is. In groups and channels the rule of the
settings decides: by entities, never by looking for a name in the text, so that an address
that contains the name, or a longer name that begins with it, calls nobody.
"""

from __future__ import annotations

from angelia.platforms.telegram.content import piece
from angelia.platforms.telegram.updates import Me, Message

#: Commands of the gateway itself; without a name behind them they are for every bot that has them.
COMMANDS = ("new", "stop", "why", "help")


def sender(message: Message) -> tuple[str, str]:
    """Id and name of who speaks: an anonymous administrator or a channel speaks as that chat."""
    if message.sender_chat is not None:
        return str(message.sender_chat.id), message.sender_chat.title
    if message.from_user is None:
        return str(message.chat.id), message.chat.title
    person = message.from_user
    return str(person.id), f"{person.first_name} {person.last_name}".strip() or person.username


def spoken_by_a_person(message: Message, me: Me) -> bool:
    """False for our own echo, other bots, and a channel's post that Telegram copies into its
    discussion group (it is a post of the channel, and answered there or nowhere)."""
    if message.is_automatic_forward:
        return False
    if message.from_user is None or message.sender_chat is not None:
        return True
    return message.from_user.id != me.id and not message.from_user.is_bot


def addressed(message: Message, me: Me, groups: str) -> bool:
    """Whether ``message`` is meant for us, by the rule ``groups`` (``mention`` or ``all``)."""
    text = message.text or message.caption
    entities = message.entities if message.text else message.caption_entities
    name = f"@{me.username}".lower()
    for entity in entities:
        if entity.type == "bot_command" and entity.offset == 0:
            word, at, addressee = piece(text, entity).lower().partition("@")
            if at and f"@{addressee}" != name:
                return False  # another bot's command, whatever the rule
            if at or word.lstrip("/") in COMMANDS:
                return True
    if message.chat.type == "private" or groups == "all":
        return True
    for entity in entities:
        if entity.type == "mention" and piece(text, entity).lower() == name:
            return True
        if entity.type == "text_mention" and entity.user is not None and entity.user.id == me.id:
            return True
    replied = message.reply_to_message
    if replied is None or replied.forum_topic_created is not None or replied.from_user is None:
        return False
    return replied.from_user.id == me.id


def thread_of(message: Message) -> str:
    """The topic, or "". Replies in an ordinary group carry a thread id, too, but are no topic;
    the topic General has none."""
    if message.direct_messages_topic is not None:
        return f"direct:{message.direct_messages_topic.topic_id}"
    if message.is_topic_message and message.message_thread_id is not None:
        return str(message.message_thread_id)
    return ""
