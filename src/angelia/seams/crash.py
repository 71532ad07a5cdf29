"""Named points at which a test may kill the process.

Production pays one comparison per point. A test build sets ``ANGELIA_CRASH_AT=n`` (the
n-th point reached) or ``ANGELIA_CRASH_POINT=name`` (optionally ``name:k``, the k-th time):
the process then sends SIGKILL to itself, with no clean-up of any kind. With
``ANGELIA_CRASH_TRACE=file`` every point passed is appended to that file.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

#: Every point and what a death there leaves behind. ``point`` refuses other names.
POINTS: dict[str, str] = {
    "ack.before": "an inbound is committed, its platform has no acknowledgement yet: it will be replayed",
    "ack.after": "the acknowledgement left; nothing is owed to the platform",
    "agent.before": "a model run is on record, the agent was not called yet",
    "agent.after": "the agent answered, nothing of the answer is on record: the turn runs again once",
    "wire.before": "an attempt is on record as in flight, no byte has left",
    "wire.after": "the platform answered, the outcome is not on record: died in flight",
    "copy.before_rename": "a copy of the store before its migration lies there under a temporary name",
    "copy.after_rename": "the copy has its name, the migration has not begun",
    "backup.before_rename": "the whole backup is on the disk, under a temporary name",
    "backup.after_rename": "the backup is done, nobody was told",
    "restore.before_spool": "a spooled file of a backup is on the disk, under a temporary name",
    "restore.before_aside": "the restored store is whole, under a temporary name; the old one is in place",
    "restore.before_rename": "the old store has a second name, and is in place",
    "restore.after_rename": "the restored store is in place; the home has not noted it yet",
    "restore.after_note": "the restored store is in place and noted, nobody was told",
    "salvage.before_rename": "the salvaged store is whole, under a temporary name",
    "salvage.after_rename": "the salvaged store is done, nobody was told",
    "note.before_rename": "the store's pulse is on record, the home's note of it is the older one",
    "note.after_rename": "the home has noted the store's pulse",
    "drain.before": "asked to stop, nothing stopped yet",
    "drain.after": "all loops have ended, the owner is not retired yet",
}


def verb_points(verb: str, doc: str) -> None:
    """Declare the two points around the commit of a store verb."""
    POINTS[f"{verb}.before_commit"] = f"nothing of this is on record: {doc}"
    POINTS[f"{verb}.after_commit"] = f"on record, nobody was told: {doc}"


class _Killer:
    """Counts the points passed and kills the process at the chosen one."""

    def __init__(self, at: int, name: str, trace: str) -> None:
        self.passed = 0
        self.at = at
        self.name, _, occurrence = name.partition(":")
        self.left = int(occurrence or 1)
        self.trace = trace

    def __call__(self, name: str) -> None:
        self.passed += 1
        if self.trace:
            with open(self.trace, "a", encoding="utf-8") as file:
                file.write(name + "\n")
        if name == self.name:
            self.left -= 1
        if self.passed == self.at or (name == self.name and self.left == 0):
            os.kill(os.getpid(), signal.SIGKILL)


_hook: Callable[[str], None] | None = None


def install(hook: Callable[[str], None] | None) -> None:
    """Let ``hook`` be called with the name of every point passed (``None``: nobody)."""
    global _hook
    _hook = hook


def install_from_environment() -> None:
    """Arm the killer if the environment of a test build asks for it."""
    at = int(os.environ.get("ANGELIA_CRASH_AT", "0"))
    name = os.environ.get("ANGELIA_CRASH_POINT", "")
    trace = os.environ.get("ANGELIA_CRASH_TRACE", "")
    if at or name or trace:
        install(_Killer(at, name, trace))


def armed() -> bool:
    """Whether anybody listens; lets a hot loop skip naming its points."""
    return _hook is not None


def point(name: str) -> None:
    """A place where the process may be killed. The name must be in ``POINTS``."""
    if _hook is not None:
        if name not in POINTS:
            raise LookupError(f"crash point {name!r} is not documented in seams/crash.py")
        _hook(name)
