"""The text splitter: nothing is lost, nothing is too long, and it always comes to an end."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from angelia.model.messages import well_formed
from angelia.platforms.text import split, utf8_bytes, utf16_units

Measure = Callable[[str], int]
MEASURES: list[Measure] = [len, utf16_units, utf8_bytes]
FAMILY = "👨‍👩‍👧‍👦"

_SPACES = ("\n", "\n\n", " ", "  ", "    ", "\t", "\r\n")
_ENDS = (". ", "! ", "。")
_FENCES = ("```\n", "```python\n", "~~~~\n", "\n```", "   ```\n", "````\n")
_MARKUP = ("`", "``", "**", "[a link](http://example.org/x_(y))", "`some code`", "\\-", "\\")
_WORDS = (FAMILY, "🇩🇪", "é", "e\u0301", "한국", "क्षि", "\u200b", "\ufeff", "a" * 40, "word", "x")
_pieces = st.sampled_from((*_SPACES, *_ENDS, *_FENCES, *_MARKUP, *_WORDS))
_texts = st.lists(_pieces | st.text(max_size=6), max_size=60).map("".join)
_measures = st.sampled_from(MEASURES)


def ink(text: str) -> str:
    return "".join(text.split())


def is_within(needle: str, haystack: str) -> bool:
    """Whether the characters of ``needle`` stand in ``haystack`` in this order."""
    left = iter(haystack)
    return all(character in left for character in needle)


@given(_texts, st.integers(16, 90), _measures)
@settings(max_examples=120, deadline=None)
def test_parts_fit_and_carry_every_character_in_order(text: str, limit: int, measure: Measure) -> None:
    text = well_formed(text)
    parts = split(text, limit, measure)
    assert all(0 < measure(part) <= limit for part in parts)
    assert bool(parts) == bool(text)
    assert is_within(ink(text), "".join(parts))
    if text.strip():
        assert all(part.strip() for part in parts)
    if measure(text) <= limit and text:
        assert parts == [text]


@given(_texts.map(lambda text: text.replace("`", "'").replace("~", "-")), st.integers(16, 90), _measures)
@settings(max_examples=120, deadline=None)
def test_without_code_blocks_nothing_is_added_and_only_white_space_goes(
    text: str, limit: int, measure: Measure
) -> None:
    text = well_formed(text)
    parts = split(text, limit, measure)
    assert ink("".join(parts)) == ink(text)
    at = 0
    for part in parts:  # each part is a piece of the text as it stands there
        found = text.find(part, at)
        assert found >= 0
        assert not text[at:found].strip()
        at = found + len(part)
    assert not text[at:].strip()


@given(
    st.lists(st.sampled_from([FAMILY, "🇩🇪", "e\u0301", "क्षि", "한", "각", "👍🏽", "ab", " ", "\n"])),
    st.integers(26, 60),
    _measures,
)
@settings(max_examples=80, deadline=None)
def test_no_grapheme_is_cut(clusters: list[str], limit: int, measure: Measure) -> None:
    text = "".join(clusters)
    parts = split(text, limit, measure)
    whole = [one for one in regex.findall(r"\X", text) if one.strip()]
    assert [one for part in parts for one in regex.findall(r"\X", part) if one.strip()] == whole


@given(_texts, st.integers(1, 15), _measures)
@settings(max_examples=60, deadline=None)
def test_a_senselessly_small_limit_still_comes_to_an_end(text: str, limit: int, measure: Measure) -> None:
    text = well_formed(text)
    assert is_within(ink(text), "".join(split(text, limit, measure)))


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        split("text", 0)


def test_a_text_within_the_limit_is_left_as_it_is() -> None:
    for text in ("plain", "  indented\n\n", "```\nopen", "\u200b", "\n"):
        assert split(text, 16) == [text]
    assert split("", 16) == []


def test_paragraphs_before_lines_before_sentences_before_words() -> None:
    assert split("one two three.\n\nfour five\nsix", 22) == ["one two three.", "four five\nsix"]
    assert split("one two three.\nfour five six", 22) == ["one two three.", "four five six"]
    assert split("One two three. Four five six", 22) == ["One two three.", "Four five six"]
    assert split("one two three four five six", 22) == ["one two three four", "five six"]
    assert split("今天天气很好。我们去公园散步吧", 12) == ["今天天气很好。", "我们去公园散步吧"]


def test_a_word_longer_than_a_message_fills_it() -> None:
    assert split("ab " + "x" * 40, 16) == ["ab " + "x" * 13, "x" * 16, "x" * 11]


def test_the_indentation_of_a_new_line_stays() -> None:
    assert split("- item one\n    - nested item", 18) == ["- item one", "    - nested item"]


def test_more_indentation_than_a_message_holds_is_dropped() -> None:
    assert split("a\n" + " " * 5000 + "b" * 20, 20) == ["a", "b" * 20]


def test_code_is_closed_and_opened_again_with_its_info_string() -> None:
    code = "".join(f"line {number}\n" for number in range(12))
    parts = split(f"before\n\n```python title=x\n{code}```\n\nafter", 60)
    assert len(parts) > 2
    blocks = [part for part in parts if "line" in part]
    for part in blocks:
        assert part.count("```") == 2
        assert "```python title=x\nline" in part
    assert "".join(re.findall(r"line \d+\n", "".join(blocks))) == code
    assert parts[-1].endswith("after")


@pytest.mark.parametrize(
    ("opening", "closing"), [("~~~", "~~~"), ("   ````c", "   `````"), ("~~~ a`b", "~~~~")]
)
def test_every_kind_of_fence_is_reopened_as_it_was(opening: str, closing: str) -> None:
    code = "".join(f"    indented {number}\n" for number in range(10))
    parts = split(f"{opening}\n{code}{closing}\nend", 70)
    for part in parts[:-1]:
        assert part.startswith(f"{opening}\n    indented")
        assert part.endswith(f"\n{closing}")
    assert "end" in parts[-1]


def test_what_only_looks_like_a_fence_is_text() -> None:
    text = "``` not `a fence\n" + "word " * 10 + "\n    ```\n" + "word " * 10
    assert all(part.count("```") <= 1 for part in split(text, 40))
    assert ink("".join(split(text, 40))) == ink(text)


def test_a_shorter_or_other_fence_does_not_close() -> None:
    text = "````\n" + "a = 1\n" * 5 + "```\n~~~~\n" + "b = 2\n" * 5 + "````"
    for part in split(text, 50):
        assert part.startswith("````\n")
        assert part.endswith("\n````")


def test_a_block_that_fits_is_moved_whole() -> None:
    block = "```\n" + "code\n" * 5 + "```"
    text = "Some words that stand before it.\n" + block
    assert split(text, 50) == ["Some words that stand before it.", block]


def test_code_keeps_its_spaces_and_blank_blocks_are_not_sent() -> None:
    parts = split("```\n" + "a  b" * 10 + "\n```", 20)
    assert "".join(part.removeprefix("```\n").removesuffix("\n```") for part in parts) == "a  b" * 10
    parts = split("```\ncode one\n" + "\n" * 50 + "code two\n\n\n```\n" + "text " * 3, 24)
    assert parts == ["```\ncode one\n```", "```\ncode two\n\n\n```", "text text text "]


def test_an_unclosed_block_is_closed_in_every_part() -> None:
    parts = split("```js\n" + "call();\n" * 10, 40)
    assert len(parts) > 2
    for part in parts:
        assert part.startswith("```js\n")
        assert part.endswith("\n```")


def test_a_fence_that_leaves_no_room_for_code_is_plain_text() -> None:
    text = "```" + "info" * 5 + "\n" + "code " * 10 + "\n```"
    parts = split(text, 20)
    assert ink("".join(parts)) == ink(text)


def test_links_code_and_emphasis_stay_whole_where_they_can() -> None:
    for whole in ("[a fine link](http://example.org/a_(b))", "`some code here`", "**bold and bolder**"):
        text = f"these are a few words before {whole} and these are a few after it"
        for limit in range(len(whole) + 24, len(text)):
            assert any(whole in part for part in split(text, limit)), (whole, limit)


def test_a_link_longer_than_a_message_is_cut_and_complete() -> None:
    text = "see https://example.org/" + "path/" * 30
    assert ink("".join(split(text, 30))) == ink(text)


def test_j1_no_surrogate_pair_and_no_grapheme_is_cut() -> None:
    text = "".join("😀" + " " * (number % 3 == 0) for number in range(2048))
    for measure in MEASURES:
        parts = split(text, 1001, measure)
        assert all(measure(part) <= 1001 for part in parts)
        assert ink("".join(parts)) == ink(text)
    for cluster in (FAMILY, "🇩🇪", "e\u0301", "👍🏽"):
        for limit in range(30, 40):
            for part in split(cluster * 50, limit, utf16_units):
                assert not part.replace(cluster, "")


def test_j1_unpaired_surrogates_still_encode() -> None:
    parts = split("\ud83d" + "x" * 30 + "\ude00" + "\ud83d\ude00" * 10, 20, utf16_units)
    assert "".join(parts) == "\ufffd" + "x" * 30 + "\ufffd" + "😀" * 10
    assert [part.encode() for part in parts]


def test_one_grapheme_longer_than_a_message_is_cut_between_code_points() -> None:
    zalgo = "a" + "\u0301" * 100
    assert "".join(split(zalgo, 16)) == zalgo
    assert split("  " + "e" + "\u0301" * 15, 16) == ["e" + "\u0301" * 15]


def test_j4_one_fenced_line_of_20000_characters_comes_to_an_end() -> None:
    for mark in ("```", "```python", "~~~"):
        closing = mark[:3]
        parts = split(f"{mark}\n{'x' * 20_000}\n{closing}", 4096)
        assert sum(part.count("x") for part in parts) == 20_000
        assert len(parts) == 5
        for part in parts:
            assert part.startswith(mark + "\n")
            assert part.endswith("\n" + closing)


MEGABYTES = {
    "one word": "x" * 1_000_000,
    "words": "a few words. " * 77_000,
    "flags": "🇩🇪" * 100_000,
    "one grapheme": "a" + "\u0301" * 1_000_000,
    "marks on spaces": " \u0301" * 200_000,
    "fences": "```\n" * 100_000,
    "spaces in code": "```\n" + " " * 1_000_000 + "x\n```",
    "empty lines": "a" + "\n\t" * 500_000 + "b",
    "dots": "." * 1_000_000,
    "broken markup": "[](`" * 200_000,
}


@pytest.mark.parametrize("text", MEGABYTES.values(), ids=MEGABYTES.keys())
def test_texts_of_a_megabyte_take_linear_work(text: str) -> None:
    measured = 0

    def measure(piece: str) -> int:
        nonlocal measured
        measured += len(piece)
        return len(piece)

    parts = split(text, 4000, measure)
    assert is_within(ink(text), "".join(parts))
    assert measured <= 12 * len(text)


def test_f8_text_without_visible_ink_gives_a_part() -> None:
    for invisible in ("\u200b", "\u200d", "\ufeff", "\u2060"):
        assert split(invisible, 16) == [invisible]
        assert "".join(split(invisible * 100, 16)) == invisible * 100
    assert "".join(split("*" * 100, 16)) == "*" * 100


def test_f8_a_text_of_spaces_gives_one_part() -> None:
    assert split(" " * 100, 16) == [" " * 16]


def test_white_space_around_a_long_text_makes_no_part_of_its_own() -> None:
    assert split("\n" * 100 + "word" + " " * 100, 16) == ["word"]


def test_measures() -> None:
    assert (utf16_units("aé😀"), utf8_bytes("aé😀")) == (4, 7)
    assert (utf16_units("abc"), utf8_bytes("abc")) == (3, 3)
