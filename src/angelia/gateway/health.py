"""Asks the gateway of a home how it is: is there one, and what does its ``GET /health`` say.

The lock is asked first: it cannot lie. What a running gateway says of itself comes second.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from angelia.gateway.home import Home, running

answer_limit_s = 3.0
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Health:
    """``status``: "ok", "unavailable", "starting", "silent" (runs, does not answer) or "down".
    ``started_at`` in milliseconds since the epoch, 0 if unknown."""

    running: bool
    status: str
    address: str = ""
    process: int = 0
    started_at: int = 0
    reasons: tuple[str, ...] = ()


def ask(home: Home) -> Health:
    """How the gateway of ``home`` is. Waits at most a few seconds."""
    found = running(home)
    if found is None:
        return Health(False, "down")
    if not found.address:
        return Health(True, "starting", process=found.process)
    answer = _get_health(found.address)
    if answer is None:
        return Health(True, "silent", found.address, found.process, found.started_at)
    status, reasons = answer
    return Health(True, status, found.address, found.process, found.started_at, reasons)


def _get_health(address: str) -> tuple[str, tuple[str, ...]] | None:
    where = urlsplit(address)
    host = where.hostname or ""
    connection = http.client.HTTPConnection(_ANYWHERE.get(host, host), where.port, timeout=answer_limit_s)
    try:
        connection.request("GET", "/health")
        body = json.loads(connection.getresponse().read(1_000_000))
        return str(body["status"]), tuple(str(reason) for reason in body["reasons"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()
