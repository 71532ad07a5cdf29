"""One telling of a story: a gateway that is killed where it was told to be, started again and
awaited, while people repeat what was not acknowledged.

The same for every story, and for none, one or two deaths: what happens next is decided by
looking whether the gateway is gone.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from angelia.seams.clock import clock_from
from tests.crash.homes import Prepared
from tests.crash.nursery import CONFIG, Zygote, address_of, ask, is_gone, post, settled, until
from tests.crash.platform import Platform
from tests.crash.stories import Story

#: Longer than a lease, in virtual milliseconds.
_FROZEN_MS = 17_000


class Telling:
    """One telling. ``kills`` are the points (``name:k``) of successive gateways; ``prepared`` is
    the home as it was before."""

    def __init__(
        self, story: Story, zygote: Zygote, home: Path, prepared: Prepared, kills: tuple[str, ...] = ()
    ) -> None:
        self.story = story
        self.zygote = zygote
        self.home = home
        self.prepared = prepared
        self.kills = list(kills)
        self.died = 0
        self.lives = 0
        self.pid: int | None = None
        self.platform = Platform(story.script, story.keyed)

    def tell(self) -> None:
        """Play the story to its end."""
        self.prepared.begin(self.home)
        with self.platform:
            self._configure()
            self._start()
            for index, said in enumerate(self.story.messages):
                message = {"id": f"m{index}", "chat": "c", "user": "u", "text": said}
                if self.story.threads:
                    message["thread"] = f"t{index}"
                    self._called(index)
                for _ in range(self.story.replays + 1):
                    self._deliver(message)
            if self.story.freezes:
                self._freeze()
            if self.story.leave:
                self._leave()
            self._until_settled()
            if self._stop() or not self.died:
                # It died while stopping, or nothing died at all: a further start finds nothing to do.
                self._until_settled()
                self._stop()

    def trace(self, life: int) -> list[str]:
        """The points that the ``life``-th gateway passed (the first is 0), in their order."""
        file = self.home / f"trace{life}"
        return file.read_text().split() if file.exists() else []

    def _configure(self) -> None:
        url = self.platform.url
        text = CONFIG.format(
            agent=self.story.agent.replace("MODEL", f"{url}v1"),
            url=url,
            keyed=str(self.story.keyed).lower(),
            limit=self.story.limit,
        )
        (self.home / "config.yaml").write_text(text)

    def _start(self) -> None:
        kill = self.kills.pop(0) if self.kills else ""
        (self.home / "gateway.lock").unlink(missing_ok=True)
        self.pid = self.zygote.start(
            self.home,
            self.prepared.migrations,
            **self.prepared.clock,
            ANGELIA_CRASH_POINT=kill,
            ANGELIA_CRASH_TRACE=str(self.home / f"trace{self.lives}"),
        )
        self.lives += 1
        if not until(lambda: address_of(self.home), "the gateway listens", self.pid):
            self._buried()

    def _buried(self) -> None:
        """The gateway is gone: it must have been killed, and is started again."""
        assert self.pid is not None
        status = self.zygote.wait(self.pid)
        assert status == -9, f"the gateway ended with {status}:\n{self._log()}"
        self.died += 1
        self._start()

    def _gone(self) -> bool:
        return self.pid is None or is_gone(self.pid)

    def _deliver(self, message: dict[str, str]) -> None:
        """A platform repeats a message until it is acknowledged."""

        def acknowledged() -> bool:
            if self._gone():
                self._buried()
            return post(self.home, message) in (200, 202)

        until(acknowledged, "the message is acknowledged")

    def _called(self, times: int = 1) -> None:
        """Wait until the platform was called so often, whoever lives to call it."""

        def called() -> bool:
            if self._gone():
                self._buried()
            return len(self.platform.calls) >= times

        until(called, "the platform is called")

    def _freeze(self) -> None:
        """The gateway stands still for longer than its lease, in the middle of a call."""
        self._called()
        clock = clock_from(self.prepared.clock)
        thaws = clock.now().wall + _FROZEN_MS
        self._signal(signal.SIGSTOP)
        until(lambda: clock.now().wall > thaws, "the lease lapses")
        self._signal(signal.SIGCONT)

    def _leave(self) -> None:
        """It is asked to stop in the middle of things, and started again."""
        if self.story.leave == "called":
            self._called()
        if self._gone():
            self._buried()
        self._stop()

    def _signal(self, number: int) -> None:
        """Send a signal, unless the process is gone. Its id is ours until it is collected."""
        if self.pid is not None and not is_gone(self.pid):
            os.kill(self.pid, number)

    def _until_settled(self) -> None:
        def done() -> bool:
            if self._gone():
                self._buried()
            return settled(self.home, len(self.story.messages)) and self.prepared.is_forgotten(self.home)

        if self.pid is None:
            self._start()
        until(done, f"all is settled:\n{self._log()[-3000:]}")

    def _stop(self) -> bool:
        """Ask the gateway to stop. True: it was killed while it did."""
        assert self.pid is not None
        self._signal(signal.SIGTERM)
        until(self._gone, "the gateway stops")
        status = self.zygote.wait(self.pid)
        assert status in (0, -9), f"the gateway ended with {status}:\n{self._log()}"
        self.died += int(status == -9)
        self.pid = None
        return status == -9

    def _log(self) -> str:
        log = self.home / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """What the store answers."""
        return ask(self.home, sql)
