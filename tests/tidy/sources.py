"""What the tidy tests read: the files of the repository and the syntax of ours."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "angelia"


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file. ``name`` is its path below the root, ``module`` its dotted name."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        parts = self.path.relative_to(ROOT / "src").with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read(folder: Path) -> list[Source]:
    """All Python files below ``folder``, in the order of their paths."""
    files = sorted(folder.rglob("*.py"))
    texts = [(file, file.read_text(encoding="utf-8")) for file in files]
    return [Source(file, text, ast.parse(text, str(file))) for file, text in texts]


@cache
def ours() -> tuple[Source, ...]:
    """The package."""
    sources = read(PACKAGE)
    assert len(sources) > 20, "the package was not found"
    return tuple(sources)


@cache
def proofs() -> tuple[Source, ...]:
    """The tests."""
    return tuple(read(ROOT / "tests"))


@cache
def benches() -> tuple[Source, ...]:
    """The benchmarks and examples."""
    return tuple(source for folder in ("bench", "examples") for source in read(ROOT / folder))


@cache
def tree_files() -> tuple[Path, ...]:
    """Every file that is or would be part of the repository."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = sorted({name for name in listing.stdout.decode().split("\0") if name})
    return tuple(ROOT / name for name in names if (ROOT / name).is_file())


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Every module that ``source`` imports, anywhere in it, with the line.

    ``from angelia.store import ledger`` counts as ``angelia.store.ledger`` where that is a
    module of ours, so that a package is no way around the rule.
    """
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source.name}:{node.lineno}: imports are written in full"
            module = node.module or ""
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield node.lineno, inner if _is_ours(inner) else module


def _is_ours(module: str) -> bool:
    path = ROOT / "src" / Path(*module.split("."))
    return module.startswith("angelia.") and (path.is_dir() or path.with_suffix(".py").is_file())
