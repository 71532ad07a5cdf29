"""The ``.env`` file and ``${NAME}``: forms, refusals that show no value, and who may read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from angelia.gateway.dotenv import parse_dotenv, read_dotenv, substitute
from angelia.model.errors import ConfigError

SECRET = "hunter2-of-the-north"


@pytest.mark.parametrize("text", ["${", "${}", "${a b}", "${1A}", "${A"])
def test_a_malformed_reference(text: str) -> None:
    _, complaints = substitute(f"x{text}", {"A": "1"})
    assert len(complaints) == 1
    assert "$$" in complaints[0]


def test_references() -> None:
    known = {"A": "1", "B": "${A}", "C": "$$"}
    assert substitute("${A}-${B}-${C}", known) == ("1-${A}-$$", [])
    assert substitute("$$ $${A} $A $", known) == ("$ ${A} $A $", [])


def test_dotenv_forms() -> None:
    text = (
        "# a comment\r\n"
        "\r\n"
        "PLAIN=value with spaces  # and a comment\r\n"
        "export EXPORTED=1\n"
        "  INDENTED = x\n"
        "EMPTY=\n"
        "COMMENT_ONLY=# nothing\n"
        "HASH=a#b\n"
        "EQUALS=a=b=c\n"
        "SINGLE='as $it \\n is # here' # comment\n"
        'DOUBLE="line\\nnext \\"quoted\\" \\\\ # here"\n'
        "exported=lower"
    )
    assert parse_dotenv(".env", text) == {
        "PLAIN": "value with spaces",
        "EXPORTED": "1",
        "INDENTED": "x",
        "EMPTY": "",
        "COMMENT_ONLY": "",
        "HASH": "a#b",
        "EQUALS": "a=b=c",
        "SINGLE": "as $it \\n is # here",
        "DOUBLE": 'line\nnext "quoted" \\ # here',
        "exported": "lower",
    }


@pytest.mark.parametrize(
    "line",
    [
        SECRET,
        f"1A={SECRET}",
        f"MY-KEY={SECRET}",
        f"A B={SECRET}",
        f"A='{SECRET}",
        f'A="{SECRET}',
        f'A="{SECRET}\\',
        f"A='{SECRET}'{SECRET}",
        f'A="{SECRET}\\q"',
        f"A={SECRET}\x00",
        f"FIRST={SECRET}",
    ],
)
def test_a_malformed_line_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_dotenv(".env", f"FIRST=1\n# two\n{line}\n")
    message = str(caught.value)
    assert message.startswith(".env:3: ")
    assert SECRET not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_bytes(b"A=1\nB=\xfe\n")
    with pytest.raises(ConfigError, match=r"^\.env:2: not UTF-8"):
        read_dotenv(file)


def test_none_is_empty(tmp_path: Path) -> None:
    assert read_dotenv(tmp_path / ".env") == ({}, [])


def test_a_file_that_others_can_read_is_warned_about(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("A=1\n")
    file.chmod(0o600)
    assert read_dotenv(file) == ({"A": "1"}, [])
    file.chmod(0o640)
    values, warnings = read_dotenv(file)
    assert values == {"A": "1"}
    assert [f"chmod 600 {file}" in warning for warning in warnings] == [True]
