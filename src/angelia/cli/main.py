"""The command ``angelia``: its groups, its global options, and how every command ends.

Each command is a few lines that ask the gateway's floor and print the answer. Nothing below
is imported before it is needed, so that ``angelia --help`` is quick.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from angelia.cli import desk, insight, keep, start
from angelia.cli.ends import TRY_AGAIN, code_for, say, sentence_of
from angelia.model.errors import AngeliaError

app = typer.Typer(
    name="angelia",
    help="A messaging gateway for chat bots that does not lose answers, repeat them silently or pay for "
    "them twice.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for part in (start, desk, insight, keep):
    part.add_to(app)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"angelia {version('angelia')}")
        raise typer.Exit


@app.callback()
def _options(
    home: Annotated[
        Path | None,
        typer.Option("--home", metavar="PATH", help="The home to work on, instead of $ANGELIA_HOME."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Say the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    if home is not None:
        os.environ["ANGELIA_HOME"] = str(home)


def main() -> None:
    """Run the command line of this process and end it with the right exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A text that the terminal cannot show must not be what a command fails of.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(prog_name="angelia")
    except AngeliaError as error:
        say(sentence_of(error))
        raise SystemExit(code_for(error)) from None
    except OSError as error:
        say(f"{error.filename or 'the system'}: {error.strerror or error}")
        raise SystemExit(TRY_AGAIN) from None
