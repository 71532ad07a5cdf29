"""A disk that fills up under a running gateway, and has room again.

Two ways to fill it: a small file system of its own (needs root), and a limit on the size of files
that is laid on the running process (``RLIMIT_FSIZE``; anybody may), which hits its log, too.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from tests.acceptance.daemon import SECRET, Daemon, Home, Receiver, eventually, receiver, running
from tests.acceptance.record import all_delivered, counted, endings, until, why

#: Fills the disk of a gateway for the length of a block.
Filler = Callable[[Daemon], AbstractContextManager[None]]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB of its own."""
    disk = tmp_path / "home"
    disk.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small file system can only be mounted by root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "none", str(disk)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not let its root mount a small file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@contextmanager
def ballast(gateway: Daemon) -> Iterator[None]:
    """A file that takes all room that is left."""
    file = gateway.home.path / "ballast"
    with file.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"x" * 4096)
        except OSError:
            pass
    try:
        yield
    finally:
        file.unlink()


@contextmanager
def file_size_limit(gateway: Daemon) -> Iterator[None]:
    """No file of the gateway may grow, be it the store or the log."""
    before = resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, before)


@pytest_asyncio.fixture
async def service() -> AsyncIterator[Receiver]:
    async with receiver() as one:
        yield one


async def refused(gateway: Daemon, taken: set[str]) -> None:
    """Write until a message is refused and the health says why; those that were accepted before
    are noted in ``taken``."""

    async def is_refused() -> bool:
        name = f"m{len(taken)}"
        body = json.dumps({"id": name, "chat": name, "user": "u", "text": name + "." * 20_000})
        headers = {"Authorization": f"Bearer {SECRET}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"{gateway.address}webhook/default/messages", data=body) as answer,
        ):
            if answer.status == 202:
                taken.add(name)
                return False
            assert answer.status == 503
            assert int(answer.headers["Retry-After"]) > 0
            assert "stored" in (await answer.json())["error"]
        code, health = await gateway.health()  # 200 again if a smaller commit found room meanwhile
        return code == 503 and "the store cannot be written" in health["reasons"]

    await eventually(is_refused, "a message is refused because the disk is full")


async def lived_through(home: Home, service: Receiver, fill: Filler) -> None:
    """One message is in the hands of the agent while the disk fills up; room comes back."""
    taken = {"wait"}
    async with running(home) as gateway:
        assert await gateway.say("wait", "wait") == 202
        await until(lambda: counted(home).turns["running"] == 1, "the agent works")
        with fill(gateway):
            await refused(gateway, taken)
            await until(lambda: opened(home.path.parent / "go"), "the agent has read its question")
            await until((home.path.parent / "go.done").exists, "the agent has answered")
            # That cannot be recorded: it is kept, and not sent before it is. Each of these has to
            # pass the writer behind it.
            for _ in range(5):
                await refused(gateway, taken)
            assert service.texts == []
            assert gateway.process.returncode is None

        async def well() -> bool:
            return (await gateway.health())[0] == 200

        await eventually(well, "the store is written again")
        late = f"m{len(taken)}"
        assert await gateway.say(late, late, late) == 202  # the one that was refused is no duplicate
        taken.add(late)
        await all_delivered(home, len(taken))
        assert sorted(text.strip(".") for text in service.texts) == sorted(taken)
        assert all(endings(why(home, name)[0]) == ["answered"] for name in taken)
        assert await gateway.stop() == 0


def opened(pipe: Path) -> bool:
    """Let go whoever reads ``pipe``; False: nobody does yet."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def patient_agent(home: Home) -> dict[str, object]:
    """Answers what it was asked; "wait" not before somebody opens the pipe ``go``, and then with
    more than can find room in a corner."""
    go = home.path.parent / "go"
    os.mkfifo(go)
    wait = f'cat "{go}"; head -c 200000 /dev/zero | tr "\\000" .; mkdir "{go}.done"'
    answer = f'text=$$(cat); case "$$text" in wait) {wait};; esac; printf %s "$$text"'
    return {"kind": "command", "argv": ["sh", "-c", answer]}


async def test_a_full_disk_refuses_and_loses_nothing(small_disk: Path, service: Receiver) -> None:
    home = Home(small_disk)
    home.configure(service.url, agent=patient_agent(home), text_limit=300_000)
    await lived_through(home, service, ballast)


async def test_a_store_that_may_not_grow_refuses_and_loses_nothing(tmp_path: Path, service: Receiver) -> None:
    home = Home(tmp_path / "home")
    home.configure(service.url, agent=patient_agent(home), text_limit=300_000)
    await lived_through(home, service, file_size_limit)


async def test_a_disk_that_is_full_at_the_start_is_named(small_disk: Path) -> None:
    home = Home(small_disk).configure()
    (small_disk / "ballast").write_bytes(b"")
    with (small_disk / "ballast").open("wb", buffering=0) as stream:
        while stream.write(b"x" * 4096) == 4096:
            if os.statvfs(small_disk).f_bavail == 0:
                break
    ended = await home.run("run")
    assert ended.code in (75, 78)
    assert "Traceback" not in ended.err
    assert str(small_disk) in ended.err
    (small_disk / "ballast").unlink()
    async with running(home) as gateway:
        assert (await gateway.health())[0] == 200
