"""The stage of the engine's tests, and the check that ends every one of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from tests.engine.stage import Stage

#: A RAM disk where there is one: every commit waits for its sync.
RAM = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


@pytest.fixture
def ram() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="angelia-engine-", dir=RAM))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def stage(ram: Path) -> AsyncIterator[Stage]:
    """Whatever a test does, its store must keep every rule of ``store.invariants``."""
    with structlog.testing.capture_logs() as logs:
        one = Stage(ram / "state.db")
        one.logs = logs
        yield one
        await one.close()
    assert one.problems() == []
    assert [entry for entry in logs if entry["event"] == "a round of a loop failed"] == []
