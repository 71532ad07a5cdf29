"""Habits of style.md that a machine can check: no naked clock or dice, small files and
functions, a story at the top of every file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.tidy.sources import Source, benches, ours, proofs

lines_argue = 400
lines_max = 450
function_lines_max = 60

#: Files of more than 400 lines, and why they are better whole.
LONG_FILES: dict[str, str] = {
    "src/angelia/model/plan.py": "what happens next is one function, to be read in one sitting",
    "src/angelia/testing/ledger_exam_deliveries.py": "one chapter of an exam, verb by verb",
    "tests/property/test_ledger_machine.py": "one machine: its rules share one model of the store",
    "tests/engine/test_store_trouble.py": "one trouble, in all its weathers",
    "tests/unit/test_writer.py": "one writer, and every way in which a commit can fail",
}

#: Functions of more than 60 lines, and why they are better whole.
LONG_FUNCTIONS: dict[str, str] = {
    "src/angelia/store/rows.py:load_record": "one row becomes one value, field by field",
}

#: Time and chance enter through ``seams/`` alone.
BANNED_MODULES = ("time", "random", "uuid", "secrets")
BANNED_CALLS = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "os.urandom", "loop.time")

#: Where dates are written for people or for a wire, from a time that was handed in.
DATES_ALLOWED = (
    "src/angelia/model/markers.py",
    "src/angelia/agents/http.py",  # the time in a signature
    "src/angelia/platforms/",
    "src/angelia/gateway/",
    "src/angelia/cli/",
    "src/angelia/console/",
    "src/angelia/testing/",
)


def imported(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module.split(".")[0]


def calls(source: Source) -> Iterator[tuple[int, str, ast.Call]]:
    """Every call by its last two names: ``datetime.datetime.now()`` is ``datetime.now``."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            words = ast.unparse(node.func).split(".")
            yield node.lineno, ".".join(words[-2:]), node


def outside_seams() -> list[Source]:
    return [source for source in ours() if not source.name.startswith("src/angelia/seams/")]


def test_time_and_chance_enter_through_the_seams() -> None:
    wrong = [
        f"{source.name}:{line}: {name}"
        for source in outside_seams()
        for line, name in imported(source)
        if name in BANNED_MODULES
    ]
    wrong += [
        f"{source.name}:{line}: {name}()"
        for source in outside_seams()
        for line, name, _ in calls(source)
        if name in BANNED_CALLS
    ]
    assert wrong == []


def test_waits_go_through_the_clock() -> None:
    # A server that breaks on purpose for a test may hold a real socket for real time.
    sources = [source for source in outside_seams() if not source.name.startswith("src/angelia/testing/")]
    wrong = [
        f"{source.name}:{line}: asyncio.sleep"
        for source in sources
        for line, name, node in calls(source)
        if name == "asyncio.sleep" and ast.unparse(node.args[0]) != "0"
    ]
    assert wrong == []


def test_dates_are_for_people_and_wires() -> None:
    wrong = [
        f"{source.name}:{line}: datetime"
        for source in outside_seams()
        for line, name in imported(source)
        if name == "datetime" and not source.name.startswith(DATES_ALLOWED)
    ]
    assert wrong == []


def polls(source: Source) -> set[int]:
    """The lines of short sleeps inside a loop that looks at a condition: the one way to wait
    for another process. The loop's bound is its author's duty."""
    return {
        node.lineno
        for loop in ast.walk(source.tree)
        if isinstance(loop, ast.While | ast.For)
        for node in ast.walk(loop)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, float)
        and node.args[0].value <= 0.05
    }


def test_tests_wait_for_events() -> None:
    wrong = [
        f"{source.name}:{line}: {name}"
        for source in proofs()
        for line, name, node in calls(source)
        if name in ("time.sleep", "asyncio.sleep")
        and ast.unparse(node.args[0]) != "0"
        and line not in polls(source)
        # A server that a test plays may take its time, if it says so: "# the server's pace".
        and "the server's pace" not in source.text.splitlines()[line - 1]
    ]
    assert wrong == []


def everything() -> tuple[Source, ...]:
    return (*ours(), *proofs(), *benches())


def test_files_are_small() -> None:
    lengths = {source.name: source.text.count("\n") for source in everything()}
    assert {name: lines for name, lines in lengths.items() if lines > lines_max} == {}
    assert {name for name, lines in lengths.items() if lines > lines_argue} <= set(LONG_FILES)


def functions(source: Source) -> Iterator[tuple[str, int]]:
    """Every function that ships, with the lines of its body after the docstring."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            if ast.get_docstring(node) is not None and len(node.body) > 1:
                first = node.body[1]
            yield f"{source.name}:{node.name}", (node.end_lineno or 0) - first.lineno + 1


def test_functions_are_small() -> None:
    long = {
        name for source in everything() for name, lines in functions(source) if lines > function_lines_max
    }
    assert long <= set(LONG_FUNCTIONS)


def test_a_file_opens_with_its_story() -> None:
    silent = [source.name for source in everything() if source.text.strip() and not _story(source)]
    assert silent == []


def _story(source: Source) -> str:
    return ast.get_docstring(source.tree) or ""


@pytest.mark.parametrize("word", ["utils", "helpers", "manager", "managers", "misc", "common", "helper"])
def test_no_file_is_called_after_nothing(word: str) -> None:
    assert [source.name for source in ours() if source.path.stem == word] == []
