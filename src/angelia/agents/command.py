"""The agent that is a program of one's own: a question on its stdin, the answer on its stdout.

Each run starts the command anew. It gets the bare text (UTF-8) and then the end of its input;
what it writes is the answer, less the last newline. ``ANGELIA_CONVERSATION`` names the
conversation, ``ANGELIA_USER`` the person, ``ANGELIA_FILES`` the files that came with the
question (a path a line). What it leaves in the folder ``ANGELIA_ATTACH`` goes with the answer,
in the order of the names. Apart from these it sees the environment the gateway was started
with (what stands in ``.env`` is not part of that).

The command runs in a process group of its own, under a warden (``warden.py``) that ends the
whole group when the run is cancelled, at the time limit, on ``close``, when the command has
exited, and when the gateway is killed with SIGKILL. No run is ever repeated from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from angelia.agents.base import Answer, AttachedFile, Question
from angelia.model import limits
from angelia.model.errors import AgentError
from angelia.model.messages import Usage, well_formed

_WARDEN = Path(__file__).with_name("warden.py")
_STDOUT_BYTES_MAX = 4 * limits.text_characters_max + 2  # a character has at most four bytes
_STDERR_BYTES_MAX = 2000
_COMPLAINT_CHARACTERS_MAX = 500
_FILE_BYTES_MAX = 64 * 1024 * 1024  # a larger file is too large for every platform
_LEFTOVERS_S = 1.0  # for stdout to end after the command did, if a stranger still holds it
_WARDEN_ENDS_S = 5.0  # its two seconds, and some


class CommandSettings(BaseModel):
    """``argv``: the command and its arguments, no shell between. ``timeout_s``: the time limit
    of one run in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    argv: list[Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]] = Field(min_length=1)
    timeout_s: float = Field(default=limits.turn_timeout_s, gt=0, allow_inf_nan=False)

    @field_validator("argv")
    @classmethod
    def _names_a_command(cls, argv: list[str]) -> list[str]:
        if not argv[0]:
            raise ValueError("the first word is the command and cannot be empty")
        return argv


class CommandAgent:
    """Answers with what a command writes to its stdout."""

    history_messages = 0

    def __init__(self, settings: CommandSettings) -> None:
        self.timeout_s = settings.timeout_s
        self._argv = settings.argv
        self._runs: dict[_Run, asyncio.Task[None] | None] = {}

    def model_for(self, attempt: int) -> str:
        """What to write down as the model of a run."""
        return os.path.basename(self._argv[0])

    async def run(self, question: Question) -> Answer:
        """Run the command once. Raises ``AgentError`` if it cannot be started, takes too long,
        exits with another code than 0, or writes what is no text or too much of it. When this
        returns or raises, nothing of the command's process group is left."""
        try:
            run = _Run(self._argv)
        except OSError as error:  # no file descriptors left
            raise AgentError(f"{self._argv[0]} could not be started: {error.strerror}") from error
        self._runs[run] = None
        with tempfile.TemporaryDirectory(prefix="angelia-", ignore_cleanup_errors=True) as folder:
            try:
                async with asyncio.timeout(self.timeout_s):
                    await run.start(self._environment(question, folder))
                    await run.converse(well_formed(question.text).encode())
            except TimeoutError:
                raise AgentError(f"{self._argv[0]} gave no answer within {self.timeout_s:g} s") from None
            finally:
                await self._end(run)
            files = await asyncio.to_thread(_left_in, Path(folder))
        return Answer(run.answer(), Usage(model=self.model_for(question.attempt)), files)

    async def close(self) -> None:
        """End every command that still runs."""
        await asyncio.gather(*(self._end(run) for run in list(self._runs)))

    async def _end(self, run: _Run) -> None:
        """End ``run``, also if the one who waits for it is cancelled meanwhile."""
        if run not in self._runs:
            return
        task = self._runs[run]
        if task is None:
            task = asyncio.create_task(run.end())
            task.add_done_callback(lambda _: self._runs.pop(run, None))
            self._runs[run] = task
        await asyncio.shield(task)

    def _environment(self, question: Question, folder: str) -> dict[str, str]:
        own = {
            "ANGELIA_CONVERSATION": question.conversation,
            "ANGELIA_USER": question.user,
            "ANGELIA_FILES": "\n".join(str(file.path) for file in question.files),
            "ANGELIA_ATTACH": folder,
        }
        return {**os.environ, **{name: well_formed(value) for name, value in own.items()}}


def _left_in(folder: Path) -> tuple[AttachedFile, ...]:
    """The files that a command left to be sent; one byte too much of a file that is too large."""
    files = []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        with path.open("rb") as file:
            files.append(AttachedFile(file.read(_FILE_BYTES_MAX + 1), os.fsdecode(path.name)))
    return tuple(files)


class _Run(asyncio.SubprocessProtocol):
    """One run of the command: its pipes, and the line to its warden."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        self._out = bytearray()
        self._complaint = bytearray()
        self._open_pipes = {1, 2}
        self._flushed = asyncio.Event()
        self._gone = asyncio.Event()
        self._overflow = asyncio.Event()
        self._line, self._warden_end = socket.socketpair()
        self._line.setblocking(False)
        self._transport: asyncio.SubprocessTransport | None = None
        self._news: asyncio.Task[int | None] | None = None
        self._group: int | None = None

    # -- what the event loop tells ------------------------------------------------------------

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._complaint += data[: _STDERR_BYTES_MAX - len(self._complaint)]
        elif len(self._out) + len(data) > _STDOUT_BYTES_MAX:
            self._overflow.set()
        else:
            self._out += data

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_pipes.discard(fd)  # a command need not read its stdin; that is no error
        if not self._open_pipes:
            self._flushed.set()

    def process_exited(self) -> None:
        self._gone.set()

    # -- the run ------------------------------------------------------------------------------

    async def start(self, environment: dict[str, str]) -> None:
        """Start the warden, which starts nothing before ``converse``."""
        fd = self._warden_end.fileno()
        program = (sys.executable or "python3", "-I", "-S", str(_WARDEN), str(fd))
        try:
            self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: self, *program, *self._argv, env=environment, pass_fds=(fd,), start_new_session=True
            )
        except OSError as error:
            raise AgentError(f"{self._argv[0]} could not be started: {error.strerror}") from error
        finally:
            self._warden_end.close()

    async def converse(self, question: bytes) -> None:
        """Ask, and wait until the command has exited and all it wrote is here."""
        assert self._transport is not None
        self._line.send(b"go\n")
        stdin = self._transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        stdin.write(question)
        stdin.close()
        self._news = asyncio.create_task(self._listen())
        overflow = asyncio.create_task(self._overflow.wait())
        try:
            await asyncio.wait({self._news, overflow}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            overflow.cancel()
        if not self._overflow.is_set():
            self._judge(None if self._news.cancelled() else self._news.result())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEFTOVERS_S):
                    await self._flushed.wait()
        if self._overflow.is_set():
            raise AgentError(f"{self._argv[0]} wrote more than {limits.text_characters_max} characters")

    async def _listen(self) -> int | None:
        """The command's exit code, as the warden reports it; None if the warden was killed."""
        loop, heard = asyncio.get_running_loop(), b""
        while True:
            try:
                more = await loop.sock_recv(self._line, 256)
            except OSError:
                return None
            if not more:
                return None
            *lines, heard = (heard + more).split(b"\n")
            for word, number in (line.split() for line in lines):
                if word == b"failed":
                    reason = os.strerror(int(number))
                    raise AgentError(f"{self._argv[0]} could not be started: {reason}")
                if word == b"started":
                    self._group = int(number)
                if word == b"exited":
                    return int(number)

    def _judge(self, code: int | None) -> None:
        if code == 0:
            return
        if code is None:
            raise AgentError(f"{self._argv[0]} was lost: its warden was killed")
        ending = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
        complaint = self._complaint.decode("utf-8", "replace").strip()[:_COMPLAINT_CHARACTERS_MAX]
        raise AgentError(f"{self._argv[0]} {ending}" + (f": {complaint}" if complaint else ""))

    def answer(self) -> str:
        """What was written, less the last newline."""
        try:
            text = self._out.decode("utf-8")
        except UnicodeDecodeError as error:
            raise AgentError(f"{self._argv[0]} wrote bytes that are not UTF-8 (at {error.start})") from None
        text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
        if len(text) > limits.text_characters_max:
            raise AgentError(f"{self._argv[0]} wrote more than {limits.text_characters_max} characters")
        return well_formed(text)

    async def end(self) -> None:
        """Let go of the warden, and wait until it has ended the command's process group."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        if self._transport is not None:
            try:
                async with asyncio.timeout(_WARDEN_ENDS_S):
                    await self._gone.wait()
            except TimeoutError:
                self._transport.kill()
            if self._transport.get_returncode() != 0 and self._group is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._group, signal.SIGKILL)
            self._transport.close()
        if self._news is not None:  # the warden is gone, so the line has ended: this does not wait
            await asyncio.wait({self._news}, timeout=_LEFTOVERS_S)
            self._news.cancel()
            await asyncio.gather(self._news, return_exceptions=True)
        self._line.close()
