"""Lives of the reference gateway: runs with its Python, never with ours.

Reads one JSON line per command: ``{"life": {...}}`` forks a gateway life and answers its pid,
``{"wait": pid}`` answers its exit status (negative for a signal). A life is what hermes-agent
0.19.0 itself does around a final reply, by its own code:

* start: ``SessionStore.suspend_recently_active`` unless the last stop was clean, then
  ``GatewayRunner._redeliver_pending_obligations`` (``sweep_recoverable``, the send,
  ``mark_delivered`` or ``mark_failed``, ``clear_resume_pending``), then
  ``GatewayRunner._schedule_resume_pending_sessions`` (``gateway/run.py``), whose runs are only
  counted;
* a message: ``MessageDeduplicator.is_duplicate`` as its adapters call it, then
  ``BasePlatformAdapter.handle_message`` and all that follows from it
  (``gateway/platforms/base.py``): ``record_obligation``, ``mark_attempting``,
  ``_send_with_retry``, ``mark_delivered`` or ``mark_failed``.

Ours are only the adapter's wire call, an agent that repeats what it was told, and a place before
and after every call, where the life can be killed or held. Its pauses are skipped; its clock can
be ahead.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
import inspect
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

LEDGER_CALLS = ("record_obligation", "mark_attempting", "mark_delivered", "mark_failed", "sweep_recoverable")


class Places:
    """The places of one life: each passing is written down; at one of them the life ends or waits."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._trace = os.open(spec["trace"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._kill: str = spec.get("kill", "")
        self._hold: str = spec.get("hold", "")
        self._home: str = spec["home"]
        self._passed: Counter[str] = Counter()

    def __call__(self, name: str) -> None:
        self._passed[name] += 1
        place = f"{name}:{self._passed[name]}"
        os.write(self._trace, f"{place}\n".encode())
        if place == self._kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if place == self._hold:
            Path(self._home, "held").write_text("held")  # a fifo: the other end waits for this
            Path(self._home, "go").read_text()  # a fifo, too

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call`` with a place before and after it."""

        @functools.wraps(call)
        def called(*args: Any, **kwargs: Any) -> Any:
            self(f"{name}.before")
            result = call(*args, **kwargs)
            self(f"{name}.after")
            return result

        return called


class Wire:
    """The adapter's calls. How an answer is reported upwards is copied in manner from two adapters
    of the release: ``telegram`` says that a repeat is safe unless the call timed out,
    ``mattermost`` only that it failed."""

    def __init__(self, spec: dict[str, Any], place: Places) -> None:
        self.address = urlsplit(spec["url"]).netloc
        self.manner: str = spec["manner"]
        self.limit: int = spec["limit"]
        self._offline: int = spec.get("offline", 0)
        self._place = place
        self._sends = 0

    def next_send(self) -> str:
        self._sends += 1
        return f"{os.getpid()}-{self._sends}"

    def post(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """One wire call. None: accepted; else what its ``SendResult`` is told."""
        self._place("wire.before")
        answer = self._call(body)
        self._place("wire.after")
        return answer

    def _call(self, body: dict[str, Any]) -> dict[str, Any] | None:
        if self._offline:
            self._offline -= 1
            return self._failed("ConnectError: all connection attempts failed", repeat=True)
        connection = http.client.HTTPConnection(self.address, timeout=0.5)
        try:
            headers = {"Content-Type": "application/json", "Idempotency-Key": f"{time.monotonic_ns()}"}
            connection.request("POST", "/", json.dumps(body), headers)
            response = connection.getresponse()
        except TimeoutError:
            return self._failed("Timed out", repeat=False)
        except (OSError, http.client.HTTPException):
            return self._failed("Server disconnected without sending a response.", repeat=True)
        finally:
            connection.close()
        if response.status < 300:
            return None
        if response.status == 410:
            return self._failed("Forbidden: bot was blocked by the user", repeat=True)
        wait = response.headers.get("Retry-After")
        if response.status == 429:
            return self._failed(f"Flood control exceeded. Retry in {wait} seconds", True, float(wait or 1))
        return self._failed("Internal Server Error (500)", repeat=True)

    def _failed(self, error: str, repeat: bool, wait: float | None = None) -> dict[str, Any]:
        if self.manner == "mattermost":
            return {"success": False, "error": "Failed to create post"}
        return {"success": False, "error": error, "retryable": repeat, "retry_after": wait}


def adapter_of(wire: Wire, place: Places) -> Any:
    """An adapter on the reference's own base class, connected to the platform of the test."""
    from gateway.config import (  # type: ignore[import-not-found,unused-ignore]
        Platform,
        PlatformConfig,
    )
    from gateway.platforms.base import (  # type: ignore[import-not-found,unused-ignore]
        BasePlatformAdapter,
        SendResult,
    )
    from gateway.platforms.helpers import (  # type: ignore[import-not-found,unused-ignore]
        MessageDeduplicator,
    )

    class Adapter(BasePlatformAdapter):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__(PlatformConfig(enabled=True, typing_indicator=False), Platform.MATTERMOST)
            self.seen = MessageDeduplicator()

        async def connect(self, *, is_reconnect: bool = False) -> bool:
            return True

        async def disconnect(self) -> None:
            return None

        async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
            return {"name": chat_id, "type": "dm"}

        async def send(
            self, chat_id: str, content: str, reply_to: str | None = None, metadata: Any = None
        ) -> Any:
            send = wire.next_send()
            chunks = self.truncate_message(content, wire.limit)
            for number, chunk in enumerate(chunks, 1):
                body = {"delivery": send, "part": number, "parts": len(chunks), "chat": chat_id}
                failed = await asyncio.to_thread(wire.post, {**body, "text": chunk})
                if failed is not None:
                    return SendResult(**failed)
            return SendResult(success=True, message_id=send)

    return Adapter()


def agent_of(sessions: Any, place: Places) -> Callable[[Any], Any]:
    """The turn: the session is looked up and settled as in ``_handle_message_with_agent``; the agent
    repeats what it was told."""

    async def agent(event: Any) -> str:
        session = await sessions.get_or_create_session(event.source)
        place("run")
        place("answer.made")
        await sessions.clear_resume_pending(session.session_key)
        await sessions.update_session(session.session_key)
        return str(event.text)

    return agent


def runner_of(home: Path, adapter: Any, place: Places) -> Any:
    """As much of ``GatewayRunner`` as its two start methods look at: real session store, one
    adapter, one authorized user. A run that it wants to start anew is only written down."""
    from gateway.config import GatewayConfig, Platform
    from gateway.run import GatewayRunner  # type: ignore[import-not-found,unused-ignore]
    from gateway.session import (  # type: ignore[import-not-found,unused-ignore]
        AsyncSessionStore,
        SessionStore,
    )

    class Runner(GatewayRunner):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            self.adapters = {Platform.MATTERMOST: adapter}
            self.session_store = SessionStore(home / "sessions", GatewayConfig())
            self._async_session_store = AsyncSessionStore(self.session_store)
            self._running_agents: dict[str, Any] = {}
            self._running_agents_ts: dict[str, float] = {}
            self._background_tasks: set[Any] = set()

        def _is_user_authorized(self, source: Any) -> bool:
            return True

        def _adapter_for_source(self, source: Any) -> Any:
            return self.adapters[Platform.MATTERMOST]

        def _persist_active_agents(self) -> None:
            return None

        async def _run_startup_resume_event(self, adapter: Any, event: Any, session_key: str) -> None:
            place("run again")
            await self.async_session_store.clear_resume_pending(session_key)  # as after a run

    return Runner()


async def live(spec: dict[str, Any], place: Places) -> None:
    """Start, redeliver, take the messages, end."""
    from gateway.config import Platform
    from gateway.platforms.base import (
        MessageEvent,
    )
    from gateway.session import SessionSource

    home = Path(spec["home"])
    wire = Wire(spec, place)
    adapter = adapter_of(wire, place)
    runner = runner_of(home, adapter, place)
    sessions = runner.async_session_store
    adapter.set_message_handler(agent_of(sessions, place))
    if not spec["first"] and not (home / ".clean_shutdown").exists():
        await sessions.suspend_recently_active()
    (home / ".clean_shutdown").unlink(missing_ok=True)
    await runner._redeliver_pending_obligations()
    runner._schedule_resume_pending_sessions()
    await asyncio.gather(*runner._background_tasks)
    for message in spec["messages"]:
        if message.get("rebuilt"):
            adapter = adapter_of(wire, place)  # as the reconnect watcher does: a new instance
            adapter.set_message_handler(agent_of(sessions, place))
            runner.adapters[Platform.MATTERMOST] = adapter
        if adapter.seen.is_duplicate(message["id"]):
            place("dropped")
            continue
        place(f"took {message['id']}")
        source = SessionSource(platform=Platform.MATTERMOST, chat_id="c", user_id="u")
        await adapter.handle_message(
            MessageEvent(text=message["text"], source=source, message_id=message["id"])
        )
        while adapter._background_tasks:
            await asyncio.gather(*adapter._background_tasks)
    if not spec.get("beside"):
        (home / ".clean_shutdown").touch()  # as its stop does when nothing is left running


def become(spec: dict[str, Any]) -> None:
    """The forked child: its home, its clock, its places, then its life. Does not return."""
    os.environ["HERMES_HOME"] = spec["home"]
    log = os.open(str(Path(spec["home"], "log")), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    from gateway import delivery_ledger as ledger  # type: ignore[import-not-found,unused-ignore]

    place = Places(spec)
    for name in LEDGER_CALLS:
        setattr(ledger, name, place.around(name, getattr(ledger, name)))
    ahead = float(spec.get("ahead_s", 0))
    from gateway import session  # type: ignore[import-not-found,unused-ignore]

    real_time, real_now, real_sleep = time.time, session._now, asyncio.sleep
    time.time = lambda: real_time() + ahead
    session._now = lambda: real_now() + timedelta(seconds=ahead)

    async def skipped(_seconds: float, result: Any = None) -> Any:
        await real_sleep(0)
        return result

    asyncio.sleep = skipped  # type: ignore[assignment]
    asyncio.run(live(spec, place))


def main() -> None:
    import gateway.platforms.base  # type: ignore[import-not-found,unused-ignore]
    import gateway.run  # its imports are paid once

    assert inspect.iscoroutinefunction(gateway.run.GatewayRunner._redeliver_pending_obligations)
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            print(os.waitstatus_to_exitcode(os.waitpid(command["wait"], 0)[1]), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            try:
                become(command["life"])
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
