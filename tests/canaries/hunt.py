"""Looks for a planted bug with chosen tests, in a process of its own, and says what was seen.

"Found" means: a test failed while it ran, with the words that this bug makes it say. A copy that
cannot be imported, a fixture that breaks, a crash of the patched code or a time-out is no find;
neither is a failure that speaks of something else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from tests.canaries.planting import ROOT

#: What a patch raises that was planted badly. A test that sees one of these has found no bug.
CRASHES = frozenset(
    {
        "ImportError",
        "ModuleNotFoundError",
        "SyntaxError",
        "IndentationError",
        "NameError",
        "UnboundLocalError",
        "AttributeError",
        "TypeError",
        "SQLError",
        "BindingsError",
    }
)


#: Where a test checks: some rings look at the store once more when a test is over.
CHECKS = frozenset({"call", "teardown"})


class Verdict(StrEnum):
    """What became of a hunt."""

    FOUND = "found"
    MISSED = "missed"
    NOT_RUN = "not run"
    WRONG_REASON = "failed for another reason"
    BROKEN = "could not be run"


@dataclass(frozen=True)
class Quarry:
    """Which tests to run: pytest arguments, and the worlds for ``worlds.py``."""

    tests: tuple[str, ...] = ()
    worlds: tuple[str, ...] = field(default=())

    def __add__(self, other: Quarry) -> Quarry:
        return Quarry(
            tuple(dict.fromkeys(self.tests + other.tests)), tuple(dict.fromkeys(self.worlds + other.worlds))
        )

    def arguments(self) -> Sequence[str]:
        return (*self.tests, *(("tests/canaries/worlds.py",) if self.worlds else ()))


@dataclass(frozen=True)
class Failure:
    """A test that failed, and its words."""

    test: str
    phase: str
    kind: str
    words: str


@dataclass(frozen=True)
class Seen:
    """One run of tests against a copy. ``passed`` holds their ids; ``seconds`` of wall clock."""

    passed: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    trouble: str = ""
    seconds: float = 0.0

    def verdict(self, says: str) -> Verdict:
        """Whether the bug was found: a failure whose words match ``says``."""
        if self.trouble or any(one.phase == "collect" for one in self.failed):
            return Verdict.BROKEN
        if not self.failed:
            return Verdict.MISSED if self.passed else Verdict.BROKEN
        finds = [
            one
            for one in self.failed
            if one.phase in CHECKS and one.kind not in CRASHES and re.search(says, one.words)
        ]
        return Verdict.FOUND if finds else Verdict.WRONG_REASON

    def of(self, quarry: Quarry) -> Seen:
        """The part of it that is about the tests of ``quarry``."""
        wanted = tuple(quarry.arguments())
        return replace(
            self,
            passed=tuple(test for test in self.passed if test.startswith(wanted)),
            failed=tuple(one for one in self.failed if one.test.startswith(wanted) or one.phase == "collect"),
        )

    def told(self) -> str:
        """What a person needs to see of it: the end of each failure."""
        said = [self.trouble] if self.trouble else []
        for one in self.failed:
            said.append("\n".join([f"{one.test} ({one.phase}, {one.kind}):", *one.words.splitlines()[-12:]]))
        return "\n\n".join(said) or f"{len(self.passed)} tests passed"


def hunt(source: Path, quarry: Quarry, *, failures_most: int = 0, limit_s: float = 600.0) -> Seen:
    """Run ``quarry`` against the package in ``source``. ``failures_most``: stop after so many
    (0: never). Whatever happens is in the answer; nothing of the run is left in the tree."""
    report = source.parent / f"report-{len(list(source.parent.glob('report-*')))}.jsonl"
    report.touch()
    began = time.monotonic()
    try:
        ended = subprocess.run(
            [
                sys.executable,
                *("-m", "pytest", "-q", "-n", "0", "-p", "tests.canaries.report", "-p", "no:cacheprovider"),
                *("--tb=short", f"--maxfail={failures_most}", *quarry.arguments()),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join((str(source), str(ROOT))),
                "PYTHONDONTWRITEBYTECODE": "1",
                "ANGELIA_CANARY_SOURCE": str(source),
                "ANGELIA_CANARY_REPORT": str(report),
                "ANGELIA_CANARY_WORLDS": ",".join(quarry.worlds),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
        trouble = (
            ""
            if ended.returncode in (0, 1)
            else f"pytest ended with {ended.returncode}:\n{ended.stdout[-3000:]}"
        )
    except subprocess.TimeoutExpired:
        trouble = f"the tests took longer than {limit_s:.0f} s"
    lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    return Seen(
        passed=tuple(line["test"] for line in lines if line["outcome"] == "passed"),
        failed=tuple(
            Failure(line["test"], line["phase"], line["kind"], line["words"])
            for line in lines
            if line["outcome"] == "failed"
        ),
        trouble=trouble,
        seconds=time.monotonic() - began,
    )
