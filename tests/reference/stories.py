"""The stories both ledgers are played through: those of the crash ring, told in unique words.

Every word of every answer is there once only, so that what arrived can be compared word by word,
however an answer was cut and whatever line stood in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass


def answer(letter: str, words: int = 4) -> str:
    """An answer of unique words."""
    return " ".join(f"{letter}{number:02d}" for number in range(words))


@dataclass(frozen=True)
class Story:
    """``script``: how the platform answers, as in ``tests.crash.platform``, and ``silence`` (takes
    the message, never answers). ``manner``: whose adapter's way of reporting a failure (the
    reference has one per adapter). ``again``: the platform hands every message over twice:
    ``same`` adapter, ``rebuilt`` adapter, after a ``restart``. ``offline``: so many calls find no
    connection. ``rest_s``: how long the gateway stays down after its first end. ``held``: a second
    gateway starts while the first is held at each of its places, instead of a death. ``arrives``:
    every answer is seen in the end; ``bounded``: unless its three redeliveries are used up.
    ``ours``: the crash ring can be told this; where it cannot, ``argued`` says what Angelia's rules
    and other tests hold. ``note``: what has to be known to read the figures."""

    name: str
    script: tuple[str, ...] = ("ok",)
    answers: tuple[str, ...] = (answer("a"),)
    limit: int = 4096
    manner: str = "telegram"
    again: str = ""
    offline: int = 0
    rest_s: int = 0
    held: bool = False
    arrives: bool = True
    bounded: bool = False
    double: bool = False
    ours: bool = True
    argued: str = ""
    note: str = ""


LONG = answer("p", 40)

_TWICE = (
    "hermes-agent dies a second time at every place after a first death at every place, Angelia at every"
    " place after a first death at five: answer on record, claimed, about to send, sent, receipt in hand"
)

STORIES = (
    Story("plain", double=True, note=_TWICE),
    Story(
        "several parts",
        answers=(LONG,),
        limit=64,
        double=True,
        note=_TWICE,
    ),
    Story("rate limit", ("429:20", "ok")),
    Story(
        "rate limit, long",
        ("429:20",) * 3 + ("ok",),
        bounded=True,
        note="three calls are refused, whenever they come. Both ledgers end after three redeliveries; the"
        " starts of hermes-agent follow each other at once here, and one after the platform's wait would"
        " not spend a redelivery on a refusal",
    ),
    Story("taken, then 500", ("late", "ok")),
    Story(
        "taken, then 500 (Mattermost's manner)",
        ("late", "ok"),
        manner="mattermost",
        ours=False,
        argued="the platform's manner does not matter: see the story above",
    ),
    Story("taken, then cut", ("reset", "ok")),
    Story(
        "taken, then silence",
        ("silence", "ok"),
        ours=False,
        argued="`Unconfirmed` like 'taken, then 500': labelled copy after 30 s",
    ),
    Story("503 then 429", ("500", "429:5", "ok")),
    Story("unreachable", ("410",), (answer("a"), answer("b")), arrives=False),
    Story(
        "no connection for a while",
        offline=4,
        ours=False,
        argued="`NotSent` is no attempt: plain, once, when the connection is back (guarantees §3)",
    ),
    Story("two answers", answers=(answer("a"), answer("b"))),
    Story("replayed inbound, same adapter", again="same", answers=(answer("a"), answer("b"))),
    Story(
        "replayed inbound, rebuilt adapter",
        again="rebuilt",
        ours=False,
        argued="the duplicate check is a unique key in the store (guarantees §8): once",
    ),
    Story(
        "replayed inbound, after a restart",
        again="restart",
        ours=False,
        argued="the duplicate check is a unique key in the store (guarantees §8): once",
    ),
    Story(
        "restart two hours late",
        rest_s=2 * 3600,
        ours=False,
        argued="as 'plain'; the line also says when it was written (guarantees §5)",
    ),
    Story(
        "restart 25 hours late",
        rest_s=25 * 3600,
        ours=False,
        arrives=False,
        argued="abandoned as stale, by the same bound (guarantees §6)",
    ),
    Story(
        "a second gateway starts meanwhile",
        held=True,
        ours=False,
        argued="the home's lock keeps the second daemon out; embedded owners: leases and fences",
    ),
)
