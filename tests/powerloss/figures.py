"""Many power-loss worlds at once, until so many images were looked at; see ``__main__``."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from tests.powerloss.world import play

#: Worlds of one chunk, and chunks after which a process is replaced.
CHUNK = 10
CHUNKS_OF_A_PROCESS = 40


def play_chunk(first: int) -> dict[str, Any]:
    """The figures of ``CHUNK`` worlds from the seed ``first``."""
    images: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    verbs = refused = 0
    red: list[tuple[int, str]] = []
    began = time.process_time()
    for seed in range(first, first + CHUNK):
        try:
            told = play(seed)
        except Exception as error:  # a world that fails is a red seed, not the end of the run
            red.append((seed, f"the world itself failed: {error!r}"))
            continue
        images.update(told.images)
        faults.update(told.faults)
        verbs, refused = verbs + told.verbs, refused + told.refused
        red += [(seed, flaw) for flaw in told.flaws]
    return {
        "first": first,
        "images": dict(images),
        "faults": dict(faults),
        "verbs": verbs,
        "refused": refused,
        "red": red,
        "cpu_s": time.process_time() - began,
    }


class Total:
    """What all chunks add up to."""

    def __init__(self) -> None:
        self.worlds = self.verbs = self.refused = 0
        self.images: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.red: list[tuple[int, str]] = []
        self.cpu_s = 0.0

    def add(self, chunk: dict[str, Any]) -> None:
        self.worlds += CHUNK
        self.images.update(chunk["images"])
        self.faults.update(chunk["faults"])
        self.verbs += chunk["verbs"]
        self.refused += chunk["refused"]
        self.red += [(int(seed), str(flaw)) for seed, flaw in chunk["red"]]
        self.cpu_s += chunk["cpu_s"]

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.images.items()))
        return (
            f"{self.worlds} worlds, {self.verbs} verbs, {self.images.total()} images ({kinds}), "
            f"{self.faults.total()} faults, {self.refused} verbs refused by name, "
            f"{len(self.red)} violations, {self.cpu_s:.0f} s of processor time"
        )


def many(first: int, images: int, jobs: int, minutes: float, journal: Path | None) -> Total:
    """Worlds from the seed ``first`` on, until ``images`` were looked at or the time is over."""
    total = Total()
    done: set[int] = set()
    if journal is not None and journal.exists():
        for line in journal.read_text(encoding="utf-8").splitlines():
            chunk = json.loads(line)
            if chunk["first"] >= first and (chunk["first"] - first) % CHUNK == 0:
                done.add(chunk["first"])
                total.add(chunk)
    end = time.monotonic() + minutes * 60 if minutes else float("inf")
    seed = first
    with ProcessPoolExecutor(jobs, max_tasks_per_child=CHUNKS_OF_A_PROCESS) as pool:
        running: set[Future[dict[str, Any]]] = set()
        while True:
            while len(running) < jobs and total.images.total() < images and time.monotonic() < end:
                if seed not in done:
                    running.add(pool.submit(play_chunk, seed))
                seed += CHUNK
            if not running:
                return total
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                chunk = future.result()
                total.add(chunk)
                for red, flaw in chunk["red"][:3]:
                    print(f"seed {red}: {flaw}", flush=True)
                if journal is not None:
                    with journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(chunk) + "\n")
            if total.worlds % (CHUNK * 10) == 0:
                print(total, flush=True)
