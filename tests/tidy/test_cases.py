"""The table of cases is whole and true: every case is in it, and every test that it names exists."""

from __future__ import annotations

import ast
import re

from tests.tidy import sources
from tests.tidy.sources import ROOT

CASE = re.compile(r"^\| ([A-O]\d+) \| (.+) \| (.+) \|$")
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
IDS_IN_NAME = re.compile(r"test_((?:[a-o]\d+_)+)")

#: How many cases each chapter has; their numbers are not contiguous.
CHAPTERS = {"A": 8, "B": 15, "C": 10, "D": 5, "E": 19, "F": 7, "G": 5, "H": 8, "I": 3, "J": 5}
CHAPTERS |= {"K": 4, "L": 2, "M": 5, "N": 6, "O": 5}


def table() -> dict[str, str]:
    """What is said of each case, by its id."""
    rows = [CASE.match(line) for line in (ROOT / "tests" / "cases.md").read_text().splitlines()]
    found = [(row.group(1), row.group(3)) for row in rows if row is not None]
    assert len(dict(found)) == len(found), "a case stands in the table twice"
    return dict(found)


def existing() -> set[tuple[str, str]]:
    """(file below tests, name) of every test function."""
    return {
        (source.name.removeprefix("tests/"), node.name)
        for source in sources.proofs()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_case_is_in_the_table() -> None:
    counted = {chapter: sum(case[0] == chapter for case in table()) for chapter in CHAPTERS}
    assert counted == CHAPTERS
    assert len(table()) == 107


def test_every_case_has_a_test_or_a_reason() -> None:
    empty = [case for case, said in table().items() if not NAMED.search(said) and len(said.split()) < 5]
    assert empty == []


def test_every_test_in_the_table_exists() -> None:
    known = existing()
    named = [(file, name) for said in table().values() for file, name in NAMED.findall(said)]
    assert [f"{file}::{name}" for file, name in named if (file, name) not in known] == []


def test_every_test_that_names_a_case_is_in_its_row() -> None:
    rows = {case: set(NAMED.findall(said)) for case, said in table().items()}
    missing = []
    for file, name in sorted(existing()):
        ids = IDS_IN_NAME.match(name)
        for case in ids.group(1).strip("_").upper().split("_") if ids else ():
            if (file, name) not in rows.get(case, set()):
                missing.append(f"{case}: {file}::{name}")
    assert missing == []
