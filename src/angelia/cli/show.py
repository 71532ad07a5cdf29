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

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

text_cells_max = 60  # of a message in a table; a wide terminal shows more context elsewhere
piped_width = 400  # no column is cut where nobody looks at a screen
_GAP = 2  # cells between columns
_LEAST = 8  # cells of a column that shrinks
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
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.title, no_wrap=True, overflow="ellipsis", justify=column.justify)
    needed = [len(column.title) for column in columns]
    for row in rows:
        cells = [
            Text(cell, style=STYLES.get(cell.split("\n")[0], "") if column.styled else "")
            for column, cell in zip(columns, row, strict=True)
        ]
        needed = [max(so_far, _cells(cell)) for so_far, cell in zip(needed, row, strict=True)]
        table.add_row(*cells)
    console = _console()
    for drawn, width in zip(table.columns, _widths(columns, needed, console.width), strict=True):
        drawn.width = width
    _draw(console, table)


def _cells(cell: str) -> int:
    return max(cell_len(line) for line in cell.split("\n"))


def _widths(columns: Sequence[Column], needed: Sequence[int], room: int) -> list[int]:
    """How wide each column is drawn: what may not shrink gets what it needs, the others share
    the rest, and what one of them does not need is left to the others."""
    left = room - _GAP * (len(columns) - 1)
    left -= sum(need for column, need in zip(columns, needed, strict=True) if not column.may_shrink)
    shrinking = [need for column, need in zip(columns, needed, strict=True) if column.may_shrink]
    share = max(_LEAST, _share(sorted(shrinking), left))
    return [
        min(need, share) if column.may_shrink else need for column, need in zip(columns, needed, strict=True)
    ]


def _share(needed: Sequence[int], room: int) -> int:
    """The most that each may have so that all fit into ``room``; ``needed`` in rising order."""
    for index, need in enumerate(needed):
        share = room // (len(needed) - index)
        if need > share:
            return share
        room -= need
    return max(needed, default=0)


def _console() -> Console:
    if on_terminal():
        return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    return Console(file=io.StringIO(), width=piped_width, highlight=False, color_system=None)


def _draw(console: Console, table: Table) -> None:
    console.print(table)
    if isinstance(console.file, io.StringIO):
        for line in console.file.getvalue().splitlines():
            sys.stdout.write(line.rstrip() + "\n")


def print_facts(facts: Mapping[str, str]) -> None:
    """Names and values, one a line, values in a column."""
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        sys.stdout.write(f"{name:<{width}}  {value}\n")
