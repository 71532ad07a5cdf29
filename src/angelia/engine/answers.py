"""The one commit at the end of a turn, and what happens while it cannot be made.

An answer just made is kept and committed as soon as it can be. After 60 s without a store
it is sent unprotected, loudly; once the store is back it is committed together with that
attempt and its outcome, so that it is not sent again plain. A crash before that commit is
the one documented hole: the turn may run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from angelia.agents.base import AttachedFile
from angelia.engine.attaching import Attaching
from angelia.engine.roster import Roster
from angelia.engine.unprotected import send_unprotected
from angelia.model import limits
from angelia.model.errors import StoreDamagedError, StoreUnavailableError
from angelia.model.ids import Lane
from angelia.model.messages import NO_USAGE, NewDelivery, Usage
from angelia.model.plan import PassEnd
from angelia.model.record import Ending, Record
from angelia.model.states import RunEnd
from angelia.seams.clock import Clock
from angelia.store.ledger import Finished, Ledger, Turn

log = structlog.get_logger("angelia")

#: Characters of a piece where no splitter says better: every platform takes that much.
_RAW_CUT = 1000


class Answers:
    """Ends turns. ``split`` cuts a text for the platform of a lane; ``on_delivery`` is hinted
    with the lane of each committed delivery, and with its record where that is known.
    ``protected``: the setting ``delivery_ledger``."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        roster: Roster,
        split: Callable[[Lane, str], list[str]],
        on_delivery: Callable[[Lane, Record | None], None],
        attaching: Attaching,
        protected: bool = True,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._roster = roster
        self._split = split
        self._on_delivery = on_delivery
        self.attaching = attaching
        self._protected = protected
        #: How many answers are kept in memory because the store cannot be written.
        self.kept = 0

    async def finish(
        self,
        turn: Turn,
        run: str | None,
        ending: RunEnd,
        text: str,
        usage: Usage = NO_USAGE,
        detail: str = "",
        files: Sequence[AttachedFile] = (),
    ) -> None:
        """Commit the end of a turn with the delivery of ``text`` and ``files``; returns when
        committed."""
        # Named after the run: an answer that was sent unprotected and then lost with its gateway
        # must not share its keys with the different words of the run that comes after it.
        lines, attachments = await self.attaching.prepare(turn.lane, files) if files else ([], ())
        parts = tuple(
            part for said in (text, *lines) if said.strip() for part in self._parts(turn.lane, said)
        )
        origin = "turn" if run else "notice"
        delivery = NewDelivery(
            run or turn.id, turn.lane, parts, turn.reply_to, origin, attachments=attachments
        )
        if not self._protected:
            # Closed before the first byte: it never runs again, and nothing is owed.
            if await self._commit(turn, run, ending, usage, detail, None):
                record, _ = await self._send_unprotected(delivery)
                if record.missing is not None:
                    log.error("a reply is LOST: the ledger is off", action="answer.lost", turn=turn.id)
            return
        finished = await self._commit(turn, run, ending, usage, detail, delivery)
        if finished is not None:
            self._on_delivery(turn.lane, finished.fresh)
        else:
            log.error(
                "an answer came too late: its turn is no longer ours", action="answer.stale", turn=turn.id
            )

    async def _send_unprotected(self, delivery: NewDelivery) -> tuple[Record, PassEnd]:
        """One pass that nothing protects. A refused credential stops the adapter here, too."""
        connection = self._roster.get(delivery.lane.adapter)
        record, end = await send_unprotected(delivery, connection, self._clock)
        refused = next((a for a in record.attempts if a.ending is Ending.BAD_CREDENTIAL), None)
        if refused is not None and connection is not None:
            self._roster.remove(connection.id, connection.adapter)
            self._roster.on_bad_credential(connection.id, refused.detail)
        return record, end

    async def _held(self, lane: Lane) -> bool:
        """Whether a rate limit holds the chat, as far as the store can still be read."""
        try:
            return await self._ledger.held_until(lane) > self._clock.now().steady
        except (StoreUnavailableError, StoreDamagedError):
            return False

    def _parts(self, lane: Lane, text: str) -> tuple[str, ...]:
        """``text`` cut for its platform; a splitter that fails is no reason to lose an answer."""
        try:
            parts = tuple(part for part in self._split(lane, text) if part)
        except Exception:
            log.exception("a splitter failed; the text is cut anywhere", action="split.failed")
            parts = ()
        return parts or tuple(text[i : i + _RAW_CUT] for i in range(0, len(text), _RAW_CUT))

    async def give_up(self, turn: Turn, run: str | None, ending: RunEnd, reason: str) -> None:
        """Commit the end of a turn that gets no answer."""
        await self._ledger.finish_turn(turn, run, ending, gave_up=reason)

    async def _commit(
        self,
        turn: Turn,
        run: str | None,
        ending: RunEnd,
        usage: Usage,
        detail: str,
        delivery: NewDelivery | None,
    ) -> Finished | None:
        kept_since: int | None = None
        sent: tuple[Record, PassEnd] | None = None
        on_the_wire = False
        try:
            while True:
                try:
                    return await self._ledger.finish_turn(turn, run, ending, usage, detail, delivery, sent)
                except (StoreUnavailableError, StoreDamagedError) as error:
                    now = self._clock.now().steady
                    if kept_since is None:
                        kept_since, self.kept = now, self.kept + 1
                    log.error(
                        "an answer is kept in memory: the store cannot be written",
                        action="answer.kept",
                        turn=turn.id,
                        error=str(error),
                    )
                    patience_ms = limits.unprotected_after_s * limits.SECOND_MS
                    impatient = sent is None and delivery is not None and now - kept_since >= patience_ms
                    if delivery is not None and impatient and not await self._held(turn.lane):
                        log.critical(
                            "an answer is sent UNPROTECTED: a crash now may repeat it",
                            action="answer.unprotected",
                            turn=turn.id,
                        )
                        on_the_wire = True
                        made = await self._send_unprotected(delivery)
                        on_the_wire = False
                        sent = made if made[0].attempts else None  # nothing left: tried again
                    await self._clock.sleep(1.0)
        except asyncio.CancelledError:
            if kept_since is not None and not on_the_wire:
                # The last chance: the store may be back since a moment ago, and what is lost now
                # would be paid for again. A call that was cut is in nobody's record: the one hole.
                await self._ledger.finish_turn(turn, run, ending, usage, detail, delivery, sent)
            raise
        finally:
            if kept_since is not None:
                self.kept -= 1
