"""The connection exactly as the house opens it, under the same power cuts.

The other tests of this ring choose ``synchronous`` themselves, so that they can also show what a
store without syncs would lose. Here nothing is chosen: if ``open_connection`` ever ships less
than FULL, an image lacks an acknowledged verb (the canary ``04-synchronous-normal``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from tests.powerloss.test_power_loss import Trial, images_max, watched

from angelia.store.connection import open_connection
from angelia.testing.power_loss import PowerLossDisk


class AsItShips(Trial):
    """A trial whose connections are left as they come."""

    def open(self) -> apsw.Connection:
        self.opened += 1
        connection = open_connection(self.path, vfs=self.disk.name)
        connection.pragma("wal_autocheckpoint", self.checkpoint_pages)
        return connection


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerLossDisk]:
    disk = PowerLossDisk(f"as-it-ships-{tmp_path.name}")
    yield disk
    disk.close()


@pytest.mark.parametrize(("callers", "each"), [(1, 12), (4, 4)])
async def test_the_connection_of_the_house_survives_every_power_cut(
    tmp_path: Path, disk: PowerLossDisk, callers: int, each: int
) -> None:
    trial = AsItShips(tmp_path, disk)
    moments = await watched(trial, callers, each)
    assert trial.refused == []
    assert len(trial.acknowledged) == (callers + 1) * each
    step = 1 + len(moments) // images_max
    chosen = moments[::step] + moments[-3:] * 3
    assert len(chosen) > 100, "too few moments to mean anything"
    assert trial.missing(chosen) == [], "an acknowledged verb is lost by a power cut"
