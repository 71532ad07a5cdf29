"""Named SQL: what is written has one name, what is used is written, and the reverse."""

from __future__ import annotations

import copy
import zipfile
from pathlib import Path

import pytest

from angelia.store import queries
from angelia.store.queries import load, unused, unwritten


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.sql").write_text(text, encoding="utf-8")
    return tmp_path


def test_statements_have_names_and_lose_their_comments(tmp_path: Path) -> None:
    sql = load(
        folder(
            tmp_path,
            turns="-- What concerns turns.\n\n-- name: turn_end\n-- One commit with its delivery.\n"
            "UPDATE turn\n   -- the why of a line\n   SET state = 'x--y'\n WHERE id = ?;\n",
            chats="-- name: chat_all\nSELECT 1\n\n--name:chat_one\n\nSELECT 2;\n",
        )
    )
    assert sql.turn_end == "UPDATE turn\n   SET state = 'x--y'\n WHERE id = ?"
    assert (sql.chat_all, sql.chat_one) == ("SELECT 1", "SELECT 2")
    assert list(sql) == ["chat_all", "chat_one", "turn_end"]


def test_an_unknown_name_is_refused_with_the_files(tmp_path: Path) -> None:
    sql = load(folder(tmp_path, turns="-- name: turn_end\nSELECT 1"))
    with pytest.raises(AttributeError, match=r"'turn_emd' in turns\.sql"):
        _ = sql.turn_emd
    assert copy.copy(sql).turn_end == "SELECT 1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2", r"two\.sql:3: the name 'a' is taken by two\.sql:1"),
        ("-- name: Turn End\nSELECT 1", r"two\.sql:1: 'Turn End' is no name"),
        ("-- name:\nSELECT 1", r"two\.sql:1: '' is no name"),
        ("-- name: _a\nSELECT 1", "is no name"),
        ("SELECT 1\n-- name: a\nSELECT 1", r"two\.sql:1: SQL before the first"),
        ("-- name: a\n-- only a why\n-- name: b\nSELECT 1", r"two\.sql:1: the name 'a' has no SQL"),
        ("-- name: a\n;", "has no SQL"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        load(folder(tmp_path, two=text))


def test_a_name_is_taken_across_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"b\.sql:1: the name 'x' is taken by a\.sql:1"):
        load(folder(tmp_path, a="-- name: x\nSELECT 1", b="-- name: x\nSELECT 1"))


def test_a_folder_without_sql_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path)


def test_migrations_below_the_folder_are_not_queries(tmp_path: Path) -> None:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "0001-start.sql").write_text("CREATE TABLE x (y)")
    assert list(load(folder(tmp_path, a="-- name: x\nSELECT 1"))) == ["x"]


def test_files_are_found_inside_a_zipped_package(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "wheel.zip", "w") as wheel:
        wheel.writestr("sql/sqlite/turns.sql", "-- name: turn_end\nSELECT 1")
        wheel.writestr("sql/sqlite/migrations/0001-start.sql", "CREATE TABLE x (y)")
    assert load(zipfile.Path(tmp_path / "wheel.zip", "sql/sqlite/")).turn_end == "SELECT 1"


def test_the_house_s_own_folder_is_package_data() -> None:
    assert queries.dialect_folder("sqlite").is_dir()


def test_unused_and_unwritten_names_are_found(tmp_path: Path) -> None:
    sql = load(folder(tmp_path, turns="-- name: used\nSELECT 1\n-- name: idle\nSELECT 2"))
    source = tmp_path / "source" / "below"
    source.mkdir(parents=True)
    (source / "a.py").write_text("SQL = load()\nrun(SQL.used)\nrun(self.SQL.missing)\nother.idle\n")
    assert unused(sql, [tmp_path / "source"]) == ["idle"]
    assert unwritten(sql, [tmp_path / "source"]) == [f"{source / 'a.py'}:3: missing"]
