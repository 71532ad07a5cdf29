"""Which adapters can be sent through at this moment.

The supervisor (floor 3) installs and removes connections; sender and rescuer only look. A
connection is replaced as a whole, so whoever holds an old one sends into a closed adapter,
which answers ``NotSent``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from angelia.engine.pacer import Pacer
from angelia.model import limits
from angelia.model.ids import AdapterId
from angelia.model.plan import Promise
from angelia.platforms.base import Adapter, Capabilities


def promise_of(capabilities: Capabilities) -> Promise:
    """What the plan needs to know of an adapter."""
    return Promise(
        text_limit=capabilities.text_limit,
        measure=capabilities.measure,
        key_window_ms=capabilities.key_window_s * limits.SECOND_MS,
        call_limit_ms=capabilities.call_limit_s * limits.SECOND_MS,
        read_back=capabilities.read_back,
        part_receipts=capabilities.part_receipts,
        caption_limit=capabilities.caption_limit,
    )


@dataclass(slots=True)
class Connection:
    """One live adapter with what the sender needs beside it."""

    id: AdapterId
    adapter: Adapter
    promise: Promise
    pacer: Pacer | None = None
    sends: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(limits.sends_at_once_max))


class Roster:
    """The connections that are up. ``on_bad_credential`` is told when one must stop."""

    def __init__(
        self, on_bad_credential: Callable[[AdapterId, str], None] = lambda _id, _detail: None
    ) -> None:
        self._up: dict[AdapterId, Connection] = {}
        self._pacers: dict[AdapterId, Pacer] = {}
        self.on_bad_credential = on_bad_credential

    def install(self, adapter_id: AdapterId, adapter: Adapter) -> None:
        """This adapter is up and replaces any earlier one of its id."""
        pace = adapter.capabilities.pace
        pacer = self._pacers.get(adapter_id)
        if pacer is None and pace is not None:
            pacer = self._pacers[adapter_id] = Pacer(pace)  # it outlives this instance
        self._up[adapter_id] = Connection(adapter_id, adapter, promise_of(adapter.capabilities), pacer)

    def remove(self, adapter_id: AdapterId, adapter: Adapter | None = None) -> None:
        """The adapter is down (unless another instance has replaced it already)."""
        known = self._up.get(adapter_id)
        if known is not None and (adapter is None or known.adapter is adapter):
            del self._up[adapter_id]

    def get(self, adapter_id: AdapterId) -> Connection | None:
        return self._up.get(adapter_id)

    @property
    def up(self) -> tuple[AdapterId, ...]:
        return tuple(self._up)
