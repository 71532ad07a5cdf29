"""The part of an update that is read here; names are the Bot API's own.

Everything that is not read is ignored, and what only decorates a message is read as it comes
(``Any``), so that a field nobody foresaw spoils no message. ``update_id`` serves the offset
and nothing else: ids become random after a week without updates, so they are never compared.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

#: What is asked for; no other kind of update is a message to us.
ALLOWED_UPDATES = ("message", "edited_message", "channel_post", "edited_channel_post")
EDITS = ("edited_message", "edited_channel_post")


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, hide_input_in_errors=True)


class User(_Read):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""


class Chat(_Read):
    id: int
    type: str
    title: str = ""


class MessageEntity(_Read):
    type: str
    offset: int
    length: int
    user: User | None = None


class File(_Read):
    """Anything that ``getFile`` can fetch."""

    file_id: str
    file_size: int | None = None
    file_name: str = ""
    mime_type: str = ""
    duration: int | None = None
    title: str = ""
    performer: str = ""


class Quote(_Read):
    text: str = ""


class DirectTopic(_Read):
    topic_id: int


class Message(_Read):
    message_id: int
    date: int = 0
    chat: Chat
    from_user: User | None = Field(default=None, alias="from")
    sender_chat: Chat | None = None
    is_automatic_forward: bool = False
    message_thread_id: int | None = None
    is_topic_message: bool = False
    direct_messages_topic: DirectTopic | None = None
    media_group_id: str = ""
    text: str = ""
    entities: tuple[MessageEntity, ...] = ()
    caption: str = ""
    caption_entities: tuple[MessageEntity, ...] = ()
    reply_to_message: Message | None = None
    quote: Quote | None = None
    forum_topic_created: Any = None
    migrate_to_chat_id: int | None = None
    photo: tuple[File, ...] = ()
    animation: File | None = None
    document: File | None = None
    voice: File | None = None
    audio: File | None = None
    video: File | None = None
    video_note: File | None = None
    sticker: Any = None
    location: Any = None
    venue: Any = None
    contact: Any = None
    poll: Any = None
    dice: Any = None
    story: Any = None
    paid_media: Any = None
    game: Any = None
    invoice: Any = None
    checklist: Any = None
    giveaway: Any = None


class Me(_Read):
    """The bot itself, as ``getMe`` tells."""

    id: int
    username: str = ""
    is_bot: bool = False
