"""Every statement has a name and a use, and every use has a statement."""

from __future__ import annotations

from tests.tidy.sources import PACKAGE

from angelia.store.queries import dialect_folder, load, unused, unwritten


def test_named_sql_is_used() -> None:
    assert unused(load(dialect_folder()), [PACKAGE]) == []


def test_used_sql_is_written() -> None:
    assert unwritten(load(dialect_folder()), [PACKAGE]) == []
