"""How a command ends: its exit code, and one sentence on standard error when it failed.

The codes are those of ``docs/reference/exit-codes.md``; 75 and 78 are the numbers that
``sysexits.h`` gave the same meanings, so that a service manager can tell "start me again"
from "do not try again before somebody looked".
"""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from angelia.model.errors import (
    AngeliaError,
    ConfigError,
    HomeLockedError,
    StoreDamagedError,
    StoreNewerError,
    StoreUnavailableError,
    TryAgainError,
)

OK = 0
PROBLEMS = 1  # something is wrong, or there is no such id, or the state does not allow it
USAGE = 2
TRY_AGAIN = 75
CONFIGURATION = 78

#: What each code means; the reference page is compared with it.
MEANINGS: dict[int, str] = {
    OK: "Done.",
    PROBLEMS: "Not done: unknown id, a state that does not allow it, or `doctor` found problems.",
    USAGE: "Usage: an unknown command or option, or a value that makes no sense.",
    TRY_AGAIN: "Try again: another gateway has the home, the row is being worked on at this moment, "
    "or the store cannot be used just now (disk full, locked).",
    CONFIGURATION: "The configuration, the home or the store cannot be used; trying again does not help "
    "before somebody has changed something.",
}

_CODES: tuple[tuple[type[AngeliaError], int], ...] = (
    (ConfigError, CONFIGURATION),
    (StoreDamagedError, CONFIGURATION),
    (StoreNewerError, CONFIGURATION),
    (HomeLockedError, TRY_AGAIN),
    (StoreUnavailableError, TRY_AGAIN),
    (TryAgainError, TRY_AGAIN),
)


def code_for(error: AngeliaError) -> int:
    """The exit code that tells what kind of trouble ``error`` is."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), PROBLEMS)


def sentence_of(error: AngeliaError) -> str:
    """What to say about ``error``: its text, or its docstring where it has none."""
    return str(error) or " ".join((type(error).__doc__ or type(error).__name__).split())


def say(sentence: str) -> None:
    """Put ``sentence`` on standard error, each of its lines signed."""
    for line in sentence.splitlines():
        print(f"angelia: {line}", file=sys.stderr, flush=True)


def fail(sentence: str, code: int) -> NoReturn:
    """Say ``sentence`` and end with ``code``."""
    say(sentence)
    raise typer.Exit(code)
