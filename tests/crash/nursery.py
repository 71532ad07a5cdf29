"""Starts, kills and awaits gateways through the zygote, and acts as their user."""

from __future__ import annotations

import http.client
import json
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apsw

_SPEED = 60
_ORIGIN = time.time()


def clock(days_ahead: float = 0.0) -> dict[str, str]:
    """One real second is a minute of every gateway and command of this session."""
    origin = _ORIGIN - days_ahead * 24 * 3600 / (_SPEED - 1)
    return {"ANGELIA_TEST_CLOCK_SPEED": str(_SPEED), "ANGELIA_TEST_CLOCK_ORIGIN": str(origin)}


CLOCK = clock()
PATIENCE_S = 60.0

CONFIG = """\
gateway: {{listen: "127.0.0.1:0", delivery_ledger: true}}
profiles:
  default:
    agent: {agent}
    platforms:
      webhook:
        {{secret: "crash", deliver_url: "{url}", idempotent: {keyed}, text_limit: {limit}, allow: ["*"]}}
"""


class Zygote:
    """The forking process; one for a whole test session."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self._ask(None) == "ready"

    def _ask(self, command: dict[str, Any] | None) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if command is not None:
            self._process.stdin.write(json.dumps(command) + "\n")
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S * 2)
        assert ready, "the zygote does not answer"
        return self._process.stdout.readline().strip()

    def start(self, home: Path, migrations: Path | None = None, **env: object) -> int:
        """Start a gateway on ``home``; its process id. ``migrations``: those of a later release."""
        command = {"home": str(home), "env": {**CLOCK, **env}, "log": str(home / "log")}
        if migrations is not None:
            command["migrations"] = str(migrations)
        return int(self._ask(command))

    def imports(self, module: str) -> None:
        """Pay for a module once, before the gateways that need it."""
        assert self._ask({"import": module}) == "imported"

    def wait(self, pid: int) -> int:
        return int(self._ask({"wait": pid}))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def is_gone(pid: int) -> bool:
    """Whether the process has ended (it may still wait to be collected)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until(condition: Any, what: str, pid: int | None = None) -> bool:
    """Wait for ``condition``. False: the process ended first."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        if pid is not None and is_gone(pid):
            return False
        time.sleep(0.015)
    raise AssertionError(f"this did not happen in time: {what}")


def address_of(home: Path) -> tuple[str, int] | None:
    """Where the gateway of a home listens, once it says so."""
    try:
        said = json.loads((home / "gateway.lock").read_text() or "{}")
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    address = str(said.get("address", ""))
    if not address:
        return None
    host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
    return host, int(port)


def post(home: Path, message: dict[str, str]) -> int:
    """Hand an inbound over once; 0 when there was no answer."""
    address = address_of(home)
    if address is None:
        return 0
    connection = http.client.HTTPConnection(*address, timeout=5)
    try:
        connection.request(
            "POST",
            "/webhook/default/messages",
            json.dumps(message),
            {"Authorization": "Bearer crash", "Content-Type": "application/json"},
        )
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def ask(home: Path, sql: str) -> list[tuple[Any, ...]]:
    """Read the store beside the gateway."""
    path = home / "state.db"
    if not path.exists():
        return []
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(2000)
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()
    except apsw.Error:
        return []


def settled(home: Path, inbounds: int) -> bool:
    """Whether nothing is open any more except what policy rests, or what asks first."""
    rows = ask(
        home,
        "SELECT (SELECT count(*) FROM inbound),"
        " (SELECT count(*) FROM turns WHERE state IN ('waiting', 'running')),"
        " (SELECT count(*) FROM deliveries WHERE state = 'attempting'"
        "   OR (state IN ('pending', 'failed') AND due_at IS NOT NULL))",
    )
    return bool(rows) and rows[0][0] >= inbounds and rows[0][1:] == (0, 0)
