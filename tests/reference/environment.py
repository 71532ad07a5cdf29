"""The reference gateway of this comparison: hermes-agent 0.19.0 in an environment of its own.

The benchmark's environment (``bench.peers``) holds only what the ledger module needs. Here the
gateway's own code calls the ledger, so ``gateway/run.py`` must be importable, too. Both lists are
pinned and hashed; nothing of the reference is changed on disk.
"""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from bench.peers import REQUIREMENTS, PeerUnavailableError, cache_folder

VERSION = "0.19.0"
_MORE = Path(__file__).with_name("gateway-requirements.txt")


def reference_python() -> Path:
    """The Python that can import the reference's gateway; installed on the first call.

    A stamp is written last, so an installation that was cut short is done again. Raises
    ``PeerUnavailableError``.
    """
    folder = cache_folder() / "hermes-gateway-venv"
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = REQUIREMENTS.read_text("utf-8") + _MORE.read_text("utf-8")
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return python
    venv.create(folder, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--require-hashes"]
    result = subprocess.run(
        [*command, "-r", str(REQUIREMENTS), "-r", str(_MORE)], capture_output=True, text=True, check=False
    )
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise PeerUnavailableError(f"hermes-agent could not be installed: {last}")
    stamp.write_text(wanted, "utf-8")
    return python
