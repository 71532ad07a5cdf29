"""The one HTTP server. Adapters hand it routes; it always asks the newest instance.

A platform's paths stay while its adapter is rebuilt: they answer 503 with ``Retry-After``
until the new instance is there, so that a sender tries again instead of giving up.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable

from aiohttp import web

from angelia.gateway.links import PATH, Links
from angelia.model.errors import ConfigError, StoreUnavailableError
from angelia.model.ids import AdapterId
from angelia.model.media import Attachment
from angelia.platforms.base import Adapter

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_NOT_NOW = {"error": "this platform is not available just now"}


class Server:
    """Listens on ``host``:``port``; ``health`` answers GET /health, and ``links`` the files of the
    spool. ``public_url``: where others reach it, if that is somewhere else than ``address``."""

    def __init__(
        self, host: str, port: int, health: Handler, links: Links | None = None, public_url: str = ""
    ) -> None:
        self._host = host
        self._port = port
        self._links = links
        self._public_url = public_url
        self._app = web.Application()
        self._app.router.add_get("/health", health)
        if links is not None:
            self._app.router.add_get(PATH, links.serve)
        self._handlers: dict[tuple[AdapterId, str, str], Handler] = {}
        self._runner: web.AppRunner | None = None
        self.address = ""

    @property
    def public_address(self) -> str:
        """Where others reach this server, with a slash at the end."""
        return self._public_url or self.address

    def link(self, attachment: Attachment, written_at: int) -> str:
        """A link to a spooled file, relative to ``public_address``; see ``Links.link``."""
        if self._links is None:
            raise StoreUnavailableError("this server serves no files")
        return self._links.link(attachment, written_at)

    def declare(self, adapter_id: AdapterId, adapter: Adapter) -> None:
        """Serve the paths of an adapter from now on, before the server starts."""
        for route in adapter.routes():
            if isinstance(route, web.RouteDef):
                key = (adapter_id, route.method, route.path)
                self._app.router.add_route(route.method, route.path, self._dispatch(key))
                if route.method == "GET":  # who looks whether a page is there asks for its head
                    self._app.router.add_route("HEAD", route.path, self._dispatch(key))

    def install(self, adapter_id: AdapterId, adapter: Adapter) -> None:
        """From now on this instance answers the paths of its adapter."""
        for route in adapter.routes():
            if isinstance(route, web.RouteDef):
                self._handlers[adapter_id, route.method, route.path] = route.handler

    def remove(self, adapter_id: AdapterId) -> None:
        """Nobody answers the paths of this adapter just now."""
        for key in [key for key in self._handlers if key[0] == adapter_id]:
            del self._handlers[key]

    def _dispatch(self, key: tuple[AdapterId, str, str]) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            handler = self._handlers.get(key)
            if handler is None:
                return web.json_response(_NOT_NOW, status=503, headers={"Retry-After": "2"})
            return await handler(request)

        return answer

    async def start(self, any_port: bool = False) -> None:
        """Listen. Raises ``ConfigError`` if the address is taken or not ours; with
        ``any_port`` a taken port is replaced by a free one."""
        self._runner = web.AppRunner(
            self._app, access_log=None, handler_cancellation=False, shutdown_timeout=2.0
        )
        await self._runner.setup()
        try:
            await self._listen(self._port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and any_port:
                await self._listen(0)
                return
            await self._runner.cleanup()
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise ConfigError(
                f"gateway.listen: {self._host}:{self._port} {why}; choose another in config.yaml"
            ) from None

    async def _listen(self, port: int) -> None:
        assert self._runner is not None
        site = web.TCPSite(self._runner, self._host, port, backlog=512)
        await site.start()
        bound = self._runner.addresses[0]
        host = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.address = f"http://{host}:{bound[1]}/"

    async def stop(self) -> None:
        """Close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
