"""The server: an HTTP face of the world, and the script's hand on every call.

Each call is read, given its step, carried out or not, and answered or not. Carrying out happens
in a task of its own, so a client that leaves stops nothing, as in life; only a long poll ends
with its connection.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from angelia.seams.clock import Clock, SystemClock
from angelia.seams.rng import Rng, SeededRng
from angelia.testing.telegram_server import steps
from angelia.testing.telegram_server.account import Account
from angelia.testing.telegram_server.acts import Acts
from angelia.testing.telegram_server.answers import (
    Answer,
    Json,
    RefusalError,
    flooded,
    moved,
    named,
    refusal,
    success,
)
from angelia.testing.telegram_server.files import Files
from angelia.testing.telegram_server.floods import Floods, Limits
from angelia.testing.telegram_server.media import Media, sent_kinds
from angelia.testing.telegram_server.parameters import Call, read, upload_bytes_max
from angelia.testing.telegram_server.places import Person
from angelia.testing.telegram_server.sending import Sending
from angelia.testing.telegram_server.steps import Rule, Script, Step
from angelia.testing.telegram_server.truth import Accepted, Truth
from angelia.testing.telegram_server.updates import Updates, kinds_from, limit_max
from angelia.testing.telegram_server.webhooks import Webhook

_TOKEN = re.compile(r"\d{1,15}:[A-Za-z0-9_-]{20,}")
#: What a wait of a chat or a bot holds, beside the sends.
_SIDE_TRAFFIC = ("editmessagetext", "sendchataction")
#: What a webhook's answer may not do. Source: WebhookActor.cpp.
_NOT_BY_WEBHOOK = ("setwebhook", "deletewebhook", "close", "logout")


class TelegramServer:
    """The whole thing; see the package for how it is used.

    ``state``: a file for the truth. ``clock``: the server's time (dates, waits, a day's keep).
    ``limits``: flood control of its own. The real server holds every second 409 back for 3 s; this
    one says it at once."""

    def __init__(
        self,
        *,
        port: int = 0,
        token: str = "123456789:TEST-token-for-the-test-server",
        username: str = "angelia_test_bot",
        state: Path | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.port = port
        self.token = token
        self.clock = clock or SystemClock()
        self.files = Files()
        self.updates = Updates(self.clock, rng or SeededRng(1))
        self.bot = Person(int(token.split(":")[0]), "Angelia", username, is_bot=True)
        self.world = Acts(self.clock, self.bot, self._tell_bot, self.files)
        self.floods = Floods(self.clock, limits)
        self.truth = Truth(state)
        self.world.taken.extend((message.chat, message.message_id) for message in self.truth.accepted)
        self.sending = Sending(self.world, self.truth, self.floods)
        self.media = Media(self.sending, self.files)
        self.account = Account(self.world)
        self.webhook = Webhook(self.clock, self.updates, self._carry_out_unseen)
        self.rules = Script()
        #: Every call that was read in full, in the order of arrival.
        self.calls: list[Call] = []
        #: The methods of the requests that were reset unread.
        self.unread: list[str] = []
        #: The methods of the requests that came with a dead or a malformed token.
        self.strangers: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}
        self._over = asyncio.Event()
        self._waiters: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._runner: web.AppRunner | None = None
        self._methods = self._table()
        self._further_routes: list[web.RouteDef] = []

    # -- life --------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The base of the API, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=upload_bytes_max + 1024 * 1024)
        app.router.add_route("*", "/bot{token}/{method}", self._api)
        app.router.add_get("/file/bot{token}/{path:.+}", self._download)
        app.add_routes(self._further_routes)
        app.router.add_route("*", "/{rest:.*}", self._elsewhere)
        self.updates.on_arrival = self._arrived
        self.webhook.on_push = self._tell
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        self.updates.leave("bad_gateway")
        await self.webhook.stop()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        self.truth.close()

    def serve_also(self, routes: list[web.RouteDef]) -> None:
        """Serve ``routes`` beside the API. Before the start only."""
        self._further_routes.extend(routes)

    def cut_all(self) -> None:
        """Drop every connection without a goodbye, as a broken network does."""
        server = self._runner.server if self._runner is not None else None
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    # -- the script --------------------------------------------------------------------------

    def script(
        self,
        *row: Step,
        method: str = "",
        chat: int | None = None,
        when: Callable[[Call], bool] | None = None,
        for_ever: bool = False,
    ) -> Rule:
        """The next calls that fit get these steps, one each; then life goes on (``for_ever``: the
        last step stays). ``method`` "": the sends; "*": all, also ``getUpdates``."""
        if not row:
            raise ValueError("a script needs a step")
        if any(step.unread for step in row) and (chat is not None or when is not None):
            raise ValueError("what is reset unread has no chat yet: script it by method only")
        rule = Rule(list(row), method, chat, when, for_ever)
        self.rules.rules.append(rule)
        return rule

    def release(self, gate: str) -> None:
        """Let go what ``hold(gate)`` holds, now and later."""
        self._gates.setdefault(gate, asyncio.Event()).set()

    # -- what can be seen --------------------------------------------------------------------

    @property
    def accepted(self) -> list[Accepted]:
        """The truth: every message and edit that people see, in order."""
        return self.truth.accepted

    def calls_of(self, method: str) -> list[Call]:
        """The calls of one method, in order."""
        return [call for call in self.calls if call.method == method.lower()]

    async def until(self, condition: Callable[[], object], within_s: float = 10.0) -> None:
        """Wait until ``condition`` holds; it is looked at whenever something happened here.
        Raises ``TimeoutError``."""
        async with asyncio.timeout(within_s):
            while not condition():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.add(waiter)
                try:
                    await waiter
                finally:
                    self._waiters.discard(waiter)

    def revoke_token(self) -> str:
        """The owner takes a new token: the old one is dead at once. Returns the new one."""
        self.token = f"{self.bot.id}:fresh-token-after-{len(self.calls)}-calls"
        self.updates.leave("unauthorized")
        return self.token

    def _tell(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _arrived(self) -> None:
        self.webhook.wake()
        self._tell()

    def _tell_bot(self, kind: str, content: Json) -> None:
        self.updates.add(kind, content)

    # -- one call ----------------------------------------------------------------------------

    def _table(self) -> dict[str, Callable[[Call], Any]]:
        sending, account, webhook = self.sending, self.account, self.webhook
        return {
            "getme": account.get_me,
            "getchat": account.get_chat,
            "setmycommands": account.set_my_commands,
            "getmycommands": account.get_my_commands,
            "deletemycommands": account.delete_my_commands,
            "setwebhook": webhook.set,
            "deletewebhook": webhook.delete,
            "getwebhookinfo": webhook.info,
            "getupdates": self._get_updates,
            "sendmessage": sending.send_message,
            "editmessagetext": sending.edit_message_text,
            "sendchataction": sending.send_chat_action,
            "sendmediagroup": self.media.send_album,
            "getfile": self.media.get_file,
            **{f"send{kind}": partial(self.media.send, kind) for kind in sent_kinds},
        }

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"].lower()
        refused = self._refused_token(request.match_info["token"])
        if refused is not None:
            await request.read()
            self.strangers.append(method)
            self._tell()
            return _response(refusal(refused))
        if self.rules.unread(method):
            self.unread.append(method)
            self._tell()
            return _reset(request)
        try:
            call = await read(request, method)
        except RefusalError as error:
            return _response(refusal(error))
        except web.HTTPRequestEntityTooLarge:
            return _response(refusal(named("too_large")))
        self._note(call)
        step = self.rules.take(call)
        answer = await self._fate(call, step)
        return await self._end(request, step if call.accepted or not step.accepts else Step(), answer)

    def _note(self, call: Call) -> None:
        """The call has arrived: it gets its number, and is on record."""
        call.number, call.at_ms = len(self.calls) + 1, self.clock.now().wall
        call.chat = self.world.id_of(call.values.get("chat_id"))
        self.calls.append(call)
        self._tell()

    def _refused_token(self, token: str) -> RefusalError | None:
        if token == self.token:
            return None
        return named("unauthorized" if _TOKEN.fullmatch(token) else "not_found")

    async def _fate(self, call: Call, step: Step) -> Answer:
        """Carry ``call`` out as ``step`` says. The answer that belongs to it, said or not."""
        if call.method == "getupdates" and step == Step():
            return await self._carry_out(call, step)  # ends with its connection
        task = asyncio.ensure_future(self._carry_out(call, step))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _carry_out(self, call: Call, step: Step) -> Answer:
        if step.gate:
            await self._gates.setdefault(step.gate, asyncio.Event()).wait()
        if step.wait_s:
            await asyncio.sleep(step.wait_s)
        try:
            if not step.accepts:
                return self._unaccepted(call, step)
            if call.method not in self._methods:
                raise RefusalError(404, "Not Found: method not found")
            if call.method in steps.SENDS or call.method in _SIDE_TRAFFIC:
                self.floods.check(call.chat, call.number)
            made = self._methods[call.method](call)
            result = await made if isinstance(made, Awaitable) else made
            call.accepted = True
            call.outcome = step.refusal or ("ok" if step.ending == "answer" else step.ending)
            if step.refusal:
                return refusal(named(step.refusal))
            return success(result) if step.ending != "say" else _said(step)
        except RefusalError as error:
            call.outcome = error.description
            return refusal(error)
        finally:
            self._tell()

    def _unaccepted(self, call: Call, step: Step) -> Answer:
        """The answer of a step that carries nothing out. Raises the refusals."""
        if step.flood_s:
            if step.flood_scope != "call":
                self.floods.impose(call.chat if step.flood_scope == "chat" else None, step.flood_s)
            raise flooded(step.flood_s)
        if step.move_to:
            raise moved(step.move_to)
        if step.refusal:
            chat = self.world.chats.get(call.chat or 0)
            raise named(step.refusal, chat.kind if chat is not None else "group")
        call.outcome = step.ending
        return _said(step)

    async def _end(self, request: web.Request, step: Step, answer: Answer) -> web.StreamResponse:
        """Say the answer, or end the exchange in another way."""
        if step.ending == "hang":
            await self._over.wait()
            return _reset(request)
        if step.ending == "reset":
            return _reset(request)
        if step.ending == "close" and request.transport is not None:
            request.transport.close()
        if step.ending == "cut" and request.transport is not None:
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer.body)}"
            request.transport.write(f"{head}\r\n\r\n".encode() + answer.body[: len(answer.body) // 2])
            request.transport.close()
        return _response(answer)

    async def _carry_out_unseen(self, method: str, values: Json) -> None:
        """A call that came as the answer to a pushed update."""
        call = Call(0, method.lower(), values)
        self._note(call)
        if call.method not in _NOT_BY_WEBHOOK and not call.method.startswith("get"):
            await self._carry_out(call, self.rules.take(call))

    async def _get_updates(self, call: Call) -> list[Json]:
        if self.webhook.url:
            raise named("webhook_active")
        kinds = kinds_from(call.parsed("allowed_updates", "allowed updates"))
        if kinds is not None:
            self.updates.allowed = list(kinds)
        offset, timeout = call.number_of("offset", 0) or 0, call.number_of("timeout", 0) or 0
        limit = call.number_of("limit", limit_max)
        return await self.updates.poll(offset, limit_max if limit is None else limit, timeout)

    # -- other addresses ---------------------------------------------------------------------

    async def _download(self, request: web.Request) -> web.StreamResponse:
        refused = self._refused_token(request.match_info["token"])
        stored = self.files.by_path(request.match_info["path"])
        if refused is None and stored is None:
            refused = named("not_found")
        if refused is not None or stored is None:
            return _response(refusal(refused or named("not_found")))
        return web.Response(body=stored.data, content_type="application/octet-stream")

    async def _elsewhere(self, request: web.Request) -> web.StreamResponse:
        with suppress(OSError):
            await request.read()
        return _response(refusal(named("not_found")))


def _said(step: Step) -> Answer:
    return Answer(step.status, step.body.encode(), {"Content-Type": step.content_type})


def _response(answer: Answer) -> web.Response:
    headers = {"Content-Type": "application/json", **answer.headers}
    return web.Response(status=answer.status, body=answer.body, headers=headers)


def _reset(request: web.Request) -> web.Response:
    """End the connection with a reset. What is returned is never written."""
    if request.transport is not None:
        raw: socket.socket = request.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    return web.Response()
