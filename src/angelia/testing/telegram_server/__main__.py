"""The server as a process of its own: it outlives every gateway that a test kills.

The first line it prints is one JSON object with its ``url`` and ``token``. It ends on SIGTERM or
SIGINT, or when its standard input is closed if it was told so (``--with-parent``), so it never
outlives a test that was killed itself. Its clock is the machine's, faster where
``ANGELIA_TEST_CLOCK_SPEED`` says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from angelia.seams.clock import clock_from
from angelia.testing.telegram_server.control import control_routes
from angelia.testing.telegram_server.floods import Limits
from angelia.testing.telegram_server.server import TelegramServer


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m angelia.testing.telegram_server",
        description="A scriptable Telegram Bot API server on loopback, for tests.",
    )
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--state", type=Path, help="a file that every accepted message is synced to")
    parser.add_argument("--token", help="the bot's token")
    parser.add_argument("--limits", action="store_true", help="switch flood control on")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input is closed")
    return parser.parse_args()


def _read_on(over: asyncio.Event) -> None:
    """Somebody wrote to the standard input, or closed it: only the latter means anything."""
    if not os.read(sys.stdin.fileno(), 4096):
        over.set()


async def serve(given: argparse.Namespace) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    if given.with_parent:
        loop.add_reader(sys.stdin.fileno(), _read_on, over)
    named = {"token": given.token} if given.token else {}
    server = TelegramServer(
        port=given.port,
        state=given.state,
        clock=clock_from(os.environ),
        limits=Limits() if given.limits else None,
        **named,
    )
    server.serve_also(control_routes(server))
    async with server:
        print(json.dumps({"url": server.url, "token": server.token}), flush=True)
        await over.wait()


if __name__ == "__main__":
    asyncio.run(serve(arguments()))
