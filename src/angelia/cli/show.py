"""How answers look: tables for people, JSON for programs, one safe line for everything else.

A text that a stranger wrote is never printed as it came: control characters (an escape
sequence could rewrite the terminal) and characters that turn the direction of writing are
replaced. Tables cut long texts; JSON never does, and escapes what it must by itself.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

text_cells_max = 60  # of a message in a table; a wide terminal shows more context elsewhere
piped_width = 400  # no column is cut where nobody looks at a screen
_JOINERS = "\u200c\u200d"  # parts of words and of emoji

#: The colour of a state; only on a terminal that has colours.
STYLES: dict[str, str] = {
    "pending": "cyan",
    "attempting": "cyan",
    "failed": "yellow",
    "delivered": "green",
    "abandoned": "red",
    "ok": "green",
    "note": "cyan",
    "warning": "yellow",
    "problem": "red",
    "unusable": "bold red",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``may_shrink``: it is cut where the terminal is narrow."""

    title: str
    may_shrink: bool = False
    styled: bool = False
    justify: Literal["left", "right"] = "left"


def on_terminal() -> bool:
    """Whether a person looks at the answer."""
    return sys.stdout.isatty()


def printable(text: str) -> str:
    """``text`` as one line that can do a terminal no harm."""
    words = " ".join(text.split())
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() or c in _JOINERS else "\ufffd" for c in words)


def printable_lines(text: str) -> str:
    """As ``printable``, line by line."""
    return "\n".join(
        "".join(c if c.isprintable() or c in _JOINERS else "    " if c == "\t" else "\ufffd" for c in line)
        for line in text.splitlines()
    )


def shortened(text: str, most: int = text_cells_max) -> str:
    """One safe line of ``text``, at most ``most`` characters long."""
    line = printable(text[: most * 4])
    return line if len(line) <= most and len(text) <= most * 4 else line[: most - 1].rstrip() + "…"


def when(at: int | None) -> str:
    """``at`` (milliseconds since the epoch) as a local time for people; "-" for none."""
    moment = _moment(at)
    return "-" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def when_shortly(at: int | None) -> str:
    """As ``when``, without year and seconds where a person looks at a screen."""
    return when(at)[5:16] if at is not None and on_terminal() else when(at)


def iso(at: int | None) -> str | None:
    """``at`` (milliseconds since the epoch) as ISO 8601 in UTC with its offset, for JSON."""
    moment = _moment(at)
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def _moment(at: int | None) -> datetime | None:
    if at is None:
        return None
    try:
        return datetime.fromtimestamp(at / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # beyond the calendar
        return None


def span(milliseconds: int) -> str:
    """A duration in its two largest units: ``3 min 20 s``."""
    seconds = max(0, round(milliseconds / 1000))
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    parts = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2]) or "0 s"


def print_json(answer: Any) -> None:
    """One JSON document, times already in their form."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    json.dump(answer, sys.stdout, ensure_ascii=not utf8, indent=2)
    sys.stdout.write("\n")


def print_line(text: str, style: str = "") -> None:
    """One line, never wrapped, however narrow the terminal is."""
    if style and _coloured():
        console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
        console.print(Text(text, style=style), soft_wrap=True)
    else:
        sys.stdout.write(f"{text}\n")


def _coloured() -> bool:
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """A table that fits the terminal; piped, every cell is whole."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            column.title,
            no_wrap=True,
            overflow="ellipsis",
            justify=column.justify,
            min_width=8 if column.may_shrink else len(column.title),
        )
    widths = [len(column.title) for column in columns]
    for row in rows:
        cells = [
            Text(cell, style=STYLES.get(cell.split("\n")[0], "") if column.styled else "")
            for column, cell in zip(columns, row, strict=True)
        ]
        widths = [
            max(width, *(line.cell_len for line in cell.split("\n", allow_blank=True)))
            for width, cell in zip(widths, cells, strict=True)
        ]
        table.add_row(*cells)
    for column, drawn, width in zip(columns, table.columns, widths, strict=True):
        if not column.may_shrink and on_terminal():
            drawn.min_width = width
    _draw(table)


def _draw(table: Table) -> None:
    if on_terminal():
        Console(file=sys.stdout, highlight=False, markup=False, emoji=False).print(table)
        return
    drawn = io.StringIO()
    Console(file=drawn, width=piped_width, highlight=False, color_system=None).print(table)
    for line in drawn.getvalue().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def print_facts(facts: Mapping[str, str]) -> None:
    """Names and values, one a line, values in a column."""
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        sys.stdout.write(f"{name:<{width}}  {value}\n")
