"""``python -m tests.canaries``: every planted bug against every ring, as a table.

``--only NAME`` (a part of a canary's name) and ``--ring RING`` (repeatable both) choose; ``--blind``
also runs the rings that are known to be blind. Ends with 1 if a ring that must find a canary did
not, if a patch no longer fits, or if the copy without a patch does not pass.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.canaries.hunt import Seen, Verdict, hunt
from tests.canaries.planting import PatchDoesNotFitError, plant
from tests.canaries.table import CANARIES, NOTHING_PLANTED, RINGS, Canary

#: A ring that takes longer than this hangs.
RING_LIMIT_S = 3600.0


@contextmanager
def planted(patch: str | None) -> Iterator[Path]:
    """A copy of the sources with ``patch``, on a RAM disk where there is one."""
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="angelia-canary-", dir=parent))
    try:
        yield plant(folder, patch)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def watch(canary: Canary, rings: Sequence[str], blind: bool) -> dict[str, tuple[Verdict, float]]:
    """The row of one canary: what each ring saw of it, and in how many seconds."""
    row: dict[str, tuple[Verdict, float]] = {}
    with planted(canary.patch) as source:
        for ring in rings:
            if ring in canary.blind and not blind:
                row[ring] = (Verdict.NOT_RUN, 0.0)
                continue
            seen = hunt(source, RINGS[ring], failures_most=5 if canary.patch else 0, limit_s=RING_LIMIT_S)
            row[ring] = (seen.verdict(canary.says), seen.seconds)
            print(f"  {canary.name}: {ring}: {row[ring][0]} ({seen.seconds:.0f} s)", flush=True)
            if row[ring][0] is not Verdict.MISSED:
                print(_indented(seen), flush=True)
    return row


def _indented(seen: Seen) -> str:
    return "\n".join(f"    | {line}" for line in seen.told().splitlines()[:30])


def cell(verdict: Verdict, seconds: float) -> str:
    return "not run" if verdict is Verdict.NOT_RUN else f"{verdict} ({seconds:.0f} s)"


def problems(canary: Canary, row: dict[str, tuple[Verdict, float]]) -> Iterator[str]:
    """What is not as the table says."""
    for ring, (verdict, _) in row.items():
        if canary is NOTHING_PLANTED:
            if verdict is not Verdict.MISSED:
                yield f"{ring}: {verdict} with nothing planted"
        elif verdict in (Verdict.BROKEN, Verdict.WRONG_REASON):
            yield f"{canary.name}: {ring}: {verdict}"
        elif ring in canary.found_by and verdict is not Verdict.FOUND:
            yield f"{canary.name}: {ring} must find it, and says: {verdict}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.canaries", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--ring", action="append", default=[], choices=list(RINGS))
    parser.add_argument("--blind", action="store_true")
    chosen = parser.parse_args(arguments)
    rings = chosen.ring or list(RINGS)
    canaries = [NOTHING_PLANTED, *CANARIES]
    if chosen.only:
        canaries = [c for c in CANARIES if any(part in c.name for part in chosen.only)]
    rows: dict[str, str] = {}
    wrong: list[str] = []
    for canary in canaries:
        try:
            row = watch(canary, rings, chosen.blind)
        except PatchDoesNotFitError as error:
            wrong.append(str(error))
            continue
        rows[canary.name] = " | ".join(cell(*row[ring]) for ring in rings)
        wrong += problems(canary, row)
    print("\n| planted bug | " + " | ".join(rings) + " |\n|---" * 1 + "|---" * len(rings) + "|")
    for name, cells in rows.items():
        print(f"| {name} | {cells} |")
    print("\n" + ("\n".join(wrong) or "every canary was found by every ring that must find it"))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
