"""Plants a canary: a copy of ``src/`` with one patch applied. The tree itself is never touched.

A patch that no longer fits is a failure that names its file: the code it bites has changed, and
whoever changed it decides how the same mistake would look today.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATCHES = Path(__file__).resolve().parent


class PatchDoesNotFitError(AssertionError):
    """The patch of a canary no longer applies to the sources."""


def plant(folder: Path, patch: str | None) -> Path:
    """Copy ``src/`` into ``folder`` and apply ``patch`` (its name without the ending; ``None``:
    the copy stays as it is). Returns the folder to put in front of the import path.

    Raises ``PatchDoesNotFitError``, also for a patch that would change nothing.
    """
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    if patch is not None:
        _apply(folder, PATCHES / f"{patch}.patch")
    return source


def _apply(folder: Path, patch: Path) -> None:
    touched = [line[6:].strip() for line in patch.read_text().splitlines() if line.startswith("+++ b/")]
    before = {name: _content(folder / name) for name in touched}
    # Lines may move, and one line of context must agree. Above the copy no repository is looked
    # for: inside one, git would pass over files that it does not know without a word.
    applied = subprocess.run(
        ["git", "apply", "-p1", "-C1", "--whitespace=nowarn", str(patch)],
        cwd=folder,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    unchanged = [name for name in touched if _content(folder / name) == before[name]]
    if applied.returncode or unchanged or not touched:
        said = applied.stderr.strip() or f"it changes nothing in {', '.join(unchanged) or 'any file'}"
        raise PatchDoesNotFitError(
            f"tests/canaries/{patch.name} does not fit the sources any more. Plant the same mistake "
            f"in the code as it is now, or say in tests/canaries/table.py why it cannot be made:\n{said}"
        )


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""
