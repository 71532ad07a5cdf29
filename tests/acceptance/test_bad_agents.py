"""Agents that hang, die, print binary, say nothing or are not there.

The person gets a short honest notice through the ledger and no word of what went wrong inside;
the operator gets that from ``angelia why``. One gateway serves them all, as a gateway must.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import pytest
import pytest_asyncio
from tests.acceptance.daemon import SECRET, Daemon, Home, Receiver, receiver, running
from tests.acceptance.record import all_delivered, endings, why

from angelia.model import notices

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: What is wrong with each: its program, how its run ends, what the person and the operator read.
AGENTS: Mapping[str, tuple[list[str], str, str, str]] = {
    "hangs": (["sh", "-c", "exec tail -f /dev/null"], "timeout", notices.AGENT_TIMED_OUT, "time limit"),
    "dies": (["sh", "-c", "echo boom >&2; exit 3"], "error", notices.AGENT_FAILED, "boom"),
    "killed": (["sh", "-c", "kill -9 $$$$"], "error", notices.AGENT_FAILED, "9"),
    "binary": (["sh", "-c", "printf '\\377\\376\\001'"], "error", notices.AGENT_FAILED, "UTF-8"),
    "silent": (["true"], "empty", notices.AGENT_SAID_NOTHING, ""),
    "blank": (["sh", "-c", "printf '  \\n\\n'"], "empty", notices.AGENT_SAID_NOTHING, ""),
    "missing": (["/nowhere/bot"], "error", notices.AGENT_FAILED, "/nowhere/bot"),
    "endless": (["yes"], "error", notices.AGENT_FAILED, "1000000"),
}


@dataclass(frozen=True, slots=True)
class Stage:
    home: Home
    gateway: Daemon
    service: Receiver


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A gateway with a profile for each agent; all of them are asked at once."""
    async with receiver() as service:
        hook = {"secret": SECRET, "deliver_url": service.url, "allow": ["*"]}
        profiles = {
            name: {
                "agent": {"kind": "command", "argv": argv, "timeout_s": 2 if name == "hangs" else 60},
                "platforms": {"webhook": hook},
            }
            for name, (argv, _, _, _) in AGENTS.items()
        }
        home = Home(tmp_path_factory.mktemp("agents") / "home")
        home.write(json.dumps({"gateway": {"listen": "127.0.0.1:0"}, "profiles": profiles}))
        async with running(home) as gateway:
            for name in AGENTS:
                body = {"id": f"ask-{name}", "chat": name, "user": "u", "text": "hello"}
                status, _ = await gateway.post(json.dumps(body).encode(), name)
                assert status == 202
            await all_delivered(home, len(AGENTS), ["profiles.missing.agent.argv"])
            yield Stage(home, gateway, service)


@pytest.mark.parametrize("name", AGENTS)
async def test_the_person_gets_an_honest_notice_and_the_operator_the_reason(stage: Stage, name: str) -> None:
    _, ending, notice, reason = AGENTS[name]
    (said,) = [request for request in stage.service.requests if request.body["chat"] == name]
    assert (said.text, said.body["reply_to"]) == (notice, f"ask-{name}")
    story, verdict = why(stage.home, f"ask-{name}")
    assert endings(story) == [ending]
    assert reason in story.runs[0].detail
    assert verdict.startswith("One model run")


async def test_why_on_the_command_line_tells_the_reason(stage: Stage) -> None:
    told = await stage.home.run("why", "ask-dies")
    assert told.code == 0
    assert "sh exited with code 3: boom" in told.out
    assert told.out.splitlines()[-1].startswith("One model run")


async def test_the_gateway_is_well_and_never_ran_one_twice(stage: Stage) -> None:
    assert (await stage.gateway.health())[0] == 200
    assert len(stage.service.requests) == len(AGENTS)


def test_the_log_has_every_reason_too(stage: Stage) -> None:
    logged = stage.gateway.logged()
    for _, ending, _, reason in AGENTS.values():
        assert ending == "empty" or reason in logged
