"""The contract between the engine and a platform.

An adapter is the live connection of one profile to one platform. It makes exactly one wire
call per ``send`` and tells what that call taught; it never retries by itself, and it never
acknowledges an inbound before ``Host.receive`` has returned. Adapters are replaced as a
whole when their connection is lost, so they keep nothing that must survive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiohttp import web

from angelia.model.ids import Lane
from angelia.model.media import Attachment
from angelia.model.messages import ChatSummary, HistoryEntry, Inbound, Outgoing, Reception
from angelia.model.outcomes import Accepted, LookUp, Outcome

#: An idempotency window that never closes.
FOR_EVER_S = float("inf")


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast we send of our own accord, so that floods are rare; the engine keeps to it.

    ``chat_per_s`` and ``bot_per_s``: messages per second to one chat and by one bot.
    ``group_per_min``: messages per minute to a chat for which ``is_group`` holds. Short
    bursts of ``burst`` messages to a chat go at once. 0 stands for no bound.
    """

    chat_per_s: float = 0.0
    bot_per_s: float = 0.0
    group_per_min: float = 0.0
    burst: int = 3
    is_group: Callable[[str], bool] = lambda _chat: False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the platform can promise; the plan and the docs are computed from it.

    ``key_window_s``: for how many seconds a repeated key is recognised (0: no keys).
    ``call_limit_s``: the longest time one wire call may take, in seconds.
    ``read_back``: ``look_up`` can find our own message again.
    ``typing``: it can show a typing indicator.
    ``part_receipts``: False if the platform cannot tell which parts arrived.
    ``text_limit``: the longest text of one message, counted by ``measure``.
    ``media_bytes``: the largest file it takes, in bytes (0: it takes no files).
    ``caption_limit``: the longest text that goes with a file (0: none does).
    """

    text_limit: int
    measure: Callable[[str], int] = len
    text_unit: str = "code points"
    key_window_s: float = 0.0
    call_limit_s: float = 30.0
    read_back: bool = False
    part_receipts: bool = True
    replays_inbound: bool = True
    typing: bool = False
    worst_case: str = "twice, but marked"
    media_bytes: int = 0
    caption_limit: int = 0
    pace: Pace | None = None


class Host(Protocol):
    """What the gateway offers an adapter."""

    async def receive(self, inbound: Inbound) -> Reception:
        """Commit ``inbound``. When this returns ACCEPTED or DUPLICATE, it is on record and
        may be acknowledged. NOT_ALLOWED: nothing was recorded, the id is not seen.
        Raises ``StoreUnavailableError``: do not acknowledge."""
        ...

    def allows(self, user: str) -> bool:
        """Whether ``receive`` would admit a message of ``user``: asked before its files are
        fetched, so that a stranger can fill neither the line nor the disk."""
        ...

    async def edit(self, inbound: Inbound) -> bool:
        """A message was edited: its text replaces the one on record while its turn still waits
        (committed when this returns). False: it starts nothing and changes nothing."""
        ...

    def spooled(self, attachment: Attachment) -> Path:
        """Where the bytes of an attachment lie. The file may be gone: then the part is
        ``BadContent`` with ``ContentFault.MEDIA``."""
        ...

    @property
    def address(self) -> str:
        """Where others reach the gateway's HTTP server, with a slash at the end: the setting
        ``gateway.public_url``, or where it listens."""
        ...

    def link(self, attachment: Attachment, written_at: int) -> str:
        """A signed link to an attachment of a delivery written at ``written_at``, relative to
        ``address``. It is the same in every attempt, and ends 8 days after ``written_at``.
        Raises ``StoreUnavailableError``."""
        ...

    async def spool(self, data: bytes, name: str, mime: str) -> Attachment:
        """Keep the bytes of an incoming file in the home's spool; synced when this returns.
        Raises ``StoreUnavailableError`` if they cannot be written."""
        ...

    def connected(self, chat: str | None = None) -> None:
        """A hint: a connection (of ``chat``, or of all) came up; owed rows may go now."""
        ...

    def troubled(self, reason: str) -> None:
        """It is up, but something is wrong that an operator should see in health and status;
        ``""`` when that is over."""
        ...

    def lost(self, reason: str) -> None:
        """The connection broke for good; a new instance will replace this one."""
        ...

    async def history(self, chat: str, limit: int) -> Sequence[HistoryEntry]:
        """The newest ``limit`` lines of a chat, oldest first (all threads)."""
        ...

    async def chats(self) -> Sequence[ChatSummary]:
        """The chats of this adapter that the store knows, newest activity first."""
        ...


class Adapter(Protocol):
    """One profile's connection to one platform."""

    @property
    def capabilities(self) -> Capabilities: ...

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """HTTP routes that the gateway's one server shall serve for this adapter. Called
        once per instance; the server asks the newest instance."""
        ...

    async def start(self, host: Host) -> None:
        """Connect. Raises ``AdapterDownError`` (tried again) or ``BadCredentialError``."""
        ...

    async def stop(self) -> None:
        """Close everything. No ``Host`` method is called after this returns."""
        ...

    def split(self, text: str, limit: int | None = None) -> list[str]:
        """``text`` cut into messages of at most ``limit`` (default: the platform's)."""
        ...

    def present(self, chat: str) -> bool:
        """Whether a send to ``chat`` could leave at all now. False: nothing is tried, the
        row waits for ``Host.connected``."""
        ...

    async def send(self, message: Outgoing) -> Outcome:
        """Exactly one wire call. Never raises for what the platform or network did."""
        ...

    async def look_up(self, message: Outgoing, since: int) -> Accepted | LookUp:
        """Find exactly this revision among our messages made after ``since`` (milliseconds).
        Only called when ``capabilities.read_back``."""
        ...

    async def typing(self, lane: Lane, active: bool) -> Outcome | None:
        """Show or end the typing indicator; best effort, one call, no retry."""
        ...
