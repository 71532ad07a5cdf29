"""What a run found, as Markdown for people and as JSON for the next comparison."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from bench.disk import Disk
from bench.driver import REPLY_CHARACTERS, Sample

#: The aims of the first release: times the peer by replies at once, share of the raw limit.
AIM_TIMES_PEER = {1: 4.0, 16: 30.0, 256: 80.0}
AIM_OF_RAW = {256: 0.4}
AIM_MESSAGES_PER_S = 500.0

#: Rows of the table: name of the system, and how a reader knows it.
SYSTEMS = {
    "angelia": "Angelia's ledger",
    "raw": "raw limit: the same SQL, same transactions, no Python around it",
    "hermes-gateway": "hermes-agent 0.19.0, as its gateway calls it",
    "hermes-threads": "hermes-agent 0.19.0, its verbs through worker threads",
    "hermes-bare": "hermes-agent 0.19.0, its verbs alone, nothing else in its file",
}


def machine() -> dict[str, str | int]:
    """What a figure depends on, without anything that names this very machine."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "apsw": version("apsw"),
    }


def load_average() -> str:
    """How many processes wanted a core during the last minute: beyond the cores, all figures sink."""
    return f"{os.getloadavg()[0]:.1f}"


@dataclass(frozen=True, slots=True)
class Line:
    """The rounds of one system at one load: medians, and the lowest and highest rate."""

    system: str
    at_once: int
    rounds: int
    per_s: float
    per_s_low: float
    per_s_high: float
    p50_ms: float | None
    p99_ms: float | None


def line_of(samples: list[Sample]) -> Line:
    """One table line from the rounds of one system at one load."""
    rates = [sample.per_second for sample in samples]
    latencies = [sample.latencies_ms for sample in samples if sample.latencies_ms]
    cuts = [statistics.quantiles(values, n=100) for values in latencies]
    return Line(
        samples[0].system,
        samples[0].at_once,
        len(samples),
        statistics.median(rates),
        min(rates),
        max(rates),
        statistics.median(cut[49] for cut in cuts) if cuts else None,
        statistics.median(cut[98] for cut in cuts) if cuts else None,
    )


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found, and what it could not measure."""

    machine: dict[str, str | int]
    disk: Disk
    rounds: int
    quick: bool
    samples: list[Sample]
    gateway: dict[str, Any] | None
    missing: list[str]

    def lines(self) -> dict[tuple[str, int], Line]:
        """By system and load."""
        groups: dict[tuple[str, int], list[Sample]] = {}
        for sample in self.samples:
            groups.setdefault((sample.system, sample.at_once), []).append(sample)
        return {key: line_of(group) for key, group in groups.items()}

    def as_json(self) -> str:
        content = {
            "machine": self.machine,
            "disk": asdict(self.disk) | {"durable": self.disk.durable},
            "rounds": self.rounds,
            "quick": self.quick,
            "ledger": [asdict(line) for line in self.lines().values()],
            "notes": {sample.system: sample.notes for sample in self.samples},
            "gateway": self.gateway,
            "missing": self.missing,
        }
        return json.dumps(content, indent=2) + "\n"

    def as_markdown(self) -> str:
        parts = [*self._preface(), "", *self._ledgers(), "", *self._ratios(), "", *self._gateway()]
        return "\n".join(parts).rstrip() + "\n"

    def _preface(self) -> Iterable[str]:
        facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.machine.items())
        yield f"Machine: {facts}."
        yield (
            f"Disk: {self.disk.file_system}, one fdatasync of 4 KiB takes {self.disk.fdatasync_p50_ms} ms "
            f"(p99 {self.disk.fdatasync_p99_ms} ms)."
        )
        if not self.disk.durable:
            yield "**Not a durable disk: these figures say nothing about a real store.**"
        if self.quick:
            yield "**A quick run: good for seeing that it runs, not for quoting.**"
        for reason in dict.fromkeys(self.missing):
            yield f"**Not measured: {reason}**"

    def _ledgers(self) -> Iterable[str]:
        lines = self.lines()
        if not lines:
            return
        yield (
            f"Record → attempting → delivered, replies of {REPLY_CHARACTERS} characters, "
            f"every commit durable, medians of {self.rounds} rounds in turn."
        )
        yield ""
        yield "| ledger | at once | replies/s | lowest to highest round | ms per reply, p50 | p99 |"
        yield "|---|--:|--:|--:|--:|--:|"
        for system, title in SYSTEMS.items():
            for (name, at_once), line in sorted(lines.items()):
                if name == system:
                    yield (
                        f"| {title} | {at_once} | {line.per_s:,.0f} | {line.per_s_low:,.0f} to "
                        f"{line.per_s_high:,.0f} | {_ms(line.p50_ms)} | {_ms(line.p99_ms)} |"
                    )

    def _ratios(self) -> Iterable[str]:
        lines = self.lines()
        loads = sorted(at_once for system, at_once in lines if system == "angelia")
        others = [name for name in SYSTEMS if name != "angelia" and any(key[0] == name for key in lines)]
        if not loads or not others:
            return
        yield "Angelia's replies/s as a multiple (ratio of the medians above):"
        yield ""
        yield "| of | " + " | ".join(f"{load} at once" for load in loads) + " |"
        yield "|---|" + "--:|" * len(loads)
        for other in others:
            cells = []
            for load in loads:
                if (other, load) not in lines:
                    cells.append("–")
                    continue
                ratio = lines["angelia", load].per_s / lines[other, load].per_s
                aims = {"hermes-gateway": AIM_TIMES_PEER, "raw": AIM_OF_RAW}.get(other, {})
                cells.append(_against(ratio, aims.get(load)))
            yield f"| {SYSTEMS[other]} | " + " | ".join(cells) + " |"

    def _gateway(self) -> Iterable[str]:
        if not self.gateway:
            return
        yield (
            "Webhook in to webhook out, echo agent, load and receiver on the same cores; "
            "every message arrived once, in order."
        )
        yield ""
        yield "| step | messages | conversations | offered/s | messages/s | p50 ms | p99 ms |"
        yield "|---|--:|--:|--:|--:|--:|--:|"
        for flow in self.gateway["flows"]:
            offered = f"{flow['offered_per_s']:,.0f}" if flow["offered_per_s"] else "all it takes"
            yield (
                f"| {flow['step']} | {flow['messages']:,} | {flow['conversations']:,} | {offered} | "
                f"{flow['per_s']:,.0f} | {flow['p50_ms']:,.1f} | {flow['p99_ms']:,.1f} |"
            )
        yield ""
        reached = max(flow["per_s"] for flow in self.gateway["flows"])
        verdict = "met" if reached >= AIM_MESSAGES_PER_S else "**missed**"
        yield f"Aim {AIM_MESSAGES_PER_S:,.0f} messages/s: {verdict}."
        yield (
            f"Resident memory of the gateway: {self.gateway['rss_at_rest_mib']} MiB at rest, "
            f"{self.gateway['rss_after_mib']} MiB after {self.gateway['conversations']:,} conversations. "
            f"It used {self.gateway['cpu_ms_per_message']} ms of processor time per message."
        )


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}"


def _against(ratio: float, aim: float | None) -> str:
    if aim is None:
        return f"{ratio:,.2f}×"
    return f"{ratio:,.2f}× (aim {aim:g}: {'met' if ratio >= aim else '**missed**'})"
