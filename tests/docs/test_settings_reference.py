"""``docs/reference/settings.md`` is what the sources say, and every setting says what it means."""

from __future__ import annotations

from pathlib import Path

from angelia.gateway.reference import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make docs"


def test_every_setting_is_explained() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `") and "| `kind` |" not in line]
    assert len(rows) > 10
    assert [row for row in rows if row.endswith("|  |")] == []
