"""``docs/reference/commands.md`` and ``exit-codes.md`` say what the sources say."""

from __future__ import annotations

from pathlib import Path

import pytest

from angelia.cli.reference import commands_page, exit_codes_page

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.mark.parametrize(("name", "made"), [("commands", commands_page), ("exit-codes", exit_codes_page)])
def test_the_page_is_what_the_sources_make(name: str, made: object) -> None:
    assert callable(made)
    written = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert written == made(), "run: make docs"
