"""What the tests of backups share: commands that must succeed or fail, and what is owed."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.acceptance.daemon import Home
from tests.acceptance.record import deliveries


async def done(home: Home, *words: str | bytes | Path) -> str:
    """What a command printed that must succeed."""
    ended = await home.run(*(str(word) if isinstance(word, Path) else word for word in words))
    assert ended.code == 0, ended.err
    return ended.out


async def refused(home: Home, code: int, *words: str | Path) -> str:
    """What a command that must fail said."""
    ended = await home.run(*(str(word) for word in words))
    assert (ended.code, "Traceback" in ended.err) == (code, False), ended.err
    return ended.err


async def notify(home: Home, text: str, chat: str = "c") -> str:
    return (await done(home, "notify", "--to", f"default/webhook/{chat}", text)).strip()


def states(home: Home) -> list[str]:
    """The state of every delivery, oldest first; what is parked says so."""
    found = sorted(deliveries(home), key=lambda one: one.created)
    return ["parked" if one.parked else one.state for one in found]


def names_in(file: Path) -> list[str]:
    """What lies in an archive, in its order."""
    with tarfile.open(file) as archive:
        return archive.getnames()
