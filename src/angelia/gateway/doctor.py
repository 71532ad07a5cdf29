"""``angelia doctor``: everything that can be looked at without changing or sending anything.

The examination goes on after a finding, so that one run tells all there is to tell. It runs
beside a gateway or without one. No platform is called: whether a credential is accepted is
known by the gateway that uses it, and where one runs it is asked.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import apsw
from pydantic import BaseModel, SecretStr

from angelia.gateway.config import Config, load
from angelia.gateway.gateway import adapter_builders
from angelia.gateway.health import Health, ask
from angelia.gateway.home import Home, open_home
from angelia.gateway.note import looks_old
from angelia.gateway.operator import DeliveryView, Operator, check_version
from angelia.gateway.registry import Context
from angelia.model.errors import (
    AngeliaError,
    ConfigError,
    StoreDamagedError,
    StoreUnavailableError,
)
from angelia.seams.clock import clock_from
from angelia.seams.rng import SystemRng
from angelia.store import parking, pulse
from angelia.store.connection import integrity_problems, open_connection
from angelia.store.invariants import problems
from angelia.store.migrate import migrations

#: The first SQLite without the bug that can corrupt a WAL file two programs write to.
SQLITE_NEEDED = (3, 51, 3)

#: File systems of other machines: locks and syncs there are promises of somebody else.
REMOTE = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "lustre", "sshfs", "fuse.", "davfs")
#: File systems that a power cut empties.
VOLATILE = ("tmpfs", "ramfs")


class Level(StrEnum):
    """How bad a finding is; the worst one decides the exit code."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``area`` is one of the doctor's headings."""

    area: str
    level: Level
    sentence: str


def examine(path: Path, environ: Mapping[str, str]) -> list[Finding]:
    """Everything about the home at ``path``, in the order of its headings. Changes nothing."""
    try:
        home = open_home(path)
    except ConfigError as error:
        return [Finding("home", Level.UNUSABLE, str(error))]
    health = ask(home)
    return [
        *_home(home),
        *_configuration(home, environ),
        *_gateway(health),
        *_store(home),
        *_kept(home),
    ]


def _home(home: Home) -> Iterator[Finding]:
    mode = stat.S_IMODE(home.path.stat().st_mode)
    if mode & 0o077:
        yield Finding("home", Level.WARNING, f"{home.path} may be entered by others (mode {mode:04o})")
    else:
        yield Finding("home", Level.OK, f"{home.path} (mode {mode:04o})")
    if not os.access(home.path, os.W_OK):
        yield Finding("home", Level.UNUSABLE, f"{home.path} may not be written by this user")
    kind = file_system_of(home.path)
    if kind.startswith(REMOTE):
        yield Finding(
            "home", Level.PROBLEM, f"lies on {kind}; a store needs a local disk with real locks and syncs"
        )
    elif kind in VOLATILE:
        yield Finding("home", Level.WARNING, f"lies on {kind}: a power cut loses everything")
    elif kind:
        yield Finding("home", Level.OK, f"lies on a local file system ({kind})")
    if home.dotenv.exists() and stat.S_IMODE(home.dotenv.stat().st_mode) & 0o077:
        yield Finding(
            "credentials", Level.WARNING, f"{home.dotenv} may be read by others; chmod 600 {home.dotenv}"
        )


def file_system_of(path: Path, table: Path = Path("/proc/self/mountinfo")) -> str:
    """The kind of the file system that holds ``path``, such as ``ext4``; "" if nobody knows."""
    try:
        mounts = table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    real = os.path.realpath(path)
    longest, kind = -1, ""
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # a later mount covers an earlier one
            longest, kind = len(point), after.split()[0]
    return kind


def _configuration(home: Home, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        config = load(home.path, environ)
    except ConfigError as error:
        for line in str(error).splitlines():
            yield Finding("configuration", Level.UNUSABLE, line)
        return
    count = len(config.profiles)
    yield Finding("configuration", Level.OK, f"{home.config}: {count} profile{'s' * (count != 1)}")
    for warning in config.warnings:
        yield Finding("configuration", Level.WARNING, warning)
    if not config.delivery_ledger:
        yield Finding(
            "configuration",
            Level.WARNING,
            "gateway.delivery_ledger is false: a reply on its way at a crash is lost and never repeated",
        )
    yield from _credentials(config)
    yield from _worst_cases(config)


def _credentials(config: Config) -> Iterator[Finding]:
    """Which secrets are set. What a platform thinks of them only a send can tell."""
    for profile in config.profiles.values():
        yield from _secrets(f"{profile.name} agent {profile.agent_kind}", profile.agent)
        program = getattr(profile.agent, "argv", None)
        if program and shutil.which(program[0]) is None:
            yield Finding(
                "configuration",
                Level.PROBLEM,
                f"profiles.{profile.name}.agent.argv: there is no program at its first entry that may be run",
            )
        for platform in profile.platforms.values():
            yield from _secrets(f"{profile.name}/{platform.name}", platform.settings)


def _secrets(owner: str, settings: BaseModel) -> Iterator[Finding]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            said = "is set" if value.get_secret_value() else "is empty"
            yield Finding("credentials", Level.OK, f"{owner}: {name} {said}")


def _worst_cases(config: Config) -> Iterator[Finding]:
    """What may happen to a reply that nobody can say arrived, for each adapter."""
    context = Context(clock_from(os.environ), SystemRng(), config.listen.host, config.home)
    for adapter_id, build in adapter_builders(config, context).items():
        yield Finding("worst case", Level.OK, f"{adapter_id}: {build().capabilities.worst_case}")


def _gateway(health: Health) -> Iterator[Finding]:
    if not health.running:
        yield Finding("gateway", Level.OK, "is not running")
        return
    yield Finding("gateway", Level.OK, f"runs at {health.address or 'an address that is not known yet'}")
    for reason in health.reasons:
        bad = "bad credential" in reason or health.status != "ok"
        yield Finding("gateway", Level.PROBLEM if bad else Level.WARNING, reason)
    if health.status == "silent":
        yield Finding("gateway", Level.PROBLEM, "does not answer GET /health")


def _store(home: Home) -> Iterator[Finding]:
    """The file, its version, its durability, its soundness, and the invariants of what it says."""
    if not home.store.exists() or home.store.stat().st_size == 0:
        yield Finding("store", Level.OK, "there is none yet; the first start makes it")
        return
    yield from _file_modes(home)
    version = apsw.sqlite_lib_version()
    if tuple(int(n) for n in version.split(".")[:3]) < SQLITE_NEEDED:
        yield Finding("store", Level.PROBLEM, f"SQLite {version} can corrupt a store that two programs use")
    try:
        connection = open_connection(home.store, read_only=True)
    except AngeliaError as error:
        yield Finding("store", Level.UNUSABLE, _without_us(error))
        return
    try:
        yield from _inside(home, connection)
    except apsw.Error as error:
        yield Finding("store", Level.UNUSABLE, f"{home.store} cannot be read: {error}")
    except AngeliaError as error:
        yield Finding("store", Level.UNUSABLE, _without_us(error))
    finally:
        connection.close(True)


def _without_us(error: AngeliaError) -> str:
    """The text of an error without its advice to run what runs already."""
    return str(error).replace("Keep the file and run `angelia doctor`", "Keep the file")


def _file_modes(home: Home) -> Iterator[Finding]:
    for file in (home.store, Path(f"{home.store}-wal"), Path(f"{home.store}-shm")):
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except FileNotFoundError:
            continue
        if mode & 0o077:
            yield Finding("store", Level.PROBLEM, f"{file} may be read by others (mode {mode:04o})")


def _inside(home: Home, connection: apsw.Connection) -> Iterator[Finding]:
    newest = len(migrations())
    version = check_version(connection, home.store)
    if version == 0:
        yield Finding("store", Level.OK, "there is an empty one; the next start makes its tables")
        return
    found = integrity_problems(connection)
    for sentence in found[:20]:
        yield Finding("store", Level.UNUSABLE, f"{home.store} is damaged: {sentence}. Keep the file")
    if len(found) > 20:
        yield Finding("store", Level.UNUSABLE, f"and {len(found) - 20} more damages")
    if found:
        return
    if version < newest:
        yield Finding("store", Level.WARNING, f"has version {version}; the next start brings it to {newest}")
        return
    yield Finding("store", Level.OK, f"{home.store} is sound (version {version})")
    yield from _lineage(home, connection)
    yield from _durability(home)
    clock = clock_from(os.environ).now()
    broken = problems(connection, clock.wall)
    for sentence in broken[:50]:
        yield Finding("invariants", Level.PROBLEM, sentence)
    if len(broken) > 50:
        yield Finding("invariants", Level.PROBLEM, f"and {len(broken) - 50} more")
    if not broken:
        yield Finding("invariants", Level.OK, "what is on record keeps every rule")


def _lineage(home: Home, connection: apsw.Connection) -> Iterator[Finding]:
    """Whether this is the store that the home knows, and what of it asks first."""
    asks = "they may have arrived already: angelia deliveries --parked, then release or cancel"
    if looks_old(home, pulse.read(connection)):
        yield Finding(
            "store",
            Level.WARNING,
            "is an old copy, not the store that this home used last: the next start sends nothing of what "
            "it owes now, but parks it",
        )
    if parked := parking.count(connection):
        yield Finding("store", Level.WARNING, f"{parked} deliveries of an old copy are parked; {asks}")


def _kept(home: Home) -> Iterator[Finding]:
    """Stores that were kept on purpose and that nobody removes by himself."""
    for kept in sorted(home.path.glob(f"{home.store.name}*")):
        if kept.name.endswith(".copy"):
            said = "is the store before a migration; remove it when you like"
        elif kept.name.endswith(".replaced"):
            said = "is the store that a restore put aside; remove it when you like"
        elif kept.name.endswith(".salvaged"):
            said = "is what a salvage could read"
        elif kept.name.endswith(".part"):
            said = "was left by an interrupted command; the next one of its kind removes it"
        else:
            continue
        yield Finding("copies", Level.OK, f"{kept} {said}")


def _durability(home: Home) -> Iterator[Finding]:
    """What a writing connection really gets here: opening one asserts it and says so."""
    try:
        connection = open_connection(home.store)
    except (StoreUnavailableError, StoreDamagedError) as error:
        yield Finding("durability", Level.UNUSABLE, str(error))
        return
    try:
        journal = connection.pragma("journal_mode")
        synchronous = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}.get(
            int(str(connection.pragma("synchronous"))), "?"
        )
    finally:
        connection.close(True)
    safe = journal == "wal" and synchronous in ("FULL", "EXTRA")
    yield Finding(
        "durability",
        Level.OK if safe else Level.PROBLEM,
        f"journal_mode={journal}, synchronous={synchronous}, SQLite {apsw.sqlite_lib_version()}",
    )


def would_send(path: Path, environ: Mapping[str, str]) -> list[DeliveryView] | None:
    """What is owed and would go out, oldest first; ``None`` where home or store cannot be read,
    which ``examine`` has said."""
    try:
        return Operator(path, environ).owed()
    except (AngeliaError, apsw.Error):
        return None
