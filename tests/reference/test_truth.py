"""The classifier and the recording platform, without the reference: each verdict can be reached."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import pytest

from tests.reference.played import Row, Side
from tests.reference.report import report
from tests.reference.stories import STORIES, answer
from tests.reference.truth import (
    OPENING,
    Death,
    Label,
    Owed,
    Recorder,
    Sending,
    Verdict,
    label_of,
    verdicts_of,
    words_of,
)

WORDS = words_of(answer("a"))
DONE = Owed(WORDS, "delivered")


def send(name: str, label: Label = Label.PLAIN, words: frozenset[str] = WORDS, how: str = "ok") -> Sending:
    return Sending(name, words, label, taken=how in ("ok", "late"), definite=how == "refused")


PART = frozenset(list(WORDS)[:2])
DOUBT, NOTICE = Label.DOUBT, Label.NOTICE


@pytest.mark.parametrize(
    ("timeline", "verdicts"),
    [
        ([send("1")], {Verdict.ONCE}),
        ([send("1", how="refused"), send("2")], {Verdict.ONCE}),
        ([send("1", how="refused"), send("2", NOTICE)], {Verdict.ONCE}),
        ([send("1", how="refused"), send("2", DOUBT)], {Verdict.NEEDLESS}),
        ([send("1", how="500"), send("2", DOUBT)], {Verdict.LABELLED}),
        ([Death(WORDS), send("2", DOUBT)], {Verdict.LABELLED}),
        ([Death(WORDS), send("2", how="refused"), send("3", DOUBT)], {Verdict.LABELLED}),
        ([send("1", how="500"), send("2")], {Verdict.LUCKY}),
        ([send("1", how="500"), send("2", NOTICE)], {Verdict.LUCKY}),
        ([send("1", how="late"), send("2", DOUBT)], {Verdict.MARKED}),
        ([send("1", how="late"), send("2")], {Verdict.SILENT}),
        ([send("1", how="late"), send("2", NOTICE)], {Verdict.SILENT}),
        ([send("1"), send("2"), send("3", DOUBT)], {Verdict.SILENT, Verdict.MARKED}),
        ([send("1", words=PART), send("1", words=WORDS - PART)], {Verdict.ONCE}),
        ([send("1", words=PART), send("2", DOUBT, PART), send("2", DOUBT, WORDS - PART)], {Verdict.MARKED}),
        ([send("1", words=PART), Death(WORDS)], {Verdict.LOST}),
        ([send("1", how="refused")], {Verdict.LOST}),
        ([send("other", words=words_of(answer("b")))], {Verdict.LOST}),
    ],
)
def test_every_verdict(timeline: list[Sending | Death], verdicts: set[Verdict]) -> None:
    assert verdicts_of(DONE, timeline) == verdicts


def test_what_never_arrives_is_told_apart() -> None:
    assert verdicts_of(Owed(WORDS, "abandoned", arrives=False), []) == {Verdict.GAVE_UP}
    assert verdicts_of(Owed(WORDS, "", made=True), []) == {Verdict.NOT_RECORDED}
    assert verdicts_of(Owed(WORDS, "", made=False), []) == {Verdict.NOT_MADE}


def test_a_line_is_read_for_what_it_says() -> None:
    doubt = ("so it may be a duplicate",)
    assert label_of("a00", doubt) is Label.PLAIN
    assert label_of(f"{OPENING}this was delayed:\n\nso it may be a duplicate", doubt) is Label.NOTICE
    assert label_of(f"{OPENING}it was cut, so it may be a duplicate:\n\na00", doubt) is Label.DOUBT


def test_the_words_of_a_story_are_unique_and_survive_the_cutting() -> None:
    for story in STORIES:
        words = [word for text in story.answers for word in text.split()]
        assert len(words) == len(set(words))
        assert words_of(" (1/2)\n".join(words)) == frozenset(words)


def _post(url: str, text: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    body = {"delivery": "d", "part": 1, "parts": 1, "chat": "c", "text": text}
    try:
        connection.request("POST", "/", json.dumps(body), {"Idempotency-Key": text})
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_platform_remembers_what_it_did_not_take() -> None:
    with Recorder(("429:1", "late", "ok")) as platform:
        assert [_post(platform.url, text) for text in ("x", "y", "z")] == [429, 500, 200]
        assert [(c.text, c.taken, c.definite) for c in platform.requests] == [
            ("x", False, True),
            ("y", True, False),
            ("z", True, False),
        ]


def test_the_report_counts_answers_and_names_the_places() -> None:
    story = STORIES[0]
    rows = [
        Row(story.name, [], 0, [["ONCE"]]),
        Row(story.name, ["wire.after:1"], 1, [["MARKED", "SILENT"]], waited=2),
        Row(story.name, ["a:1", "b:2"], 2, [["SILENT"]]),
    ]
    side = Side("hermes-agent", {story.name: rows})
    assert Side.from_json(json.loads(json.dumps(side.as_json()))) == side
    text = report(side, None, STORIES)
    assert "| hermes-agent | plain | 3 | 1 | · | 1 | 2 |" in text
    assert "| `wire.after` | repeated with marker and **repeated silently** | 2 | · |" in text
    assert "| **repeated silently** | 1 | `a` then `b:2` |" in text
