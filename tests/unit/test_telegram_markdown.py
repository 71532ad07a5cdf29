"""Markdown as a text with entities: exact renderings, and what must hold of every text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from angelia.platforms.telegram.markdown import Entity, Rendered, render
from angelia.platforms.text import utf16_units


def piece(rendered: Rendered, entity: Entity) -> str:
    raw = rendered.text.encode("utf-16-le")
    return raw[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le")


def shown(source: str) -> tuple[str, list[tuple[str, str]]]:
    """The text, and each entity as (its type, and address or language; what it lies over)."""
    rendered = render(source)
    kinds = [
        ":".join([e["type"], *(e[key] for key in ("url", "language") if key in e)]) for e in rendered.entities
    ]
    return rendered.text, list(zip(kinds, [piece(rendered, e) for e in rendered.entities], strict=True))


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("plain", "plain", []),
        (
            "**b** and *i* and ~~s~~",
            "b and i and s",
            [("bold", "b"), ("italic", "i"), ("strikethrough", "s")],
        ),
        ("__b *i*__", "b i", [("bold", "b i"), ("italic", "i")]),
        ("`c` x", "c x", [("code", "c")]),
        ("**a `c` b**", "a c b", [("bold", "a "), ("code", "c"), ("bold", " b")]),
        ("[t](https://x.y/z)", "t", [("text_link:https://x.y/z", "t")]),
        ("[`c`](https://x.y)", "c", [("text_link:https://x.y", "c")]),
        ("[t](javascript:alert)", "[t](javascript:alert)", []),
        ("[](https://x.y)", "https://x.y", [("text_link:https://x.y", "https://x.y")]),
        ("![a cat](https://x.y/c.png)", "a cat", [("text_link:https://x.y/c.png", "a cat")]),
        ("# Big **b**\ntext", "Big b\ntext", [("bold", "Big "), ("bold", "b")]),
        ("a\n\nb", "a\n\nb", []),
        ("a\nb", "a\nb", []),
        ("- a\n- b\n  - c", "• a\n• b\n  • c", []),
        ("3. a\n4. b", "3. a\n4. b", []),
        ("-\n- b", "•\n• b", []),
        ("> q\n> r\n\nx", "q\nr\n\nx", [("blockquote", "q\nr")]),
        ("> q\n> > deep", "q\ndeep", [("blockquote", "q\ndeep")]),
        ("```py\nx = 1\n```", "x = 1", [("pre:py", "x = 1")]),
        ("```\n<b> & *x*\n```", "<b> & *x*", [("pre", "<b> & *x*")]),
        ("```\n```", "```\n```", []),
        ("a\n\n    code", "a\n\ncode", [("pre", "code")]),
        ("|a|b|\n|-|-|\n|1|2|", "|a|b|\n|-|-|\n|1|2|", [("pre", "|a|b|\n|-|-|\n|1|2|")]),
        ("a\n\n***\n\nb", "a\n\n———\n\nb", []),
        ("<b>html</b> &amp; \\*x\\*", "<b>html</b> & *x*", []),
        ("[1]: https://x.y", "[1]: https://x.y", []),
        ("**open", "**open", []),
        ("😀 **b😀**", "😀 b😀", [("bold", "b😀")]),
        ("a\r\n\r\nb", "a\n\nb", []),
    ],
)
def test_rendering(source: str, text: str, entities: list[tuple[str, str]]) -> None:
    assert shown(source) == (text, entities)


def test_offsets_count_utf_16_code_units() -> None:
    assert render("😀 **b**").entities == ({"type": "bold", "offset": 3, "length": 1},)


@pytest.mark.parametrize("source", ["", "   ", "\n\n", ">", "&nbsp;"])
def test_what_would_show_nothing_is_sent_as_it_is(source: str) -> None:
    assert render(source) == Rendered(source)


def test_a_text_nested_beyond_reach_is_sent_as_it_is() -> None:
    for source in (">" * 3000 + " x", "- " * 3000 + "x", "[" * 3000 + "x", "*" * 4000 + "x"):
        rendered = render(source)
        assert "x" in rendered.text
        assert utf16_units(rendered.text) <= utf16_units(source)


_MARKS = st.text(st.sampled_from("*_~`[]()!<>#-+.1234 \n\t\\&|:/ab😀é\u2028"), max_size=120)


@given(_MARKS | st.text(max_size=80))
@example("1. a\n\n\tcode")
@example("- \tx\n\n      \tcode")
def test_rendering_is_no_longer_than_its_source_and_its_entities_nest(source: str) -> None:
    rendered = render(source)
    length = utf16_units(rendered.text)
    assert length <= utf16_units(source)
    spans = [(e["offset"], e["offset"] + e["length"], e["type"]) for e in rendered.entities]
    for start, end, _ in spans:
        assert 0 <= start < end <= length
        rendered.text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")  # cuts no pair
    for a, b, kind in spans:
        for c, d, other in spans:
            assert b <= c or d <= a or (a <= c and d <= b) or (c <= a and b <= d), "they cross"
            within = (a, b, kind) != (c, d, other) and a <= c and d <= b and kind in ("code", "pre")
            assert not within or other == "blockquote", f"{other} lies in {kind}"


@given(
    st.lists(
        st.sampled_from(["word", "**bold**", "*it*", "~~no~~", "`code`", "[t](https://x.y)"]), min_size=1
    )
)
def test_no_word_gets_lost(words: list[str]) -> None:
    text = render(" ".join(words)).text
    plain = {"**bold**": "bold", "*it*": "it", "~~no~~": "no", "`code`": "code", "[t](https://x.y)": "t"}
    assert text == " ".join(plain.get(word, word) for word in words)
