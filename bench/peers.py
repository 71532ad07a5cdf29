"""The peer, in a virtual environment of its own that git does not see.

Only what ``gateway.delivery_ledger`` needs in order to be imported is installed, in pinned and
hashed versions; the peer's other dependencies are left out on purpose.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Everything the benchmarks leave on disk. Its own ``.gitignore`` hides it from git.
CACHE = ROOT / ".bench"
REQUIREMENTS = ROOT / "bench" / "hermes-requirements.txt"


class PeerUnavailableError(Exception):
    """The peer could not be installed. The run goes on without it and says so."""


def cache_folder() -> Path:
    """The cache folder, made if it is not there."""
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", encoding="utf-8")
    return CACHE


def hermes_python() -> Path:
    """The Python of the peer's environment, installed on the first call.

    A stamp with the requirements that were installed is written last, so an installation
    that was cut short is done again. Raises ``PeerUnavailableError``.
    """
    folder = cache_folder() / "hermes-venv"
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    venv.create(folder, with_pip=True, clear=True)
    result = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", REQUIREMENTS],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise PeerUnavailableError(f"hermes-agent could not be installed: {last}")
    stamp.write_text(wanted, encoding="utf-8")
    return python


if __name__ == "__main__":
    sys.stdout.write(f"{hermes_python()}\n")
