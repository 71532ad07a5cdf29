"""Commands of the operator, killed at every point: done or not done, never half, never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.commands import CHANGING, Order, sweep
from tests.crash.keeping import KEEPING
from tests.crash.nursery import Zygote

pytestmark = [pytest.mark.crash, pytest.mark.soak]


@pytest.mark.parametrize("order", [*CHANGING, *KEEPING], ids=lambda order: order.name)
def test_kill_a_command_at_every_point(order: Order, zygote: Zygote, ram: Path) -> None:
    assert sweep(order, zygote, ram) >= 2
