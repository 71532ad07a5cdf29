"""The platform ``web``: the gateway's own chat page.

A send is one WebSocket frame to every open page of the chat; the first page that acknowledges its
key gives the receipt. A page shows every (delivery, part) once, however often it comes, and keeps
nothing else: the conversation is read from the ledger. So a repeated key can do no harm, for ever,
and a reply is never on a page twice. A page resends a message under its own id until it hears that
it is committed; a gateway killed in between loses nothing.

Wire facts: with no page of the chat open nothing can leave (``NotSent``, and ``present`` says so);
once a frame is handed to a socket, only the page's acknowledgement proves anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import WSCloseCode, web

from angelia.model.errors import StoreUnavailableError
from angelia.model.ids import AdapterId, Lane
from angelia.model.messages import Outgoing
from angelia.model.outcomes import Accepted, BadContent, ContentFault, LookUp, NotSent, Outcome
from angelia.platforms.base import FOR_EVER_S, Capabilities, Host
from angelia.platforms.text import split
from angelia.platforms.web.access import Access
from angelia.platforms.web.assets import Assets, protect
from angelia.platforms.web.attached import attached
from angelia.platforms.web.dialogue import Dialogue
from angelia.platforms.web.frames import frame_bytes_max
from angelia.platforms.web.settings import WebSettings, check
from angelia.platforms.web.sockets import Page, Pages, part_frame
from angelia.seams.clock import Clock
from angelia.seams.rng import Rng

text_limit = 16_000  # code points per part: a long answer stays readable, and a frame small
call_limit_s = 10.0  # a page that lives acknowledges within milliseconds
heartbeat_s = 15.0  # a page whose machine vanished is noticed after one and a half of these
close_patience_s = 2.0
media_bytes_max = 64 * 1024 * 1024  # a file of the spool; a page fetches it by itself

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CAPABILITIES = Capabilities(
    text_limit=text_limit,
    key_window_s=FOR_EVER_S,
    call_limit_s=call_limit_s,
    replays_inbound=True,
    typing=True,
    worst_case="never twice",
    media_bytes=media_bytes_max,
    caption_limit=text_limit,
)


class WebAdapter:
    """The chat page of one profile. Raises ``ConfigError`` where strangers could open it."""

    def __init__(
        self, adapter_id: AdapterId, settings: WebSettings, clock: Clock, rng: Rng, *, listen_host: str
    ) -> None:
        check(settings, listen_host)
        self._id = adapter_id
        self._clock = clock
        self._access = Access(adapter_id.profile, settings.password, listen_host, clock, rng)
        self._assets = Assets(adapter_id.profile)
        self._pages = Pages()
        self._dialogue: Dialogue | None = None
        self._host: Host | None = None

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        folder = f"/p/{self._id.profile}"
        routes: list[web.AbstractRouteDef] = [
            web.get(folder, self._guarded(self._folder)),
            web.get(f"{folder}/", self._guarded(self._page_here)),
            web.get(f"{folder}/static/{{name}}", self._guarded(self._static)),
            web.get(f"{folder}/socket", self._guarded(self._socket)),
            web.post(f"{folder}/login", self._guarded(self._login)),
            web.get(f"{folder}/login", self._guarded(self._to_page)),
        ]
        if self._id.profile == "default":
            routes.append(web.get("/", self._guarded(self._page_at_root)))
        return routes

    async def start(self, host: Host) -> None:
        self._host = host
        self._dialogue = Dialogue(self._id, host, self._pages, self._clock)

    async def stop(self) -> None:
        """Every page is sent away with a code that makes it come back, to the newer instance."""
        self._host = self._dialogue = None
        await self._pages.close()

    def split(self, text: str, limit: int | None = None) -> list[str]:
        return split(text, limit or text_limit)

    def present(self, chat: str) -> bool:
        return bool(self._pages.of(chat))

    async def send(self, message: Outgoing) -> Outcome:
        host = self._host
        if host is None:
            return NotSent("the page is not served now")
        frame = part_frame(message, self._clock.now().wall)
        if message.attachment is not None:
            if not host.spooled(message.attachment).is_file():
                return BadContent(ContentFault.MEDIA, "the file is gone from the spool")
            try:
                frame["attachment"] = attached(host, message.attachment, message.written_at)
            except StoreUnavailableError as error:
                return NotSent(str(error))
        return await self._pages.send(message, frame, call_limit_s)

    async def look_up(self, message: Outgoing, since: int) -> Accepted | LookUp:
        """Pages are not read back; they recognise a key instead."""
        return LookUp.CANNOT_TELL

    async def typing(self, lane: Lane, active: bool) -> Outcome | None:
        self._pages.tell(lane.chat, {"type": "typing", "chat": lane.chat, "active": active})
        return None

    def _guarded(self, handler: _Handler) -> _Handler:
        """``handler`` behind the Host wall, its answer under the security headers."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            if self._access.host_allowed(request):
                response = await handler(request)
            else:
                text = "This page is served under the name of this machine only (localhost).\n"
                response = web.Response(status=403, text=text)
            if not response.prepared:
                protect(response)
            return response

        return guarded

    async def _page_at_root(self, request: web.Request) -> web.StreamResponse:
        return self._index(request, f"p/{self._id.profile}/")

    async def _page_here(self, request: web.Request) -> web.StreamResponse:
        return self._index(request, "./")

    def _index(self, request: web.Request, base: str) -> web.Response:
        if self._access.signed_in(request):
            return self._assets.index(base)
        return self._assets.login(base)

    async def _folder(self, request: web.Request) -> web.StreamResponse:
        """Without the slash at the end the relative addresses of the page would miss."""
        return web.Response(status=308, headers={"Location": f"{self._id.profile}/"})

    async def _to_page(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=303, headers={"Location": "./"})

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return self._assets.file(request, request.match_info["name"])

    async def _login(self, request: web.Request) -> web.StreamResponse:
        if not self._access.origin_allowed(request):
            return web.Response(status=403, text="The form was not sent from this page.\n")
        if not self._access.may_try():
            response = self._assets.login("./", "Too many wrong passwords. Wait a minute, please.", 429)
            response.headers["Retry-After"] = "60"
            return response
        given = (await request.post()).get("password")
        if not isinstance(given, str) or not self._access.try_password(given):
            return self._assets.login("./", "That is not the password.")
        response = web.Response(status=303, headers={"Location": "./"})
        self._access.sign_in(request, response)
        return response

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if not self._access.origin_allowed(request):
            return web.Response(status=403, text="Only a page of this gateway may open this socket.\n")
        if not self._access.signed_in(request):
            return web.Response(status=401, text="Sign in first.\n")
        dialogue = self._dialogue
        if dialogue is None:
            return web.Response(status=503, headers={"Retry-After": "1"}, text="Not served just now.\n")
        socket = web.WebSocketResponse(
            timeout=close_patience_s, heartbeat=heartbeat_s, compress=False, max_msg_size=frame_bytes_max
        )
        if not socket.can_prepare(request).ok:
            return web.Response(status=426, headers={"Upgrade": "websocket"}, text="This is a WebSocket.\n")
        await socket.prepare(request)
        if self._dialogue is not dialogue:  # stopped in between
            await socket.close(code=WSCloseCode.SERVICE_RESTART)
            return socket
        await dialogue.converse(Page(socket))
        return socket
