"""Crash points: each is documented, each is used, and none has two meanings.

``seams/crash.py`` lists the points of the engine and the adapters; a store declares the two
points around the commit of each of its verbs with ``crash.verb_points``.
"""

from __future__ import annotations

import ast
from collections import Counter

from tests.tidy.sources import PACKAGE, Source, ours

from angelia.seams import crash

#: Adapters are strangers, so each acknowledges in its own file.
SHARED_BY_PLATFORMS = {"ack.before", "ack.after"}


def _called(source: Source, name: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (name, f"crash.{name}")
    ]


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def used() -> list[tuple[str, str]]:
    """(file, name) of every point whose name is written out."""
    found = []
    for source in ours():
        if source.path != PACKAGE / "seams" / "crash.py":
            names = [_literal(call.args[0]) for call in _called(source, "point")]
            found += [(source.name, name) for name in names if name is not None]
    return found


def declared_verbs() -> set[str]:
    """Every verb whose points are declared with its name written out."""
    names = [_literal(call.args[0]) for source in ours() for call in _called(source, "verb_points")]
    return {name for name in names if name is not None}


def documented() -> set[str]:
    """The points that ``seams/crash.py`` lists, read from its text: other tests add to the
    table at run time."""
    source = next(source for source in ours() if source.path == PACKAGE / "seams" / "crash.py")
    for node in source.tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "POINTS":
            assert isinstance(node.value, ast.Dict)
            return {name for key in node.value.keys if key is not None and (name := _literal(key))}
    raise AssertionError("seams/crash.py has no table POINTS")


def test_the_table_is_read() -> None:
    assert documented() <= set(crash.POINTS)
    assert "wire.before" in documented()


def test_every_point_used_is_documented() -> None:
    verbs = declared_verbs()
    declared = {f"{verb}.{side}" for verb in verbs for side in ("before_commit", "after_commit")}
    assert [f"{file}: {name}" for file, name in used() if name not in documented() | declared] == []


def test_every_point_documented_is_used() -> None:
    assert documented() - {name for _, name in used()} == set()


def test_a_point_stands_in_one_place() -> None:
    twice = [name for (_, name), count in Counter(used()).items() if count > 1]
    places = Counter(name for _, name in set(used()))
    elsewhere = [name for name, count in places.items() if count > 1 and name not in SHARED_BY_PLATFORMS]
    assert (twice, elsewhere) == ([], [])
