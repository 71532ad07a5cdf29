"""What goes in and what goes out, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from angelia.model.ids import AdapterId, Lane
from angelia.model.media import Attachment


def well_formed(text: str) -> str:
    """``text`` as every platform and every store can carry it: NUL and lone surrogates
    become U+FFFD. Applied at the border, to everything that comes in from outside."""
    if "\x00" not in text and (text.isascii() or text.isprintable()):
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True, slots=True)
class Inbound:
    """One incoming message, as an adapter hands it over.

    ``message_id`` is the platform's own id; (profile, platform, chat, message_id) is the key
    of the duplicate check. ``sent_at`` is the platform's own time of it (milliseconds since
    the epoch), where there is one. ``reply_to`` is what the answer should be anchored to.
    ``burst``: what a client split, or sent in one go (a long paste, an album), has the same
    mark and becomes one turn, which waits ``more_s`` seconds (at most 10) for further pieces.
    ``attachments`` came with it and are spooled already.
    """

    profile: str
    platform: str
    chat: str
    message_id: str
    user: str
    text: str
    thread: str = ""
    user_name: str = ""
    reply_to: str = ""
    sent_at: int | None = None
    burst: str = ""
    more_s: float = 0.0
    attachments: tuple[Attachment, ...] = ()

    @property
    def lane(self) -> Lane:
        return Lane(self.profile, self.platform, self.chat, self.thread)

    @property
    def adapter(self) -> AdapterId:
        return AdapterId(self.profile, self.platform)


class Reception(StrEnum):
    """What became of an inbound. ``ACCEPTED`` means: committed."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    NOT_ALLOWED = "not allowed"


class TextFormat(StrEnum):
    """How the text of a message is to be read by the platform."""

    MARKDOWN = "markdown"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One platform message, ready for the wire: exactly the bytes of one revision.

    ``part`` counts from 1 to ``parts``. ``key`` is the same for every attempt of the same
    revision and different for every other. ``thread`` and ``reply_to`` are ``""`` if absent.
    With an ``attachment``, ``text`` is its caption, or ``""``; ``Host.spooled`` has its bytes.
    ``written_at``: when its delivery was written, in milliseconds since the epoch.
    """

    delivery: str
    part: int
    parts: int
    key: str
    chat: str
    text: str
    thread: str = ""
    reply_to: str = ""
    format: TextFormat = TextFormat.MARKDOWN
    recovered: bool = False
    attachment: Attachment | None = None
    written_at: int = 0


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """One finished reply or notice, owed to one conversation from the commit on.

    ``texts`` are its parts, already cut to the platform's limit, none empty; then come its
    ``attachments``, each a part with a caption (``""``: none) that fits. There is at least one part.
    ``requested``: it repeats a final delivery on somebody's request, so it is marked.
    """

    id: str
    lane: Lane
    texts: tuple[str, ...]
    reply_to: str = ""
    origin: str = "turn"  # "turn" | "notice" | "again"
    requested: bool = False
    attachments: tuple[tuple[Attachment, str], ...] = ()

    def __post_init__(self) -> None:
        if not (self.texts or self.attachments) or not all(self.texts):
            raise ValueError("a delivery has at least one part, and no part is empty")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model run consumed, in tokens, where the agent knows it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str = ""


#: Nothing is known of what a run consumed.
NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of a conversation as a person or an agent may see it.

    ``role`` is "user" or "assistant". ``state`` of an assistant line is the state of its
    delivery; of a user line, the state of its turn. ``at`` in milliseconds since the epoch.
    """

    role: str
    text: str
    at: int
    id: str
    state: str = ""
    recovered: bool = False
    parts: tuple[HistoryPart, ...] = field(default=())
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """One part of an assistant line: its number, text, and whether it has a receipt."""

    number: int
    text: str
    received: bool
    attachment: Attachment | None = None


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """One chat in a list of chats, newest activity first. ``at`` in milliseconds."""

    chat: str
    title: str
    at: int
