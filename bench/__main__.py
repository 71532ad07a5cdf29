"""``python -m bench``: everything in one run, side by side, and a report of it.

The ledgers take turns, round by round, each measurement in a process and a home of its own, so
that a slow minute of the machine hits all of them alike. The report gives medians over the
rounds with the lowest and highest round beside them, and ratios of medians of **this** run;
figures of different runs are not comparable. A part that cannot be measured (the peer could
not be installed, a part of Angelia that does not exist yet) is named in the report, never
silently left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.disk import Disk, measure_disk
from bench.driver import Sample
from bench.hermes_worker import WAYS
from bench.peers import ROOT, PeerUnavailableError, cache_folder, hermes_python
from bench.report import Report, load_average, machine

AT_ONCE = (1, 16, 256)

#: Replies per measurement: long enough for about a second each, by load.
FULL = {1: 1500, 16: 8192, 256: 24576}
QUICK = {1: 300, 16: 1600, 256: 5120}
HERMES_FULL, HERMES_QUICK = 400, 300


@dataclass(slots=True)
class Run:
    """One run of the ledger benchmark in ``folder``."""

    folder: Path
    rounds: int
    quick: bool
    samples: list[Sample] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    tapes: dict[int, Path] = field(default_factory=dict)
    peer: Path | None = None
    _count: int = 0

    def prepare(self) -> None:
        """Install the peer and record the tapes; what fails is noted as missing."""
        try:
            self.peer = hermes_python()
        except PeerUnavailableError as error:
            self.missing.append(str(error))
        for at_once, replies in self._replies().items():
            tape = self.folder / f"tape-{at_once}.bin"
            # The tape need not be long; its replies per commit are those of the load.
            if self._ours(at_once, replies, "--tape", str(tape)) is None:
                return
            self.tapes[at_once] = tape

    def rounds_in_turn(self) -> None:
        """Every system at every load, ``rounds`` times; who begins changes from round to round."""
        for number in range(self.rounds):
            for at_once, replies in self._replies().items():
                turns = self._turns(at_once, replies)
                start = number % max(1, len(turns))
                for turn in turns[start:] + turns[:start]:
                    sample = turn()
                    if sample:
                        self.samples.append(sample)
            sys.stderr.write(f"round {number + 1} of {self.rounds} done\n")

    def _replies(self) -> dict[int, int]:
        return QUICK if self.quick else FULL

    def _turns(self, at_once: int, replies: int) -> list[Callable[[], Sample | None]]:
        """One measurement of each system at one load."""
        turns: list[Callable[[], Sample | None]] = []
        if at_once in self.tapes:
            turns += [partial(self._ours, at_once, replies), partial(self._raw, at_once)]
        if self.peer:
            turns += [partial(self._hermes, at_once, way) for way in WAYS]
        return turns

    def _ours(self, at_once: int, replies: int, *more: str) -> Sample | None:
        load = ("--at-once", str(at_once), "--replies", str(replies))
        return self._worker(sys.executable, "bench.ledger", *load, *more)

    def _raw(self, at_once: int) -> Sample | None:
        return self._worker(sys.executable, "bench.raw_limit", "--tape", str(self.tapes[at_once]))

    def _hermes(self, at_once: int, way: str) -> Sample | None:
        replies = HERMES_QUICK if self.quick else HERMES_FULL
        load = ("--at-once", str(at_once), "--replies", str(replies), "--way", way)
        return self._worker(str(self.peer), "bench.hermes_worker", *load)

    def _worker(self, python: str, module: str, *arguments: str) -> Sample | None:
        """One measurement in a process and a fresh home of its own."""
        self._count += 1
        home = self.folder / f"home-{self._count}"
        home.mkdir()
        out = self.folder / f"sample-{self._count}.json"
        command = [python, "-m", module, "--home", str(home), "--out", str(out), *arguments]
        result = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        if result.returncode:
            last = (result.stderr.strip().splitlines() or ["no message"])[-1]
            self.missing.append(f"{module}: {last}")
            return None
        return Sample.read(out)


def _gateway(folder: Path, quick: bool) -> tuple[dict[str, object] | None, str]:
    """The gateway's figures, or why there are none."""
    out = folder / "gateway.json"
    sizes = ("--messages", "1000", "--conversations", "2000") if quick else ()
    command = [sys.executable, "-m", "bench.gateway", "--folder", str(folder), "--out", str(out), *sizes]
    result = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        return None, f"bench.gateway: {(result.stderr.strip().splitlines() or ['no message'])[-1]}"
    figures: dict[str, object] = json.loads(out.read_text(encoding="utf-8"))
    return figures, ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ledgers and gateway, side by side.")
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of the ledgers (5; quick: 2)")
    parser.add_argument("--only", choices=("ledger", "gateway"), help="one half of the run")
    parser.add_argument("--folder", type=Path, help="measure on the disk of this folder (default: this one)")
    parser.add_argument("--json", type=Path, help="where the figures go (default: .bench/latest.json)")
    given = parser.parse_args()
    cache = cache_folder()
    where: dict[str, str | int] = {**machine(), "load_average_before": load_average()}
    with tempfile.TemporaryDirectory(dir=given.folder or cache, prefix="run-") as name:
        folder = Path(name)
        disk: Disk = measure_disk(folder)
        run = Run(folder, given.rounds or (2 if given.quick else 5), given.quick)
        figures: dict[str, object] | None = None
        if given.only != "gateway":
            run.prepare()
            run.rounds_in_turn()
        if given.only != "ledger":
            figures, why = _gateway(folder, given.quick)
            run.missing += [why] if why else []
        where["load_average_after"] = load_average()
        report = Report(where, disk, run.rounds, given.quick, run.samples, figures, run.missing)
    path = given.json or cache / "latest.json"
    path.write_text(report.as_json(), encoding="utf-8")
    path.with_suffix(".md").write_text(report.as_markdown(), encoding="utf-8")
    sys.stdout.write(report.as_markdown() + f"\nThe figures and this text are in {path} and beside it.\n")
    if run.missing:
        sys.exit(1)


if __name__ == "__main__":
    main()
