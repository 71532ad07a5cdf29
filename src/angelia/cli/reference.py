"""Writes ``docs/reference/commands.md`` and ``exit-codes.md`` from the commands themselves.

    python -m angelia.cli.reference docs/reference

A test compares the pages with what this makes of the sources, so the pages cannot lie.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from angelia.cli.ends import MEANINGS
from angelia.cli.main import app

_COMMANDS = """\
# Commands

Everything that `angelia` can do, made from the sources by `make docs`; do not edit it by hand.
How a command ends is in [exit-codes.md](exit-codes.md), what stands in `config.yaml` in
[settings.md](settings.md).

Every command works on one home: `--home`, else `$ANGELIA_HOME`, else `~/.angelia`. All of them
work beside a running gateway and without one. Answers go to standard output, everything else
to standard error. Times are local in tables, and ISO 8601 in UTC (`2026-03-01T12:00:00.000+00:00`)
in JSON. Tables cut long texts, JSON never does.
"""

_EXIT_CODES = """\
# Exit codes

How `angelia` ends, made from the sources by `make docs`; do not edit it by hand. An error is one
sentence on standard error.

| code | meaning |
|---|---|
"""

_SERVICE = """
130 is Ctrl-C in the middle of a command; `angelia run` ends with 0 on Ctrl-C and on SIGTERM,
once it has drained. A service manager should restart the gateway after every code but 78:
`Restart=always` and `RestartPreventExitStatus=78` for systemd.
"""


def commands_page() -> str:
    """The whole of ``commands.md``."""
    root: Any = typer.main.get_command(app)
    parts = [_COMMANDS, _section(root, "angelia", 2)]
    parts += [_section(command, name, 2) for name, command in _walk(root, "angelia")]
    return "\n".join(parts)


def exit_codes_page() -> str:
    """The whole of ``exit-codes.md``."""
    return _EXIT_CODES + "".join(f"| {code} | {said} |\n" for code, said in MEANINGS.items()) + _SERVICE


def _walk(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    for word, command in group.commands.items():
        yield f"{name} {word}", command
        if getattr(command, "commands", None):
            yield from _walk(command, f"{name} {word}")


def _section(command: Any, name: str, depth: int) -> str:
    context = command.context_class(command, info_name=name.split()[-1])
    usage = " ".join(command.collect_usage_pieces(context))
    text = f"{'#' * depth} {name}\n\n    {name} {usage}\n\n"
    text += inspect.cleandoc(command.help or "") + "\n"
    rows = [_row(param) for param in command.params]
    if rows:
        text += "\n| | |\n|---|---|\n" + "".join(rows)
    return text


def _row(param: Any) -> str:
    """One argument or option, as a line of a table."""
    said = " ".join((getattr(param, "help", "") or "").split()).replace("|", "\\|")
    if param.param_type_name == "argument":
        return f"| `{param.metavar}` | {said} |\n"
    takes = "" if param.is_flag else f" {param.metavar}"
    names = ", ".join(f"`{name}{takes}`" for name in param.opts)
    default = "" if param.is_flag or param.default in (None, "") else f" Default: {param.default}."
    return f"| {names} | {said}{default} |\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "commands.md").write_text(commands_page(), encoding="utf-8")
    (folder / "exit-codes.md").write_text(exit_codes_page(), encoding="utf-8")
