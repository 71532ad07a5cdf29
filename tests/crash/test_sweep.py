"""Kill -9 at every crash point of every story, recover, and compare with the platform's truth.

An undisturbed telling writes down every point passed; then the gateway is killed by SIGKILL at
each of them. Two stories also kill the recovery at each of its points. What people saw is
recorded outside.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from angelia.model.markers import DOUBT, OPENING
from angelia.seams.clock import clock_from
from angelia.store.connection import open_connection
from angelia.testing.checks import Arrived, problems_of
from tests.crash.nursery import CLOCK, CONFIG, Zygote, address_of, ask, is_gone, post, settled, until
from tests.crash.platform import Platform
from tests.crash.stories import STORIES, Story

pytestmark = pytest.mark.crash

#: More points than the command has: a sweep that does not end by itself is a bug.
_POINTS_MOST = 100
#: How often one point of the lease loop is worth a death.
_LOOPS_MOST = 3


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    one = Zygote()
    yield one
    one.close()


@pytest.fixture
def ram() -> Iterator[Path]:
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="angelia-crash-", dir=parent))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Run:
    """One telling of a story, with deaths. ``kills`` are the points (``name:k``) of successive gateways."""

    def __init__(
        self, story: Story, zygote: Zygote, home: Path, kills: tuple[str, ...], command_kill: int = 0
    ) -> None:
        self.story = story
        self.command_kill = command_kill
        self.zygote = zygote
        self.home = home
        self.kills = list(kills)
        self.died = 0
        self.pid: int | None = None

    def tell(self) -> Platform:
        """Play the story to its end and return the platform."""
        self.home.mkdir()
        with Platform(self.story.script, self.story.keyed) as platform:
            text = CONFIG.format(
                agent=self.story.agent,
                url=platform.url,
                keyed=str(self.story.keyed).lower(),
                limit=self.story.limit,
            )
            (self.home / "config.yaml").write_text(text)
            if self.story.notify:
                self._notify()
            self._start()
            for index, said in enumerate(self.story.messages):
                for _ in range(self.story.replays + 1):
                    self._deliver({"id": f"m{index}", "chat": "c", "user": "u", "text": said})
            self._until_settled()
            if self._stop() or not self.died:
                # It died while stopping, or nothing died at all: a further start finds nothing to do.
                self._until_settled()
                self._stop()
        return platform

    def _start(self) -> None:
        kill = self.kills.pop(0) if self.kills else ""
        (self.home / "gateway.lock").unlink(missing_ok=True)
        trace = {"ANGELIA_CRASH_TRACE": str(self.home / f"trace{self.died}")}
        self.pid = self.zygote.start(self.home, ANGELIA_CRASH_POINT=kill, **trace)
        if not until(lambda: address_of(self.home), "the gateway listens", self.pid):
            self._buried()

    def _buried(self) -> None:
        """The gateway is gone: it must have been killed, and is started again."""
        assert self.pid is not None
        status = self.zygote.wait(self.pid)
        assert status == -9, f"the gateway ended with {status}:\n{self._log()}"
        self.died += 1
        self._start()

    def _deliver(self, message: dict[str, str]) -> None:
        """A platform repeats a message until it is acknowledged."""

        def acknowledged() -> bool:
            if is_gone(self.pid or 0):
                self._buried()
            return post(self.home, message) in (200, 202)

        until(acknowledged, "the message is acknowledged")

    def _notify(self) -> None:
        """Enqueue a notice with the gateway down; a person repeats a command that died unheard."""
        told = self.home.parent / "told.db"
        if not self.command_kill and told.exists():
            shutil.copy(told, self.home / "state.db")  # as an earlier telling left it
            return
        self._command()
        if not self.command_kill:
            shutil.copy(self.home / "state.db", told)

    def _command(self) -> None:
        command = [sys.executable, "-m", "angelia", "notify", "--to", "default/webhook/c", "good news"]
        environment = {
            **CLOCK,
            "ANGELIA_HOME": str(self.home),
            "ANGELIA_CRASH_AT": str(self.command_kill),
        }
        first = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        if first.returncode == -9:
            self.died += 1
            if ask(self.home, "SELECT id FROM deliveries"):
                return
            environment["ANGELIA_CRASH_AT"] = "0"
            first = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert first.returncode == 0, first.stderr

    def _until_settled(self) -> None:
        expected = len(self.story.messages)

        def done() -> bool:
            if is_gone(self.pid or 0):
                self._buried()
            return settled(self.home, expected)

        if self.pid is None:
            self._start()
        until(done, f"all is settled:\n{self._log()[-3000:]}")

    def _stop(self) -> bool:
        """Ask the gateway to stop. True: it was killed while it did."""
        assert self.pid is not None
        os.kill(self.pid, signal.SIGTERM)
        until(lambda: is_gone(self.pid or 0), "the gateway stops")
        status = self.zygote.wait(self.pid)
        assert status in (0, -9), f"the gateway ended with {status}:\n{self._log()}"
        self.died += int(status == -9)
        self.pid = None
        return status == -9

    def _log(self) -> str:
        log = self.home / "log"
        return log.read_text(errors="replace") if log.exists() else ""


def check(run: Run, platform: Platform) -> None:
    """Compare what people saw with what is on record."""
    story, home = run.story, run.home
    said = Counter(ask(home, "SELECT message_id FROM inbound"))
    assert all(count == 1 for count in said.values())
    assert len(said) == len(story.messages)
    runs = ask(home, "SELECT turn, count(*), sum(ending = 'answered') FROM model_runs GROUP BY turn")
    interruptions = dict(ask(home, "SELECT id, interruptions FROM turns"))
    for turn, count, answered in runs:
        assert answered == 1, "an answered turn has exactly one run that answered"
        drained = ask(home, f"SELECT count(*) FROM model_runs WHERE turn='{turn}' AND ending='drained'")[0][0]
        assert count == 1 + interruptions[turn] + drained, "every other run is a recorded interruption"
    _check_copies(run, platform)
    _check_invariants(run, platform)
    states = Counter(row[0] for row in ask(home, "SELECT state FROM deliveries"))
    if story.arrives:
        assert set(states) == {"delivered"}, states
        seen = {message.delivery for message in platform.seen}
        assert len(seen) == len(story.messages) + int(story.notify)
    else:
        assert set(states) == {"abandoned"}, states
        assert len(platform.calls) >= 1
    assert ask(
        home,
        "SELECT count(*) FROM parts p JOIN deliveries d ON d.id = p.delivery"
        " WHERE d.state = 'delivered' AND p.receipt IS NULL AND NOT p.replaced",
    ) == [(0,)]


def _check_invariants(run: Run, platform: Platform) -> None:
    """The invariants that all rings share, against the store and what people saw."""
    connection = open_connection(run.home / "state.db", read_only=True)
    try:
        arrived = [Arrived(message.key, message.text, message.chat) for message in platform.seen]
        problems = problems_of(connection, clock_from(CLOCK).now().wall, arrived)
    finally:
        connection.close()
    assert problems == []


def _check_copies(run: Run, platform: Platform) -> None:
    """Copies ≤ 1 + unconfirmed outcomes; every copy after the first says that it may be one."""
    copies: dict[tuple[str, int], list[str]] = defaultdict(list)
    announced = ""
    for message in platform.seen:
        if message.text.startswith(OPENING) and "\n\n" not in message.text:
            announced = message.text  # the line as a message of its own
            continue
        copies[message.delivery, message.part].append(announced + message.text)
        announced = ""
    doubts = {
        (delivery, part): count
        for delivery, part, count in ask(
            run.home,
            "SELECT delivery, part, count(*) FROM attempts WHERE ending IN"
            " ('unconfirmed', 'dropped', 'died', 'taken_over') GROUP BY delivery, part",
        )
    }
    for key, texts in copies.items():
        assert len(texts) <= 1 + doubts.get(key, 0), (key, texts)
        for text in texts[1:]:
            assert text.startswith(OPENING), ("an unmarked second copy", texts)
            assert DOUBT in text.splitlines()[0], ("a second copy without its doubt", texts)
        if run.story.keyed:
            assert len(texts) == 1, ("the key makes a copy impossible", texts)
    orders = [message.delivery for message in platform.seen]
    written = [row[0] for row in ask(run.home, "SELECT id FROM deliveries ORDER BY seq")]
    first_seen = [delivery for delivery in written if delivery in orders]
    assert sorted(first_seen, key=orders.index) == first_seen, "a later reply overtook an earlier one"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name.replace(" ", "-"))
def test_kill_at_every_point(story: Story, zygote: Zygote, ram: Path) -> None:
    points = _sweep(story, zygote, ram, ())
    assert points >= 8, "a story passes at least the points of one commit each"
    print(json.dumps({"story": story.name, "kill points": points}))


@pytest.mark.parametrize(
    "story", [s for s in STORIES if s.double], ids=lambda story: story.name.replace(" ", "-")
)
def test_kill_the_recovery_at_every_point(story: Story, zygote: Zygote, ram: Path) -> None:
    """The first death is in the middle of the wire call; the second anywhere in the recovery."""
    points = _sweep(story, zygote, ram, ("wire.after:1",))
    assert points >= 8
    print(json.dumps({"story": story.name, "recovery kill points": points}))


def test_kill_the_notify_command_at_every_point(zygote: Zygote, ram: Path) -> None:
    story = next(one for one in STORIES if one.notify)
    for point in range(1, _POINTS_MOST):
        run = Run(story, zygote, ram / f"home{point}", (), command_kill=point)
        check(run, run.tell())
        if run.died == 0:
            assert point > 2
            return
    raise AssertionError("the sweep does not end")


def _sweep(story: Story, zygote: Zygote, ram: Path, before: tuple[str, ...]) -> int:
    """Tell the story with a death at each point after ``before``; returns how many deaths there
    were. Which points there are, an undisturbed telling has written down."""
    scout = Run(story, zygote, ram / "scout", before)
    check(scout, scout.tell())
    deaths = 0
    for point in _targets((scout.home / f"trace{len(before)}").read_text().split()):
        run = Run(story, zygote, ram / f"home{deaths}", (*before, point))
        check(run, run.tell())
        deaths += int(run.died > len(before))
        shutil.rmtree(run.home, ignore_errors=True)
    return deaths


def _targets(trace: list[str]) -> list[str]:
    """``name:k`` for every point passed, the k-th time. What the lease loop repeats every five
    seconds for as long as a story waits is killed the first few times only."""
    passed: Counter[str] = Counter()
    targets = []
    for name in trace:
        passed[name] += 1
        if passed[name] <= _LOOPS_MOST or not name.startswith(("renew.", "take_over.")):
            targets.append(f"{name}:{passed[name]}")
    return targets
