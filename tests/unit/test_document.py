"""YAML read as text with line numbers: what it accepts, and what it says without quoting it."""

from __future__ import annotations

from pathlib import Path

import pytest

from angelia.gateway.document import depth_max, parse_document, path_text, read_document
from angelia.model.errors import ConfigError

SECRET = "hunter2-of-the-north"


def refusal(folder: Path, content: str | bytes) -> str:
    """What is said about a file with ``content``; it must be said without the secret."""
    file = folder / "config.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError) as caught:
        read_document(file)
    message = str(caught.value)
    assert SECRET not in message
    assert caught.value.__cause__ is None  # a chained error would print the value
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


def test_scalars_are_the_text_that_was_typed() -> None:
    text = "a: no\nb: 0123\nc: 1e3\nd: 2026-11-30\ne: 12:30:45\nf: 0x10\ng: 1_000\nh: '~'\ni: .inf\n"
    document = parse_document("config.yaml", text)
    expected = ["no", "0123", "1e3", "2026-11-30", "12:30:45", "0x10", "1_000", "~", ".inf"]
    assert list(document.root.values()) == expected


def test_plain_nothing_is_nothing() -> None:
    document = parse_document("config.yaml", "a:\nb: ~\nc: null\nd: ''\ne: 'null'\n")
    assert list(document.root.values()) == [None, None, None, "", "null"]


def test_lines_are_those_of_the_keys() -> None:
    document = parse_document(
        "config.yaml", "# first\na:\n  b: 1\n  c:\n    - x\n    - y\nd: &d {e: 1}\nf: *d\n"
    )
    found = {path_text(path): line for path, line in document.lines.items() if path}
    assert found == {"a": 2, "a.b": 3, "a.c": 4, "a.c.0": 5, "a.c.1": 6, "d": 7, "d.e": 7, "f": 8, "f.e": 7}
    assert document.line(("a", "c", "missing", "deeper")) == 4
    assert document.complaint(("a", "b"), "is odd") == "config.yaml:3: a.b: is odd"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "empty"),
        ("# only a comment\n", None, "empty"),
        ("- profiles\n", 1, "the top must be keys"),
        ("hello\n", 1, "the top must be keys"),
        ("profiles:\n\tdefault: {}\n", 2, "tab"),
        ("profiles: {}\n---\nprofiles: {}\n", 2, "one document"),
        ("profiles: {}\nprofiles: {}\n", 2, "profiles: given twice (first on line 1)"),
        (f"a: *{SECRET}\n", 1, "alias"),
        (f"a: !{SECRET}\n", 1, "tags"),
        (f"a: !!python/object/apply:os.system [{SECRET}]\n", 1, "tags"),
        (f"a: @{SECRET}\n", 1, "put it in quotes"),
        (f"a: b: {SECRET}\n", 1, "a second"),
        (f'a: "{SECRET}\n', None, "never closed"),
        (f'a: "\\q{SECRET}"\n', 1, "escape"),
        (f"a: [{SECRET}\n", None, "is not closed"),
        (f"a: {{b: ${{{SECRET}}}, c: 1}}\n", 1, "needs quotes"),
        (f"a:\n  b: 1\n c: {SECRET}\n", 3, "indentation"),
        (f"a: 1\n{SECRET}\nb: 1\n", None, "neither"),
        (f"a: 1\n  b: {SECRET}\n", 2, "a second"),
        (f"a: &x {{<<: {SECRET}}}\n", 1, "merge keys"),
        (f"? [{SECRET}]\n: 1\n", 1, "a key must be plain text"),
        ("a: &x [*x]\n", 1, "contains itself"),
        (f"a: {SECRET}\x07\n", 1, "control character"),
        ("a: " + "[" * 500 + "]" * 500 + "\n", 1, f"nested more than {depth_max}"),
        ("a: " + "{b: " * 500 + "}" * 500 + "\n", 1, f"nested more than {depth_max}"),
    ],
)
def test_malformed_yaml(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    message = refusal(tmp_path, text)
    assert message.startswith(f"config.yaml:{line}: " if line else "config.yaml:")
    assert words in message
    assert "\n" not in message


def test_not_utf8_names_the_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, b"# fine\na: \xff\n") == "config.yaml:2: not UTF-8; save the file as UTF-8"


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(file).root == {"a": "1"}


def test_a_billion_laughs_end_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 12):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    assert "too many values" in refusal(tmp_path, "\n".join(lines) + "\n")


def test_a_file_that_is_much_too_large(tmp_path: Path) -> None:
    assert "larger than 1 MiB" in refusal(tmp_path, "#" * (1024 * 1024 + 1))


def test_key_paths_are_readable_and_bounded() -> None:
    assert path_text(("profiles", "a-b_c", "allow", 3)) == "profiles.a-b_c.allow.3"
    assert path_text(("a.b", "x\ny")) == '"a.b"."x\\ny"'
    assert len(path_text(("x" * 10_000,))) < 80
