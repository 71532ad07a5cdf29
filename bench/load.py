"""The near end of the webhook: posts messages and notes when each one was handed in.

A process of its own. ``--rate 0`` posts as fast as the gateway acknowledges; any other rate
posts on a fixed timetable whether or not the gateway keeps up, so that waiting is measured and
not hidden. The time of a message is the time it was **due**, or sent when there is no timetable.
Messages of one conversation are posted in their order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.driver import reply_text


@dataclass(frozen=True, slots=True)
class Load:
    """``messages`` messages over ``conversations`` conversations; ids and texts begin with ``prefix``."""

    url: str
    secret: str
    messages: int
    conversations: int
    at_once: int
    rate: float
    prefix: str

    def text(self, number: int) -> str:
        return f"{self.prefix}-{number} {reply_text(number)}"

    def chat(self, number: int) -> str:
        return f"{self.prefix}-chat-{number % self.conversations}"


@dataclass(slots=True)
class Posted:
    """What was handed in: text, chat, and the nanosecond it was due."""

    text: str
    chat: str
    due_ns: int


async def post_all(load: Load) -> list[Posted]:
    """Post everything. Raises on the first answer that is not 202: nothing may be lost unseen."""
    posted: list[Posted] = []
    headers = {"Authorization": f"Bearer {load.secret}"}
    connector = aiohttp.TCPConnector(limit=load.at_once)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        start_ns = time.monotonic_ns()

        async def lane(first: int) -> None:
            """Every ``at_once``-th message: as conversations are a multiple, chats keep their order."""
            for number in range(first, load.messages, load.at_once):
                due_ns = time.monotonic_ns()
                if load.rate:
                    due_ns = start_ns + int(number / load.rate * 1e9)
                    await asyncio.sleep((due_ns - time.monotonic_ns()) / 1e9)
                await one(session, number, due_ns)

        async def one(session: aiohttp.ClientSession, number: int, due_ns: int) -> None:
            item = Posted(load.text(number), load.chat(number), due_ns)
            body = {"id": f"{load.prefix}-{number}", "chat": item.chat, "user": "bench", "text": item.text}
            async with session.post(load.url, json=body) as answer:
                if answer.status != 202:
                    raise RuntimeError(f"message {number}: HTTP {answer.status} {await answer.text()}")
                await answer.read()
            posted.append(item)

        async with asyncio.TaskGroup() as group:
            for first in range(load.at_once):
                group.create_task(lane(first))
    return posted


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Post messages to a webhook platform.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--secret", required=True)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--conversations", type=int, required=True)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.0, help="messages per second (0: no timetable)")
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    if given.conversations % given.at_once and given.conversations < given.messages:
        parser.error("--conversations must be a multiple of --at-once, so that chats keep their order")
    load = Load(
        given.url, given.secret, given.messages, given.conversations, given.at_once, given.rate, given.prefix
    )
    posted = asyncio.run(post_all(load))
    rows = [(item.text, item.chat, item.due_ns) for item in posted]
    given.out.write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
