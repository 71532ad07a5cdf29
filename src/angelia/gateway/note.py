"""What the home remembers of its store, so that an old copy put back asks before it sends.

``pulse.json`` holds the store's name and the newest count of its beats (``store/pulse.py``). It
is written after the commits that it tells of, never before: a note that ran ahead would take
the true store for a copy and hold back what is owed. So it may be a few seconds behind, and a
note that a power cut tore says nothing, which is no reason to hold anything back.
"""

from __future__ import annotations

import json
import os

import structlog

from angelia.engine.service import Loop
from angelia.gateway.home import Home
from angelia.model.errors import StoreUnavailableError
from angelia.seams import crash
from angelia.seams.clock import Clock
from angelia.store.durable import create_private, part_of, place_over, remove, sync_file
from angelia.store.ledger import Pulse
from angelia.store.pulse import is_old_copy
from angelia.store.sqlite import SqliteLedger

log = structlog.get_logger("angelia")

#: How far the note may be behind while the gateway runs.
write_every_s = 5.0


class UnreadableNoteError(Exception):
    """The note was torn by a power cut, or changed by hand: it tells nothing."""


def read_note(home: Home) -> Pulse | None:
    """What the home remembers; ``None`` if there is no note. Raises ``UnreadableNoteError``."""
    try:
        facts = json.loads(home.note.read_bytes())
        return Pulse(str(facts["store"]), int(facts["beats"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreadableNoteError(f"{home.note} cannot be read: {error}") from error


def write_note(home: Home, pulse: Pulse, *, synced: bool) -> None:
    """Remember ``pulse``; ``synced``: over a power cut, too. Raises ``OSError``."""
    part = part_of(home.note)
    try:
        create_private(part)
        part.write_text(json.dumps({"store": pulse.store, "beats": pulse.beats}) + "\n", encoding="utf-8")
        if not synced:
            os.replace(part, home.note)
            return
        sync_file(part)
        crash.point("note.before_rename")
        place_over(part, home.note)
    except OSError:
        remove(part)
        raise
    crash.point("note.after_rename")


def looks_old(home: Home, mine: Pulse) -> bool:
    """Whether a store with this pulse is an old copy, as far as the home can tell."""
    try:
        return is_old_copy(mine, read_note(home))
    except UnreadableNoteError:
        return False


class Note:
    """Keeps the note of a running gateway. The home's lock is held as long as it lives."""

    def __init__(self, home: Home, ledger: SqliteLedger, clock: Clock) -> None:
        self._home = home
        self._ledger = ledger
        self._written: Pulse | None = None
        self._loop = Loop("note", self._keep_up, write_every_s, clock)
        self._started = False

    async def start(self) -> None:
        """Recognise the store. An old copy's owed rows are parked when this returns, and nothing
        of it has been sent. Raises ``StoreUnavailableError`` where no first note can be made."""
        mine = await self._ledger.pulse()
        try:
            noted = read_note(self._home)
        except UnreadableNoteError as error:
            log.warning(str(error), action="note.unreadable")
            noted = mine
        if is_old_copy(mine, noted):
            mine = await self._park(noted)
        try:
            write_note(self._home, mine, synced=True)
            self._written = mine
        except OSError as error:
            if noted is None:
                # With no note beside it a used store is taken for a copy at the next start.
                raise StoreUnavailableError(
                    f"{self._home.note} cannot be written: {error.strerror}"
                ) from error
            self._complain(error)
        self._loop.start()
        self._started = True

    async def _park(self, noted: Pulse | None) -> Pulse:
        parked = await self._ledger.park(noted)
        log.error(
            "this store is an OLD COPY: what it owes may have been sent already, so it is parked and asks "
            "first; see `angelia deliveries --parked`, then `angelia deliveries release` or `cancel`",
            action="store.old_copy",
            parked=parked.deliveries,
            turns_given_up=parked.turns,
        )
        return parked.pulse

    async def _keep_up(self) -> None:
        """Write down how far the store has come, if it has."""
        await self._write(synced=False)

    async def _write(self, *, synced: bool) -> None:
        pulse = await self._ledger.pulse()
        if pulse == self._written:
            return
        try:
            write_note(self._home, pulse, synced=synced)
            self._written = pulse
        except OSError as error:
            self._complain(error)

    async def stop(self) -> None:
        """Write down how far the store came; its owner has retired."""
        await self._loop.stop()
        if not self._started:
            return
        self._started = False
        try:
            await self._write(synced=True)
        except Exception as error:  # whatever it is, the gateway must go on giving back what it has
            log.warning("the note stays behind", action="note.behind", error=str(error))

    def _complain(self, error: OSError) -> None:
        log.warning(
            "the home's note of its store cannot be written", action="note.unwritten", error=error.strerror
        )
