"""Forks gateways: pays the imports once, so that thousands of deaths stay cheap.

Reads one JSON line per command on standard input: ``{"home", "env", "log"}`` starts a
gateway (``angelia run`` on that home) in a forked process of its own and answers its pid;
``{"wait": pid}`` answers its exit status, negative for a signal.
"""

from __future__ import annotations

import gc
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
    log = os.open(str(command["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    environment = command["env"]
    assert isinstance(environment, dict)
    os.environ.update({str(k): str(v) for k, v in environment.items()})
    os.environ["ANGELIA_HOME"] = str(command["home"])


if __name__ == "__main__":
    main()
