"""Our ledger, measured through the asynchronous API that the engine uses.

One reply is what the sender does with an answer, without the wire: the answer is put on record
(``pending``), claimed with its first part in flight (``attempting``), and settled with a receipt
(``delivered``). Three verbs, three durable commits; with ``--at-once`` above 1 the group commit
shares them between replies.

``--tape FILE`` records what SQLite executed, for ``bench.raw_limit``; the trace costs time, so
the figures of a recording run are not to be used.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
from pathlib import Path
from typing import Protocol

from bench.driver import WARM_UP_REPLIES, Sample, drive
from bench.tape import Recorder


class Subject(Protocol):
    """An open ledger, driven as the engine drives it."""

    async def reply(self, number: int) -> None:
        """Take reply ``number`` through record, attempting and delivered."""
        ...

    async def delivered(self) -> int:
        """How many deliveries are on record as delivered."""
        ...

    async def close(self) -> None: ...


async def open_subject(home: Path) -> Subject:
    """Open our ledger on a fresh ``home``. Raises ``NotLandedError`` while there is none."""
    try:
        module = importlib.import_module("bench.subject")  # lands with angelia.store.sqlite
    except ImportError as error:
        raise NotLandedError(str(error)) from error
    opened: Subject = await module.open_ledger(home)
    return opened


class NotLandedError(Exception):
    """The part of Angelia that is to be measured is not in this tree yet."""


async def measure(home: Path, replies: int, at_once: int, tape: Path | None) -> Sample:
    """Measure on a fresh ``home``; every reply must be on record as delivered in the end."""
    recorder = Recorder() if tape else None
    if recorder:
        recorder.listen()
    subject = await open_subject(home)
    try:
        sample = await drive("angelia", subject.reply, replies, at_once, recorder.mark if recorder else None)
        if recorder and tape:
            recorder.tape(at_once, replies).write(tape)
        delivered = await subject.delivered()
    finally:
        await subject.close()
    if delivered != replies + WARM_UP_REPLIES:
        raise RuntimeError(f"{delivered} delivered of {replies + WARM_UP_REPLIES}")
    return sample


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Measure our ledger through its asynchronous API.")
    parser.add_argument("--home", type=Path, required=True, help="a fresh, empty folder")
    parser.add_argument("--at-once", type=int, required=True)
    parser.add_argument("--replies", type=int, required=True)
    parser.add_argument("--tape", type=Path, help="record what SQLite executed into this file")
    parser.add_argument("--out", type=Path, help="where the JSON goes (default: standard output)")
    given = parser.parse_args(arguments)
    try:
        sample = asyncio.run(measure(given.home, given.replies, given.at_once, given.tape))
    except NotLandedError as error:
        parser.exit(69, f"our ledger cannot be measured yet: {error}\n")
    sample.write(given.out)


if __name__ == "__main__":
    main(sys.argv[1:])
