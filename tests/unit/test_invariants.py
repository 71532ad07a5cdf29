"""Every rule of the store can be broken, is found, and is said in words; nothing else is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from angelia.model.ids import Claim
from angelia.model.messages import NewDelivery
from angelia.model.outcomes import Accepted, NotSent, Refused, Unconfirmed
from angelia.model.record import Record, Revision
from angelia.model.states import Event, RunEnd
from angelia.seams.clock import Clock
from angelia.store.connection import open_connection
from angelia.store.invariants import problems
from angelia.store.sqlite import SqliteLedger
from angelia.testing.checks import Arrived, problems_of
from angelia.testing.ledger_desk import Desk


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def desk(store: Path) -> AsyncIterator[Desk]:
    def open_ledger(clock: Clock) -> SqliteLedger:
        return SqliteLedger(store, clock, inline=True)

    desk = Desk(open_ledger)
    yield desk
    await desk.close()


async def lived_in(desk: Desk) -> None:
    """A store in which something of everything happened, by the rules."""
    owner = await desk.owner()
    for chat in ("answered", "interrupted"):
        await desk.ledger.accept(desk.inbound(chat=chat), f"turn {chat}")
        turn = await desk.run(f"turn {chat}", owner)
        assert turn is not None
        if chat == "answered":
            told = NewDelivery("answer", turn.lane, ("one", "two"))
            await desk.ledger.finish_turn(turn, f"run of {turn.id}", RunEnd.ANSWERED, delivery=told)
            await desk.send(await desk.ledger.record("answer"), owner, Accepted("r1"), Accepted("r2"))
    await desk.claim(await desk.notice("died"), owner)
    owner = await desk.restart()
    await desk.run("turn interrupted", owner, "second run")
    await desk.send(await desk.notice("failed"), owner, Unconfirmed())
    await desk.notice("pending")
    await desk.claim(await desk.notice("attempting"), owner)


def found(store: Path, desk: Desk, *statements: str) -> list[str]:
    """What is wrong after a hand that no rule stopped."""
    connection = open_connection(store)
    connection.execute("PRAGMA ignore_check_constraints = 1")
    triggers = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for (name,) in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    wrong = problems(connection, desk.clock.wall)
    connection.close()
    return wrong


async def test_a_sound_store_has_no_problems(desk: Desk, store: Path) -> None:
    assert found(store, desk) == []
    await lived_in(desk)
    assert found(store, desk) == []


DAY = 24 * 3600 * 1000

#: What a hand did, and what must be said about it.
BREAKAGES: dict[str, tuple[str, str]] = {
    "turn lost": (
        "DELETE FROM turns WHERE id = 'turn answered'",
        "is acknowledged, but its turn turn answered",
    ),
    "inbound lost": (
        "DELETE FROM inbound WHERE turn = 'turn interrupted'",
        "turn turn interrupted is running, but no inbound",
    ),
    "receipt lost": (
        "UPDATE parts SET receipt = NULL WHERE delivery = 'answer' AND number = 2",
        "delivery answer is delivered, but part 2 has no receipt",
    ),
    "parts lost": ("DELETE FROM parts WHERE delivery = 'answer'", "delivery answer has no parts"),
    "delivery lost": ("DELETE FROM deliveries WHERE id = 'answer'", "attempts of delivery answer belong to"),
    "revision lost": (
        "DELETE FROM revisions WHERE delivery = 'answer' AND part = 2",
        "attempt 2 of delivery",
    ),
    "open attempt": (
        "UPDATE attempts SET ending = NULL WHERE delivery = 'answer' AND number = 1",
        "is delivered, but its attempt 1 is still in flight",
    ),
    "pending again": (
        "UPDATE deliveries SET state = 'pending' WHERE chat = 'failed'",
        "is pending, but attempts are on record",
    ),
    "rest": (
        "UPDATE deliveries SET state = 'failed', due_at = NULL WHERE chat = 'pending'",
        "rests, but no attempt is on record",
    ),
    "fence shrank": ("UPDATE deliveries SET fence = 0 WHERE id = 'answer'", "has fence 1, its row only 0"),
    "fence went back": (
        "UPDATE attempts SET fence = 0 WHERE delivery = 'answer' AND number = 2",
        "has a smaller fence than the one before",
    ),
    "owner lost": ("DELETE FROM owners", "which is no known owner"),
    "sent late": (
        f"UPDATE deliveries SET written_at = written_at - {2 * DAY} WHERE id = 'answer'",
        "began later than 24 h after it was written",
    ),
    "waits for ever": (
        f"UPDATE deliveries SET due_at = due_at + {2 * DAY} WHERE chat = 'failed'",
        "waits longer than a delivery lives",
    ),
    "two in flight": (
        "UPDATE deliveries SET state = 'attempting', owner = 'x', chat = 'attempting' WHERE chat = 'pending'",
        "in the lane bot/talk/attempting# 2 deliveries are being sent at once",
    ),
    "open run": (
        "UPDATE model_runs SET ending = NULL, ended_at = NULL WHERE turn = 'turn answered'",
        "is open, but its turn turn answered is answered",
    ),
    "run lost": ("DELETE FROM model_runs WHERE id = 'second run'", "running with 0 open model runs"),
    "answer for nothing": (
        "DELETE FROM model_runs WHERE turn = 'turn answered'",
        "but 0 of its model runs made",
    ),
    "uncounted interruption": ("UPDATE turns SET interruptions = 0", "counts 0 interruptions, but 1 of"),
    "answer too early": (
        "UPDATE deliveries SET turn = 'turn interrupted' WHERE id = 'answer'",
        "delivery answer exists although its turn turn interrupted is running",
    ),
}


@pytest.mark.parametrize("name", BREAKAGES)
async def test_a_broken_rule_is_found(name: str, desk: Desk, store: Path) -> None:
    await lived_in(desk)
    statement, sentence = BREAKAGES[name]
    wrong = found(store, desk, statement)
    assert any(sentence in problem for problem in wrong), wrong


async def test_an_unmarked_second_copy_is_found(desk: Desk, store: Path) -> None:
    """What the store of hermes-like gateways would show: resent plain after a doubt."""
    record = await desk.send(await desk.notice(), await desk.owner(), Unconfirmed())
    desk.pass_until_due(record)
    owner = await desk.owner()
    await desk.ledger.claim(await desk.look(record), owner, Revision(1, 2), desk.clock.wall)
    (wrong,) = found(store, desk)
    assert "attempt 2 of delivery" in wrong
    assert "without a word, although attempt 1 may have brought it" in wrong


# -- against the platform's own truth --------------------------------------------------------


async def checked(desk: Desk, arrived: Sequence[Arrived]) -> list[str]:
    assert isinstance(desk.ledger, SqliteLedger)
    return await desk.ledger.read(lambda c: problems_of(c, desk.clock.wall, arrived))


def message(record: Record, part: int = 1, number: int = 1, text: str = "") -> Arrived:
    revision = record.revision(part, number)
    return Arrived(f"{record.id}.{part}.{number}", text or revision.text or record.part(part).text)


async def delivered(desk: Desk) -> Record:
    return await desk.send(await desk.notice(), await desk.owner(), Accepted("r"))


async def test_what_arrived_once_and_plain_is_right(desk: Desk) -> None:
    record = await delivered(desk)
    assert await checked(desk, [message(record)]) == []


async def test_delivered_but_never_arrived(desk: Desk) -> None:
    await delivered(desk)
    (wrong,) = await checked(desk, [])
    assert wrong.startswith("3:")


async def test_arrived_more_often_than_it_was_tried(desk: Desk) -> None:
    record = await delivered(desk)
    wrong = await checked(desk, [message(record), message(record)])
    assert [each[:2] for each in wrong] == ["4:", "4:"]


async def test_a_marked_copy_after_a_doubt_is_right(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), Unconfirmed())
    desk.pass_until_due(record)
    record = await desk.send(record, await desk.owner(), Accepted("r"))
    assert await checked(desk, [message(record), message(record, 1, 2)]) == []
    # The other order would put the marker on the only copy the person should not doubt.
    wrong = await checked(desk, [message(record, 1, 2), message(record)])
    assert any("carries no marker" in each for each in wrong)


async def test_bytes_that_are_not_on_record(desk: Desk) -> None:
    record = await delivered(desk)
    (other,) = await checked(desk, [message(record, text="other bytes")])
    assert "other bytes than those on record" in other
    wrong = await checked(desk, [message(record), Arrived(f"{record.id}.1.9", "hello")])
    assert any("its bytes are not on record" in each for each in wrong)
    wrong = await checked(desk, [message(record), Arrived("unknown.1.1", "hello")])
    assert any("no such delivery" in each for each in wrong)


async def test_a_first_send_with_a_marker(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.notice()
    line = "♻️ Recovered reply — this was delayed:\n\nhello"
    await desk.ledger.claim(record, owner, Revision(1, 1, text=line, marker=True), desk.clock.wall)
    record = await desk.look(record)
    change, _ = desk.change(record, Accepted("r"))
    await desk.ledger.advance(Claim(record.id, owner, 1), change)
    wrong = await checked(desk, [message(await desk.look(record))])
    assert [each[:2] for each in wrong] == ["5:"]


async def test_a_call_that_was_none_arrived(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), NotSent())
    wrong = await checked(desk, [message(replace(record, revisions=(Revision(1, 1),)))])
    assert wrong != []


async def test_an_overtaken_row_that_did_not_rest(desk: Desk) -> None:
    first = await desk.send(await desk.notice(), await desk.owner(), Refused())
    second = await desk.notice()
    # As if somebody had let it rest too early.
    await desk.ledger.defer(first, None)
    desk.clock.advance(40)
    await desk.send(second, await desk.owner(), Accepted("r"))
    rested = await desk.look(first)
    assert isinstance(desk.ledger, SqliteLedger)
    await desk.ledger.operate(
        "operate",
        lambda c, now: c.execute(
            "UPDATE deliveries SET due_at = ? WHERE id = ?", (now.steady, first.id)
        ).fetchall(),
    )
    desk.clock.advance(5)
    done = await desk.send(rested, await desk.owner(), Accepted("r"))
    wrong = await checked(desk, [message(done), message(await desk.look(second))])
    assert [each[:2] for each in wrong] == ["7:"]


async def test_an_operators_word_needs_no_arrival(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), Unconfirmed())
    await desk.ledger.settle(record, Event.CANCELLED)
    assert await checked(desk, []) == []
