"""What shall happen to a call: steps, and the script that deals them out.

A step is plain data, so it can be sent to a server in another process. It says three things:
what is waited for first, whether the call is carried out, and how the exchange ends. A script
is a list of rules; the first rule that fits a call and has a step left gives it one. A call
that no rule fits is carried out and answered properly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from angelia.testing.telegram_server.answers import REFUSALS, Json
from angelia.testing.telegram_server.parameters import Call

#: The methods that put messages into a chat: what a rule without a method means.
SENDS = frozenset(
    {
        "sendmessage",
        "sendphoto",
        "senddocument",
        "sendvoice",
        "sendaudio",
        "sendvideo",
        "sendmediagroup",
    }
)

Ending = Literal["answer", "hang", "reset", "close", "cut", "say"]


@dataclass(frozen=True, slots=True)
class Step:
    """One call's fate. Make it with the functions below.

    ``accepts``: the call is carried out, if the world allows it; a call that the world refuses
    is answered with that refusal, whatever the ending. ``ending``: a proper answer, silence, a
    reset, a close, half an answer, or ``status`` with ``body`` (UTF-8), said as it is.
    """

    ending: Ending = "answer"
    accepts: bool = True
    #: Reset as soon as the head of the request is known; its body is never read.
    unread: bool = False
    status: int = 200
    body: str = ""
    content_type: str = "application/json"
    refusal: str = ""
    move_to: int = 0
    flood_s: int = 0
    flood_scope: Literal["call", "chat", "bot"] = "call"
    wait_s: float = 0.0
    gate: str = ""


def accept() -> Step:
    """Carry the call out and answer, as always: a step to count past."""
    return Step()


def accept_and_hang() -> Step:
    """Carry it out; then say nothing until the client leaves."""
    return Step("hang")


def accept_and_reset() -> Step:
    """Carry it out; then reset the connection."""
    return Step("reset")


def accept_and_close() -> Step:
    """Carry it out; then close the connection without a word."""
    return Step("close")


def accept_and_cut() -> Step:
    """Carry it out; say half of the answer, then reset."""
    return Step("cut")


def accept_and_say(status: int, body: str, content_type: str = "application/json") -> Step:
    """Carry it out; answer something else, as ``accept_and_say(200, "<html>")``."""
    return Step("say", status=status, body=body, content_type=content_type)


def accept_and_fail(name: str = "internal") -> Step:
    """Carry it out; answer with the refusal ``name`` of ``REFUSALS`` (a 5xx, as a rule)."""
    return Step("say", refusal=_known(name))


def deleted_immediately() -> Step:
    """Carry it out; answer that the sent message was deleted at once and cannot be returned."""
    return accept_and_fail("deleted_immediately")


def reset_before_reading() -> Step:
    """Reset without having read the body. Fits by method only: the chat stands in the body."""
    return Step("reset", accepts=False, unread=True)


def reset() -> Step:
    """Read the request, reset; nothing is carried out."""
    return Step("reset", accepts=False)


def hang() -> Step:
    """Read the request, carry nothing out, say nothing until the client leaves."""
    return Step("hang", accepts=False)


def fail(name: str = "internal") -> Step:
    """Refuse with the refusal ``name`` of ``REFUSALS``; nothing is carried out."""
    return Step("say", accepts=False, refusal=_known(name))


refuse = fail


def migrated(to: int) -> Step:
    """Refuse: the group was upgraded to the supergroup ``to``."""
    return Step("say", accepts=False, move_to=to)


def flood(wait_s: int, scope: Literal["call", "chat", "bot"] = "call") -> Step:
    """429 with a wait of ``wait_s`` seconds.

    ``chat`` and ``bot``: from this call on every send, edit and chat action of that chat (or of
    the bot) is refused with what is left of the wait, by the server's clock, and written down
    in ``server.floods.trespasses``. ``call``: this call alone."""
    return Step("say", accepts=False, flood_s=wait_s, flood_scope=scope)


def say(status: int, body: str, content_type: str = "application/json") -> Step:
    """Carry nothing out; answer ``body`` as it is: garbage, a proxy's page, a foreign error."""
    return Step("say", accepts=False, status=status, body=body, content_type=content_type)


def slow(wait_s: float, then: Step | None = None) -> Step:
    """Wait ``wait_s`` real seconds first, then do as ``then`` says (accept, if nothing). The
    call goes on also if the client has left meanwhile, as on the real server."""
    return dataclasses.replace(then or Step(), wait_s=wait_s)


def hold(gate: str, then: Step | None = None) -> Step:
    """As ``slow``, until ``server.release(gate)`` is called."""
    return dataclasses.replace(then or Step(), gate=gate)


def _known(name: str) -> str:
    if name not in REFUSALS:
        raise ValueError(f"no refusal is called {name!r}; there are: {', '.join(sorted(REFUSALS))}")
    return name


def step_from(values: Json) -> Step:
    """The step that ``dataclasses.asdict`` took apart. Raises ``TypeError`` for other fields."""
    return Step(**values)


@dataclass(slots=True)
class Rule:
    """Whom a row of steps is for. ``method`` "" means the sends, "*" any; ``for_ever``: the last
    step is never used up."""

    steps: list[Step]
    method: str = ""
    chat: int | None = None
    when: Callable[[Call], bool] | None = None
    for_ever: bool = False

    def names(self, method: str) -> bool:
        wanted = self.method.lower()
        return wanted in ("*", method) or (not wanted and method in SENDS)

    def fits(self, call: Call) -> bool:
        return (
            self.names(call.method)
            and (self.chat is None or call.chat == self.chat)
            and (self.when is None or self.when(call))
        )

    def take(self) -> Step:
        return self.steps[0] if self.for_ever and len(self.steps) == 1 else self.steps.pop(0)


@dataclass(slots=True)
class Script:
    """The rules, in the order in which they were given."""

    rules: list[Rule] = field(default_factory=list)

    @property
    def steps_left(self) -> int:
        """How many steps nobody has met yet (a step for ever counts once)."""
        return sum(len(rule.steps) for rule in self.rules)

    def unread(self, method: str) -> bool:
        """Whether a call of ``method`` is to be reset unread; takes the step, if so."""
        for rule in self.rules:
            if rule.steps and rule.names(method) and rule.chat is None and rule.when is None:
                if not rule.steps[0].unread:
                    return False
                rule.take()
                return True
        return False

    def take(self, call: Call) -> Step:
        """The step for ``call``: the next one of the first rule that fits."""
        for rule in self.rules:
            if rule.steps and not rule.steps[0].unread and rule.fits(call):
                return rule.take()
        return Step()

    def clear(self) -> None:
        self.rules.clear()
