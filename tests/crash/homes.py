"""Homes that have a past: made once for a sweep, copied for each telling.

A notice that is owed before the first start; a store of eight days ago, of which almost
everything is to be forgotten; a store that the release under test has to bring up to date.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from angelia.store.migrate import migrations
from tests.crash.nursery import CLOCK, CONFIG, Zygote, address_of, ask, clock, is_gone, post, settled, until
from tests.crash.platform import Message, Platform
from tests.crash.stories import Story

#: What of a home is copied: the store, and the note of how far its life has come.
REMEMBERED = ("state.db", "pulse.json")

#: More than the seven days for which final rows are kept.
_DAYS_AGO = 8.0

#: A step as a later release may bring it: a table rebuilt, with rows that others refer to, and a
#: new one filled from what is on record.
LATER_STEP = """
CREATE TABLE conversations_new (
    profile    TEXT NOT NULL,
    platform   TEXT NOT NULL,
    chat       TEXT NOT NULL,
    thread     TEXT NOT NULL,
    number     INTEGER NOT NULL,
    since_turn INTEGER NOT NULL,
    mood       TEXT NOT NULL DEFAULT 'calm',
    PRIMARY KEY (profile, platform, chat, thread)
) STRICT, WITHOUT ROWID;
INSERT INTO conversations_new (profile, platform, chat, thread, number, since_turn)
    SELECT profile, platform, chat, thread, number, since_turn FROM conversations;
DROP TABLE conversations;
ALTER TABLE conversations_new RENAME TO conversations;
CREATE TABLE owed_before (delivery TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
INSERT INTO owed_before SELECT id FROM deliveries WHERE state IN ('pending', 'attempting', 'failed');
"""


@dataclass(frozen=True)
class Prepared:
    """``past``: the home to begin with, of which the store and what it remembers of it are taken;
    ``None``: an empty one. ``forgets``: deliveries that must be
    gone in the end. ``stale``: how many are too old to go out; ``parked``: how many ask first.
    ``seen``: what people saw before of what is still on record."""

    past: Path | None = None
    clock: dict[str, str] = field(default_factory=lambda: dict(CLOCK))
    migrations: Path | None = None
    forgets: tuple[str, ...] = ()
    stale: int = 0
    parked: int = 0
    seen: tuple[Message, ...] = ()

    def begin(self, home: Path) -> None:
        """Make ``home`` as it was."""
        home.mkdir()
        for name in REMEMBERED if self.past is not None else ():
            if self.past is not None and (self.past / name).exists():
                shutil.copy(self.past / name, home / name)

    def is_forgotten(self, home: Path) -> bool:
        """Whether what is to be forgotten is gone."""
        known = {row[0] for row in ask(home, "SELECT id FROM deliveries")} if self.forgets else set()
        return not known & set(self.forgets)


def prepare(story: Story, zygote: Zygote, folder: Path) -> Prepared:
    """The home with which ``story`` begins; ``folder`` is empty and stays for the whole sweep."""
    folder.mkdir(exist_ok=True)
    home = folder / "before"
    home.mkdir()
    later = _later_release(folder / "migrations") if story.later else None
    forgets: tuple[str, ...] = ()
    if story.old:
        forgets = tuple(message.delivery for message in _lived(home, zygote))
    seen: tuple[Message, ...] = ()
    if story.copied:
        seen = _lived(home, zygote)
        for name in REMEMBERED[1:]:
            (home / name).unlink(missing_ok=True)
    if story.old or story.notify or story.copied:
        command(home, "notify", "--to", "default/webhook/c", "good news")
    return Prepared(
        past=home,
        clock=clock(_DAYS_AGO) if story.old else dict(CLOCK),
        migrations=later,
        forgets=forgets,
        stale=int(story.old),
        parked=int(story.copied),
        seen=seen,
    )


def command(home: Path, *words: str, kill: int = 0, trace: Path | None = None) -> int:
    """Run ``angelia WORDS…`` on ``home``, killed at its ``kill``-th crash point; the exit status."""
    if not (home / "config.yaml").exists():
        (home / "config.yaml").write_text(
            CONFIG.format(agent="{kind: echo}", url="http://127.0.0.1:9/", keyed="false", limit=4096)
        )
    environment = {**os.environ, **CLOCK, "ANGELIA_HOME": str(home), "ANGELIA_CRASH_AT": str(kill)}
    if trace is not None:
        environment["ANGELIA_CRASH_TRACE"] = str(trace)
    ended = subprocess.run(
        [sys.executable, "-m", "angelia", *words], env=environment, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode in (0, -9), ended.stderr
    return ended.returncode


def _lived(home: Path, zygote: Zygote) -> tuple[Message, ...]:
    """A gateway that has answered three messages and was stopped; what people saw."""
    with Platform() as platform:
        text = CONFIG.format(agent="{kind: echo}", url=platform.url, keyed="false", limit=4096)
        (home / "config.yaml").write_text(text)
        pid = zygote.start(home)
        until(lambda: address_of(home), "the gateway listens")
        for number in range(3):
            message = {"id": f"old{number}", "chat": "c", "user": "u", "text": f"old {number}"}
            until(lambda said=message: post(home, said) in (200, 202), "the message is acknowledged")
        until(lambda: settled(home, 3), "all is settled")
        os.kill(pid, signal.SIGTERM)
        until(lambda: is_gone(pid), "the gateway stops")
        assert zygote.wait(pid) == 0
    assert len(platform.seen) == 3
    return tuple(platform.seen)


def _later_release(folder: Path) -> Path:
    """The migrations of this release and one more."""
    folder.mkdir()
    known = migrations()
    for step in known:
        (folder / step.file).write_text(step.script)
    (folder / f"{len(known) + 1:04}-later.sql").write_text(LATER_STEP)
    return folder
