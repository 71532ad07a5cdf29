"""Backups of a real gateway: taken while it works, put back by command or by hand, and what they
owe asks first."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from pathlib import Path

import pytest
from aiohttp import web
from tests.acceptance.daemon import Daemon, Home, Received, Receiver, accepted, receiver, running
from tests.acceptance.keeping import done, notify, refused, states
from tests.acceptance.record import all_delivered, counted, deliveries, problems, until

from angelia.model.markers import DOUBT, OPENING, Cause
from angelia.store.copying import check_copy
from angelia.store.durable import remove

#: How a released delivery begins.
MARKED = f"{OPENING}{Cause.DELAYED}{DOUBT}"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def second(tmp_path: Path) -> Home:
    """A home on a fresh machine."""
    return Home(tmp_path / "second")


async def test_a_backup_of_a_busy_gateway_is_whole_and_asks_first(
    home: Home, second: Home, tmp_path: Path
) -> None:
    file = tmp_path / "backup.tar"
    async with receiver() as service, running(home.configure(service.url)) as gateway:
        stopping = False

        async def talk() -> int:
            said = 0
            while not stopping:
                assert await gateway.say(f"text {said}", f"m{said}", chat=f"c{said % 7}") == 202
                said += 1
            return said

        talking = asyncio.create_task(talk())
        try:
            await service.wait(20)
            out = await done(home, "backup", file)
        finally:
            stopping = True
        said = await talking
        await all_delivered(home, said)
        assert str(file) in out
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [name for name in os.listdir(tmp_path) if name.endswith(".part")] == []
        heard = len(service.requests)
        second.configure(service.url)
        await done(second, "restore", file)
        held = counted(second)
        assert sum(held.deliveries.values()) >= 20
        open_ones = held.deliveries["pending"] + held.deliveries["failed"]
        assert held.parked == open_ones
        assert held.deliveries["attempting"] + held.turns["waiting"] + held.turns["running"] == 0
        async with running(second) as restored:
            assert await restored.say("and now?", "after the restore", chat="new") == 202
            await service.wait(heard + 1)
            await until(lambda: "delivered" in states(second)[-1:], "the new answer is delivered")
            assert service.texts[heard:] == ["and now?"]
        assert problems(second) == []


async def owing(home: Home, service: Receiver, text: str = "the answer") -> None:
    """A gateway that owes one answer, which the platform did not confirm, and is stopped."""

    async def later(_: Received) -> web.StreamResponse:
        return web.Response(status=500)

    service.answer = later
    async with running(home.configure(service.url)) as gateway:
        assert await gateway.say(text, "m1") == 202
        await until(lambda: states(home) == ["failed"], "the answer is owed")
        assert await gateway.stop() == 0
    service.answer = accepted


async def test_what_a_backup_owes_is_parked_shown_and_released(home: Home, tmp_path: Path) -> None:
    async with receiver() as service:
        await owing(home, service)
        never_tried = await notify(home, "a notice", "d")
        file = tmp_path / "backup.tar"
        await done(home, "backup", file)
        out = await done(home, "restore", file, "--force")
        assert "2 owed deliveries are PARKED" in out
        assert states(home) == ["parked", "parked"]
        listed = await home.run("deliveries", "--parked", "--json")
        assert [one["parked"] for one in listed.json] == [True, True]
        assert "(parked)" in await done(home, "deliveries")
        doctor = await done(home, "doctor")
        assert "2 deliveries of an old copy are parked" in doctor
        assert "2 parked, oldest first" in doctor
        assert ".replaced is the store that a restore put aside" in doctor
        assert "2, owed by an old copy" in await done(home, "status")
        heard = len(service.requests)
        async with running(home):
            assert (await done(home, "deliveries", "release", never_tried)).split() == [never_tried]
            await service.wait(heard + 1)
            await until(lambda: states(home) == ["parked", "delivered"], "the notice arrived")
            assert service.texts[heard].startswith(MARKED)
            assert service.texts[heard].endswith("a notice")
            await done(home, "deliveries", "release", "--all")
            await service.wait(heard + 2)
            await until(lambda: states(home) == ["delivered", "delivered"], "both arrived")
            assert service.texts[heard + 1].startswith(MARKED)
        assert problems(home) == []


async def test_released_at_once_with_send_owed(home: Home, second: Home, tmp_path: Path) -> None:
    async with receiver() as service:
        await owing(home, service)
        file = tmp_path / "backup.tar"
        await done(home, "backup", file)
        second.configure(service.url)
        out = await done(second, "restore", file, "--send-owed")
        assert "1 owed deliveries go out at the next start" in out
        heard = len(service.requests)
        async with running(second):
            await service.wait(heard + 1)
            await until(lambda: states(second) == ["delivered"], "the answer arrived")
        assert service.texts[heard].startswith(MARKED)


async def test_a_parked_delivery_can_be_cancelled_but_not_marked_or_repeated(
    home: Home, tmp_path: Path
) -> None:
    home.configure()
    delivery = await notify(home, "x")
    await done(home, "backup", tmp_path / "b")
    await done(home, "restore", tmp_path / "b", "--force")
    assert "parked" in await refused(home, 1, "deliveries", "mark-delivered", delivery)
    assert "`release`" in await refused(home, 1, "deliveries", "send-again", delivery)
    assert "release or cancel it" in await done(home, "deliveries", "show", delivery)
    await done(home, "deliveries", "cancel", delivery)
    assert "not parked" in await refused(home, 1, "deliveries", "release", delivery)
    await refused(home, 1, "deliveries", "release", "nobody")
    await refused(home, 2, "deliveries", "release")
    await refused(home, 2, "deliveries", "release", "--all", delivery)


async def test_a_restore_refuses_under_a_gateway_and_over_a_store(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    async with running(home.configure()):
        await done(home, "backup", file)
        assert "another gateway runs" in await refused(home, 75, "restore", file, "--force")
    delivery = await notify(home, "written after the backup")
    before = home.store.read_bytes()
    assert "--force" in await refused(home, 1, "restore", file)
    assert home.store.read_bytes() == before
    await done(home, "restore", file, "--force")
    assert deliveries(home) == []
    # What was there is whole under its new name: nothing of it was lost.
    aside = home.path / "state.db.replaced"
    assert check_copy(aside) == 1
    await done(home, "restore", aside, "--force")
    assert [one.id for one in deliveries(home)] == [delivery]
    assert sorted(path.name for path in home.path.glob("*.replaced")) == [
        "state.db-2.replaced",
        "state.db.replaced",
    ]


async def test_an_old_copy_put_back_by_hand_asks_first(home: Home, tmp_path: Path) -> None:
    async with receiver() as service:
        await owing(home, service)
        copy = tmp_path / "copy.db"
        async with running(home) as gateway:
            shutil.copy(home.store, copy)  # the owed answer is in it; so is this very start, perhaps
            (delivery,) = deliveries(home)
            assert await gateway.stop() == 0
        await done(home, "deliveries", "mark-delivered", delivery.id)  # it arrived in the meantime
        heard = len(service.requests)
        for side in ("-wal", "-shm"):
            remove(Path(f"{home.store}{side}"))
        shutil.copy(copy, home.store)
        told = await done(home, "doctor")
        assert "is an old copy" in told
        assert "1 parked, oldest first" in told
        async with running(home) as gateway:
            assert states(home) == ["parked"]
            assert await gateway.say("anybody there?", "m2") == 202
            await service.wait(heard + 1)
            assert service.texts[heard:] == ["anybody there?"]
            assert await gateway.stop() == 0
            assert "OLD COPY" in gateway.logged()
        # It is the home's own store from now on: nothing new is parked at the next start.
        await notify(home, "news")
        async with running(home):
            await service.wait(heard + 2)
        assert service.texts[heard + 1] == "news"
        assert states(home)[0] == "parked"


async def test_a_message_that_waited_in_an_old_copy_is_not_answered_twice(
    home: Home, second: Home, tmp_path: Path
) -> None:
    """The model may have been paid for it since: the person is asked, once somebody says so."""
    async with receiver() as service:
        slow = {"kind": "echo", "delay_s": 5}
        async with running(home.configure(service.url, agent=slow)) as gateway:
            assert await gateway.say("how much?", "m1") == 202
            assert await gateway.say("and when?", "m2") == 202
            await until(lambda: counted(home).turns["running"] == 1, "the model runs")
            await done(home, "backup", tmp_path / "b")
            await gateway.kill()
        second.configure(service.url)
        out = await done(second, "restore", tmp_path / "b")
        assert "2 messages without an answer were given up" in out
        assert states(second) == ["parked", "parked"]
        async with running(second):
            await done(second, "deliveries", "release", "--all")
            await service.wait(2)
            await until(lambda: states(second) == ["delivered"] * 2, "both senders were asked")
        assert all(text.startswith(MARKED) and "send that again" in text for text in service.texts)
        assert counted(second).turns["gave_up"] == 2
        assert problems(second) == []


async def test_a_store_killed_in_the_middle_of_its_work_is_no_old_copy(home: Home) -> None:
    async with receiver() as service:
        home.configure(service.url)
        for number in range(3):
            gateway = await Daemon.start(home)
            assert await gateway.say("x", f"m{number}") == 202
            await all_delivered(home, number + 1)
            await gateway.kill()
        await notify(home, "one more")
        async with running(home):
            await all_delivered(home, 4)
        assert counted(home).parked == 0
        assert "OLD COPY" not in gateway.logged()
