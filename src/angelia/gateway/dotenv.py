"""Secrets kept beside the configuration: the ``.env`` file, and ``${NAME}`` in values.

``.env`` holds ``NAME=value`` lines (``export`` in front, quotes and ``#`` comments are
understood). Its values are used for ``${NAME}`` in ``config.yaml`` and for nothing else:
they are never put into the process's environment, where every child process would see them.
The real environment wins over the file.

A line that cannot be understood is an error that names its number and never shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from angelia.gateway.document import read_text
from angelia.model.errors import ConfigError

_NAME = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)")
_REFERENCE = re.compile(r"\$(?:\$|\{([^}]*)(\}?))")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


@dataclass(frozen=True, slots=True)
class _LineError(Exception):
    """What is wrong with one line."""

    sentence: str


def read_dotenv(file: Path) -> tuple[dict[str, str], list[str]]:
    """The names and values of ``file`` and the warnings about it; empty if there is none.

    Raises ``ConfigError`` naming file and line.
    """
    if not file.exists():
        return {}, []
    values = parse_dotenv(file.name, read_text(file))
    warnings = []
    if file.stat().st_mode & 0o077:
        warnings.append(f"{file.name}: other users of this machine may read it; run: chmod 600 {file}")
    return values, warnings


def parse_dotenv(name: str, text: str) -> dict[str, str]:
    """The names and values of the lines of ``text``. Raises ``ConfigError``."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        match = _NAME.fullmatch(line)
        if match is None:
            raise ConfigError(f"{name}:{number}: not of the form NAME=value")
        key, raw = match.groups()
        if key in values:
            raise ConfigError(f"{name}:{number}: {key} is given twice")
        try:
            values[key] = _value(raw)
        except _LineError as error:
            raise ConfigError(f"{name}:{number}: {key}: {error.sentence}") from None
    return values


def _value(raw: str) -> str:
    """The value of the text after the equals sign."""
    if "\x00" in raw:
        raise _LineError("contains a NUL character")
    if raw[:1] not in ("'", '"'):
        return "" if raw.startswith("#") else re.split(r"[ \t]+#", raw, maxsplit=1)[0]
    quote, rest = raw[0], raw[1:]
    value: list[str] = []
    characters = iter(enumerate(rest))
    for index, character in characters:
        if character == quote:
            after = rest[index + 1 :].strip()
            if after and not after.startswith("#"):
                raise _LineError("something follows the closing quote")
            return "".join(value)
        if character == "\\" and quote == '"':
            _, escaped = next(characters, (0, ""))
            if escaped not in _ESCAPES:
                raise _LineError("an unknown \\ escape; use single quotes")
            character = _ESCAPES[escaped]
        value.append(character)
    raise _LineError("a quote is opened and never closed")


def substitute(text: str, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """``text`` with every ``${NAME}`` replaced and ``$$`` read as ``$``; and the complaints.

    What comes out of a variable is not looked at again.
    """
    complaints: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name, closed = match.groups()
        if name is None:
            return "$"
        if not closed or _VARIABLE.fullmatch(name) is None:
            complaints.append("a ${ that is not ${NAME}; write $$ for a dollar sign")
            return ""
        if name not in known:
            complaints.append(f"the variable {name} is defined neither in the environment nor in .env")
            return ""
        return known[name]

    return _REFERENCE.sub(replace, text), complaints
