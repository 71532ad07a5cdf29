"""What the repository must hold, and what must never be in it."""

from __future__ import annotations

import os
import re
import tomllib

import pytest
from tests.tidy.sources import PACKAGE, ROOT, tree_files

#: The stated files of the house; readers and tools look for them here.
STATED = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "STYLE.md",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    "requirements-test.lock",
    ".ci/run",
    "docs/glossary.md",
    "docs/reference/settings.md",
    "src/angelia/model/states.py",
    "src/angelia/store/ledger.py",
    "src/angelia/py.typed",
)

#: Put together here so that this file does not hold them itself.
FORBIDDEN = {
    "a path of somebody's machine": r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/[a-z]+)/",
    "a workplace's tool": r"\bfar" + r"m-[a-z]+\b|\.libr" + r"ary/",
    "a package host": r"py" + r"pi\.org/simple|(?<!emit)-(?:(?:extra-)?ind" + r"ex-url|find-li" + r"nks)",
    "an API token": r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|xo" + r"x[abpr]-[0-9A-Za-z-]{20,}"
    r"|sk-[A-Za-z0-9]{24,}|AKIA[0-9A-Z]{16}|[0-9]{9,10}:[A-Za-z0-9_-]{35})\b",
    "a private key": r"-----BEGIN [A-Z ]*PRIV" + r"ATE KEY",
}


@pytest.mark.parametrize("name", STATED)
def test_a_stated_file_exists(name: str) -> None:
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_tree_holds_no(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what].encode())
    found = []
    for file in tree_files():
        content = file.read_bytes()
        for match in pattern.finditer(content):
            line = content.count(b"\n", 0, match.start()) + 1
            found.append(f"{file.relative_to(ROOT)}:{line}")
    assert found == []


def test_the_tree_in_architecture_is_the_tree() -> None:
    """Every module is named there, save those of a folder or family that is named as one."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tree = text[text.index("## The tree") : text.index("## The life of a message")]
    modules = {file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py"}
    folders = ("web", "telegram", "testing", "telegram_server")
    families = {file for file in modules if file.parent.name in folders or "sqlite_" in file.name}
    assert sorted(file.name for file in modules - families if file.name not in tree) == []
    named = set(re.findall(r"\b[a-z_]+\.py\b", tree)) - {file.name for file in PACKAGE.rglob("*.py")}
    assert named == set()


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    records = sorted(file.name for file in folder.glob("[0-9]*.md"))
    assert sorted(re.findall(r"\]\(([^)]+)\)", index)) == records
    assert [name[:4] for name in records] == [f"{number:04}" for number in range(1, len(records) + 1)]


def test_links_between_pages_lead_somewhere() -> None:
    dead = [
        f"{file.relative_to(ROOT)}: {target}"
        for file in tree_files()
        if file.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8"))
        if "://" not in target and not (file.parent / target).exists()
    ]
    assert dead == []


def test_the_ci_script_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-test.lock"])
def test_a_lock_file_pins_and_hashes_everything(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "\n-" not in f"\n{text}"  # no option, and nothing editable
    blocks = re.findall(r"^[a-z0-9].*(?:\n {4}--hash.*)*", text, re.MULTILINE)
    assert len(blocks) > 20
    for block in blocks:
        assert re.match(r"[a-z0-9._-]+==[^ ]+ (?:; .* )?\\\n", block), block.splitlines()[0]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block.splitlines()[0]


def _locked(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ ]+)", text, re.MULTILINE))


def test_the_lock_files_agree_and_know_every_dependency() -> None:
    run, test = _locked("requirements.lock"), _locked("requirements-test.lock")
    assert {name: version for name, version in run.items() if test.get(name) != version} == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["build"]
    optional = [one for extra in project["project"]["optional-dependencies"].values() for one in extra]

    def names(requirements: list[str]) -> set[str]:
        words = {re.split(r"[^A-Za-z0-9._-]", one)[0].lower() for one in requirements}
        return words - {project["project"]["name"]}

    assert names(wanted) - set(run) == set()
    assert names(optional) - set(test) == set()
