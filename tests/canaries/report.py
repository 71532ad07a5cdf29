"""A pytest plugin for the runs of a canary: writes down what failed, where, and in which words.

It also makes sure that the copy is what is tested. Loaded with ``-p tests.canaries.report``;
``ANGELIA_CANARY_SOURCE`` is the folder the package must come from, ``ANGELIA_CANARY_REPORT``
the file to write: one JSON object per line.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

import angelia

WORDS_MOST = 20_000


def pytest_configure() -> None:
    wanted = Path(os.environ["ANGELIA_CANARY_SOURCE"]).resolve()
    found = Path(angelia.__file__).resolve()
    if not found.is_relative_to(wanted):
        raise pytest.UsageError(f"the copy is not what is tested: angelia comes from {found}, not {wanted}")


def _write(**line: object) -> None:
    with open(os.environ["ANGELIA_CANARY_REPORT"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """One line per test that ended: in its call, or wherever else it failed."""
    report = yield
    if report.when == "call" or report.failed:
        error = call.excinfo
        _write(
            test=item.nodeid,
            phase=report.when,
            outcome=report.outcome,
            kind=error.type.__name__ if error else "",
            words=(report.longreprtext[-WORDS_MOST:] if report.failed else ""),
        )
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot even be imported is no find."""
    if report.failed:
        words = report.longreprtext[-WORDS_MOST:]
        _write(test=report.nodeid, phase="collect", outcome="failed", kind="", words=words)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whether a bug is found is the question, not its shortest story."""
    for item in items:
        kind = getattr(item, "cls", None)
        known = getattr(kind, "settings", None)
        if kind is not None and isinstance(known, settings):
            kind.settings = settings(
                known, phases=(Phase.explicit, Phase.generate), report_multiple_bugs=False
            )
