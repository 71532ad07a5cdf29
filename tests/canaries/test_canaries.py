"""Every planted bug is found by the cheapest rings that must find it, and by what it does.

Each canary runs in a copy of ``src/`` with chosen tests only; ``make canaries`` runs whole rings.
The same tests pass where nothing is planted, and the copy with the bug still answers a message:
it is a product with one mistake, not a broken one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.canaries import planting
from tests.canaries.__main__ import planted
from tests.canaries.hunt import Failure, Quarry, Seen, Verdict, hunt
from tests.canaries.planting import PATCHES, PatchDoesNotFitError, plant
from tests.canaries.table import CANARIES, RINGS, SIGN_OF_LIFE, Canary


def everything_chosen() -> Quarry:
    """What all canaries together are looked for with."""
    chosen = SIGN_OF_LIFE
    for canary in CANARIES:
        for quarry in canary.chosen.values():
            chosen += quarry
    return chosen


def test_where_nothing_is_planted_the_chosen_tests_pass() -> None:
    chosen = everything_chosen()
    with planted(None) as source:
        seen = hunt(source, chosen)
    assert seen.failed == (), seen.told()
    assert seen.trouble == ""
    for argument in chosen.arguments():
        assert any(test.startswith(argument) for test in seen.passed), f"{argument} did not run"


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.patch)
def test_a_planted_bug_is_found(canary: Canary) -> None:
    chosen = SIGN_OF_LIFE
    for quarry in canary.chosen.values():
        chosen += quarry
    with planted(canary.patch) as source:
        seen = hunt(source, chosen)
    alive = seen.of(SIGN_OF_LIFE)
    assert alive.passed, f"the patch breaks more than it says:\n{seen.told()}"
    assert not alive.failed, f"the patch breaks more than it says:\n{seen.told()}"
    for ring, quarry in canary.chosen.items():
        assert seen.of(quarry).verdict(canary.says) is Verdict.FOUND, f"{ring}: {seen.told()}"


# -- the table -----------------------------------------------------------------------------------


def test_the_table_names_every_patch_once() -> None:
    assert sorted(canary.patch for canary in CANARIES) == sorted(
        file.stem for file in PATCHES.glob("*.patch")
    )
    assert len(CANARIES) >= 10


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.patch)
def test_a_row_of_the_table_is_whole(canary: Canary) -> None:
    assert 1 <= len(canary.chosen) <= 2
    assert set(canary.chosen) <= set(canary.found_by) <= set(RINGS)
    assert set(canary.blind) <= set(RINGS) - set(canary.found_by)
    assert all(len(why.split()) >= 4 for why in canary.blind.values())
    assert len(canary.story.split()) >= 6


# -- the hunt itself must not be fooled ------------------------------------------------------------


def test_a_patch_that_no_longer_fits_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planting, "PATCHES", tmp_path)
    (tmp_path / "99-old.patch").write_text(
        "--- a/src/angelia/model/ids.py\n+++ b/src/angelia/model/ids.py\n"
        "@@ -1,2 +1,2 @@\n a line that was here once\n-another one\n+its mutation\n"
    )
    with pytest.raises(PatchDoesNotFitError, match=r"99-old\.patch"):
        plant(tmp_path / "copy", "99-old")


def test_a_patch_that_changes_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planting, "PATCHES", tmp_path)
    (tmp_path / "98-empty.patch").write_text("")
    with pytest.raises(PatchDoesNotFitError, match=r"98-empty\.patch"):
        plant(tmp_path / "copy", "98-empty")


def test_the_tree_itself_is_not_taken_for_the_copy(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    seen = hunt(tmp_path / "empty", Quarry(("tests/unit/test_dedup.py",)))
    assert seen.verdict("") is Verdict.BROKEN
    assert "the copy is not what is tested" in seen.trouble


def test_a_copy_that_cannot_be_imported_is_no_find(tmp_path: Path) -> None:
    source = plant(tmp_path, None)
    (source / "angelia" / "model" / "dedup.py").write_text("def broken(:\n")
    assert hunt(source, Quarry(("tests/unit/test_dedup.py",))).verdict("") is Verdict.BROKEN


@pytest.mark.parametrize(
    ("failure", "verdict"),
    [
        (Failure("t", "call", "AssertionError", "two copies without a marker"), Verdict.FOUND),
        (Failure("t", "teardown", "AssertionError", "two copies without a marker"), Verdict.FOUND),
        (Failure("t", "call", "AssertionError", "no room on the disk"), Verdict.WRONG_REASON),
        (Failure("t", "call", "NameError", "two copies without a marker"), Verdict.WRONG_REASON),
        (Failure("t", "setup", "AssertionError", "two copies without a marker"), Verdict.WRONG_REASON),
        (Failure("t", "collect", "", "two copies without a marker"), Verdict.BROKEN),
    ],
    ids=["found", "found at the end", "other words", "crash of the patch", "fixture", "import"],
)
def test_only_the_right_reason_is_a_find(failure: Failure, verdict: Verdict) -> None:
    assert Seen(failed=(failure,)).verdict("without a marker") is verdict


def test_nothing_failed_and_nothing_run_are_two_things() -> None:
    assert Seen(passed=("t",)).verdict("") is Verdict.MISSED
    assert Seen().verdict("") is Verdict.BROKEN
    assert Seen(passed=("t",), trouble="time is over").verdict("") is Verdict.BROKEN
