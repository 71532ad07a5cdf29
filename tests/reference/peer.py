"""Plays a story through lives of the reference gateway, with deaths, until nothing is owed."""

from __future__ import annotations

import json
import os
import select
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.reference.environment import reference_python
from tests.reference.stories import Story
from tests.reference.truth import Death, Label, Owed, Recorder, Sending, label_of, words_of

_PATIENCE_S = 60.0
#: Three redeliveries end every row of the reference; more starts change nothing.
_LIVES_MOST = 8
#: Its one line (``RECOVERED_MARKER`` of 0.19.0) always speaks of a duplicate; where messages are short
#: the line is cut, so its beginning is enough.
_DOUBT = ("",)


class Nursery:
    """The process that forks lives."""

    def __init__(self, home: Path) -> None:
        environment = {**os.environ, "HERMES_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [reference_python(), Path(__file__).with_name("life.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment,
        )  # fmt: skip
        if self._read() != "ready":
            raise RuntimeError("the reference gateway does not start")

    def _read(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE_S)
        if not ready:
            raise RuntimeError("the reference gateway does not answer")
        return self._process.stdout.readline().strip()

    def _ask(self, command: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        return int(self._read())

    def start(self, spec: dict[str, Any]) -> int:
        return self._ask({"life": spec})

    def wait(self, pid: int) -> int:
        return self._ask({"wait": pid})

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


@dataclass
class Telling:
    """One telling of a story. ``starts``: how many lives it took; ``runs``: how often the agent ran,
    by message; ``traces``: the places each life passed."""

    story: Story
    kills: tuple[str, ...]
    deaths: int = 0
    starts: int = 0
    runs: dict[str, int] = field(default_factory=dict)
    resumed: int = 0
    made: set[str] = field(default_factory=set)
    traces: list[list[str]] = field(default_factory=list)
    timeline: list[Sending | Death] = field(default_factory=list)
    owed: list[Owed] = field(default_factory=list)


class Player:
    """Tells one story once."""

    def __init__(
        self, nursery: Nursery, home: Path, story: Story, kills: tuple[str, ...], hold: str = ""
    ) -> None:
        self._nursery, self._home, self._story = nursery, home, story
        self._kills, self._hold = list(kills), hold
        self._told = Telling(story, kills)
        self._left = self._messages()
        self._counted = 0

    def _messages(self) -> list[dict[str, Any]]:
        once = [{"id": f"m{number}", "text": text} for number, text in enumerate(self._story.answers)]
        if self._story.again == "same":
            return [message for message in once for _ in range(2)]
        if self._story.again == "rebuilt":
            return once + [{**message, "rebuilt": True} for message in once]
        return once

    def tell(self) -> Telling:
        """Lives until nothing is owed. A replay after a restart is one more life with the same messages."""
        self._home.mkdir()
        (self._home / "config.yaml").write_text("gateway:\n  delivery_ledger: true\n")
        with Recorder(self._story.script) as platform:
            self._platform = platform
            self._until_nothing_is_owed()
            if self._story.again == "restart":
                self._left = self._messages()
                self._until_nothing_is_owed()
        rows = dict(self._rows())
        arrives = self._story.arrives
        self._told.owed = [
            Owed(words_of(text), rows.get(text, ""), arrives, f"m{number}" in self._told.made)
            for number, text in enumerate(self._story.answers)
        ]
        return self._told

    def _until_nothing_is_owed(self) -> None:
        for _ in range(_LIVES_MOST):
            died = self._life()
            if (
                not died
                and not self._left
                and all(state in ("delivered", "abandoned") for _, state in self._rows())
            ):
                return
        raise AssertionError(
            f"something is owed for ever: {self._story.name} {self._told.kills} {self._rows()}"
        )

    def _life(self) -> bool:
        """One start and what follows. Whether it was killed."""
        told, trace = self._told, self._home / f"trace{self._told.starts}"
        spec = {
            "home": str(self._home), "url": self._platform.url, "trace": str(trace),
            "messages": self._left, "limit": self._story.limit, "manner": self._story.manner,
            "first": not told.starts,
            "offline": 0 if told.starts else self._story.offline,
            "ahead_s": self._story.rest_s if told.starts else 0,
            "kill": self._kills.pop(0) if self._kills else "",
        }  # fmt: skip
        told.starts += 1
        if self._hold and not spec["kill"]:
            status, self._hold = self._held(spec, self._hold), ""
        else:
            status = self._nursery.wait(self._nursery.start(spec))
        if status not in (0, -9):
            raise AssertionError(f"a life ended with {status}:\n{(self._home / 'log').read_text()[-2000:]}")
        passed = trace.read_text().split("\n")[:-1]
        told.traces.append(passed)
        self._count(passed, status == -9)
        return status == -9

    def _count(self, passed: list[str], died: bool) -> None:
        told = self._told
        taken = [place.split()[1].split(":")[0] for place in passed if place.startswith("took ")]
        handled = len(taken) + sum(place.startswith("dropped:") for place in passed)
        for name, place in zip(taken, (p for p in passed if p.startswith("run:")), strict=False):
            told.runs[name] = told.runs.get(name, 0) + bool(place)
        told.made.update(taken[: sum(place.startswith("answer.made:") for place in passed)])
        told.resumed += sum(place.startswith("run again:") for place in passed)
        self._left = self._left[handled:]
        told.timeline.extend(self._sendings())
        if died:
            told.deaths += 1
            told.timeline.extend(Death(words_of(content)) for content in self._in_flight(passed[-1]))

    def _in_flight(self, last: str) -> list[str]:
        """What may have been on its way when a life ended: what the record calls attempting, and
        whatever else it owed, if it ended beside a wire call (tellings with a second death have
        one answer)."""
        sending = last.startswith(("wire.", "mark_delivered.before", "mark_failed.before"))
        owed = ("pending", "attempting", "failed") if sending else ("attempting",)
        return [content for content, state in self._rows() if state in owed]

    def _sendings(self) -> Iterator[Sending]:
        """The wire calls since the last look; the line of a sending stands in its first message."""
        calls, self._counted = self._platform.requests[self._counted :], len(self._platform.requests)
        labels: dict[str, Label] = {}
        for call in calls:
            label = labels.setdefault(call.send, label_of(call.text, _DOUBT))
            yield Sending(call.send, words_of(call.text), label, call.taken, call.definite)

    def _held(self, spec: dict[str, Any], hold: str) -> int:
        """The life is held at a place while a second gateway starts on the same home and ends."""
        os.mkfifo(self._home / "held")
        os.mkfifo(self._home / "go")
        pid = self._nursery.start({**spec, "hold": hold})
        _bounded(lambda: (self._home / "held").read_text())
        second = {
            **spec,
            "trace": str(self._home / "trace-second"),
            "messages": [],
            "kill": "",
            "first": False,
            "beside": True,
        }
        status = self._nursery.wait(self._nursery.start(second))
        _bounded(lambda: (self._home / "go").write_text("go"))
        return self._nursery.wait(pid) or status

    def _rows(self) -> list[tuple[str, str]]:
        path = self._home / "state.db"
        if not path.exists():
            return []
        connection = sqlite3.connect(path)
        try:
            return list(connection.execute("SELECT content, state FROM delivery_obligations"))
        except sqlite3.OperationalError:
            return []  # it died before the table was there
        finally:
            connection.close()


def _bounded(wait: Any) -> None:
    """Do what may wait for the other end of a fifo, but not for ever."""
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    if thread.is_alive():
        raise AssertionError("the other end of the fifo is not there")
