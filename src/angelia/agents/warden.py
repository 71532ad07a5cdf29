"""Stands between the gateway and a command, so that no command outlives its gateway.

Run as ``python -I -S warden.py FD ARGV…``; it is a program, not a module of the house, and
imports only the standard library. FD is one end of a socket whose other end only the gateway
holds. When that end closes, on purpose or because the gateway was killed with SIGKILL, the
command's whole process group is ended: SIGTERM, then SIGKILL after two seconds. What the
command left running in its group is ended the same way when the command itself has exited.

Nothing is started before the gateway says ``go``. What is said back, one line each:

* ``started PID``: the process group of the command,
* ``failed ERRNO``: the command could not be started,
* ``exited CODE``: as Python counts it, negative for a signal.

A process of the command that opens a session of its own leaves the group, and is on its own.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

TERM_POLLS = 100  # of 20 ms each: two seconds between SIGTERM and SIGKILL
KILL_POLLS = 50  # after SIGKILL: a process may take a moment to go
POLL_S = 0.02
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)
_PR_SET_CHILD_SUBREAPER = 36  # orphans of the command are given to us, so that none stays a zombie


def main(gateway: int, argv: list[str]) -> None:
    """Wait for ``go``, start the command, and stay until its group is gone."""
    os.set_inheritable(gateway, False)
    for ignored in _IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    _adopt_orphans()
    deaths, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    if os.read(gateway, 16) != b"go\n":
        return
    reset = (*_IGNORED, signal.SIGXFSZ)
    try:
        command = os.posix_spawnp(argv[0], argv, os.environ, setsid=True, setsigdef=reset, setsigmask=())
    except OSError as error:
        _say(gateway, f"failed {error.errno or 0}")
        return
    _say(gateway, f"started {command}")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # the command's ends of its pipes are the only ones
        os.dup2(nothing, stream)
    code = _watch(gateway, deaths, command)
    if code is None:
        code = _end(command)
    else:
        _end(command)
    _say(gateway, f"exited {code}")


def _watch(gateway: int, deaths: int, command: int) -> int | None:
    """The command's exit code, or None if the gateway has let go first."""
    while True:
        code = _reap(command)
        if code is not None:
            return code
        ready, _, _ = select.select([gateway, deaths], [], [])
        if deaths in ready:
            os.read(deaths, 4096)
        if gateway in ready and not _hears(gateway):
            return _reap(command)


def _hears(gateway: int) -> bool:
    try:
        return bool(os.read(gateway, 4096))
    except OSError:
        return False


def _end(group: int) -> int:
    """End every process of ``group``. Returns the code of its first process, if it is found."""
    code = 0
    for number, polls in ((signal.SIGTERM, TERM_POLLS), (signal.SIGKILL, KILL_POLLS)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
        for _ in range(polls):
            found = _reap(group)
            code = code if found is None else found
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return code
            except PermissionError:
                pass  # of another user now; SIGKILL will not help either, but it is tried
            select.select([], [], [], POLL_S)
    return code


def _reap(command: int) -> int | None:
    """Collect everything that has died. The exit code of ``command`` if it is among it."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == command:
            code = os.waitstatus_to_exitcode(status)


def _adopt_orphans() -> None:
    with contextlib.suppress(ImportError, OSError, AttributeError):  # not Linux: init reaps them
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _say(gateway: int, line: str) -> None:
    with contextlib.suppress(OSError):  # nobody may be there to hear it
        os.write(gateway, line.encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
