"""Tells the same stories to Angelia's crash ring and hands what happened to the same classifier."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path

from tests.crash import stories as ring
from tests.crash import telling as crash
from tests.crash.homes import Prepared
from tests.crash.nursery import Zygote, ask
from tests.crash.truth import check, check_copies, check_invariants
from tests.reference.peer import Telling
from tests.reference.stories import Story
from tests.reference.truth import Call, Death, Label, Owed, Recorder, Sending, label_of, words_of

#: What a line says that speaks of a duplicate (the catalogue of ``angelia.model.markers``).
_DOUBT = ("so it may be a duplicate", "so earlier parts may already have arrived")
_DIED = ("unconfirmed", "dropped", "died", "taken_over")


def ring_story(story: Story) -> ring.Story:
    """The story in the words of the crash ring."""
    return ring.Story(
        story.name,
        story.script,
        story.answers,
        limit=story.limit,
        replays=1 if story.again else 0,
        arrives=story.arrives,
    )


def tell(story: Story, zygote: Zygote, home: Path, kills: tuple[str, ...]) -> Telling:
    """One telling, checked by the ring's own checks first; they raise."""
    run = crash.Telling(ring_story(story), zygote, home, Prepared(), kills)
    run.platform = platform = Recorder(story.script)
    run.tell()
    if story.bounded:  # all but that every answer arrived: a death can cost one of three redeliveries
        check_copies(run)
        check_invariants(run)
    else:
        check(run)
    told = Telling(story, kills, deaths=run.died, starts=run.died + 1)
    trace = home / f"trace{max(0, len(kills) - 1)}"
    told.traces = [trace.read_text().split()] if trace.exists() else []
    told.timeline = list(_timeline(home, platform.requests))
    told.owed = [_owed(home, text, story.arrives) for text in story.answers]
    told.runs = dict(ask(home, "SELECT turn, count(*) FROM model_runs GROUP BY turn"))
    return told


def _owed(home: Path, text: str, arrives: bool) -> Owed:
    """How the store left the delivery that holds the words of an answer."""
    words = words_of(text)
    parts: dict[str, set[str]] = defaultdict(set)
    for delivery, content in ask(home, "SELECT delivery, text FROM parts"):
        parts[delivery] |= words_of(content or "")
    state = dict(ask(home, "SELECT id, state FROM deliveries"))
    return Owed(words, next((state[d] for d, found in parts.items() if found & words), ""), arrives)


def _timeline(home: Path, requests: list[Call]) -> Iterator[Sending | Death]:
    """Each attempt on record with the request that it became, if it became one; then its death.

    A marker line that is a message of its own labels the message behind it.
    """
    waiting: dict[str, deque[Call]] = defaultdict(deque)
    for request in requests:
        waiting[request.send].append(request)
    words = {(d, p): words_of(t or "") for d, p, t in ask(home, "SELECT delivery, number, text FROM parts")}
    roles = {
        (d, p, n): role for d, p, n, role in ask(home, "SELECT delivery, part, number, role FROM revisions")
    }
    attempts = ask(home, "SELECT delivery, part, revision, ending FROM attempts ORDER BY delivery, number")
    announced: dict[str, Label] = {}
    for delivery, part, revision, ending in attempts:
        calls = waiting[delivery]
        call = calls.popleft() if calls and calls[0].key == f"{delivery}.{part}.{revision}" else None
        if roles[delivery, part, revision] == "line":
            if call is not None and call.taken:
                announced[delivery] = label_of(call.text, _DOUBT)
            continue
        if call is not None:
            label = announced.pop(delivery, None) or label_of(call.text, _DOUBT)
            yield Sending(call.key, words_of(call.text), label, call.taken, call.definite)
        if ending in _DIED:
            yield Death(words[delivery, part])
    left = [request.key for calls in waiting.values() for request in calls]
    if left:
        raise AssertionError(f"requests without an attempt on record: {left}")
