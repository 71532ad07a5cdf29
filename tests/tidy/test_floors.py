"""The floors of the house, in our own words (the table in ARCHITECTURE.md).

A file imports its own floor's protocols and the floors below; never above, never sideways.
import-linter checks the same from ``pyproject.toml``; this says it so that it can be read.
"""

from __future__ import annotations

import sys

import pytest
from tests.tidy.sources import Source, imports, ours

#: Who may import what of ours. A name stands for the module and everything below it.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "seams": (),
    "model": ("model",),
    "store": ("seams", "model", "store"),
    "platforms": ("seams", "model", "platforms.base", "platforms.http", "platforms.text"),
    "agents": ("seams", "model", "agents.base"),
    "engine": ("seams", "model", "engine", "store.ledger", "platforms.base", "agents.base"),
    "gateway": ("seams", "model", "store", "platforms", "agents", "engine", "gateway"),
    "cli": ("model", "gateway", "cli"),
    "console": ("model", "gateway", "console"),
    "testing": ("seams", "model", "store", "platforms", "agents", "engine", "gateway", "testing"),
    "outbox": ("seams", "model", "store", "platforms.base", "platforms.text", "engine"),
    "__main__": ("cli",),
    "": ("seams", "model", "store", "platforms", "agents", "engine", "gateway", "outbox"),
}
#: Floors that stand on the standard library alone.
BARE = ("seams", "model")
#: What a pure floor has no business with.
IMPURE = ("asyncio", "threading", "sqlite3", "apsw", "logging", "socket", "subprocess", "os")


def floor_of(source: Source) -> str:
    """The folder a file lives in; a file at the top of the package is its own floor, and the
    package's public face is ""."""
    parts = source.module.split(".")
    return parts[1] if len(parts) > 1 else ""


def family_of(module: str) -> str:
    """The platform or agent that a module of these floors belongs to: ``webhook_in`` is of
    ``webhook``, ``web.sockets`` of ``web``."""
    return module.split(".")[2].split("_")[0] if module.count(".") >= 2 else ""


def allowed(source: Source, target: str) -> bool:
    """Whether ``source`` may import the module ``target`` of ours."""
    floor = floor_of(source)
    if floor in ("platforms", "agents") and target.startswith(f"angelia.{floor}."):
        shared = family_of(target) in ("base", "http", "text")
        return shared or family_of(target) == family_of(source.module)
    inside = target.removeprefix("angelia").removeprefix(".")
    return any(inside == name or inside.startswith(f"{name}.") for name in MAY_IMPORT[floor])


def test_every_folder_is_a_floor() -> None:
    assert {floor_of(source) for source in ours()} <= set(MAY_IMPORT)


def test_imports_go_down() -> None:
    wrong = [
        f"{source.name}:{line}: {target}"
        for source in ours()
        for line, target in imports(source)
        if target.split(".")[0] == "angelia" and not allowed(source, target)
    ]
    assert wrong == []


def test_the_lowest_floors_stand_on_the_standard_library() -> None:
    wrong = [
        f"{source.name}:{line}: {target}"
        for source in ours()
        if floor_of(source) in BARE
        for line, target in imports(source)
        if target.split(".")[0] not in sys.stdlib_module_names and not target.startswith("angelia")
    ]
    assert wrong == []


def test_the_model_is_pure() -> None:
    wrong = [
        f"{source.name}:{line}: {target}"
        for source in ours()
        if floor_of(source) == "model"
        for line, target in imports(source)
        if target.split(".")[0] in IMPURE
    ]
    assert wrong == []


def test_nothing_that_ships_leans_on_the_tests() -> None:
    wrong = [
        f"{source.name}:{line}: {target}"
        for source in ours()
        for line, target in imports(source)
        if target.split(".")[0] in ("tests", "pytest", "hypothesis", "bench")
        or (target.startswith("angelia.testing") and floor_of(source) != "testing")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "target", "expected"),
    [
        ("angelia.engine.sender", "angelia.store.ledger", True),
        ("angelia.engine.sender", "angelia.store.sqlite", False),
        ("angelia.engine.sender", "angelia.store", False),
        ("angelia.platforms.webhook", "angelia.platforms.web", False),
        ("angelia.platforms.webhook_in", "angelia.platforms.webhook", True),
        ("angelia.platforms.web.adapter", "angelia.platforms.web.frames", True),
        ("angelia.platforms.web.adapter", "angelia.platforms.http", True),
        ("angelia.platforms.webhook", "angelia.store.ledger", False),
        ("angelia.cli.main", "angelia.gateway.config", True),
        ("angelia.cli.main", "angelia.store.ledger", False),
        ("angelia.store.sqlite", "angelia.platforms.base", False),
        ("angelia.model.plan", "angelia.seams.clock", False),
        ("angelia.gateway.gateway", "angelia.cli.main", False),
    ],
)
def test_the_rule_itself(module: str, target: str, expected: bool) -> None:
    template = ours()[0]
    path = template.path.parents[0] / "/".join([*module.split(".")[1:-1], module.split(".")[-1] + ".py"])
    assert allowed(Source(path, "", template.tree), target) is expected
