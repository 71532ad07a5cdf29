"""Platforms that nobody can kill, and the adapters through which gateways reach them.

``SimPlatform`` is the truth of a simulated world: what it took stands in ``arrived``, kept
outside every process. It decides what becomes of a call when the call reaches it, also when
the gateway that made it is dead by then. ``SimAdapter`` lives in a gateway and dies with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web
from tests.simulation.dice import Dice

from angelia.model.errors import AdapterDownError, BadCredentialError
from angelia.model.ids import AdapterId, Lane
from angelia.model.messages import Outgoing, TextFormat
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    BadCredential,
    ContentFault,
    LookUp,
    Moved,
    NotSent,
    Outcome,
    RateLimited,
    Refused,
    Scope,
    ThreadGone,
    Unconfirmed,
    Unreachable,
)
from angelia.platforms.base import FOR_EVER_S, Capabilities, Host
from angelia.platforms.text import split
from angelia.testing.simloop import lapse

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.world import World

CALL_LIMIT_S = 20.0
KEY_WINDOWS_S = {"key for ever": FOR_EVER_S, "key 24 h": 86_400.0, "key 2 min": 120.0}

#: When a call lands whose answer comes too late. Where a look-up proves an absence 30 s after
#: the end, nothing is buffered longer (guarantees §10); where a key has a window, no call
#: outlives its limit.
LATE_S = {
    "read back": (CALL_LIMIT_S + 1, 29.0),
    **dict.fromkeys(KEY_WINDOWS_S, (CALL_LIMIT_S - 5, CALL_LIMIT_S - 0.1)),
}


@dataclass
class Arrival:
    """One message that a person sees. ``sent_t``: when its first byte left; ``flaw``: why the
    record may not know it as it is ("frozen", "unprotected"), by the witness's judgement."""

    t: float
    sent_t: float
    key: str
    text: str
    chat: str
    thread: str
    node: str
    flaw: str


@dataclass
class Call:
    """One wire call. ``told``: what the platform answered, if it did."""

    sent_t: float
    message: Outgoing
    node: str
    flaw: str
    answer: asyncio.Future[Outcome]


class SimPlatform:
    """One messaging service with its bot."""

    def __init__(self, world: World, name: str, kind: str) -> None:
        self.world, self.kind = world, kind
        self.id = AdapterId("bot", name)
        self.dice = Dice(world.seed, f"platform {name}")
        self.text_limit = self.dice.pick((180, 400))
        self.capabilities = Capabilities(
            text_limit=self.text_limit,
            key_window_s=KEY_WINDOWS_S.get(kind, 0.0),
            call_limit_s=CALL_LIMIT_S,
            read_back=kind == "read back",
            part_receipts=kind != "no part receipts",
            typing=self.dice.chance(0.5),
        )
        self.arrived: list[Arrival] = []
        self.keys: dict[str, tuple[float, str, str]] = {}  # key → when, receipt, by whom
        self.landing: dict[str, int] = {}  # calls on their way, by key
        self.limits: dict[tuple[Scope, str], float] = {}
        self.absent: set[str] = set()
        self.blocked: set[str] = set()
        self.moves: dict[str, str] = {}
        self.gone_threads: set[tuple[str, str]] = set()
        self.gone_anchors: set[str] = set()
        self.bad_markup: set[str] = set()
        self.too_long: set[str] = set()
        self.revoked_until = 0.0
        self.down_until = 0.0
        self.said: dict[str, set[str]] = {}  # chat or delivery → what was answered about it

    @property
    def now(self) -> float:
        return self.world.loop.time()

    def root(self, chat: str) -> str:
        """The chat's first name."""
        return chat.split("+")[0]

    def begin(self, message: Outgoing, node: Node, flaw: str) -> Call:
        """The first byte has left: whatever becomes of the caller, the platform will see it."""
        call = Call(self.now, message, node.name, flaw, self.world.loop.create_future())
        self.landing[message.key] = self.landing.get(message.key, 0) + 1
        self.world.begin(self._serve(call))
        return call

    async def _serve(self, call: Call) -> None:
        plan = self._plan(call.message)
        wait = self.dice.between(0.02, 1.2)
        if plan == "slow":
            wait = self.dice.between(2, CALL_LIMIT_S - 3)
        elif plan == "late":
            wait = self.dice.between(*LATE_S.get(self.kind, (CALL_LIMIT_S + 1, 45.0)))
        await lapse(wait)
        outcome = self._decide(plan, call)
        self.landing[call.message.key] -= 1
        self.world.witness.note(self.id.platform, f"{plan} {call.message.key} {call.node} {outcome}")
        if outcome is not None:
            self._remember(call.message, outcome)
            await lapse(self.dice.between(0.01, 0.5))
            if not call.answer.done():
                call.answer.set_result(outcome)

    def _plan(self, message: Outgoing) -> str:
        if self.world.calm:
            return "well"
        return self.dice.weighted({"well": 1.0, **self.world.mixture.answers})

    def _remember(self, message: Outgoing, outcome: Outcome) -> None:
        word = type(outcome).__name__
        for about in (self.root(message.chat), message.delivery):
            self.said.setdefault(about, set()).add(word)

    def _decide(self, plan: str, call: Call) -> Outcome | None:
        """What becomes of the call; ``None``: no answer ever comes."""
        m = call.message
        standing = None if self.world.calm else self._standing(m)
        if standing is not None:
            return standing
        key = f"{m.delivery}.{m.part}"
        match plan:
            case "vanished":
                return None
            case "broken":
                return Unconfirmed("500")
            case "refused":
                return Refused("no")
            case "limited":
                return self._limit(m)
            case "unreachable":
                self.blocked.add(self.root(m.chat))
                return Unreachable("blocked")
            case "moved":
                self.moves[m.chat] = f"{self.root(m.chat)}+{len(self.moves) + 1}"
                return Moved(self.moves[m.chat])
            case "thread gone" if m.thread:
                self.gone_threads.add((m.chat, m.thread))
                return ThreadGone()
            case "anchor gone" if m.reply_to:
                self.gone_anchors.add(m.reply_to)
                return ThreadGone(anchor_only=True)
            case "markup":
                self.bad_markup.add(key)
            case "too long":
                self.too_long.add(m.delivery)
            case "credential":
                self.revoked_until = self.now + self.dice.between(1, 60)
            case "lost" | "late":
                self._accept(call)
                return None
            case "dropped":
                self._accept(call)
                return Unconfirmed("reset", dropped=True)
        standing = None if self.world.calm else self._standing(m)
        return standing or Accepted(self._accept(call))

    def _standing(self, m: Outgoing) -> Outcome | None:
        """What the platform says for reasons that outlast one call."""
        if self.now < self.revoked_until:
            return BadCredential("revoked")
        for (scope, subject), until in self.limits.items():
            if self.now < until and (scope is Scope.BOT or subject in (m.chat, "send")):
                self.world.witness.reach("answered inside a rate limit")
                return RateLimited(until - self.now, scope, "send" if scope is Scope.METHOD else "")
        if m.chat in self.moves:
            return Moved(self.moves[m.chat])
        if self.root(m.chat) in self.blocked:
            return Unreachable("blocked")
        if (m.chat, m.thread) in self.gone_threads:
            return ThreadGone()
        if m.reply_to in self.gone_anchors:
            return ThreadGone(anchor_only=True)
        if f"{m.delivery}.{m.part}" in self.bad_markup and m.format is TextFormat.MARKDOWN:
            return BadContent(ContentFault.MARKUP)
        if m.delivery in self.too_long and len(m.text) > self.text_limit * 3 // 4:
            return BadContent(ContentFault.TOO_LONG)
        return None

    def _limit(self, m: Outgoing) -> RateLimited:
        scope = self.dice.pick((Scope.CHAT, Scope.CHAT, Scope.BOT, Scope.METHOD))
        wait = self.dice.pick((0.0, 1.0, 5.0, 31.5, 70.0, 200.0))
        subject = {Scope.CHAT: m.chat, Scope.BOT: "", Scope.METHOD: "send"}[scope]
        self.limits[scope, subject] = self.now + wait
        return RateLimited(wait, scope, "send" if scope is Scope.METHOD else "")

    def _accept(self, call: Call) -> str:
        """The person sees it, unless its key tells that they have seen it already."""
        m = call.message
        window = KEY_WINDOWS_S.get(self.kind, 0.0)
        if m.key in self.keys and self.now < self.keys[m.key][0] + window:
            by = self.keys[m.key][2]
            self.world.witness.reach("repeat recognised by its key")
            if by != call.node:
                self.world.witness.reach("keyed repeat after a restart")
            return self.keys[m.key][1]
        receipt = f"{self.id.platform}-{len(self.arrived) + 1}"
        self.keys[m.key] = (self.now, receipt, call.node)
        arrival = Arrival(self.now, call.sent_t, m.key, m.text, m.chat, m.thread, call.node, call.flaw)
        self.arrived.append(arrival)
        self.world.witness.arrived(self, arrival)
        return receipt

    async def look_up(self, m: Outgoing) -> Accepted | LookUp:
        await lapse(self.dice.between(0.05, 2))
        if not self.world.calm and self.dice.chance(0.2):
            if self.dice.chance(0.3):
                raise ConnectionError("reading back failed")
            return LookUp.CANNOT_TELL
        if any(a.key == m.key for a in self.arrived):
            self.world.witness.reach("look-up found")
            return Accepted(self.keys[m.key][1])
        self.world.witness.looked_up_absent(m.key, bool(self.landing.get(m.key)))
        return LookUp.ABSENT


class SimAdapter:
    """One gateway's connection to a platform."""

    def __init__(self, platform: SimPlatform, node: Node) -> None:
        self.platform, self.node = platform, node
        self.capabilities = platform.capabilities
        self.host: Host | None = None
        self.stopped = False

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        return ()

    async def start(self, host: Host) -> None:
        await lapse(self.platform.dice.between(0.01, 1))
        if self.platform.now < self.platform.revoked_until:
            raise BadCredentialError("revoked")
        if self.platform.now < self.platform.down_until:
            self.node.world.witness.reach("platform outage")
            raise AdapterDownError("the platform is down")
        self.host = host
        self.node.adapters[self.platform.id] = self

    async def stop(self) -> None:
        self.stopped = True
        if self.node.adapters.get(self.platform.id) is self:
            del self.node.adapters[self.platform.id]

    def split(self, text: str, limit: int | None = None) -> list[str]:
        return split(text, limit or self.platform.text_limit, len)

    def present(self, chat: str) -> bool:
        return self.platform.root(chat) not in self.platform.absent

    async def send(self, message: Outgoing) -> Outcome:
        await self.node.outside()
        dice, world = self.platform.dice, self.platform.world
        entered = world.witness.look(self.node)
        if dice.chance(world.mixture.connect_p):
            await lapse(dice.between(0.0, 1.5))  # connecting
        if self.stopped or (not world.calm and dice.chance(0.1 * world.mixture.answers.get("unsent", 0))):
            return NotSent("refused")
        flaw = world.witness.first_byte(self.node, self.platform, message, entered)
        call = self.platform.begin(message, self.node, flaw)
        if not world.calm and dice.chance(0.1 * world.mixture.answers.get("raises", 0)):
            raise RuntimeError("a bug in an adapter")
        try:
            async with asyncio.timeout(CALL_LIMIT_S):
                return await call.answer
        except TimeoutError:
            return Unconfirmed("no answer in time")

    async def look_up(self, message: Outgoing, since: int) -> Accepted | LookUp:
        await self.node.outside()
        return await self.platform.look_up(message)

    async def typing(self, lane: Lane, active: bool) -> Outcome | None:
        await self.node.outside()
        # What a process was about to do when it froze, it does at the moment at which it goes on.
        if self.platform.now - self.node.process.thawed_at > 1.0:
            self.platform.world.witness.typing(self.platform, lane)
        await lapse(0.05)
        if not self.platform.world.calm and self.platform.dice.chance(0.05):
            return RateLimited(self.platform.dice.between(1, 30), Scope.METHOD, "typing")
        return None
