"""One task per conversation that has something to do, none for the others.

A lane's deliveries go out one after another; lanes do not wait for each other. A hint for a
lane that is already being worked makes it look once more, so no hint is lost between the
last look and the end of the task. Whoever has just committed a delivery may hand its record
along, so that the first send need not read what was written a moment ago.
"""

from __future__ import annotations

import asyncio

import structlog

from angelia.engine.sender import Sender
from angelia.engine.service import wait_within
from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import Lane
from angelia.model.record import Record
from angelia.seams.clock import Clock

log = structlog.get_logger("angelia")

#: How long a drained lane may take to put down what it has not sent.
_RELEASE_S = 1.0


class Lanes:
    """Runs the sender on hinted lanes."""

    def __init__(self, sender: Sender, clock: Clock) -> None:
        self._sender = sender
        self._clock = clock
        self._tasks: dict[Lane, asyncio.Task[None]] = {}
        #: Lanes in work that were hinted meanwhile, with the one fresh delivery since, if it is one.
        self._again: dict[Lane, Record | None] = {}
        self._open = True

    def hint(self, lane: Lane, fresh: Record | None = None) -> None:
        """There may be something to send in this lane now; ``fresh``: this, just committed."""
        if not self._open:
            return
        if lane in self._tasks:
            self._again[lane] = None if lane in self._again else fresh
            return
        self._tasks[lane] = asyncio.create_task(self._run(lane, fresh), name=f"lane {lane}")

    async def _run(self, lane: Lane, fresh: Record | None) -> None:
        try:
            while True:
                await self._sender.work(lane, fresh)
                if lane not in self._again or not self._open:
                    return
                fresh = self._again.pop(lane)
        except StoreUnavailableError as error:
            log.warning("a lane waits for the store", action="lane.waits", lane=str(lane), error=str(error))
        except Exception:
            log.exception("a lane failed", action="lane.failed", lane=str(lane))
        finally:
            self._again.pop(lane, None)
            del self._tasks[lane]

    def close(self) -> None:
        """Work no lane any more."""
        self._open = False

    @property
    def busy(self) -> int:
        """How many lanes are being worked."""
        return len(self._tasks)

    async def drain(self, seconds: float) -> None:
        """Take no more hints; what is being sent gets ``seconds``, then the rest is released
        or, with a call on the wire, left exactly as its row says."""
        self._open = False
        await wait_within(self._clock, self._tasks.values(), seconds)
        self._sender.releasing = True
        # Who is between two steps sees that now; only a call on the wire must be cut.
        await wait_within(self._clock, self._tasks.values(), _RELEASE_S)
        for task in list(self._tasks.values()):
            task.cancel()
        await wait_within(self._clock, self._tasks.values(), _RELEASE_S)
