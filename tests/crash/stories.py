"""The stories of the crash ring: what happens, and what must be true whatever died when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Story:
    """``script`` is how the platform answers, one behaviour a request; ``messages`` what people
    say; ``agent`` as in the configuration. ``notify``: a notice is enqueued, too. ``arrives``:
    every answer is seen in the end.

    ``threads``: each message is said in a thread of its own, once the platform was called for the
    one before. ``leave``: the gateway is asked to stop as soon as everything is ``acknowledged``, or the
    platform is ``called``. ``freezes``: it stands still for longer than its lease while the
    platform is called. ``old``: the store is eight days old and owes a notice from then.
    ``copied``: the store is a copy of a moment at which a notice was owed.
    ``later``: the gateway is of a later release, the store of this one. ``ci``: told in CI; the
    others with ``make soak``.
    """

    name: str
    script: tuple[str, ...] = ("ok",)
    messages: tuple[str, ...] = ("hello",)
    agent: str = "{kind: echo}"
    keyed: bool = False
    limit: int = 4096
    replays: int = 0
    notify: bool = False
    arrives: bool = True
    threads: bool = False
    leave: str = ""
    freezes: bool = False
    old: bool = False
    copied: bool = False
    later: bool = False
    ci: bool = False


_LONG = "first part " * 5 + "\n\n" + "second part " * 5 + "\n\n" + "third part " * 5

#: A model that is refused, and one that answers for it. Both are played by the platform.
_FALLBACK = "{kind: openai, base_url: MODEL, api_key: none, model: dear, fallback_model: cheap}"

STORIES = (
    Story("plain"),
    Story("three parts", messages=(_LONG,), limit=64),
    Story("three parts and a command elsewhere", messages=(_LONG, "/new"), limit=64, threads=True, ci=True),
    Story("a limit that holds another thread", script=("429:60", "ok"), messages=("a", "b"), threads=True),
    Story("rate limit", script=("429:20", "ok")),
    Story("unconfirmed", script=("late", "ok")),
    Story("unconfirmed with a key", script=("reset", "ok"), keyed=True),
    Story("503 then 429", script=("500", "429:5", "ok")),
    Story("unreachable", script=("410",), messages=("hello", "again"), arrives=False),
    Story("rejected", script=("413", "413", "413", "413"), messages=(_LONG,), arrives=False),
    Story("replayed inbound", replays=2, messages=("one", "two")),
    Story("interrupted run", agent="{kind: echo, delay_s: 20}"),
    Story("notify", messages=(), notify=True),
    Story("stopped when all was said", messages=(_LONG, "two"), limit=64, agent="{kind: echo, delay_s: 1}"),
    Story(
        "drain with runs that end",
        messages=("one", "two"),
        agent="{kind: echo, delay_s: 9}",
        leave="acknowledged",
    ),
    Story("drain that cuts a run", agent="{kind: echo, delay_s: 45}", leave="acknowledged"),
    Story("drain that cuts a call", script=("slow", "ok"), leave="called"),
    Story("frozen during a call", script=("slow", "ok"), freezes=True, ci=True),
    Story("fallback model", agent=_FALLBACK),
    Story("a new conversation", messages=("hello", "/new", "again")),
    Story("prune", messages=("hello",), old=True),
    Story("an old copy put back", messages=("hello",), copied=True),
    Story("migration", messages=("hello",), notify=True, later=True),
)

#: Points that no story in CI is sure to pass, by the verb or the place, and the one that does.
AT_LENGTH_ONLY: dict[str, str] = {
    "enqueue": "the command notify",
    "operate": "the commands that an operator gives",
    "backup": "the command backup",
    "restore": "the command restore",
    "salvage": "the command salvage",
    "copy": "migration",
    "park": "an old copy put back",
    "release_turn": "drain that cuts a run",
    "next_run": "fallback model",
    "defer": "a limit that holds another thread",
    "settle": "unreachable",
    "record_receipt": "frozen during a call, if the answer is late enough",
}

#: Points that no story can pass, and why. One that is passed after all must not stand here.
NEVER_PASSED: dict[str, str] = {
    "edit": "the platform of the stories has no edits",
    "hold": "the platform of the stories limits no control calls",
    "note_look_up": "the platform of the stories cannot be read back",
}
