"""The operator's door to the ledger: what the command line may ask and order.

It works beside a running gateway, through connections of its own, and without one. Asking
opens the store read-only: it creates nothing, migrates nothing and takes over nothing; a
home without a store is a home where nothing is owed. Orders are single transactions of the
same ledger that the gateway writes, under the same rules: what a gateway is working on at
this moment answers "try again".
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import apsw

from angelia.gateway.config import Config, load
from angelia.gateway.health import Health, ask
from angelia.gateway.home import Home, open_home, running
from angelia.gateway.note import looks_old
from angelia.model import limits
from angelia.model.errors import (
    AngeliaError,
    ConfigError,
    StoreDamagedError,
    StoreNewerError,
    StoreUnavailableError,
    TryAgainError,
    UnknownIdError,
)
from angelia.model.ids import AdapterId, Lane
from angelia.model.messages import NewDelivery, well_formed
from angelia.model.record import Record
from angelia.model.states import OWED
from angelia.seams import crash
from angelia.seams.clock import Now, clock_from
from angelia.seams.rng import SystemRng
from angelia.store import pulse, views
from angelia.store import sqlite_operator as orders
from angelia.store.connection import open_connection
from angelia.store.migrate import APPLICATION_ID, migrations
from angelia.store.reader import Reader
from angelia.store.sqlite import SqliteLedger
from angelia.store.verdict import verdict
from angelia.store.views import ChatView, DeliveryDetail, DeliveryView, StatusView, Timeline, WaitView

T = TypeVar("T")

__all__ = ["AddressError", "ChatView", "DeliveryDetail", "DeliveryView", "Operator", "Timeline", "WaitView"]


class AddressError(AngeliaError):
    """A conversation or text that cannot be written to; the sentence says what can."""


def check_version(connection: apsw.Connection, path: Path) -> int:
    """The version of the store's schema. Raises ``StoreDamagedError`` for the database of
    another program and ``StoreNewerError`` for a store of a newer Angelia. Changes nothing."""
    version = int(str(connection.pragma("user_version")))
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").get == 0:
        return 0  # a gateway died while it was making the store: nothing is in it
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StoreDamagedError(f"{path} is a database of another program, not a store of Angelia's")
    if version > len(migrations()):
        raise StoreNewerError(
            f"the store {path} has version {version}, this program knows {len(migrations())}: "
            "upgrade this program; nothing was changed"
        )
    return version


class Operator:
    """What may be done on one home. Times are milliseconds since the epoch.

    Raises ``ConfigError``, ``StoreDamagedError``, ``StoreNewerError`` or
    ``StoreUnavailableError`` where the home or its store cannot be used.
    """

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self.home: Home = open_home(home)
        self._environ = environ
        self._clock = clock_from(os.environ)

    # -- the two ways in ---------------------------------------------------------------------

    def _ask(self, work: Callable[[apsw.Connection, Now], T], nothing: T) -> T:
        """What ``work`` finds in one snapshot, or ``nothing`` where there is no store yet."""
        if not self._has_store():
            return nothing
        reader = Reader(lambda: open_connection(self.home.store, read_only=True), inline=True)
        try:
            return reader.run_blocking(lambda connection: self._asked(connection, work, nothing))
        finally:
            reader.close_blocking()

    def _asked(self, connection: apsw.Connection, work: Callable[[apsw.Connection, Now], T], nothing: T) -> T:
        version = check_version(connection, self.home.store)
        if version == 0:
            return nothing
        if version < len(migrations()):
            raise StoreUnavailableError(
                f"the store {self.home.store} has the older version {version}: start this gateway once, "
                "which brings it up to date"
            )
        try:
            return work(connection, self._clock.now())
        except apsw.SQLError as error:
            raise StoreDamagedError(
                f"the store {self.home.store} is not built as its version {version} says: {error}. "
                "Keep the file and run `angelia doctor`"
            ) from error

    def _order(self, delivery: str, work: Callable[[apsw.Connection, Now], T]) -> T:
        """One transaction of the ledger on a delivery, committed when this returns."""
        self.show(delivery)  # a mistyped id must make no store
        return self._write(lambda ledger: ledger.operate("operate", work))

    def _write(self, verb: Callable[[SqliteLedger], Awaitable[T]]) -> T:
        """What one verb of the ledger answers; it is committed."""

        async def written() -> T:
            ledger = SqliteLedger(self.home.store, self._clock)
            try:
                return await verb(ledger)
            finally:
                await ledger.close()

        self._refuse_to_migrate_under_a_gateway()
        crash.install_from_environment()
        return asyncio.run(written())

    def _has_store(self) -> bool:
        try:
            return self.home.store.stat().st_size > 0
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigError(f"{self.home.store}: cannot be reached ({error.strerror})") from None

    def _refuse_to_migrate_under_a_gateway(self) -> None:
        """An older gateway that runs must not have its store changed under its feet."""
        if not self._has_store():
            return
        connection = open_connection(self.home.store, read_only=True)
        try:
            version = check_version(connection, self.home.store)
        finally:
            connection.close(True)
        if version < len(migrations()) and running(self.home) is not None:
            raise TryAgainError("the gateway that runs on this home is of an older version; restart it first")

    # -- questions ---------------------------------------------------------------------------

    def deliveries(
        self, state: str = "", chat: str = "", limit: int = 50, parked: bool = False
    ) -> list[DeliveryView]:
        """Deliveries in all states, newest first, narrowed by ``state``, ``chat``, ``parked``."""
        return self._ask(
            lambda c, now: views.list_deliveries(c, now, state=state, chat=chat, limit=limit, parked=parked),
            [],
        )

    def show(self, delivery: str) -> DeliveryDetail:
        """Everything about one delivery. Raises ``UnknownIdError``."""
        found = self._ask(lambda c, now: views.show(c, delivery, now), None)
        return _known(found, delivery)

    def why(self, name: str) -> tuple[Timeline, str]:
        """The story behind the id of a delivery, a turn, a run or a platform's message, and the
        verdict in one line. Raises ``UnknownIdError``."""
        story = _known(self._ask(lambda c, now: views.timeline(c, name, now), None), name)
        return story, verdict(story)

    def status(self) -> tuple[Health, StatusView | None, int]:
        """How the gateway is, what the store counts (``None``: there is no store yet), and now."""
        return ask(self.home), self._ask(lambda c, now: views.status(c, now), None), self._clock.now().wall

    def owed(self, limit: int = 1000) -> list[DeliveryView]:
        """What a start would send in time, oldest first: all that is neither delivered nor abandoned.
        What it would not send, but park, counts as parked."""

        def work(connection: apsw.Connection, now: Now) -> list[DeliveryView]:
            found: list[DeliveryView] = []
            for state in OWED:
                found += views.list_deliveries(connection, now, state=state.value, limit=limit)
            if looks_old(self.home, pulse.read(connection)):
                found = [replace(one, parked=True) for one in found]
            return sorted(found, key=lambda one: one.created)

        return self._ask(work, [])

    def chats(self, limit: int = 200) -> tuple[list[ChatView], list[WaitView]]:
        """The chats that anything is known of, newest first, and the rate limits that hold."""
        nothing: tuple[list[ChatView], list[WaitView]] = ([], [])
        return self._ask(
            lambda c, now: (views.chats_view(c, limit), list(views.status(c, now).waits)), nothing
        )

    # -- orders ------------------------------------------------------------------------------

    def release(self, deliveries: Sequence[str] | None) -> Sequence[str]:
        """Let parked deliveries go (``None``: all), marked as possible duplicates; returns which.
        Raises ``UnknownIdError`` or, for one that is not parked, ``NotPossibleError``."""
        for delivery in deliveries or ():
            self.show(delivery)  # a mistyped id must make no store
        return self._write(lambda ledger: ledger.release(deliveries)) if self._has_store() else []

    def cancel(self, delivery: str) -> Record:
        """Give up an owed delivery. Raises ``UnknownIdError``, ``TryAgainError`` or
        ``NotPossibleError``, as the other orders do; committed when it returns."""
        return self._order(delivery, lambda c, now: orders.cancel(c, delivery, now))

    def mark_delivered(self, delivery: str) -> Record:
        """Take the operator's word that a failed delivery arrived."""
        return self._order(delivery, lambda c, now: orders.mark_delivered(c, delivery, now))

    def send_again(self, delivery: str) -> Record:
        """Owe a final delivery once more, as a new one, which is returned; it will be marked.
        Raises ``ConfigError`` if the delivery ledger is switched off."""
        self._refuse_without_ledger(load(self.home.path, self._environ))
        new = SystemRng().token()
        return self._order(delivery, lambda c, now: orders.send_again(c, delivery, new, now))

    def notify(self, to: str, thread: str, text: str) -> Record:
        """Owe ``text`` to the conversation ``to`` (PROFILE/PLATFORM/CHAT) as a notice.

        It is on record when this returns; a gateway that runs sends it within a second or
        two, any other at its next start. Raises ``AddressError`` if it cannot be addressed,
        ``ConfigError`` if the delivery ledger is switched off.
        """
        config = load(self.home.path, self._environ)
        lane = address(config, to, thread)
        texts = self._cut(config, lane, text)
        self._refuse_without_ledger(config)
        new = NewDelivery(SystemRng().token(), lane, tuple(texts), origin="notice")
        return self._write(lambda ledger: ledger.enqueue(new))

    def _refuse_without_ledger(self, config: Config) -> None:
        if not config.delivery_ledger:
            raise ConfigError(
                "gateway.delivery_ledger is false, so nothing would be sent; nothing was recorded"
            )

    def _cut(self, config: Config, lane: Lane, text: str) -> Sequence[str]:
        """The messages that ``text`` becomes on its platform."""
        from angelia.gateway.gateway import adapter_builders  # the gateway's libraries, only here
        from angelia.gateway.registry import Context

        clean = well_formed(text)
        if not clean.strip():
            raise AddressError("the text is empty; there is nothing to send")
        if len(clean) > limits.text_characters_max:
            raise AddressError(
                f"the text has {len(clean):,} characters; the most is {limits.text_characters_max:,}"
            )
        context = Context(self._clock, SystemRng(), config.listen.host, config.home)
        return adapter_builders(config, context)[lane.adapter]().split(clean)


def _known(found: T | None, name: str) -> T:
    """``found``; where there is no store at all, no id is known either."""
    if found is None:
        raise UnknownIdError(f"there is no delivery, turn or message {name}; the home has no store yet")
    return found


def address(config: Config, to: str, thread: str = "") -> Lane:
    """The conversation that ``to`` names: PROFILE/PLATFORM/CHAT, cut at its first two slashes,
    so that the chat may contain any. Raises ``AddressError`` naming what is configured."""
    words = well_formed(to).split("/", 2)
    known = [
        AdapterId(profile.name, platform)
        for profile in config.profiles.values()
        for platform in profile.platforms
    ]
    listed = ", ".join(str(adapter) for adapter in known)
    if len(words) < 3 or not all(words):
        raise AddressError(f"--to must be PROFILE/PLATFORM/CHAT; configured are: {listed}")
    lane = Lane(words[0], words[1], words[2], well_formed(thread))
    if lane.adapter not in known:
        raise AddressError(f"--to: {_named(lane.adapter)} is not configured; configured are: {listed}")
    for name, value in (("chat", lane.chat), ("thread", lane.thread)):
        if len(value) > limits.id_characters_max:
            raise AddressError(
                f"the id of the {name} has {len(value)} characters; the most is {limits.id_characters_max}"
            )
    return lane


def _named(adapter: AdapterId) -> str:
    """A mistyped name as it may be shown: short, and on one line."""
    words = "".join(c if c.isprintable() else "\ufffd" for c in str(adapter))
    return words if len(words) <= 80 else words[:79] + "…"
