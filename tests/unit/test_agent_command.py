"""The command agent: what a command may do, and that nothing of it outlives its run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from angelia.agents.base import Answer, Question, ReceivedFile
from angelia.agents.command import CommandAgent, CommandSettings
from angelia.model import limits
from angelia.model.errors import AgentError
from angelia.model.media import Attachment, MediaKind

PATIENCE_S = 20.0


def shell(script: str, timeout_s: float = 60.0) -> CommandAgent:
    return CommandAgent(CommandSettings(argv=["sh", "-c", script], timeout_s=timeout_s))


async def ask(agent: CommandAgent, text: str = "hello") -> Answer:
    try:
        return await agent.run(Question("conversation-7", text, "user-3"))
    finally:
        assert not agent._runs
        await agent.close()


def alive(pid: int) -> bool:
    """Whether a process still runs (one that waits to be collected does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - other processes cannot set our events
            await asyncio.sleep(0.01)


async def pids(file: Path, count: int) -> list[int]:
    """The process ids that a command writes into ``file``, one a line, once ``count`` are there."""
    await until(lambda: file.exists() and file.read_text().count("\n") >= count)
    return [int(line) for line in file.read_text().split()]  # noqa: ASYNC240 - a few bytes


def family(file: Path, *, stubborn: bool = False) -> str:
    """A script with a child and a grandchild that write down who they are, and stay."""
    script = file.with_name("family.sh")
    trap = "trap '' TERM" if stubborn else ":"
    script.write_text(
        f"{trap}\necho $$ >> {file}\n[ $1 = 0 ] || sh {script} $(($1 - 1)) &\nwhile :; do sleep 100; done\n"
    )
    return f"exec sh {script} 2"


@asynccontextmanager
async def running(agent: CommandAgent) -> AsyncIterator[asyncio.Task[Answer]]:
    task = asyncio.create_task(agent.run(Question("c", "text", "u")))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await agent.close()


# -- what is asked and answered -----------------------------------------------------------------


async def test_bare_text_in_and_the_answer_less_its_last_newline_out() -> None:
    assert (await ask(shell("cat"), "grüße\n♻️")).text == "grüße\n♻️"
    assert (await ask(shell("printf 'one\\n\\n'"))).text == "one\n"
    assert (await ask(shell("printf 'one\\r\\n'"))).text == "one"
    assert (await ask(shell("echo hidden >&2; echo seen"))).text == "seen"


async def test_conversation_and_user_stand_in_the_environment_beside_our_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_NAME_OF_OURS", "a value")
    answer = await ask(shell('echo "$ANGELIA_CONVERSATION $ANGELIA_USER $A_NAME_OF_OURS"'))
    assert answer.text == "conversation-7 user-3 a value"


async def test_arguments_reach_the_command_as_they_are() -> None:
    argv = ["printf", "%s|", "a b", "$HOME", "-I", ""]
    assert (await ask(CommandAgent(CommandSettings(argv=argv)))).text == "a b|$HOME|-I||"


async def test_a_megabyte_goes_in_and_comes_out() -> None:
    text = "x" * limits.text_characters_max
    assert (await ask(shell("cat"), text)).text == text


async def test_a_command_need_not_read_its_question() -> None:
    assert (await ask(shell("exec <&-; echo done"), "x" * 1_000_000)).text == "done"


async def test_nothing_written_is_an_empty_answer() -> None:
    assert (await ask(shell("true"))).text == ""
    assert (await ask(shell("echo"))).text == ""


async def test_many_runs_at_once_keep_their_answers_apart() -> None:
    agent = shell("cat")
    answers = await asyncio.gather(*(agent.run(Question("c", str(n), "u")) for n in range(8)))
    assert [answer.text for answer in answers] == [str(n) for n in range(8)]
    assert agent.model_for(0) == "sh"
    assert answers[0].usage.model == "sh"


# -- what can go wrong --------------------------------------------------------------------------


async def test_a_failing_command_is_named_with_its_code_and_complaint() -> None:
    with pytest.raises(AgentError, match=r"^sh exited with code 3: no such luck$"):
        await ask(shell("echo half an answer; echo no such luck >&2; exit 3"))
    with pytest.raises(AgentError, match="signal 9"):
        await ask(shell("kill -9 $$"))


async def test_of_a_long_complaint_the_first_500_characters_are_kept() -> None:
    with pytest.raises(AgentError) as caught:
        await ask(shell("head -c 300000 /dev/zero | tr '\\0' e >&2; exit 1"))
    assert str(caught.value) == "sh exited with code 1: " + "e" * 500


async def test_binary_output_is_an_error() -> None:
    with pytest.raises(AgentError, match="not UTF-8"):
        await ask(shell("printf 'ok \\377\\376'"))


async def test_nul_characters_in_the_output_are_made_visible() -> None:
    assert (await ask(shell("printf 'a\\000b'"))).text == "a\ufffdb"


@pytest.mark.parametrize(
    "script", ["yes", f"head -c {limits.text_characters_max + 2} /dev/zero | tr '\\0' x"]
)
async def test_more_than_a_message_may_hold_is_an_error(script: str) -> None:
    with pytest.raises(AgentError, match="more than 1000000 characters"):
        await ask(shell(script))


async def test_a_command_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    plain = tmp_path / "not-executable"
    plain.write_text("echo no")
    orphan = tmp_path / "no-interpreter"
    orphan.write_text("#!/nonexistent/interpreter\n")
    orphan.chmod(0o755)
    for program in ("no-such-command-anywhere", str(tmp_path / "missing"), str(plain), str(orphan)):
        with pytest.raises(AgentError, match="could not be started") as caught:
            await ask(CommandAgent(CommandSettings(argv=[program])))
        assert program in str(caught.value)


async def test_a_command_that_takes_too_long_is_ended_with_its_group(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    agent = shell(family(file), timeout_s=1.5)
    async with running(agent) as task:
        known = await pids(file, 3)
        with pytest.raises(AgentError, match=r"no answer within 1.5 s"):
            await task
    assert not [pid for pid in known if alive(pid)]


# -- nothing outlives its run -------------------------------------------------------------------


async def test_a_cancelled_run_ends_the_whole_group_before_it_returns(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with running(shell(family(file))) as task:
        known = await pids(file, 3)
        assert all(map(alive, known))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not [pid for pid in known if alive(pid)]


async def test_a_group_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with running(shell(family(file, stubborn=True))) as task:
        known = await pids(file, 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not [pid for pid in known if alive(pid)]


async def test_a_run_cancelled_twice_still_ends_its_group(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with running(shell(family(file, stubborn=True))) as task:
        known = await pids(file, 3)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not any(map(alive, known)))


async def test_a_run_cancelled_at_once_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    agent = shell(f"echo $$ > {file}")
    for turns in range(6):
        task = asyncio.create_task(agent.run(Question("c", "text", "u")))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not agent._runs


async def test_close_ends_what_still_runs(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    agent = shell(family(file))
    async with running(agent) as task:
        known = await pids(file, 3)
        await agent.close()
        assert not [pid for pid in known if alive(pid)]
        with pytest.raises(AgentError, match="signal 15"):
            await task


async def test_what_a_command_leaves_running_in_its_group_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    answer = await ask(shell(f"sleep 1000 & echo $! >> {file}; echo done"))
    assert answer.text == "done"
    assert not [pid for pid in await pids(file, 1) if alive(pid)]


async def test_a_stranger_who_holds_stdout_does_not_hold_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    answer = await ask(
        shell(
            f"setsid sh -c 'echo $$ >> {file}; exec sleep 1000' & until [ -s {file} ]; do :; done; echo done"
        )
    )
    (stranger,) = await pids(file, 1)
    try:
        assert answer.text == "done"
    finally:
        os.kill(stranger, signal.SIGKILL)


async def test_a_killed_warden_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with running(shell(f"echo $PPID >> {file}; " + family(file))) as task:
        warden, *known = await pids(file, 4)
        os.kill(warden, signal.SIGKILL)
        with pytest.raises(AgentError, match="warden"):
            await task
        await until(lambda: not any(map(alive, known)))


@pytest.mark.crash
@pytest.mark.parametrize("stubborn", [False, True])
async def test_the_group_ends_when_the_gateway_is_killed_with_sigkill(tmp_path: Path, stubborn: bool) -> None:
    file = tmp_path / "pids"
    gateway = subprocess.Popen(  # noqa: ASYNC220 - it is to be killed, not awaited
        [sys.executable, "-c", _GATEWAY, family(file, stubborn=stubborn)], stdin=subprocess.DEVNULL
    )
    try:
        known = await pids(file, 3)
        assert all(map(alive, known))
    finally:
        gateway.kill()
        gateway.wait()
    await until(lambda: not any(map(alive, known)))


_GATEWAY = """
import asyncio, sys
from angelia.agents.base import Question
from angelia.agents.command import CommandAgent, CommandSettings
agent = CommandAgent(CommandSettings(argv=["sh", "-c", sys.argv[1]]))
asyncio.run(agent.run(Question("c", "text", "u")))
"""


@pytest.mark.parametrize(
    "bad",
    [{}, {"argv": []}, {"argv": "cat"}, {"argv": [""]}, {"argv": ["a\0b"]}, {"argv": ["cat"], "shell": True}],
)
def test_bad_settings_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CommandSettings.model_validate(bad)


async def test_what_lies_in_the_attach_folder_goes_with_the_answer_in_the_order_of_names(
    tmp_path: Path,
) -> None:
    note = tmp_path / "folder"
    leave = "printf two > b.txt; printf one > a.png; mkdir c"
    script = f'echo "$ANGELIA_ATTACH" > {note}; cd "$ANGELIA_ATTACH"; {leave}'
    answer = await ask(shell(script))
    assert [(file.shown, file.source) for file in answer.files] == [("a.png", b"one"), ("b.txt", b"two")]
    assert not Path(note.read_text().strip()).exists()  # noqa: ASYNC240 - a few bytes


async def test_files_that_came_with_the_question_are_named_a_path_a_line() -> None:
    file = Attachment("0" * 64, MediaKind.FILE, "x", "text/plain", 1)
    files = tuple(ReceivedFile(file, Path("/spool") / name) for name in ("one", "two words"))
    agent = shell('printf "%s" "$ANGELIA_FILES"')
    try:
        assert (await agent.run(Question("c", "hi", "u", files=files))).text == "/spool/one\n/spool/two words"
    finally:
        await agent.close()
