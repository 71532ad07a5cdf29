"""Logs: one sentence a line with a stable ``action`` key; human on a terminal, else JSON.

Times are local for a human and UTC in JSON. A line that cannot be written (the log lies on the
disk that is full, its reader is gone) is lost, and nothing else is: what was about to be said
is often the very trouble, and an answer is kept in memory by the code that says so.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog


class _StandardError:
    """Standard error for lines that may be lost."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def configure(verbose: bool = False) -> None:
    """Send the logs of this process to standard error."""
    human = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        # A plain traceback: the usual one shows the values of variables, and some are secrets.
        structlog.dev.ConsoleRenderer(colors=human, exception_formatter=structlog.dev.plain_traceback)
        if human
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not human),
            structlog.processors.format_exc_info if not human else _unchanged,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _StandardError())),
        cache_logger_on_first_use=False,
    )


def _unchanged(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return event
