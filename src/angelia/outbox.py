"""The ledger for people who have a bot already: floors 0 to 2 without the daemon.

You bring one function that makes one wire call and says what it taught; the outbox records,
sends, retries within the fixed bounds, marks what may be a duplicate, and recovers after a
crash. Several processes may share one file: leases and fences keep them apart.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType

import structlog
from aiohttp import web

from angelia.engine.engine import Engine
from angelia.model.errors import BadCredentialError
from angelia.model.ids import AdapterId, Lane
from angelia.model.messages import NewDelivery, Outgoing, well_formed
from angelia.model.outcomes import Accepted, LookUp, Outcome
from angelia.model.record import Record
from angelia.model.states import FINAL
from angelia.platforms.base import Capabilities, Host
from angelia.platforms.text import split
from angelia.seams.clock import Clock, SystemClock
from angelia.seams.rng import Rng, SystemRng
from angelia.store.sqlite import SqliteLedger

Send = Callable[[Outgoing], Awaitable[Outcome]]

_log = structlog.get_logger("angelia")

_WAIT_LOOK_S = 0.1


class FunctionAdapter:
    """An ``Adapter`` around a function of yours that makes one wire call."""

    def __init__(self, send: Send, capabilities: Capabilities) -> None:
        self._send = send
        self.capabilities = capabilities

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        return ()

    async def start(self, host: Host) -> None:
        return None

    async def stop(self) -> None:
        return None

    def split(self, text: str, limit: int | None = None) -> list[str]:
        return split(text, limit or self.capabilities.text_limit, self.capabilities.measure)

    def present(self, chat: str) -> bool:
        return True

    async def send(self, message: Outgoing) -> Outcome:
        return await self._send(message)

    async def look_up(self, message: Outgoing, since: int) -> Accepted | LookUp:
        return LookUp.CANNOT_TELL

    async def typing(self, lane: Lane, active: bool) -> Outcome | None:
        return None


class Outbox:
    """What you owe your users, durably, in the file ``path``.

    ``send`` makes exactly one wire call and returns an outcome (``angelia.Accepted``, …); what
    it raises counts as unconfirmed. ``text_limit`` is the longest text of one message in code
    points; ``key_window_s`` for how long your platform recognises ``Outgoing.key``.
    Use it as an async context manager. Raises ``StoreDamagedError``, ``StoreNewerError``,
    ``StoreUnavailableError`` when the file cannot be used.
    """

    def __init__(
        self,
        path: str | Path,
        send: Send,
        *,
        text_limit: int = 4096,
        key_window_s: float = 0.0,
        call_limit_s: float = 30.0,
        name: str = "bot",
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        _quiet_unless_configured()
        self._clock = clock or SystemClock()
        self._rng = rng or SystemRng()
        self._id = AdapterId("default", name)
        capabilities = Capabilities(text_limit, key_window_s=key_window_s, call_limit_s=call_limit_s)
        self._adapter = FunctionAdapter(send, capabilities)
        self.ledger = SqliteLedger(Path(path), self._clock)
        self._engine = Engine(
            self.ledger, self._clock, self._rng, {}, lambda _lane, text: self._adapter.split(text)
        )
        self._engine.roster.on_bad_credential = self._stopped
        self._refusal = ""

    def _stopped(self, _adapter: AdapterId, detail: str) -> None:
        """The platform refused the credential: nothing more is tried before the next start."""
        self._refusal = detail or "the platform refused the credential"
        _log.error("sending has stopped: bad credential", action="outbox.bad_credential", detail=detail)

    async def __aenter__(self) -> Outbox:
        """Take over what a dead process left and start to send."""
        await self._engine.start()
        self._engine.roster.install(self._id, self._adapter)
        await self._engine.rescuer.connected(self._id)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._engine.stop()
        await self.ledger.close()

    async def owe(self, chat: str, text: str, *, thread: str = "", reply_to: str = "", id: str = "") -> str:
        """Owe ``text`` to ``chat`` from now on. Committed when this returns; it is sent in the
        background, in the order owed. The same ``id`` is owed once, however often it is asked.

        Raises ``ValueError`` for an empty text, ``StoreUnavailableError`` when nothing is on record.
        """
        delivery = NewDelivery(
            id or self._rng.token(),
            Lane(*self._id, chat, thread),
            tuple(self._adapter.split(well_formed(text))),
            reply_to,
            "notice",
        )
        return (await self._engine.enqueue(delivery)).id

    async def record(self, delivery: str) -> Record:
        """Everything on record about a delivery. Raises ``UnknownIdError``."""
        return await self.ledger.record(delivery)

    async def settled(self, delivery: str) -> Record:
        """Wait until a delivery is delivered or abandoned, or rests until the next start.

        Raises ``BadCredentialError`` once ``send`` has answered ``BadCredential``: sending has stopped,
        and what is owed waits for the next start.
        """
        while True:
            record = await self.ledger.record(delivery)
            if record.state in FINAL or (record.state == "failed" and record.due_at is None):
                return record
            if self._refusal:
                raise BadCredentialError(self._refusal)
            await self._clock.sleep(_WAIT_LOOK_S)


def _quiet_unless_configured() -> None:
    """A library speaks up only when something is wrong, unless its host wants to hear more."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso"),
                # A plain traceback: the usual one shows the values of variables, and some are secrets.
                structlog.dev.ConsoleRenderer(
                    colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
                ),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
