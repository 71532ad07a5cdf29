"""``init`` and ``run``: a home, and the gateway that lives in it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer


def init() -> None:
    """Make a home with a commented configuration. Never changes one that is there."""
    from angelia.gateway.home import create_home, default_home
    from angelia.gateway.template import write_template

    home = create_home(default_home(os.environ))
    if os.path.lexists(home.config):
        print(f"{home.config} exists already; nothing was changed.")
        return
    for file in write_template(home):
        print(f"wrote {file}")
    print("Start the gateway with: angelia run")


def run(
    any_port: Annotated[
        bool, typer.Option("--any-port", help="If the configured port is taken, use a free one.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Run the gateway until SIGTERM or Ctrl-C.

    Prints its address alone on a line of standard output once it accepts messages; logs go to
    standard error.
    """
    from angelia.gateway.daemon import serve
    from angelia.gateway.home import default_home

    serve(default_home(os.environ), os.environ, _say_address, any_port=any_port, verbose=verbose)


def _say_address(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


def add_to(app: typer.Typer) -> None:
    """Put these commands into ``app``."""
    app.command()(init)
    app.command()(run)
