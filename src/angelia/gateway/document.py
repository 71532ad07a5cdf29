"""Reads a YAML file as text with line numbers.

YAML guesses: a plain ``no`` becomes a boolean, ``0123`` an octal number, ``1e3`` a float. A
chat id or a password must not change under the reader's hands, so only YAML's own node tree
is used here: every scalar stays the text that was typed (a plain empty value, ``~`` or
``null`` is ``None``), and whoever knows what a key means converts it. The line of every key
is kept for error messages.

Errors name file and line and say what to do. They never quote the file: a password that
starts with ``*`` or ``!`` is a syntax error, and it must not end up in a log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from angelia.model.errors import ConfigError

KeyPath = tuple[str | int, ...]

size_bytes_max = 1024 * 1024  # a configuration is a page or two
depth_max = 24  # the deepest real key has six levels
nodes_max = 20_000  # after aliases are resolved, so that few lines cannot become a billion

#: What PyYAML finds, by the beginning or a part of its words, and what we say about it.
_SENTENCES = (
    ("found undefined alias", "an alias that is defined nowhere (a value that begins with * needs quotes)"),
    ("alphabetic or numeric character", "a plain value cannot begin with * or &; put it in quotes"),
    ("found duplicate anchor", "the same anchor is defined twice"),
    ("found character '\\t'", "a tab is not allowed here; indent with spaces"),
    ("that cannot start any token", "a plain value cannot begin with this character; put it in quotes"),
    ("mapping values are not allowed", "a second ': ' on one line; put the value in quotes"),
    ("could not find expected ':'", "this is neither 'key: value' nor part of a list"),
    ("unexpected end of stream", "a quote is opened and never closed"),
    ("unknown escape character", "an unknown \\ escape; use single quotes"),
    ("expected ',' or", "a bracket is not closed or a comma is missing; a value with brackets needs quotes"),
    ("expected a single document", "one document only; remove the '---' line"),
    ("but found '<block mapping start>'", "the indentation does not fit the lines above"),
    ("<block end>", "the indentation does not fit the lines above"),
    ("undefined tag handle", "tags (!) are not used here; a value that begins with ! needs quotes"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """The content of one file. ``lines`` gives the line (from 1) of each key path."""

    name: str
    root: dict[str, object]
    lines: dict[KeyPath, int] = field(repr=False)

    def line(self, path: KeyPath) -> int:
        """The line of ``path``, or of the nearest section around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def complaint(self, path: KeyPath, sentence: str) -> str:
        """``config.yaml:7: profiles.default.agent: <sentence>``"""
        where = f"{self.name}:{self.line(path)}: "
        return where + (f"{path_text(path)}: {sentence}" if path else sentence)


def path_text(path: KeyPath) -> str:
    """A key path as people write it; odd or endless keys are quoted and shortened."""
    words = []
    for key in path:
        text = str(key)
        if len(text) > 64:
            text = text[:63] + "…"
        plain = text.replace("_", "").replace("-", "")
        words.append(text if plain.isascii() and plain.isalnum() else json.dumps(text))
    return ".".join(words)


def read_text(file: Path) -> str:
    """The text of a small UTF-8 file. Raises ``ConfigError`` with advice."""
    try:
        if file.stat().st_size > size_bytes_max:
            raise ConfigError(f"{file.name}: larger than 1 MiB; this cannot be the right file")
        raw = file.read_bytes()
    except IsADirectoryError:
        raise ConfigError(f"{file.name}: is a folder; a file is expected") from None
    except PermissionError:
        raise ConfigError(f"{file.name}: may not be read; give this user the right to read {file}") from None
    except OSError as error:
        raise ConfigError(f"{file.name}: cannot be read ({error.strerror})") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file.name}:{line}: not UTF-8; save the file as UTF-8") from None


def read_document(file: Path) -> Document:
    """Read a YAML file whose top is a section of keys. Raises ``ConfigError``."""
    return parse_document(file.name, read_text(file))


def parse_document(name: str, text: str) -> Document:
    """Read YAML text whose top is a section of keys. Raises ``ConfigError``."""
    try:
        _check_events(name, text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{name}:{line}: a control character that YAML does not allow") from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_syntax_complaint(name, error)) from None
    if node is None:
        raise ConfigError(f"{name}: the file is empty; 'angelia init' writes a commented example")
    reader = _Reader(name)
    root = reader.value(node, ())
    if not isinstance(root, dict):
        raise ConfigError(f"{name}:{node.start_mark.line + 1}: the top must be keys such as 'profiles:'")
    return Document(name, root, reader.lines)


def _check_events(name: str, text: str) -> None:
    """Refuse what must not reach the composer: it recurses, and it forgets explicit tags."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > depth_max:
                raise ConfigError(f"{name}:{line}: nested more than {depth_max} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            raise ConfigError(
                f"{name}:{line}: tags (!) are not used here; a value that begins with ! needs quotes"
            )


def _syntax_complaint(name: str, error: yaml.MarkedYAMLError) -> str:
    mark: yaml.Mark | None = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else 1
    problem = error.problem or ""
    known = [sentence for words, sentence in _SENTENCES if words in problem or words in (error.context or "")]
    return f"{name}:{line}: {known[0] if known else 'this is not valid YAML'}"


class _Reader:
    """Turns nodes into plain values and remembers the lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[KeyPath, int] = {}
        self.nodes = 0
        self.open: list[yaml.Node] = []

    def value(self, node: yaml.Node, path: KeyPath) -> object:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        self.nodes += 1
        if self.nodes > nodes_max:
            raise ConfigError(f"{self.name}:{line}: too many values once the aliases are resolved")
        if isinstance(node, yaml.ScalarNode):
            plain = not node.style
            return None if plain and node.value in ("", "~", "null", "Null", "NULL") else str(node.value)
        if node in self.open or len(self.open) > 2 * depth_max:
            raise ConfigError(f"{self.name}:{line}: an alias contains itself")
        self.open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._section(node, path)
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        finally:
            self.open.pop()

    def _section(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        section: dict[str, object] = {}
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{self.name}:{line}: a key must be plain text, not a list or a section")
            key = str(key_node.value)
            where = f"{self.name}:{line}: {path_text((*path, key))}"
            if key == "<<" and not key_node.style:
                raise ConfigError(f"{where}: merge keys are not supported; write the keys out")
            if key in section:
                raise ConfigError(f"{where}: given twice (first on line {first_lines[key]})")
            self.lines[(*path, key)] = first_lines[key] = line
            section[key] = self.value(value_node, (*path, key))
        return section
