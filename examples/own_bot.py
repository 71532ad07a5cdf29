"""A bot of your own sends through the ledger.

Run it, kill it with kill -9 at any moment, run it again with the same arguments: every line
arrives in the room once or, where nobody can know, a second time with the marker.

    python examples/own_bot.py bot.db room.txt "first" "second"
"""

import asyncio
import sys

from angelia import Accepted, Outbox, Outcome, Outgoing


async def main(store: str, room: str, *texts: str) -> None:
    async def send(message: Outgoing) -> Outcome:
        with open(room, "a", encoding="utf-8") as file:  # your platform: one wire call
            file.write(message.text + "\n")
            return Accepted(receipt=str(file.tell()))

    async with Outbox(store, send) as outbox:
        for number, text in enumerate(texts):
            await outbox.owe("room", text, id=f"line-{number}")
        for number in range(len(texts)):
            record = await outbox.settled(f"line-{number}")
            print(record.id, record.state.value)


asyncio.run(main(*sys.argv[1:]))
