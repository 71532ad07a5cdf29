"""Many worlds at once: played in chunks by several processes, added up as they end.

A chunk is written to the journal when it has ended, so a run that was cut goes on behind its
last whole chunk. Processes are replaced now and then: memory stays small however long it runs.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from tests.simulation.mixture import themed
from tests.simulation.world import play

#: Worlds that one process plays before it reports.
CHUNK = 25

#: Chunks after which a process is replaced, so that memory stays small.
CHUNKS_OF_A_PROCESS = 40


def play_chunk(first: int, last: int, theme: str) -> dict[str, Any]:
    """The figures of the worlds ``first`` to ``last``, both included."""
    figures: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    red: list[tuple[int, str]] = []
    began = time.process_time()
    virtual_s = 0.0
    for seed in range(first, last + 1):
        try:
            story = play(seed, themed(theme, seed) if theme else None)
        except Exception as error:  # a world that fails is a red seed, not the end of the run
            red.append((seed, f"the world itself failed: {error!r}"))
            continue
        virtual_s += story.virtual_s
        figures.update(
            deaths=story.deaths,
            deliveries=story.deliveries,
            arrivals=story.arrivals,
            redeliveries=story.redeliveries,
            marked=story.marked,
            violations=len(story.flaws),
        )
        reached.update(story.reached)
        if story.flaws:
            red.append((seed, story.flaws[0]))
    figures["seeds"] = last - first + 1
    return {
        "first": first,
        "last": last,
        "figures": dict(figures),
        "virtual_h": virtual_s / 3600,
        "cpu_s": time.process_time() - began,
        "red": red,
        "reached": dict(reached),
    }


def chunks(first: int, last: int, done: set[int]) -> Iterator[tuple[int, int]]:
    for begin in range(first, last + 1, CHUNK):
        if begin not in done:
            yield begin, min(begin + CHUNK - 1, last)


class Total:
    """What all chunks add up to."""

    def __init__(self) -> None:
        self.figures: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.virtual_h = self.cpu_s = 0.0
        self.red: list[tuple[int, str]] = []

    def add(self, chunk: dict[str, Any]) -> None:
        self.figures.update(chunk["figures"])
        self.reached.update(chunk["reached"])
        self.virtual_h += chunk["virtual_h"]
        self.cpu_s += chunk["cpu_s"]
        self.red += [(int(seed), str(flaw)) for seed, flaw in chunk["red"]]

    def __str__(self) -> str:
        f = self.figures
        return (
            f"{f['seeds']} seeds, {self.virtual_h:.0f} virtual hours, {f['deaths']} deaths, "
            f"{f['deliveries']} deliveries, {f['arrivals']} messages seen, {f['redeliveries']} redeliveries, "
            f"{f['marked']} marked copies, {f['violations']} violations in {len(self.red)} seeds, "
            f"{self.cpu_s:.0f} s of processor time"
        )


def many(first: int, last: int, theme: str, jobs: int, minutes: float, journal: Path | None) -> Total:
    """Play until all is done or the time is over."""
    total = Total()
    done: set[int] = set()
    if journal is not None and journal.exists():
        for line in journal.read_text(encoding="utf-8").splitlines():
            chunk = json.loads(line)
            if first <= chunk["first"] <= last and (chunk["first"] - first) % CHUNK == 0:
                done.add(chunk["first"])
                total.add(chunk)
    end = time.monotonic() + minutes * 60 if minutes else float("inf")
    left = chunks(first, last, done)
    with ProcessPoolExecutor(jobs, max_tasks_per_child=CHUNKS_OF_A_PROCESS) as pool:
        running: set[Future[dict[str, Any]]] = set()
        while True:
            while len(running) < jobs + 1 and time.monotonic() < end and (next_one := next(left, None)):
                running.add(pool.submit(play_chunk, *next_one, theme))
            if not running:
                return total
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                chunk = future.result()
                total.add(chunk)
                for seed, flaw in chunk["red"]:
                    print(f"seed {seed}: {flaw}", flush=True)
                if journal is not None:
                    with journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(chunk) + "\n")
            if total.figures["seeds"] % (CHUNK * 40) < CHUNK:
                print(total, flush=True)
