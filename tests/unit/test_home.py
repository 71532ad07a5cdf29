"""The home and its lock: who is kept out, what is said, and what a death leaves behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from angelia.gateway.home import Home, HomeLock, create_home, default_home, open_home, running
from angelia.model.errors import ConfigError, HomeLockedError

#: A gateway's stand-in: takes the lock, says so, and waits to be told to go.
HOLDER = """
import sys
from pathlib import Path
from angelia.gateway.home import HomeLock, open_home
lock = HomeLock(open_home(Path(sys.argv[1])))
lock.publish("http://127.0.0.1:1/", 1700000000000)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create_home(tmp_path / "home")


@pytest.fixture
def holder(home: Home) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of ``home``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate(timeout=20)


@pytest.fixture
def as_ordinary_user() -> Iterator[Path]:
    """A folder to work in as a user whose rights the system checks: root's are not."""
    folder = Path(tempfile.mkdtemp(prefix="angelia-home-"))
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o700)
        shutil.rmtree(folder)


def test_the_default_home(tmp_path: Path) -> None:
    assert default_home({"HOME": "/somewhere"}) == Path("/somewhere/.angelia")
    assert default_home({"HOME": "/somewhere", "ANGELIA_HOME": ""}) == Path("/somewhere/.angelia")
    assert default_home({"ANGELIA_HOME": str(tmp_path)}) == tmp_path
    assert default_home({"ANGELIA_HOME": "here"}) == Path.cwd() / "here"


def test_a_new_home_is_for_its_owner_only(tmp_path: Path) -> None:
    home = create_home(tmp_path / "a" / "b")
    assert home.path.stat().st_mode & 0o777 == 0o700
    home.path.chmod(0o750)
    assert create_home(home.path).path.stat().st_mode & 0o777 == 0o750  # a choice of its owner stays


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for use in (open_home, create_home):
        with pytest.raises(ConfigError, match="is not a folder"):
            use(file)
        with pytest.raises(ConfigError, match=str(file)):
            use(file / "home")
    assert file.read_text() == "mine"


def test_no_home_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="angelia init"):
        open_home(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_home_that_may_not_be_read(as_ordinary_user: Path) -> None:
    home = create_home(as_ordinary_user / "home")
    home.path.chmod(0o000)
    with pytest.raises(ConfigError, match="may not be read"):
        open_home(home.path)
    with pytest.raises(ConfigError, match="cannot be reached"):
        open_home(home.path / "below")


def test_a_home_that_may_not_be_written(as_ordinary_user: Path) -> None:
    home = create_home(as_ordinary_user / "home")
    home.path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be written"):
        HomeLock(home)
    with pytest.raises(ConfigError, match="cannot be made"):
        create_home(home.path / "below")
    assert list(home.path.iterdir()) == []


def test_a_second_gateway_is_refused(home: Home, holder: subprocess.Popen[str]) -> None:
    before = home.lock.read_bytes()
    with pytest.raises(HomeLockedError, match="another gateway runs on"):
        HomeLock(home)
    assert home.lock.read_bytes() == before
    assert running(home) is not None


def test_a_second_lock_in_the_same_process_is_refused(home: Home) -> None:
    with HomeLock(home), pytest.raises(HomeLockedError):
        HomeLock(home)
    with HomeLock(home):
        pass


def test_others_learn_the_address(home: Home, holder: subprocess.Popen[str]) -> None:
    found = running(home)
    assert found is not None
    assert (found.address, found.started_at) == ("http://127.0.0.1:1/", 1700000000000)
    assert found.process == holder.pid


def test_a_killed_gateway_leaves_the_lock_free_and_no_address(
    home: Home, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait(timeout=20)
    assert home.lock.read_bytes()  # the old line is still there …
    assert running(home) is None  # … and nobody believes it
    with HomeLock(home) as lock:
        found = running(home)
        assert found is not None
        assert (found.address, found.started_at) == ("", 0)
        lock.publish("http://127.0.0.1:22/", 5)
        found = running(home)
        assert found is not None
        assert found.address == "http://127.0.0.1:22/"
    assert running(home) is None


def test_an_agent_that_outlives_the_gateway_does_not_hold_the_lock(home: Home) -> None:
    lock = HomeLock(home)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
    )
    try:
        lock.release()
        with HomeLock(home):
            assert child.poll() is None
    finally:
        child.communicate(timeout=20)


def test_nobody_runs_on_a_home_that_was_never_started(home: Home) -> None:
    assert running(home) is None
    assert not home.lock.exists()


def test_the_lock_file_is_for_its_owner_only(home: Home) -> None:
    with HomeLock(home):
        assert home.lock.stat().st_mode & 0o777 == 0o600


def test_a_damaged_line_is_no_trouble(home: Home) -> None:
    with HomeLock(home):
        home.lock.write_bytes(b"\xff nonsense")
        found = running(home)
        assert found is not None
        assert found.address == ""
