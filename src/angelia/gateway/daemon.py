"""The process around a gateway: what ``angelia run`` does, from the home to the last log line.

Two variables of the environment are for tests alone. ``ANGELIA_TEST_CLOCK_SPEED`` (a number)
makes every clock of the process run that many times faster, so that 24 h can be lived
through; ``ANGELIA_CRASH_AT`` and its kin (``seams/crash.py``) kill the process at a chosen
point. A gateway that people rely on sets neither.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping
from pathlib import Path

from angelia.gateway import logs
from angelia.gateway.config import load
from angelia.gateway.gateway import Gateway
from angelia.model.errors import ConfigError
from angelia.seams import crash
from angelia.seams.clock import clock_from


def serve(
    home: Path,
    environ: Mapping[str, str],
    on_ready: Callable[[str], None],
    *,
    any_port: bool = False,
    verbose: bool = False,
) -> None:
    """Run the gateway of ``home`` until SIGTERM or SIGINT; returns when it has drained.

    ``on_ready`` is told the address once inbound is accepted. Raises ``ConfigError``,
    ``HomeLockedError`` or the errors of the store; then nothing was sent or accepted.
    """
    logs.configure(verbose)
    crash.install_from_environment()
    asyncio.run(_serve(home, environ, on_ready, any_port))


async def _serve(
    home: Path, environ: Mapping[str, str], on_ready: Callable[[str], None], any_port: bool
) -> None:
    try:
        clock = clock_from(environ)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    gateway = Gateway(load(home, environ), clock)

    def ready(address: str) -> None:
        _collect_less_often()
        on_ready(address)

    await gateway.run(ready, any_port)


def _collect_less_often() -> None:
    """What was loaded for the start lives as long as the process; looking at it again and again
    cost about 7 % of a busy gateway's time, measured."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
