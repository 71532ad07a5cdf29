"""Waiting for threads that have no event loop: the store's writer and reader.

A store that is locked by another process is asked again after a small pause. That wait
happens in a thread, so it cannot use ``Clock``; tests replace both functions by arguments.
"""

from __future__ import annotations

import time


def monotonic() -> float:
    """Seconds on a clock that never steps."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Hold this thread for ``seconds``."""
    time.sleep(max(0.0, seconds))
