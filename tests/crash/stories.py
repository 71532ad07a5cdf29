"""The stories of the crash ring: what happens, and what must be true whatever died when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Story:
    """``script`` is how the platform answers, one behaviour a request; ``messages`` what people
    say; ``agent`` as in the configuration. ``notify``: a notice is enqueued, too. ``arrives``:
    every answer is seen in the end."""

    name: str
    script: tuple[str, ...] = ("ok",)
    messages: tuple[str, ...] = ("hello",)
    agent: str = "{kind: echo}"
    keyed: bool = False
    limit: int = 4096
    replays: int = 0
    notify: bool = False
    arrives: bool = True
    double: bool = False


_LONG = "first part " * 5 + "\n\n" + "second part " * 5 + "\n\n" + "third part " * 5

STORIES = (
    Story("plain", double=True),
    Story("three parts", messages=(_LONG,), limit=64, double=True),
    Story("rate limit", script=("429:20", "ok")),
    Story("unconfirmed", script=("late", "ok")),
    Story("unconfirmed with a key", script=("reset", "ok"), keyed=True),
    Story("503 then 429", script=("500", "429:5", "ok")),
    Story("unreachable", script=("410",), messages=("hello", "again"), arrives=False),
    Story("replayed inbound", replays=2, messages=("one", "two")),
    Story("interrupted run", agent="{kind: echo, delay_s: 20}"),
    Story("notify", messages=(), notify=True),
    Story("drain", messages=(_LONG, "two"), limit=64, agent="{kind: echo, delay_s: 1}"),
)
