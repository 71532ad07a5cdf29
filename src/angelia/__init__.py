"""Angelia: a messaging gateway that never loses, silently repeats or pays twice for an answer.

The public API, by name. The daemon is the command ``angelia``; ``Outbox`` is the ledger for a
bot of your own; ``MessageDeduplicator`` is the inbound half alone.
"""

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
