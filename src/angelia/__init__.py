"""Angelia: a messaging gateway that never loses, silently repeats or pays twice for an answer.

The public API, by name. The daemon is the command ``angelia``; ``Outbox`` is the ledger for a
bot of your own; ``MessageDeduplicator`` is the inbound half alone.
"""

from typing import TYPE_CHECKING, Any

from angelia.model.dedup import MessageDeduplicator
from angelia.model.errors import AngeliaError, StoreUnavailableError
from angelia.model.messages import Inbound, Outgoing
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    BadCredential,
    Moved,
    NotSent,
    Outcome,
    RateLimited,
    Refused,
    ThreadGone,
    Unconfirmed,
    Unreachable,
)
from angelia.model.record import Record
from angelia.model.states import State

if TYPE_CHECKING:
    from angelia.outbox import Outbox

__all__ = [
    "Accepted",
    "AngeliaError",
    "BadContent",
    "BadCredential",
    "Inbound",
    "MessageDeduplicator",
    "Moved",
    "NotSent",
    "Outbox",
    "Outcome",
    "Outgoing",
    "RateLimited",
    "Record",
    "Refused",
    "State",
    "StoreUnavailableError",
    "ThreadGone",
    "Unconfirmed",
    "Unreachable",
]


def __getattr__(name: str) -> Any:
    """The outbox brings the store and an HTTP stack with it: loaded when it is first asked for."""
    if name == "Outbox":
        from angelia.outbox import Outbox

        return Outbox
    raise AttributeError(f"module 'angelia' has no attribute {name!r}")
