"""A short soak for every day, and the proof that its verdict can be a bad one.

``make soak MINUTES=n`` is the long one. This draws another seed for every commit;
``ANGELIA_SOAK_SEED`` names one. The home of a round in which something was wrong is kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from tests.crash.nursery import Zygote
from tests.soak.mixture import mixture
from tests.soak.people import Said
from tests.soak.round import Round, play
from tests.soak.torture import Arrival
from tests.soak.verdict import Truth, violations

from angelia.store.connection import open_connection

pytestmark = pytest.mark.crash

_SECONDS = 12.0


def fresh_seed() -> int:
    """Another one for every commit."""
    named = os.environ.get("ANGELIA_SOAK_SEED")
    if named:
        return int(named)
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(asked.stdout.strip()[:7] or "0", 16)


def _home() -> Path:
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    return Path(tempfile.mkdtemp(prefix="angelia-soak-", dir=parent))


async def test_a_short_soak_and_its_verdict_on_lies() -> None:
    seed = fresh_seed()
    # Whatever the seed draws: enough must arrive and enough must die in so short a time.
    short = replace(mixture(seed), ok=0.6, pace_s=0.5, life_s=0.4, speed=40.0, pays=False)
    home = _home()
    zygote = Zygote()
    try:
        done = await play(short, home, _SECONDS, zygote)
    finally:
        zygote.close()
    assert done.violations == [], f"ANGELIA_SOAK_SEED={seed}; its home is kept in {done.home}"
    assert done.figures["kills"] >= 3
    _lies_are_found(done)
    shutil.rmtree(home)


def _lies_are_found(done: Round) -> None:
    """The same ledger beside a truth that was tampered with."""
    assert done.truth is not None
    connection = open_connection(done.home / "state.db", read_only=True)
    wall = time.time_ns() // 1_000_000
    try:
        for what, lie, number in _lies(connection, done.truth):
            found = violations(connection, wall, lie)
            assert any(sentence.startswith(number) for sentence in found), (what, found)
    finally:
        connection.close()


def _lies(connection: apsw.Connection, truth: Truth) -> Iterator[tuple[str, Truth, str]]:
    """What was done to the truth, the lie, and the number of the invariant that it breaks."""
    once = _arrived_once(connection, truth)
    rest = [one for one in truth.arrived if one is not once]
    yield "a delivered part never arrived", replace(truth, arrived=rest), "3:"
    again = replace(once, sent=once.sent + 1, number=len(truth.arrived))
    yield "a message arrived twice", replace(truth, arrived=[*truth.arrived, again]), "4:"
    other = replace(once, text="something else")
    yield "other words arrived", replace(truth, arrived=[*rest, other]), "4:"
    stranger = replace(once, key="nobody.1.1")
    yield "a message of no delivery arrived", replace(truth, arrived=[*truth.arrived, stranger]), "4:"
    calls = Counter(truth.calls)
    calls[once.key] += 1
    yield "a call is not on record", replace(truth, calls=calls), "4:"
    lost = Said("m0", "plain", "c1", "[m0]", [202])
    yield "an acknowledged message is not on record", replace(truth, said={**truth.said, "m0": lost}), "1:"
    known = next(said for said in truth.said.values() if said.accepted)
    twice = replace(known, statuses=[202, 202])
    yield "a message was new twice", replace(truth, said={**truth.said, known.id: twice}), "2:"
    yield "a run is not on record", replace(truth, asked={known.id: 9}), "9:"
    moved = replace(known, chat="elsewhere")
    yield "an answer went elsewhere", replace(truth, said={**truth.said, known.id: moved}), "1:"
    first, second = _neighbours(connection, truth)
    swapped = [replace(one, sent=0) if one is second else one for one in truth.arrived if one is not first]
    yield "a later answer came first", replace(truth, arrived=[*swapped, first]), "7:"


def _arrived_once(connection: apsw.Connection, truth: Truth) -> Arrival:
    """A part that was sent once, plain, and delivered."""
    copies = Counter(one.key.rsplit(".", 1)[0] for one in truth.arrived)
    delivered = {id for (id,) in connection.execute("SELECT id FROM deliveries WHERE state = 'delivered'")}
    return next(
        one
        for one in truth.arrived
        if copies[one.key.rsplit(".", 1)[0]] == 1 and one.key.endswith(".1.1") and one.key[:-4] in delivered
    )


def _neighbours(connection: apsw.Connection, truth: Truth) -> tuple[Arrival, Arrival]:
    """The first messages of two replies, of which the earlier never waited."""
    firsts: dict[str, Arrival] = {}
    for one in truth.in_order:
        firsts.setdefault(one.key.rsplit(".", 2)[0], one)
    pairs = connection.execute(
        "SELECT a.id, b.id FROM deliveries a JOIN deliveries b ON b.seq > a.seq AND b.chat = a.chat"
        " AND b.profile = a.profile WHERE a.tries = 0 ORDER BY a.seq, b.seq"
    )
    return next((firsts[a], firsts[b]) for a, b in pairs if a in firsts and b in firsts)
