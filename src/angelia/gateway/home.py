"""The home: the folder a gateway lives in, and the lock that keeps a second one out.

The lock is the operating system's (``flock`` on ``gateway.lock``), held from before the store
is opened until the process is gone, however it goes: who gets it knows that every earlier
daemon on this home is dead. The file is never removed, because a lock on a removed file
guards nothing. A line of JSON in it tells other tools where the gateway listens; after a
crash that line is old, so ``running`` asks the lock first and the line second.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from angelia.model.errors import ConfigError, HomeLockedError
from angelia.seams.blocking import pause

#: ``running`` takes the lock for an instant; a gateway that meets it there tries again.
lock_tries = 4
lock_pause_s = 0.05


@dataclass(frozen=True, slots=True)
class Home:
    """The folder and the names of what lies in it."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def dotenv(self) -> Path:
        return self.path / ".env"

    @property
    def store(self) -> Path:
        return self.path / "state.db"

    @property
    def spool(self) -> Path:
        return self.path / "spool"

    @property
    def note(self) -> Path:
        return self.path / "pulse.json"

    @property
    def lock(self) -> Path:
        return self.path / "gateway.lock"


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that holds the lock. ``address`` is its URL ("" while it starts);
    ``started_at`` in milliseconds since the epoch (0 while it starts)."""

    address: str
    started_at: int
    process: int


def default_home(environ: Mapping[str, str]) -> Path:
    """``$ANGELIA_HOME``, or ``~/.angelia`` of the user."""
    named = environ.get("ANGELIA_HOME", "")
    if named:
        return Path(named).expanduser().absolute()
    user_home = environ.get("HOME", "")
    return (Path(user_home) if user_home else Path.home()) / ".angelia"


def create_home(path: Path) -> Home:
    """Make the folder, readable by its owner only. One that exists is left as it is."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigError(_not_a_folder(path)) from None
    except NotADirectoryError:
        raise ConfigError(f"{path}: a part of this path is a file; choose another ANGELIA_HOME") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made ({error.strerror}); choose another ANGELIA_HOME") from None
    return open_home(path)


def open_home(path: Path) -> Home:
    """A home that exists and can be used. Raises ``ConfigError`` saying what to do."""
    try:
        mode_is_folder = path.is_dir()
        exists = path.exists()
    except OSError as error:  # a parent that may not be entered
        raise ConfigError(f"{path}: cannot be reached ({error.strerror}); check its parents") from None
    if not exists:
        try:
            os.stat(path)
        except FileNotFoundError:
            raise ConfigError(f"{path}: there is no home here; make one with: angelia init") from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be reached ({error.strerror}); check its parents") from None
    if not mode_is_folder:
        raise ConfigError(_not_a_folder(path))
    if not os.access(path, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise ConfigError(f"{path}: may not be read by this user; run as its owner or change its rights")
    return Home(path)


def _not_a_folder(path: Path) -> str:
    return f"{path}: is not a folder; move it away or choose another ANGELIA_HOME"


class HomeLock:
    """The right to be the one gateway of a home, for the life of the process.

    Taken by the constructor, which raises ``HomeLockedError`` if another gateway has it and
    ``ConfigError`` if the home cannot be written. The descriptor is not inherited, so an
    agent's process that outlives us does not keep the home locked.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        try:
            self._file = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"{home.path}: cannot be written ({error.strerror}); the gateway keeps its store and its "
                "lock there: give this user the right to write, or choose another ANGELIA_HOME"
            ) from None
        try:
            self._take()
            self._write({"address": "", "started_at": 0, "process": os.getpid()})
        except BaseException:
            os.close(self._file)
            raise

    def _take(self) -> None:
        for attempt in range(lock_tries):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if attempt + 1 < lock_tries:
                    pause(lock_pause_s)
            except OSError as error:
                raise ConfigError(
                    f"{self.home.path}: its file system has no locks ({error.strerror}); "
                    "put the home on a local disk"
                ) from None
        raise HomeLockedError(
            f"another gateway runs on {self.home.path}; stop it, or choose another ANGELIA_HOME"
        )

    def publish(self, address: str, started_at: int) -> None:
        """Tell other tools where this gateway listens. ``started_at`` in milliseconds.

        A full disk is no reason to stop a gateway that is up: the old line stays."""
        with contextlib.suppress(ConfigError):
            self._write({"address": address, "started_at": started_at, "process": os.getpid()})

    def _write(self, facts: dict[str, object]) -> None:
        line = json.dumps(facts).encode() + b"\n"
        try:
            os.pwrite(self._file, line, 0)
            os.ftruncate(self._file, len(line))
        except OSError as error:
            raise ConfigError(
                f"{self.home.path}: cannot be written ({error.strerror}); make room on its disk"
            ) from None

    def release(self) -> None:
        """Give the home free. Called once, at the very end; death does the same."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def running(home: Home) -> Running | None:
    """The gateway that holds the lock of ``home``, or ``None``."""
    try:
        file = os.open(home.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except OSError:
            line = os.pread(file, 4096, 0)
    finally:
        os.close(file)
    try:
        facts = json.loads(line)
        return Running(str(facts["address"]), int(facts["started_at"]), int(facts["process"]))
    except (ValueError, TypeError, KeyError):
        return Running("", 0, 0)
