"""The people of the soak: they write, and repeat what nobody acknowledged, as a platform does.

They do not know whether a message was accepted when the gateway dies in the middle of it, so
they send it again under the same id. Some give up there; some repeat what was acknowledged
long ago, also twice at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import aiohttp
from tests.soak.mixture import Mixture

SECRET = "the-secret-of-the-soak"
_ANSWER_S = 5.0
_WORDS = "one two three four five six seven eight nine ten "


@dataclass
class Said:
    """One message. ``statuses``: every answer that was heard, in their order (0: none was)."""

    id: str
    profile: str
    chat: str
    text: str
    statuses: list[int] = field(default_factory=list)

    @property
    def acknowledged(self) -> bool:
        return 202 in self.statuses or 200 in self.statuses

    @property
    def accepted(self) -> int:
        """How often the gateway said that it was new."""
        return self.statuses.count(202)


class People:
    """Everybody in all conversations. ``address``: where the gateway of this moment listens."""

    def __init__(self, mixture: Mixture, address: Callable[[], str]) -> None:
        self._mixture = mixture
        self._address = address
        self._stopping = asyncio.Event()
        self.said: dict[str, Said] = {}
        self.posts = 0

    async def live(self, chats: list[tuple[str, str]]) -> None:
        """Write in ``chats`` (profile, chat) until ``stop``, and end when nobody has anything left
        to repeat."""
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            asyncio.TaskGroup() as group,
        ):
            for number, (profile, chat) in enumerate(chats):
                group.create_task(self._person(session, profile, chat, number))

    def stop(self) -> None:
        """Nobody writes anything new."""
        self._stopping.set()

    async def _pause(self, seconds: float) -> bool:
        """True: that much time has passed. False: it is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return True
        return False

    async def _person(self, session: aiohttp.ClientSession, profile: str, chat: str, number: int) -> None:
        dice = Random(f"person {self._mixture.seed} {number}")
        mine: list[Said] = []
        while await self._pause(dice.expovariate(1 / self._mixture.pace_s)):
            id = f"m{len(self.said) + 1}"
            text = f"[{id}] " + _WORDS * dice.choice((0, 0, 1, 3, 8))
            said = self.said[id] = Said(id, profile, chat, text.strip())
            mine.append(said)
            await self._deliver(session, said, dice)
            while dice.random() < self._mixture.repeats:
                old = dice.choice(mine[-20:])
                copies = dice.choice((1, 1, 2))
                await asyncio.gather(*(self._post(session, old) for _ in range(copies)))

    async def _deliver(self, session: aiohttp.ClientSession, said: Said, dice: Random) -> None:
        """Repeat until acknowledged; some give up when they have heard nothing."""
        gives_up = dice.random() < 0.1
        while not said.acknowledged:
            await self._post(session, said)
            if gives_up and not said.acknowledged:
                return
            if not said.acknowledged:
                await self._breath()

    async def _breath(self) -> None:
        """The moment between two tries."""
        for _ in range(2):
            await asyncio.sleep(0.05)

    async def _post(self, session: aiohttp.ClientSession, said: Said) -> None:
        self.posts += 1
        body = {"id": said.id, "chat": said.chat, "user": "somebody", "text": said.text}
        url = f"{self._address()}webhook/{said.profile}/messages"
        status = 0
        if self._address():
            try:
                async with session.post(
                    url, json=body, headers={"Authorization": f"Bearer {SECRET}"}
                ) as answer:
                    status = answer.status
            except (aiohttp.ClientError, OSError, TimeoutError):
                status = 0
        said.statuses.append(status)
