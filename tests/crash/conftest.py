"""One zygote for the tests of a file, and a folder on the RAM disk for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import Zygote


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    one = Zygote()
    yield one
    one.close()


@pytest.fixture
def ram() -> Iterator[Path]:
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="angelia-crash-", dir=parent))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
