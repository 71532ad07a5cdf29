"""Backup, restore and salvage, killed at every point: the old file or the new one, whole.

A backup that died leaves none, or one that can be restored. A restore that died leaves the
store that was there, or the other one, in which everything owed asks first: whatever people
saw in the life that the backup does not remember is not sent again without a word. A salvage
never changes the damaged file.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from angelia.model.markers import DOUBT, OPENING
from angelia.store.connection import integrity_problems, open_connection
from tests.crash.commands import NOTICE, Order, Stage
from tests.crash.homes import command

_SPOOLED = b"a file that a platform sent"


def _spool(home: Path) -> Path:
    """A file in the spool, under the name that its content gives it."""
    return home / "spool" / hashlib.sha256(_SPOOLED).hexdigest()


def _archive(stage: Stage) -> Path:
    return stage.folder / "kept.tar"


def _store_of_old(stage: Stage) -> bool:
    """Whether the home's store is the one that the backup holds."""
    return stage.ask("SELECT parked FROM deliveries") == [1]


def _fill_spool(stage: Stage) -> None:
    _spool(stage.home).parent.mkdir(mode=0o700)
    _spool(stage.home).write_bytes(_SPOOLED)


def _backed_up(stage: Stage) -> None:
    """It can be restored elsewhere and owes what was owed; and the home owes it as before."""
    other = stage.folder / "other"
    other.mkdir()
    stage.configure(other)
    command(other, "restore", str(_archive(stage)))
    assert _spool(other).read_bytes() == _SPOOLED
    stage.live()
    assert (stage.states, stage.texts) == (["delivered"], [NOTICE])


def _back_up_and_live(stage: Stage) -> None:
    """The backup owes a notice which people have seen since."""
    _fill_spool(stage)
    command(stage.home, "backup", str(_archive(stage)))
    shutil.rmtree(_spool(stage.home).parent)
    stage.live()
    assert stage.texts == [NOTICE]


def _restored(stage: Stage) -> None:
    """Nothing is sent until somebody says so; then it says what it may be."""
    assert _spool(stage.home).read_bytes() == _SPOOLED
    stage.live()
    assert _store_of_old(stage)
    assert stage.texts == [NOTICE], "what the copy owes asks first"
    assert len(list(stage.home.glob("state.db*"))) >= 2, "the store that was there has a name of its own"
    command(stage.home, "deliveries", "release", str(stage.ask("SELECT id FROM deliveries")[0]))
    stage.live()
    _, second = stage.texts
    assert second.startswith(OPENING)
    assert DOUBT in second.partition("\n")[0]


def _damaged(stage: Stage) -> Path:
    return stage.folder / "damaged.db"


def _salvaged(stage: Stage) -> Path:
    return stage.folder / "salvaged.db"


def _damage(stage: Stage) -> None:
    """A copy of the store with its last page gone."""
    shutil.copy(stage.home / "state.db", _damaged(stage))
    with _damaged(stage).open("r+b") as file:
        file.seek(-4096, 2)
        file.write(b"\x00" * 4096)
    (stage.folder / "digest").write_text(_digest(stage))


def _digest(stage: Stage) -> str:
    return hashlib.sha256(_damaged(stage).read_bytes()).hexdigest()


def _is_salvaged(stage: Stage) -> bool:
    return _salvaged(stage).exists()


def _mended(stage: Stage) -> None:
    assert _digest(stage) == (stage.folder / "digest").read_text(), "the damaged file is not changed"
    connection = open_connection(_salvaged(stage), read_only=True)
    try:
        assert integrity_problems(connection) == []
        connection.execute("SELECT count(*) FROM deliveries").fetchall()
    finally:
        connection.close()


KEEPING = (
    Order(
        "backup",
        lambda stage: ["backup", str(_archive(stage))],
        lambda stage: _archive(stage).exists(),
        _backed_up,
        before=_fill_spool,
    ),
    Order(
        "restore",
        lambda stage: ["restore", "--force", str(_archive(stage))],
        _store_of_old,
        _restored,
        before=_back_up_and_live,
        remembers=False,
    ),
    Order(
        "salvage",
        lambda stage: ["salvage", str(_damaged(stage)), "--into", str(_salvaged(stage))],
        _is_salvaged,
        _mended,
        before=_damage,
    ),
)
