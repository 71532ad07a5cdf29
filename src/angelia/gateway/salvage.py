"""``angelia salvage``: what of a damaged store can be read, in a new one that ``restore`` takes."""

from __future__ import annotations

import os
from pathlib import Path

from angelia.model.errors import NotPossibleError, StoreUnavailableError
from angelia.seams import crash
from angelia.seams.clock import clock_from
from angelia.store.durable import free_name
from angelia.store.salvage import Salvaged
from angelia.store.salvage import salvage as salvage_store


def salvage(damaged: Path, target: Path | None = None) -> Salvaged:
    """Read ``damaged``, which is left as it is, into ``target``; by default a new file beside it.

    Raises ``NotPossibleError`` (not there, ``target`` exists), ``StoreDamagedError`` (nothing can be
    read) or ``StoreUnavailableError`` (no room); then nothing was written.
    """
    crash.install_from_environment()
    damaged = damaged.absolute()
    if not damaged.is_file():
        raise NotPossibleError(f"{damaged} is no file")
    if target is None:
        target = free_name(f"{damaged.name}.salvaged", damaged.parent)
    now = clock_from(os.environ).now()
    try:
        return salvage_store(damaged, target.absolute(), now)
    except FileExistsError:
        raise NotPossibleError(f"{target} exists; choose another name with --into") from None
    except OSError as error:
        raise StoreUnavailableError(f"{error.filename or damaged}: {error.strerror or error}") from error
