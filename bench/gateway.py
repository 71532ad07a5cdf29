"""The whole gateway, from webhook in to webhook out, with the echo agent.

Three processes beside one another, as in real life: the load (``bench.load``), the installed
``angelia run`` on a fresh home, and the receiver (``bench.receiver``). Per message the gateway
commits the inbound, the turn and its run, the answer with its delivery, the claim and the
receipt, and makes one HTTP call. Measured are:

* **saturated**: messages posted as fast as they are acknowledged; messages/s is counted from
  the first post to the last arrival (p50 and p99 then tell the length of the queue);
* **paced**: a fixed timetable at half of that, which is what p50 and p99 are for;
* **memory**: resident at rest, and after 10,000 conversations.

Every message is accounted for after each step: nothing lost, nothing twice, nothing under a
wrong chat, nothing out of order within a conversation; anything else ends the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.peers import ROOT, cache_folder

_SECRET = "bench-secret-of-nobody"
_AT_ONCE = 64
_START_PATIENCE_S = 60.0
_STOP_PATIENCE_S = 60.0


class NotAccountedError(Exception):
    """A message was lost, repeated, misdirected or out of order. The text says which."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One step: ``messages`` messages, their rate end to end, and their latencies in ms."""

    step: str
    messages: int
    conversations: int
    offered_per_s: float
    per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class GatewayFigures:
    """What one run found. Memory is VmRSS in MiB; ``cpu_ms_per_message`` is the processor time of
    the gateway alone over the saturated step, which other work on the machine hardly moves."""

    flows: list[Flow]
    rss_at_rest_mib: float
    rss_after_mib: float
    conversations: int
    cpu_ms_per_message: float


def account(posted: list[list[Any]], arrivals: list[list[Any]]) -> list[float]:
    """Match what was posted with what arrived; the latencies in ms, or ``NotAccountedError``."""
    due = {(text, chat): ns for text, chat, ns in posted}
    arrived = [((text, chat), ns) for text, chat, _key, ns in arrivals]
    seen = Counter(item for item, _ in arrived)
    lost = due.keys() - seen.keys()
    twice = [item for item, copies in seen.items() if copies > 1]
    strange = seen.keys() - due.keys()
    if len(due) != len(posted) or lost or twice or strange:
        examples = [text[:60] for text, _ in [*lost, *twice, *strange][:3]]
        raise NotAccountedError(
            f"of {len(posted)} messages {len(lost)} lost, {len(twice)} repeated, "
            f"{len(strange)} unknown: {examples}"
        )
    order: dict[str, list[int]] = defaultdict(list)
    for (text, chat), _ in arrived:
        order[chat].append(int(text.split(maxsplit=1)[0].rpartition("-")[2]))
    disordered = [chat for chat, numbers in order.items() if numbers != sorted(numbers)]
    if disordered:
        raise NotAccountedError(f"out of order in {len(disordered)} conversations, first {disordered[0]}")
    return [(at - due[item]) / 1e6 for item, at in arrived]


def resident_mib(pid: int) -> float:
    """VmRSS of a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise LookupError(f"process {pid} has no VmRSS")


def processor_s(pid: int) -> float:
    """Processor time of a process so far, all threads, user and system, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    """A running gateway, its receiver, and the steps that can be measured on them."""

    def __init__(self, folder: Path, gateway_pid: int, gateway_url: str, receiver_url: str) -> None:
        self.folder = folder
        self.gateway_pid = gateway_pid
        self._inbound_url = f"{gateway_url}webhook/default/messages"
        self._receiver_url = receiver_url

    async def flow(self, step: str, messages: int, conversations: int, rate: float = 0.0) -> Flow:
        """Send ``messages`` messages through and account for each of them."""
        await self._ask("POST", "forget")
        out = self.folder / f"{step}.json"
        load = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.load", "--url", self._inbound_url, "--secret", _SECRET,
            "--messages", str(messages), "--conversations", str(conversations), "--at-once", str(_AT_ONCE),
            "--rate", str(rate), "--prefix", step, "--out", str(out), cwd=ROOT,
        )  # fmt: skip
        if await load.wait():
            raise NotAccountedError(f"{step}: not every message was accepted (see above)")
        await self._ask("GET", f"wait?n={messages}&s={60 + messages / 50}")
        posted = json.loads(out.read_text(encoding="utf-8"))
        arrivals = await self._ask("GET", "arrivals")
        latencies = account(posted, arrivals)
        seconds = (max(row[3] for row in arrivals) - min(row[2] for row in posted)) / 1e9
        cuts = statistics.quantiles(latencies, n=100)
        return Flow(
            step,
            messages,
            conversations,
            rate,
            round(messages / seconds, 1),
            round(cuts[49], 2),
            round(cuts[98], 2),
        )

    async def _ask(self, method: str, path: str) -> list[list[Any]]:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
            session.request(method, self._receiver_url + path) as answer,
        ):
            answer.raise_for_status()
            content: list[list[Any]] = await answer.json()
            return content


def write_home(home: Path, deliver_url: str) -> None:
    """A home with one webhook and the echo agent, on any free port."""
    home.mkdir(mode=0o700)
    (home / ".env").write_text(f"BENCH_SECRET={_SECRET}\n", encoding="utf-8")
    (home / ".env").chmod(0o600)
    config = f"""\
gateway: {{listen: "127.0.0.1:0"}}
profiles:
  default:
    agent: {{kind: echo}}
    platforms:
      webhook: {{secret: "${{BENCH_SECRET}}", deliver_url: "{deliver_url}", allow: ["*"]}}
"""
    (home / "config.yaml").write_text(config, encoding="utf-8")


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Ask our own child to end; kill it if it does not."""
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_PATIENCE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing"


async def _url_of(gateway: asyncio.subprocess.Process, log: Path) -> str:
    """The address that ``angelia run`` prints alone on a line."""
    assert gateway.stdout is not None
    async with asyncio.timeout(_START_PATIENCE_S):
        async for line in gateway.stdout:
            text = line.decode().strip()
            if text.startswith("http://"):
                return text
    raise RuntimeError(f"angelia run ended before it printed its address; it said: {_last_line(log)}")


async def _healthy(url: str) -> None:
    """Return when ``/health`` says 200."""
    deadline = time.monotonic() + _START_PATIENCE_S
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}health") as answer:
                if answer.status == 200:
                    return
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the gateway is not healthy: {await answer.text()}")
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Bench]:
    """A receiver and a gateway on a fresh home in ``folder``; both ended at the end."""
    receiver = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.receiver", cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert receiver.stdout is not None
        receiver_url = f"http://127.0.0.1:{int(await receiver.stdout.readline())}/"
        write_home(folder / "home", receiver_url)
        with (folder / "gateway.log").open("wb") as log:
            gateway = await asyncio.create_subprocess_exec(
                Path(sys.executable).with_name("angelia"), "run",
                env={**os.environ, "ANGELIA_HOME": str(folder / "home")},
                stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip
        try:
            url = await _url_of(gateway, folder / "gateway.log")
            await _healthy(url)
            yield Bench(folder, gateway.pid, url, receiver_url)
        finally:
            await _ended(gateway)
    finally:
        await _ended(receiver)


async def measure(folder: Path, messages: int, conversations: int) -> GatewayFigures:
    """All steps on one gateway. ``folder`` is fresh and on the disk to be measured."""
    async with running(folder) as bench:
        at_rest = resident_mib(bench.gateway_pid)
        await bench.flow("warm", 256, 64)
        chats = max(_AT_ONCE, messages // 10 // _AT_ONCE * _AT_ONCE)
        used_s = processor_s(bench.gateway_pid)
        full = await bench.flow("saturated", messages, chats)
        cpu_ms = round((processor_s(bench.gateway_pid) - used_s) / messages * 1000, 2)
        paced = await bench.flow("paced", messages, chats, rate=round(full.per_s / 2))
        many = await bench.flow("many", conversations, conversations)
        after = resident_mib(bench.gateway_pid)
        return GatewayFigures([full, paced, many], at_rest, after, conversations, cpu_ms)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Measure the gateway from webhook in to webhook out.")
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--conversations", type=int, default=10_000, help="of the memory step")
    parser.add_argument("--folder", type=Path, default=None, help="where to measure (default: this disk)")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.folder or cache_folder(), prefix="gateway-") as folder:
        figures = asyncio.run(measure(Path(folder), given.messages, given.conversations))
    text = json.dumps(asdict(figures), indent=2)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
