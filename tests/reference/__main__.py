"""``python -m tests.reference``: the crash stories through both ledgers, as markdown on standard output.

Takes some twenty minutes on two cores; ``--only reference`` takes six, ``--story`` a minute. What has
been played can be kept (``--keep FILE``) and told again without playing (``--from FILE``).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from bench.peers import PeerUnavailableError

from tests.reference.played import Side, play_ours, play_reference
from tests.reference.report import report
from tests.reference.stories import STORIES


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="The crash stories through both ledgers.")
    parser.add_argument("--only", choices=("reference",), help="do not play Angelia's crash ring")
    parser.add_argument("--story", default="", help="only the stories whose name contains this")
    parser.add_argument("--keep", type=Path, help="write what was played here, as JSON")
    parser.add_argument("--from", dest="kept", type=Path, help="tell what was kept, play nothing")
    given = parser.parse_args(arguments)
    stories = [story for story in STORIES if given.story in story.name]
    if not stories:
        parser.error(f"no story is called {given.story!r}")
    if given.kept:
        said = [Side.from_json(side) for side in json.loads(given.kept.read_text("utf-8"))]
        sys.stdout.write(report(said[0], said[1] if len(said) > 1 else None, stories))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="angelia-reference-"))
    try:
        sides = [play_reference(stories, folder, _say)]
        if not given.only:
            sides.append(play_ours(stories, folder, _say))
    except PeerUnavailableError as error:
        _say(str(error))
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if given.keep:
        given.keep.write_text(json.dumps([side.as_json() for side in sides]), "utf-8")
    sys.stdout.write(report(sides[0], sides[1] if len(sides) > 1 else None, stories))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
