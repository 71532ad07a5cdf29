"""The way to the gateway's floor for every command that looks at a home."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from angelia.gateway.operator import Operator


def operator() -> Operator:
    """The operator of the home that this command works on."""
    from angelia.gateway.home import default_home
    from angelia.gateway.operator import Operator

    return Operator(default_home(os.environ), os.environ)
