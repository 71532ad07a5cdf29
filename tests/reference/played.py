"""Every story with a death at every place, on one side: the rows of which the report is made."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.nursery import Zygote
from tests.crash.sweep import targets
from tests.reference import ours
from tests.reference.peer import Nursery, Player, Telling
from tests.reference.stories import Story
from tests.reference.truth import verdicts_of

Tell = Callable[[Story, Path, tuple[str, ...]], Telling]

#: First deaths of Angelia after which its recovery is killed, too: before the claim, after it,
#: with the answer in flight, and with the receipt in hand.
_OUR_FIRST_DEATHS = (
    "finish_turn.after_commit:1",
    "claim.after_commit:1",
    "wire.before:1",
    "wire.after:1",
    "advance.before_commit:1",
)


@dataclass
class Row:
    """One telling. ``verdicts``: the names of ``Verdict`` for each answer; ``waited``: starts beyond
    those that a death made necessary; ``again``: agent runs beyond one for each message;
    ``resumed``: runs that the reference's session store would start for what its ledger cannot say."""

    story: str
    kills: list[str]
    deaths: int
    verdicts: list[list[str]]
    waited: int = 0
    again: int = 0
    resumed: int = 0
    calls: int = 0

    @classmethod
    def of(cls, told: Telling) -> Row:
        verdicts = [sorted(v.name for v in verdicts_of(owed, told.timeline)) for owed in told.owed]
        replayed = told.story.again == "restart"
        return cls(
            told.story.name,
            list(told.kills),
            told.deaths,
            verdicts,
            max(0, told.starts - told.deaths - 1 - replayed),
            sum(count - 1 for count in told.runs.values() if count),
            told.resumed,
            len(told.timeline),
        )


@dataclass
class Side:
    """All rows of one side, by story."""

    name: str
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "rows": {n: [asdict(r) for r in rows] for n, rows in self.rows.items()}}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Side:
        return cls(said["name"], {n: [Row(**row) for row in rows] for n, rows in said["rows"].items()})


def play_reference(stories: Sequence[Story], folder: Path, say: Callable[[str], None]) -> Side:
    """Each story with a death, or a hold, at every place that its undisturbed telling passes;
    where the story says so, also with a second death at every place after each first one."""
    side = Side("hermes-agent")
    nursery = Nursery(folder)

    def tell(story: Story, home: Path, kills: tuple[str, ...]) -> Telling:
        return Player(nursery, home, story, kills).tell()

    try:
        for story in stories:
            tellings = _held(story, nursery, folder) if story.held else _deaths(story, tell, folder)
            side.rows[story.name] = [Row.of(told) for told in tellings]
            say(f"{side.name}: {story.name}: {len(side.rows[story.name])} tellings")
    finally:
        nursery.close()
    return side


def play_ours(stories: Sequence[Story], folder: Path, say: Callable[[str], None]) -> Side:
    """The same for Angelia, for the stories that the crash ring can be told. Each telling passes
    the ring's own checks as well."""
    side = Side("Angelia")
    zygote = Zygote()

    def tell(story: Story, home: Path, kills: tuple[str, ...]) -> Telling:
        return ours.tell(story, zygote, home, kills)

    try:
        for story in (one for one in stories if one.ours):
            side.rows[story.name] = [Row.of(t) for t in _deaths(story, tell, folder, _OUR_FIRST_DEATHS)]
            say(f"{side.name}: {story.name}: {len(side.rows[story.name])} tellings")
    finally:
        zygote.close()
    return side


def _deaths(story: Story, tell: Tell, folder: Path, firsts: Sequence[str] | None = None) -> Iterator[Telling]:
    def once(*kills: str) -> Telling:
        home = folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        return tell(story, home, kills)

    told = once()
    yield told
    places = _places(told.traces[0])
    for place in places:
        yield once(place)
    if not story.double:
        return
    for first in firsts or places:
        recovery = once(first, "nowhere:1")
        for second in _places(recovery.traces[-1] if firsts else recovery.traces[1]):
            yield once(first, second)


def _places(trace: Sequence[str]) -> list[str]:
    """Where to kill: places of the reference are numbered already, ours are counted here."""
    return list(trace) if any(":" in place for place in trace) else targets(list(trace))


def _held(story: Story, nursery: Nursery, folder: Path) -> Iterator[Telling]:
    """A second gateway starts and ends while the first stands still at each of its places: in a
    first sending, and in the redelivery after a death."""
    for kills in ((), ("record_obligation.after:1",), ("wire.after:1",)):
        scout = Player(nursery, folder / "scout", story, kills).tell()
        shutil.rmtree(folder / "scout")
        for place in scout.traces[len(kills)]:
            told = Player(nursery, folder / "beside", story, kills, hold=place).tell()
            shutil.rmtree(folder / "beside")
            told.kills = (*kills, f"held at {place}")
            yield told
