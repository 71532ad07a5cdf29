"""Cutting Markdown into messages: every piece fits, nothing is lost, no entity is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from angelia.platforms.telegram.markdown import render
from angelia.platforms.telegram.splitting import _Open, _sewn, split_markdown
from angelia.platforms.text import utf16_units

LIMIT = 256


def kinds(source: str) -> list[str]:
    return [entity["type"] for entity in render(source).entities]


def words(text: str) -> list[str]:
    return text.split()


def test_what_fits_stays_one_piece() -> None:
    assert split_markdown("**a** b", 4096) == ["**a** b"]
    assert split_markdown("x" * 4096, 4096) == ["x" * 4096]
    assert split_markdown("", 4096) == []


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("**" + "bold words " * 80 + "end** tail", "bold"),
        ("*" + "slanted words " * 80 + "end* tail", "italic"),
        ("~~" + "struck words " * 80 + "end~~ tail", "strikethrough"),
        ("`" + "code words " * 80 + "end` tail", "code"),
        ("[" + "link words " * 80 + "end](https://x.y/z) tail", "text_link"),
        ("> " + "quoted words " * 80 + "end", "blockquote"),
        ("```py\n" + "code = words\n" * 80 + "```\ntail", "pre"),
    ],
)
def test_j6_what_is_open_at_a_cut_is_closed_and_opened_again(source: str, kind: str) -> None:
    pieces = split_markdown(source, LIMIT)
    assert len(pieces) > 3
    for piece in pieces:
        assert utf16_units(piece) <= LIMIT
        assert kind in kinds(piece), piece
        for mark in ("**", "~~", "`", "](", "```"):
            assert mark not in render(piece).text, "a mark shows"
    assert words(" ".join(render(piece).text for piece in pieces)) == words(render(source).text)


def test_emphasis_in_a_quotation_goes_on_behind_the_quotation_sign() -> None:
    lines = "\n".join(f"> **line {n} of many and more words" for n in range(1))
    source = lines + "\n" + "\n".join("> more of the same words here" for _ in range(20)) + "**"
    pieces = split_markdown(source, LIMIT)
    assert len(pieces) > 2
    assert all(piece.startswith("> **") for piece in pieces[1:])
    assert all(set(kinds(piece)) == {"blockquote", "bold"} for piece in pieces)


def test_j6_an_escape_at_the_border_stays_whole() -> None:
    source = "word " * 41 + "\\-" * 60
    for piece in split_markdown(source, LIMIT):
        assert not render(piece).text.endswith("\\")
        assert "\\" not in render(piece).text


def test_units_are_those_of_utf_16() -> None:
    pieces = split_markdown("😀" * 3000, 4096)
    assert [utf16_units(piece) for piece in pieces] == [4096 - 48, 6000 - 4096 + 48]


def test_a_long_text_full_of_marks_is_split_in_bounded_time() -> None:
    source = "**" + "word *it* `c` " * 20_000 + "**"
    pieces = split_markdown(source, 4096)
    assert all(utf16_units(piece) <= 4096 for piece in pieces)
    assert sum(piece.count("word") for piece in pieces) == 20_000


@pytest.mark.parametrize("before", range(28, 52))
@pytest.mark.parametrize("mark", ["**", "~~", "`"])
def test_a_cut_beside_a_mark_leaves_no_empty_span(before: int, mark: str) -> None:
    whole = f"{mark}{'alpha ' * before}alpha{mark} and {'then ' * 9}{mark}{'omega ' * 30}end{mark}"
    late = f"{'alpha ' * before}{mark}{'omega ' * 60}omega{mark}"
    for source in (whole, late):
        for piece in split_markdown(source, LIMIT):
            assert mark not in render(piece).text, piece


def test_a_mark_that_opens_at_the_cut_opens_in_the_next_piece_only() -> None:
    bold = _Open((("**", "**"),))
    assert _sewn("alpha **", "omega**", bold, new_line=False) == ("alpha", "**omega**")
    assert _sewn("**alpha", "** omega", bold, new_line=False) == ("**alpha**", "omega")


_WORD = st.sampled_from(["alpha", "beta", "gamma", "delta", "😀", "naïve"])
_PLAIN = st.lists(_WORD, min_size=1, max_size=60).map(" ".join)
_SPAN = st.one_of(
    _PLAIN,
    _PLAIN.map("**{}**".format),
    _PLAIN.map("*{}*".format),
    _PLAIN.map("~~{}~~".format),
    _PLAIN.map("`{}`".format),
    _PLAIN.map("[{}](https://x.y/z)".format),
)
_PARAGRAPH = st.lists(_SPAN, min_size=1, max_size=5).map(" ".join)
_BLOCK = st.one_of(
    _PARAGRAPH,
    _PARAGRAPH.map("## {}".format),
    _PARAGRAPH.map("- {}".format),
    _PARAGRAPH.map("> {}".format),
    st.lists(_PLAIN, min_size=1, max_size=12).map(lambda lines: "```py\n" + "\n".join(lines) + "\n```"),
)
_DOCUMENT = st.lists(_BLOCK, min_size=1, max_size=6).map("\n\n".join)


_BESIDE_A_MARK = "alpha " * 5 + "**" + "alpha " * 16 + "alpha** " + "alpha " * 18 + "**alpha**"


@settings(max_examples=60, deadline=None)
@given(_DOCUMENT)
@example(_BESIDE_A_MARK)
def test_pieces_fit_cut_no_entity_and_are_the_text_side_by_side(source: str) -> None:
    pieces = split_markdown(source, LIMIT)
    rendered = [render(piece) for piece in pieces]
    assert all(utf16_units(piece) <= LIMIT for piece in pieces)
    assert all(piece.strip() for piece in pieces)
    whole = words(render(source).text)
    assert words(" ".join(one.text for one in rendered)) == whole
    marked = re.compile(r"\*\*|~~|`|\]\(|(?<![\w*])\*(?![\w*])")
    assert not any(marked.search(one.text) for one in rendered), "a mark of a cut entity shows"


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("*_~`[]()<>#- \n\\ab😀é"), max_size=1500))
def test_any_text_is_cut_into_pieces_that_fit(source: str) -> None:
    pieces = split_markdown(source, LIMIT)
    assert all(utf16_units(piece) <= LIMIT for piece in pieces)
    assert all(utf16_units(render(piece).text) <= LIMIT for piece in pieces)
    letters = [c for c in source if c in "ab😀é"]
    assert [c for piece in pieces for c in piece if c in "ab😀é"] == letters
