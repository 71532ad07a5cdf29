"""What an attempt can teach (guarantees §3). Outcomes are values; an adapter returns one.

An adapter that cannot classify what happened returns ``Unconfirmed``: what decides is
whether request bytes may have left, never an exception's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a rate limit holds. Unnamed means the chat (all its threads)."""

    BOT = "bot"
    CHAT = "chat"
    METHOD = "method"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The platform has it. ``receipt`` is the platform's own id of the message ("" if none)."""

    receipt: str = ""


@dataclass(frozen=True, slots=True)
class NotSent:
    """Provably no byte of the request left (DNS, refused, connect time-out, offline)."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class RateLimited:
    """Refused for now; ``wait_s`` seconds from the platform, in ``scope``."""

    wait_s: float
    scope: Scope = Scope.CHAT
    method: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """It may or may not have arrived. ``dropped``: the connection broke (else: no usable answer)."""

    detail: str = ""
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A definite rejection that no other class names."""

    detail: str = ""


class ContentFault(StrEnum):
    """What is wrong with a rejected content."""

    MARKUP = "markup"
    TOO_LONG = "too long"
    MEDIA = "media"  # the file is too large, of a wrong kind, or not in the spool any more


@dataclass(frozen=True, slots=True)
class BadContent:
    """This content, as it is, will not be taken: sent once as plain text, or split once; a
    file is replaced by a line that says so."""

    fault: ContentFault = ContentFault.MARKUP
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ThreadGone:
    """The thread (or, with ``anchor_only``, the message replied to) no longer exists."""

    anchor_only: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Moved:
    """The chat has another id now."""

    chat: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The chat is gone for us: blocked, kicked, deleted, deactivated. Never retried."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class BadCredential:
    """The credential is not valid (any more). The adapter stops."""

    detail: str = ""


Outcome = (
    Accepted
    | NotSent
    | RateLimited
    | Unconfirmed
    | Refused
    | BadContent
    | ThreadGone
    | Moved
    | Unreachable
    | BadCredential
)


class LookUp(StrEnum):
    """What reading the conversation back can teach about one revision (guarantees §4.2)."""

    ABSENT = "absent"
    CANNOT_TELL = "cannot tell"
