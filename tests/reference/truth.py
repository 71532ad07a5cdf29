"""What people saw, and what can be said about it: one classifier for both ledgers.

A timeline holds every wire call as the platform saw it, and every death in the middle of a
sending. ``verdicts_of`` compares it with the answers that were owed, word by word.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from aiohttp import web

from tests.crash.platform import Platform

OPENING = "♻️ Recovered reply — "
_WORD = re.compile(r"\b[a-z]\d\d\b")

#: Answers of the platform after which nothing can have arrived. All others leave it open.
_DEFINITE = ("429", "410")


class Label(Enum):
    """What the line in front of a message says."""

    PLAIN = "no line"
    NOTICE = "a line that speaks of no duplicate"
    DOUBT = "a line that says it may be a duplicate"


class Verdict(Enum):
    """What became of one answer in one telling. Several can be true."""

    ONCE = "exactly once"
    LABELLED = "once, labelled in honest doubt"
    MARKED = "repeated with marker"
    SILENT = "repeated silently"
    NEEDLESS = "mislabelled: marker although it surely had not arrived"
    LUCKY = "mislabelled: plain although it may have arrived"
    LOST = "lost"
    GAVE_UP = "given up, as the story wants"
    NOT_RECORDED = "made, but never on record"
    NOT_MADE = "died before the answer was made"


@dataclass(frozen=True)
class Sending:
    """One wire call. ``send``: which sending of the whole it belongs to; its line stands for all of it."""

    send: str
    words: frozenset[str]
    label: Label
    taken: bool
    definite: bool


@dataclass(frozen=True)
class Death:
    """The sender died when its record said that these words were on their way."""

    words: frozenset[str]


@dataclass(frozen=True)
class Owed:
    """An answer of the story. ``state``: how the ledger left it; empty: it never knew it. ``made``:
    whether the agent ever got as far as the answer."""

    words: frozenset[str]
    state: str
    arrives: bool = True
    made: bool = True


def words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def verdicts_of(owed: Owed, timeline: Sequence[Sending | Death]) -> set[Verdict]:
    """What became of one answer."""
    found: set[Verdict] = set()
    taken: set[str] = set()
    doubt: set[str] = set()
    open_when: dict[str, bool] = {}
    labelled = False
    for event in timeline:
        words = event.words & owed.words
        if not words:
            continue
        if isinstance(event, Death):
            doubt |= words
            continue
        is_open = open_when.setdefault(event.send, bool(doubt | taken))
        if event.taken:
            if words & taken:
                found.add(Verdict.MARKED if event.label is Label.DOUBT else Verdict.SILENT)
            elif event.label is Label.DOUBT:
                labelled = True
                if not is_open:
                    found.add(Verdict.NEEDLESS)
            elif words & doubt:
                found.add(Verdict.LUCKY)
            taken |= words
        elif not event.definite:
            doubt |= words
    if not found & {Verdict.MARKED, Verdict.SILENT} and owed.words - taken:
        return found | {_missing(owed)}
    if owed.words - taken:
        found.add(_missing(owed))
    if not found:
        found.add(Verdict.LABELLED if labelled else Verdict.ONCE)
    return found


def _missing(owed: Owed) -> Verdict:
    if not owed.state:
        return Verdict.NOT_RECORDED if owed.made else Verdict.NOT_MADE
    return Verdict.LOST if owed.arrives else Verdict.GAVE_UP


def label_of(text: str, doubt: Iterable[str]) -> Label:
    """``doubt``: what a line contains that speaks of a duplicate."""
    if not text.startswith(OPENING):
        return Label.PLAIN
    line = text.partition("\n")[0]
    return Label.DOUBT if any(said in line for said in doubt) else Label.NOTICE


@dataclass(frozen=True)
class Call:
    """One request as it reached the platform."""

    key: str
    send: str
    part: int
    text: str
    behaviour: str
    taken: bool

    @property
    def definite(self) -> bool:
        return self.behaviour.partition(":")[0] in _DEFINITE


@dataclass
class Recorder(Platform):
    """The crash ring's platform, which also remembers what it did not take."""

    requests: list[Call] = field(default_factory=list)

    def __enter__(self) -> Recorder:
        super().__enter__()
        return self

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        behaviour = self.script[min(len(self.calls), len(self.script) - 1)]
        silent, before = behaviour == "silence", len(self.seen)
        number = len(self.requests)
        if silent:
            self.calls.append(behaviour)
            answer: web.StreamResponse = web.Response()
        else:
            answer = await super()._take(request)
        taken = silent or len(self.seen) > before
        key = request.headers["Idempotency-Key"]
        self.requests.insert(
            number, Call(key, body["delivery"], body["part"], body["text"], behaviour, taken)
        )
        # Until the caller has lost patience and hung up; the server tells nobody when that is.
        while silent and request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return answer
