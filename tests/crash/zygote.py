"""Forks gateways: pays the imports once, so that thousands of deaths stay cheap.

Reads one JSON line per command on standard input: ``{"home", "env", "log"}`` starts a
gateway (``angelia run`` on that home) in a forked process of its own and answers its pid;
``{"wait": pid}`` answers its exit status, negative for a signal; ``{"import": name}`` pays for
a module that not every session needs. ``"migrations"`` in a start names a folder of migrations
that take the place of the package's own.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path


def main() -> None:
    from angelia.gateway.daemon import serve
    from angelia.platforms import webhook  # noqa: F401 - pays its imports now

    gc.collect()
    gc.freeze()  # what every child shares is nobody's garbage
    print("ready", flush=True)
    alive: set[int] = set()
    for line in sys.stdin:
        command = json.loads(line)
        if "import" in command:
            importlib.import_module(command["import"])
            gc.freeze()
            print("imported", flush=True)
            continue
        if "wait" in command:
            _, status = os.waitpid(command["wait"], 0)
            alive.discard(command["wait"])
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _become(command)
            try:
                serve(Path(os.environ["ANGELIA_HOME"]), os.environ, print)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        alive.add(pid)
        print(pid, flush=True)
    for pid in alive:  # a test failed, or its runner was killed: nothing may outlive it
        os.kill(pid, signal.SIGKILL)


def _become(command: dict[str, object]) -> None:
    os.setsid()
    _die_with_the_zygote()
    log = os.open(str(command["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    environment = command["env"]
    assert isinstance(environment, dict)
    os.environ.update({str(k): str(v) for k, v in environment.items()})
    os.environ["ANGELIA_HOME"] = str(command["home"])
    if "migrations" in command:
        _migrate_with(Path(str(command["migrations"])))


def _die_with_the_zygote() -> None:
    """However the zygote ends, also by a signal to the whole group of its runner: no gateway of a
    test outlives it. (PR_SET_PDEATHSIG, prctl(2); elsewhere than on Linux nothing happens.)"""
    parent = os.getppid()
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(1, signal.SIGKILL)
    if os.getppid() != parent or parent == 1:
        os._exit(1)


def _migrate_with(folder: Path) -> None:
    """A later release: the schema has one more step. Everything else is the code that ships."""
    from angelia.store import migrate

    class Later:
        def joinpath(self, name: str) -> Path:
            assert name == "migrations"
            return folder

    setattr(migrate, "dialect_folder", Later)  # noqa: B010 - not what its type says


if __name__ == "__main__":
    main()
