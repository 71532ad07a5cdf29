"""One round of the soak: a home, its people, its platform, its deaths; then calm, and the verdict.

While the faults last nothing is looked at. Then everything goes well, the gateway is stopped
and started until nothing rests any more, and what the platform saw is compared with the ledger.
At the very end one more start must find nothing to do.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.nursery import Zygote, ask
from tests.soak.mixture import Mixture
from tests.soak.people import SECRET, People
from tests.soak.reaper import Reaper
from tests.soak.torture import Torture
from tests.soak.verdict import Truth, copies, on_record, violations

from angelia.seams.clock import clock_from
from angelia.store.connection import open_connection

#: Real seconds in which everything must have settled once the faults have ended.
SETTLES_WITHIN_S = 120.0

#: A row that rests waits for a start; each start may leave one more to rest.
_STARTS_MOST = 5

_PROFILES = ("plain", "keyed", "paid")
_CHATS = ("c1", "c2", "c3")

_OPEN = (
    "SELECT (SELECT count(*) FROM turns WHERE state IN ('waiting', 'running')),"
    " (SELECT count(*) FROM deliveries WHERE state IN ('pending', 'attempting')"
    "   OR (state = 'failed' AND due_at IS NOT NULL)),"
    " (SELECT count(*) FROM deliveries WHERE state = 'failed' AND due_at IS NULL)"
)

#: What is worth counting, each a query on the store.
_FIGURES = {
    "turns": "SELECT count(*) FROM turns",
    "deliveries": "SELECT count(*) FROM deliveries",
    "attempts": "SELECT count(*) FROM attempts",
    "kills with a call in flight": "SELECT count(DISTINCT owner) FROM attempts WHERE ending = 'died'",
    "calls cut by a kill": "SELECT count(*) FROM attempts WHERE ending = 'died'",
    "kills in a model run": "SELECT count(DISTINCT owner) FROM model_runs WHERE ending = 'interrupted'",
    "unconfirmed attempts": "SELECT count(*) FROM attempts WHERE ending IN ('unconfirmed', 'dropped')",
    "given up after two interruptions": "SELECT count(*) FROM turns WHERE state = 'gave_up'",
}


@dataclass
class Round:
    """What one round has come to. ``violations`` is what matters."""

    seed: int
    home: Path
    violations: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    truth: Truth | None = None


def configuration(mixture: Mixture, address: str) -> str:
    """``config.yaml``: three profiles; one platform honours its keys, one agent may be paid."""

    def profile(name: str, agent: dict[str, object]) -> dict[str, object]:
        webhook = {
            "secret": SECRET,
            "deliver_url": f"{address}/{name}",
            "idempotent": name == "keyed",
            "text_limit": mixture.text_limit,
            "timeout_s": 1.0,
            "allow": ["*"],
        }
        return {"agent": agent, "platforms": {"webhook": webhook}}

    echo: dict[str, object] = {"kind": "echo", "delay_s": mixture.delay_s}
    model: dict[str, object] = {
        "kind": "openai",
        "base_url": f"{address}/v1",
        "model": "model",
        "api_key": "none",
        "timeout_s": 1.5,
    }
    profiles = {name: profile(name, echo) for name in ("plain", "keyed")}
    profiles["paid"] = profile("paid", model if mixture.pays else echo)
    return json.dumps({"gateway": {"listen": "127.0.0.1:0"}, "profiles": profiles}, indent=2)


async def play(mixture: Mixture, home: Path, seconds: float, zygote: Zygote) -> Round:
    """Play a round of ``seconds`` (real ones) before the calm, on the empty folder ``home``."""
    done = Round(mixture.seed, home)
    environment = {
        "ANGELIA_TEST_CLOCK_SPEED": str(mixture.speed),
        "ANGELIA_TEST_CLOCK_ORIGIN": str(time.time()),
    }
    async with Torture(mixture) as torture:
        (home / "config.yaml").write_text(configuration(mixture, torture.address))
        reaper = Reaper(mixture, home, environment, zygote)
        people = People(mixture, lambda: reaper.address)
        try:
            await _storm(torture, reaper, people, seconds)
            await _calm(torture, reaper, people, done)
        except TimeoutError:
            done.violations.append(f"8: people went on repeating for {SETTLES_WITHIN_S:g} s")
        finally:
            if reaper.life is not None:
                reaper.life.signal(signal.SIGKILL)
                await reaper.life.ends()
        done.truth = Truth(people.said, torture.arrived, torture.calls, torture.said, torture.asked)
        done.violations += reaper.violations
        await asyncio.to_thread(_judge, done, environment)
        _count(done, torture, reaper, people)
    return done


async def _storm(torture: Torture, reaper: Reaper, people: People, seconds: float) -> None:
    """People write, the platform tortures, gateways die."""
    chats = [(profile, chat) for profile in _PROFILES for chat in _CHATS]
    async with asyncio.timeout(seconds + SETTLES_WITHIN_S), asyncio.TaskGroup() as group:
        living = group.create_task(people.live(chats))
        reigning = group.create_task(reaper.reign())
        await asyncio.wait({living, reigning}, timeout=seconds)
        await _enough(torture, reaper, people)
        people.stop()
        torture.calm_down()
        reaper.calm_down()
        await reigning
        # Whoever has not been acknowledged goes on until a gateway that lives does it.
        life = reaper.begin()
        await reaper.listens(life)


async def _enough(torture: Torture, reaper: Reaper, people: People) -> None:
    """A slow machine takes longer for what proves anything at all."""
    while True:
        acknowledged = sum(said.acknowledged for said in people.said.values())
        if min(reaper.kills / 3, acknowledged / 30, len(torture.arrived) / 10) >= 1:
            return
        await asyncio.sleep(0.05)


async def _calm(torture: Torture, reaper: Reaper, people: People, done: Round) -> None:
    """Stop and start until nothing is open; then once more, which must do nothing."""
    began = time.monotonic()
    for _ in range(_STARTS_MOST):
        if not await _settled(done.home, reaper):
            done.violations.append(
                f"8: not everything settled within {SETTLES_WITHIN_S:g} s: {_open(done.home)}"
            )
            break
        await _stop(reaper)
        if _open(done.home) == (0, 0, 0):
            break
        await reaper.listens(reaper.begin())
    else:
        done.violations.append(f"8: rows still rest after {_STARTS_MOST} starts: {_open(done.home)}")
    done.figures["seconds until settled"] += round(time.monotonic() - began)
    calls = sum(torture.calls.values())
    if reaper.life is None or reaper.life.gone:
        await reaper.listens(reaper.begin())
    await _stop(reaper)
    if sum(torture.calls.values()) != calls:
        done.violations.append("10: one more start sent something more")


def _open(home: Path) -> tuple[object, ...]:
    """Turns that are not over, deliveries that are owed, deliveries that rest."""
    return (ask(home, _OPEN) or [(-1, -1, -1)])[0]


async def _settled(home: Path, reaper: Reaper) -> bool:
    """Wait until nothing is open but what rests. False: that took too long."""
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while time.monotonic() < deadline:
        if reaper.life is not None and reaper.life.gone:
            return False
        if (await asyncio.to_thread(_open, home))[:2] == (0, 0):
            return True
        await asyncio.sleep(0.05)
    return False


async def _stop(reaper: Reaper) -> None:
    """SIGTERM, and a clean end."""
    life = reaper.life
    assert life is not None
    life.signal(signal.SIGTERM)
    try:
        status = await life.ends()
    except TimeoutError:
        reaper.violations.append("a gateway with nothing to do did not stop")
        life.signal(signal.SIGKILL)
        status = await life.ends()
    if status != 0:
        reaper.violations.append(f"a gateway that was asked to stop ended with {status}")


def _judge(done: Round, environment: dict[str, str]) -> None:
    """The verdict, and the doctor's beside it."""
    assert done.truth is not None
    connection = open_connection(done.home / "state.db", read_only=True)
    try:
        done.violations += violations(connection, clock_from(environment).now().wall, done.truth)
        again = [says_so for _, says_so in copies(on_record(connection), done.truth.in_order)]
        done.figures.update({"copies": len(again), "marked copies": sum(again)})
    finally:
        connection.close()
    doctor = subprocess.run(
        [sys.executable, "-m", "angelia", "doctor"],
        env={**os.environ, **environment, "ANGELIA_HOME": str(done.home)},
        capture_output=True,
        text=True,
        timeout=SETTLES_WITHIN_S,
    )
    if doctor.returncode != 0:
        done.violations.append(f"angelia doctor ended with {doctor.returncode}: {doctor.stdout[-2000:]}")


def _count(done: Round, torture: Torture, reaper: Reaper, people: People) -> None:
    """The figures of a round; they add up over rounds."""
    figures = done.figures
    for name, sql in _FIGURES.items():
        figures[name] += int((ask(done.home, sql) or [(0,)])[0][0])
    for state, reason, count in ask(
        done.home, "SELECT state, reason, count(*) FROM deliveries GROUP BY state, reason"
    ):
        figures[f"{state} {reason}".strip()] += count
    figures["messages"] += len(people.said)
    figures["acknowledged"] += sum(said.acknowledged for said in people.said.values())
    figures["posts"] += people.posts
    figures["wire calls"] += sum(torture.calls.values())
    figures["arrived"] += len(torture.arrived)
    figures["model calls"] += sum(torture.asked.values())
    figures["kills"] += reaper.kills
    figures.update(reaper.counted)
    for fault, count in torture.faults.items():
        figures[f"platform: {fault}"] += count
