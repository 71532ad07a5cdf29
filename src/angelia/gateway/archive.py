"""The file that ``angelia backup`` writes: a plain tar archive, readable without us.

    state.db        the store as it was at one moment, complete by itself
    spool/…         its attachments, each under the SHA-256 of its bytes
    config.yaml     only if asked for
    .env            only if asked for: it holds the secrets
    manifest.json   what is above, with checksums; last, so that a cut archive is known as one

Nothing else is ever unpacked, and no name of an archive is used as a path.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from angelia.model.errors import NotPossibleError

STORE = "state.db"
MANIFEST = "manifest.json"
CONFIG = "config.yaml"
DOTENV = ".env"
SPOOL = "spool/"

FORMAT = 1
_CHUNK = 1024 * 1024
_MANIFEST_BYTES_MOST = 64 * 1024 * 1024
_SPOOLED = re.compile(r"[0-9a-f]{64}")
_SQLITE = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What stands in ``manifest.json``. ``made_at`` in milliseconds since the epoch; ``missing``:
    spooled files that the store names and that were not there."""

    made_at: int
    program: str
    schema: int
    missing: tuple[str, ...] = ()
    sha256: dict[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        facts = {
            "angelia_backup": FORMAT,
            "made_at": self.made_at,
            "program": self.program,
            "schema": self.schema,
            "missing": list(self.missing),
            "sha256": self.sha256,
        }
        return json.dumps(facts, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Raises ``ValueError``, ``KeyError`` or ``TypeError`` for what is none."""
        facts: dict[str, Any] = json.loads(data)
        if facts["angelia_backup"] != FORMAT:
            raise ValueError("made by a newer Angelia")
        sums = {str(name): str(value) for name, value in facts["sha256"].items()}
        return cls(facts["made_at"], facts["program"], facts["schema"], tuple(facts["missing"]), sums)


class Writing:
    """An archive that is being written to ``file``. Raises ``OSError``."""

    def __init__(self, file: IO[bytes]) -> None:
        self._tar = tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)
        self.sha256: dict[str, str] = {}

    def add(self, name: str, source: IO[bytes], size: int) -> None:
        """Put ``size`` bytes of ``source`` under ``name``."""
        hashing = _Hashing(source)
        self._tar.addfile(_member(name, size), hashing)
        self.sha256[name] = hashing.digest

    def finish(self, manifest: Manifest) -> None:
        data = manifest.to_bytes()
        self._tar.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
        self._tar.close()


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


class _Hashing(io.RawIOBase):
    """A source whose checksum is known once it was read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._sum = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._sum.update(data)
        return data

    @property
    def digest(self) -> str:
        return self._sum.hexdigest()


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive that is being read, in the order of the archive."""

    name: str
    size: int
    source: IO[bytes]

    @property
    def spooled(self) -> str:
        """Its name in the spool, or "" for what is no spooled file."""
        name = self.name.removeprefix(SPOOL)
        return name if self.name.startswith(SPOOL) and _SPOOLED.fullmatch(name) else ""

    def copy_to(self, target: IO[bytes] | None) -> str:
        """Write its bytes into ``target`` (``None``: nowhere); returns their SHA-256. Raises
        ``NotPossibleError`` where the archive ends too early."""
        checksum = hashlib.sha256()
        while data := self._read():
            checksum.update(data)
            if target is not None:
                target.write(data)
        return checksum.hexdigest()

    def _read(self) -> bytes:
        try:
            return self.source.read(_CHUNK)
        except (tarfile.TarError, EOFError) as error:
            raise NotPossibleError(f"the backup is damaged or was cut at {self.name}: {error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, mode="r:") as tar:
            yield tar
    except (tarfile.TarError, EOFError) as error:
        raise NotPossibleError(f"{path} is damaged or was cut: {error}") from error


def members(path: Path) -> Iterator[Member]:
    """The plain files of an archive; what is something else is passed over.

    Raises ``NotPossibleError`` where it is damaged, ``OSError`` where it cannot be read."""
    with _opened(path) as tar:
        for found in tar:
            source = tar.extractfile(found) if found.isreg() else None
            if source is not None:
                yield Member(found.name, found.size, source)


def examine(path: Path) -> Manifest:
    """Read all of an archive and compare every file with its checksum.

    Raises ``NotPossibleError`` for one that is cut, damaged or none at all, ``OSError`` where
    it cannot be read."""
    sums: dict[str, str] = {}
    manifest: Manifest | None = None
    for member in members(path):
        if member.name == MANIFEST and member.size <= _MANIFEST_BYTES_MOST:
            listed = io.BytesIO()
            member.copy_to(listed)
            try:
                manifest = Manifest.from_bytes(listed.getvalue())
            except (ValueError, KeyError, TypeError) as error:
                raise NotPossibleError(f"{path}: its manifest cannot be used: {error}") from error
        else:
            sums[member.name] = member.copy_to(None)
    if manifest is None:
        raise NotPossibleError(
            f"{path} has no manifest at its end: it is no backup of Angelia's, or it was cut off. "
            f"If there is a {STORE} in it, `tar xf` takes it out, and `angelia restore {STORE}` takes that"
        )
    for name, expected in manifest.sha256.items():
        if sums.get(name) != expected:
            said = "is damaged" if name in sums else "is missing"
            raise NotPossibleError(f"{path}: {name} {said} in this backup")
    if STORE not in manifest.sha256:
        raise NotPossibleError(f"{path}: there is no {STORE} in this backup")
    return manifest


def is_bare_store(path: Path) -> bool:
    """Whether ``path`` is a SQLite file and not an archive. Raises ``OSError``."""
    with open(path, "rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def spooled_files(folder: Path) -> list[str]:
    """The names of the files that lie in a spool now, sorted; what is half written is none."""
    try:
        with os.scandir(folder) as entries:
            names = [
                e.name for e in entries if _SPOOLED.fullmatch(e.name) and e.is_file(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    return sorted(names)
