"""The spool: bytes under the name of their content, there before anything names them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from angelia.model.errors import MediaError, StoreUnavailableError
from angelia.model.media import Attachment, MediaKind, kind_of, shown_name, worded
from angelia.store.spool import FileSpool


@pytest.fixture
def spool(tmp_path: Path) -> FileSpool:
    return FileSpool(tmp_path / "home" / "spool")


async def test_bytes_are_kept_once_for_their_owner_only(spool: FileSpool, tmp_path: Path) -> None:
    source = tmp_path / "cat.PNG"
    source.write_bytes(b"meow")
    one = await spool.keep(source, source.name, "", 4)
    two = await spool.keep(b"meow", "other.png", "image/png", 4)
    assert (one.kind, one.name, one.mime, one.size) == (MediaKind.IMAGE, "cat.PNG", "image/png", 4)
    assert one.file == two.file
    assert spool.path(one).read_bytes() == b"meow"
    assert [file.name for file in spool.folder.iterdir()] == [one.file]
    assert spool.path(one).stat().st_mode & 0o777 == 0o600
    assert spool.folder.stat().st_mode & 0o777 == 0o700


async def test_a_half_written_file_of_a_crash_is_written_anew(spool: FileSpool) -> None:
    kept = await spool.keep(b"whole", "x", "", 9)
    spool.path(kept).write_bytes(b"wh")
    (spool.folder / f".{kept.file}").write_bytes(b"half")
    assert spool.path(await spool.keep(b"whole", "x", "", 9)).read_bytes() == b"whole"


@pytest.mark.parametrize(
    "source", [b"", b"12345", Path("/dev/zero"), Path("/nowhere"), Path("/"), Path("a\0b")]
)
async def test_what_is_no_file_of_that_size_is_refused(spool: FileSpool, source: bytes | Path) -> None:
    with pytest.raises(MediaError) as refused:
        await spool.keep(source, "x", "", 4)
    assert refused.value.too_large is (source == b"12345")
    assert not spool.folder.exists()


async def test_a_folder_that_cannot_be_made_is_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StoreUnavailableError, match="home/spool: Not a directory"):
        await FileSpool(tmp_path / "home" / "spool").keep(b"x", "x", "", 4)


async def test_only_what_is_old_and_unnamed_is_forgotten(spool: FileSpool) -> None:
    old, named, again = [await spool.keep(data, "x", "", 9) for data in (b"old", b"named", b"again")]
    for file in spool.folder.iterdir():
        os.utime(file, (1, 1))
    await spool.keep(b"again", "x", "", 9)
    young = await spool.keep(b"young", "x", "", 9)
    assert await spool.forget({named.file}) == 1
    assert [spool.path(one).exists() for one in (old, named, again, young)] == [False, True, True, True]


async def test_a_spool_that_was_never_needed_has_nothing_to_forget(spool: FileSpool) -> None:
    assert await spool.forget(()) == 0


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a b.png", "a b.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\y.txt", "y.txt"),
        ("a\r\nX: y\x00.txt", "aX y.txt"),
        ("..", "file"),
        ("", "file"),
        ("ü" * 200 + ".ogg", "ü" * 116 + ".ogg"),
    ],
)
def test_a_name_is_what_may_stand_in_a_header(name: str, shown: str) -> None:
    assert shown_name(name) == shown


@pytest.mark.parametrize(
    ("mime", "kind"),
    [
        ("image/jpeg", "image"),
        ("IMAGE/PNG; x=1", "image"),
        ("image/svg+xml", "file"),
        ("image/gif", "file"),
        ("audio/ogg", "voice"),
        ("audio/mpeg", "audio"),
        ("video/mp4", "video"),
        ("", "file"),
    ],
)
def test_what_a_media_type_is_shown_as(mime: str, kind: str) -> None:
    assert kind_of(mime) == kind


def test_a_column_keeps_an_attachment_as_it_is_on_one_line() -> None:
    one = Attachment("00", MediaKind.VOICE, 'a "b"\u2028\n.ogg', "audio/ogg", 3)
    assert Attachment.from_text(one.to_text()) == one
    assert len(one.to_text().splitlines()) == 1
    assert worded("text", one).startswith("[voice: a ")
    assert worded("text", None) == "text"
