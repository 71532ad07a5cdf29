"""Writes ``docs/reference/settings.md`` from the settings themselves.

    python -m angelia.gateway.reference docs/reference/settings.md

A tidy test compares the page with what this makes of the sources, so the page cannot lie.
What a setting means stands with it in the source: as its description, as a ``#:`` comment
above it, or in the docstring of its class as the key in quotes, a colon, and the meaning.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from angelia.gateway.config import GatewaySettings
from angelia.gateway.registry import AGENTS, PLATFORMS

_HEAD = """\
# Settings

Everything that may stand in `config.yaml`, made from the sources by `make docs`; do not edit
it by hand. A key that is not named here is an error. The file lies in the home
(`$ANGELIA_HOME`, by default `~/.angelia`); `angelia init` writes a commented one.

`${NAME}` in a value is replaced by the variable NAME of the environment or, if it is not
there, of the file `.env` in the home. A dollar sign of your own is written `$$`. Every value
is read as the text that you typed; where a number or true/false is meant, it is converted.
"""

_PROFILES = """\
## profiles

One section per bot, by its name: 1 to 32 characters of `a-z`, `0-9`, `_` and `-`, the first a
letter or a digit. Each has an `agent` (what answers) and `platforms` (where it is reached, at
least one).
"""

#: A key in a docstring, with what it means behind it.
_DEFINITION = r"``([a-z_]+)``: "

_NAMES: dict[object, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    SecretStr: "text, secret",
}


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## gateway\n\n" + _table(GatewaySettings), _PROFILES]
    for name, agent in AGENTS.items():
        kind = agent.settings()
        extra = f"Needs `pip install 'angelia[{agent.extra}]'`.\n\n" if agent.extra else ""
        first = f"| `kind` | `{name}` | required | |\n"
        parts.append(f"### agent: {name}\n\n{_intro(kind)}{extra}" + _table(kind, first))
    for name, platform in PLATFORMS.items():
        kind = platform.settings()
        first = (
            "| `allow` | list of text | `[]`: nobody | Ids of the users who are listened to; "
            '`["*"]` is everybody, and is warned about. |\n'
            if platform.guarded
            else ""
        )
        extra = f"Needs `pip install 'angelia[{platform.extra}]'`.\n\n" if platform.extra else ""
        parts.append(f"### platform: {name}\n\n{_intro(kind)}{extra}" + _table(kind, first))
    return "\n".join(parts)


def _intro(kind: type[BaseModel]) -> str:
    """What the class says before it comes to its keys."""
    words = re.split(_DEFINITION, inspect.cleandoc(kind.__doc__ or ""), maxsplit=1)[0].strip()
    return words.replace("``", "`") + "\n\n" if words else ""


def _table(kind: type[BaseModel], first: str = "") -> str:
    rows = "| key | value | default | meaning |\n|---|---|---|---|\n" + first
    meanings = {**_definitions(kind), **dict(_comments(kind))}
    for name, field in kind.model_fields.items():
        meaning = (field.description or meanings.get(name, "")).replace("``", "`").replace("|", "\\|")
        rows += f"| `{name}` | {_type(field)} | {_default(field)} | {meaning} |\n"
        rows += "".join(_inner_rows(name, field))
    return rows


def _inner_rows(name: str, field: FieldInfo) -> Iterator[str]:
    """The keys of a section within a section, each as ``section.key``."""
    for one in (field.annotation, *typing.get_args(field.annotation)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            head, *rows = _table(one).splitlines(keepends=True)[1:]
            assert head.startswith("|---")
            yield from (row.replace("| `", f"| `{name}.", 1) for row in rows)


def _definitions(kind: type[BaseModel]) -> dict[str, str]:
    """Each key of which the docstring says ``key``: what it means."""
    pieces = re.split(_DEFINITION, " ".join((kind.__doc__ or "").split()))
    return {
        name: words.strip()[:1].upper() + words.strip()[1:]
        for name, words in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def _comments(kind: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Each field of ``kind`` with the ``#:`` comment above it."""
    comment: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        words = line.strip()
        field = re.match(r"([a-z_][a-z0-9_]*)\s*:", words)
        if words.startswith("#:"):
            comment.append(words[2:].strip())
        else:
            if field and comment:
                yield field[1], " ".join(comment)
            comment = []


def _type(field: FieldInfo) -> str:
    words = _type_name(field.annotation)
    for bound, sentence in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        for rule in field.metadata:
            value = getattr(rule, bound, None)
            if value is not None:
                words += f", {sentence} {value:g}"
    return words


def _type_name(annotation: object) -> str:
    if annotation in _NAMES:
        return _NAMES[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type_name(inner[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_name(one) for one in inner if one is not type(None))
    if origin in (list, tuple, set, frozenset):
        return f"list of {_type_name(inner[0])}"
    if origin is typing.Literal:
        return " or ".join(f"`{one}`" for one in inner)
    if origin is dict:
        return f"section of {_type_name(inner[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section of keys"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{one.value}`" for one in annotation)
    raise TypeError(f"docs/reference/settings.md has no words for {annotation}")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ("", (), []) or (isinstance(value, SecretStr) and not value):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
