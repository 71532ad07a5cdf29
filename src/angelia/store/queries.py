"""Named SQL: every statement of the system stands in a file, with its name and its why.

    -- name: delivery_claim
    -- Compare-and-swap on (id, state, fence): of two claimers one changes no row.
    UPDATE delivery SET …

``load(folder)`` reads all ``.sql`` files of a folder (not its subfolders) and gives each
statement as an attribute: ``SQL.delivery_claim``. Whole-line comments are for the reader of
the file and are not sent to the database. A name used but not written, written twice, or
written and not used is an error: the first when it is used (and in the tidy test, by
``unwritten``), the second at import, the third in the tidy test, by ``unused``.

The files are read as package data, so they are found in a wheel and in a zip file, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_NAME = re.compile(r"--\s*name:\s*(?P<name>.*?)\s*")
_SAYABLE = re.compile(r"[a-z][a-z0-9_]*")

#: What a variable or attribute that holds ``Queries`` is called in the sources.
HANDLES = frozenset({"SQL"})


class Queries:
    """The statements of one folder, by name: ``queries.delivery_claim``."""

    def __init__(self, statements: Mapping[str, str], where: str) -> None:
        self._statements = dict(statements)
        self._where = where
        # As attributes of their own they are found without a call: verbs ask for many a message.
        self.__dict__.update(statements)

    def __getattr__(self, name: str) -> str:
        """Only asked for names that there are not."""
        if name.startswith("_"):  # Python's own questions (copy, pickle): not ours to answer
            raise AttributeError(name)
        raise AttributeError(f"there is no SQL named {name!r} in {self._where}")

    def __dir__(self) -> list[str]:
        return sorted(self._statements)

    def __iter__(self) -> Iterator[str]:
        """The names, in alphabetical order."""
        return iter(sorted(self._statements))


def dialect_folder(dialect: str = "sqlite") -> Traversable:
    """The folder of a dialect's SQL files, wherever the package is installed."""
    return files("angelia.store").joinpath("sql").joinpath(dialect)


def load(folder: Traversable) -> Queries:
    """The named SQL of all ``.sql`` files in ``folder``.

    Raises ``ValueError``, naming file and line, for a name that is empty, odd or taken, for SQL
    before the first name and for a name without SQL; ``FileNotFoundError`` without any file.
    """
    statements: dict[str, str] = {}
    origin: dict[str, str] = {}
    sources = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=_by_name)
    if not sources:
        raise FileNotFoundError(f"no .sql files in {folder}")
    for source in sources:
        for name, line, statement in _blocks(source.name, source.read_text(encoding="utf-8")):
            where = f"{source.name}:{line}"
            if name in origin:
                raise ValueError(f"{where}: the name {name!r} is taken by {origin[name]}")
            origin[name] = where
            statements[name] = statement
    return Queries(statements, ", ".join(source.name for source in sources))


def _by_name(entry: Traversable) -> str:
    return entry.name


def _blocks(file: str, text: str) -> Iterator[tuple[str, int, str]]:
    """(name, line number, SQL) of each block of a file."""
    name, started, lines = "", 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        heading = _NAME.fullmatch(line.strip())
        if heading:
            if name:
                yield name, started, _statement(file, name, started, lines)
            name, started, lines = heading["name"], number, []
            if not _SAYABLE.fullmatch(name):
                raise ValueError(f"{file}:{number}: {name!r} is no name (small letters, digits, _)")
        elif not line.strip() or line.lstrip().startswith("--"):
            continue
        elif not name:
            raise ValueError(f"{file}:{number}: SQL before the first `-- name:` line")
        else:
            lines.append(line.rstrip())
    if name:
        yield name, started, _statement(file, name, started, lines)


def _statement(file: str, name: str, line: int, lines: list[str]) -> str:
    statement = "\n".join(lines).strip().removesuffix(";").rstrip()
    if not statement:
        raise ValueError(f"{file}:{line}: the name {name!r} has no SQL")
    return statement


# -- for the tidy test -------------------------------------------------------------------------


def used_names(source_folders: Iterable[Path], handles: frozenset[str] = HANDLES) -> dict[str, str]:
    """Every ``SQL.name`` in the Python files below the folders, with one place of its use."""
    used: dict[str, str] = {}
    for folder in source_folders:
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
                if isinstance(node, ast.Attribute) and _handle(node.value) in handles:
                    used.setdefault(node.attr, f"{path}:{node.lineno}")
    return used


def _handle(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return ""


def unused(queries: Queries, source_folders: Iterable[Path], handles: frozenset[str] = HANDLES) -> list[str]:
    """Names that are written in the SQL files and used nowhere."""
    used = used_names(source_folders, handles)
    return [name for name in queries if name not in used]


def unwritten(
    queries: Queries, source_folders: Iterable[Path], handles: frozenset[str] = HANDLES
) -> list[str]:
    """Uses, with their place, of names that no SQL file has."""
    written = set(queries)
    used = used_names(source_folders, handles)
    return [f"{place}: {name}" for name, place in sorted(used.items()) if name not in written]
