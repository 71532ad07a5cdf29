"""The far end of the webhook: notes when each text arrived, and answers 200 at once.

A process of its own, so that its work is not the gateway's. Times are of the system's
monotonic clock, which all processes of one machine share.

* ``POST /``          one part from the gateway
* ``GET /count``      ``{"texts": distinct texts, "posts": all posts}``
* ``GET /wait?n=…&s=…``  the same, as soon as ``n`` posts are in or ``s`` seconds are over
* ``GET /arrivals``   every post: ``[text, chat, idempotency key, nanoseconds]`` in the order of arrival
* ``POST /forget``    start a new list
"""

from __future__ import annotations

import asyncio
import sys
import time

from aiohttp import web


class Receiver:
    """Everything that arrived, in the order of arrival."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[str, str, str, int]] = []
        self._changed = asyncio.Condition()

    async def take(self, request: web.Request) -> web.Response:
        part = await request.json()
        key = request.headers.get("Idempotency-Key", "")
        self.arrivals.append((part["text"], part["chat"], key, time.monotonic_ns()))
        async with self._changed:
            self._changed.notify_all()
        return web.json_response({"id": str(len(self.arrivals))})

    async def count(self, _request: web.Request) -> web.Response:
        return web.json_response(self._counted())

    async def wait(self, request: web.Request) -> web.Response:
        wanted, patience_s = int(request.query["n"]), float(request.query["s"])
        try:
            async with asyncio.timeout(patience_s), self._changed:
                await self._changed.wait_for(lambda: len(self.arrivals) >= wanted)
        except TimeoutError:
            pass  # the counts say how far it came
        return web.json_response(self._counted())

    async def all(self, _request: web.Request) -> web.Response:
        return web.json_response(self.arrivals)

    async def forget(self, _request: web.Request) -> web.Response:
        self.arrivals = []
        return web.json_response({})

    def _counted(self) -> dict[str, int]:
        return {"texts": len({text for text, *_ in self.arrivals}), "posts": len(self.arrivals)}


async def serve() -> None:
    """Serve on a free loopback port, print it, and run until standard input closes."""
    receiver = Receiver()
    app = web.Application(client_max_size=2 * 1024 * 1024)
    app.router.add_post("/", receiver.take)
    app.router.add_get("/count", receiver.count)
    app.router.add_get("/wait", receiver.wait)
    app.router.add_get("/arrivals", receiver.all)
    app.router.add_post("/forget", receiver.forget)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve())
