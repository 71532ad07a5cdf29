"""The lives of the gateway, and how they end.

A life is a real process: ``angelia run`` as it is installed, or the same gateway forked from a
process that has paid its imports, so that many can die. The next begins the moment one is gone.
A process that ends by itself, or with another status than its end explains, is a violation.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

from tests.crash.nursery import Zygote, is_gone
from tests.soak.mixture import Mixture

#: Only a broken gateway takes this long to start or to stop (real seconds).
PATIENCE_S = 60.0

#: How long a frozen gateway stands still: longer than its lease, in virtual seconds.
_FROZEN_VIRTUAL_S = 18.0

#: One life of so many is a process of its own from the first instruction on.
_INSTALLED_ONE_IN = 25


class Life:
    """One process on the home. ``address``: where it listens, "" before."""

    def __init__(self, home: Path, environment: dict[str, str], zygote: Zygote | None) -> None:
        self._home = home
        self._zygote = zygote
        self._status: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        if zygote is not None:
            self.pid = zygote.start(home, None, **environment)
        else:
            with open(home / "log", "ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "angelia", "run"],
                    env={**os.environ, **environment, "ANGELIA_HOME": str(home)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            self.pid = self._process.pid

    @property
    def gone(self) -> bool:
        return self._status is not None or is_gone(self.pid)

    @property
    def address(self) -> str:
        """Where this process, and no earlier one, says that it listens."""
        try:
            told = json.loads((self._home / "gateway.lock").read_text() or "{}")
        except (FileNotFoundError, json.JSONDecodeError):
            return ""
        return str(told["address"]) if told.get("process") == self.pid else ""

    def signal(self, number: int) -> None:
        """Send it a signal, unless it is gone. Its id is ours until ``status`` has collected it."""
        if not self.gone:
            os.kill(self.pid, number)

    async def ends(self) -> int:
        """Wait until it is gone; its exit status, negative: the signal."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if self.gone:
                    break
                await asyncio.sleep(0.01)
        if self._status is None and self._process is not None:
            self._status = self._process.wait()
        elif self._status is None and self._zygote is not None:
            self._status = self._zygote.wait(self.pid)
        assert self._status is not None
        return self._status


class Reaper:
    """Starts lives and ends them until ``calm``. ``violations``: what must not happen to one."""

    def __init__(self, mixture: Mixture, home: Path, environment: dict[str, str], zygote: Zygote) -> None:
        self._mixture = mixture
        self._home = home
        self._environment = environment
        self._zygote = zygote
        self._dice = Random(f"reaper {mixture.seed}")
        self._calm = asyncio.Event()
        self.counted: Counter[str] = Counter()
        self.violations: list[str] = []
        self.life: Life | None = None
        self.address = ""

    @property
    def kills(self) -> int:
        """How many processes died by SIGKILL."""
        return sum(count for end, count in self.counted.items() if "killed" in end)

    def calm_down(self) -> None:
        """End the present life soon, and start none any more."""
        self._calm.set()

    def begin(self) -> Life:
        """A new life."""
        installed = self._dice.randrange(_INSTALLED_ONE_IN) == 0
        self.counted["installed lives"] += int(installed)
        self.counted["lives"] += 1
        self.life = Life(self._home, self._environment, None if installed else self._zygote)
        return self.life

    async def listens(self, life: Life, within_s: float = PATIENCE_S) -> bool:
        """Wait until ``life`` listens. False: it is gone, or it is calm, or time is over."""
        try:
            async with asyncio.timeout(within_s):
                while not life.gone:
                    if life.address:
                        self.address = life.address
                        return True
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return False
        return False

    async def reign(self) -> None:
        """Life after life."""
        while not self._calm.is_set():
            await self.one(self._mixture.end(self._dice))

    async def one(self, end: str) -> None:
        """One life until its ``end``."""
        life = self.begin()
        try:
            if end == "killed at its start":
                # An installed one has to import everything first; the wait may be over before.
                await self.listens(life, self._dice.uniform(0, 0.3))
            else:
                await self._lived(life, end)
            self.address = ""
            await self._buried(life, end)
        finally:
            life.signal(signal.SIGKILL)

    async def _lived(self, life: Life, end: str) -> None:
        """Until the moment at which the end begins."""
        if not await self.listens(life):
            return
        await self._while_alive(life, self._dice.expovariate(1 / self._mixture.life_s))
        if end == "frozen, then killed":
            life.signal(signal.SIGSTOP)
            await self._while_alive(
                life, _FROZEN_VIRTUAL_S / self._mixture.speed * self._dice.uniform(0.2, 2)
            )
            life.signal(signal.SIGCONT)
            await self._while_alive(life, self._dice.expovariate(1 / self._mixture.life_s))
        if end in ("stopped", "killed while stopping"):
            life.signal(signal.SIGTERM)
        if end == "killed while stopping":
            await self._while_alive(life, self._dice.uniform(0, 0.3))

    async def _buried(self, life: Life, end: str) -> None:
        by_itself = life.gone
        if end != "stopped":
            life.signal(signal.SIGKILL)
        try:
            status = await life.ends()
        except TimeoutError:
            self.violations.append(f"a gateway did not stop within {PATIENCE_S:g} s")
            life.signal(signal.SIGKILL)
            status = await life.ends()
        if status == 0 and end in ("stopped", "killed while stopping"):
            self.counted["stopped"] += 1
        elif status == -signal.SIGKILL and not by_itself:
            self.counted[end] += 1
        else:
            self.violations.append(f"a gateway that was to be {end} ended with {status}")

    async def _while_alive(self, life: Life, seconds: float) -> None:
        """That much time, unless the life ends before or it is calm."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if life.gone or self._calm.is_set():
                        return
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return
