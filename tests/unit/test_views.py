"""The operator's lists and details, and what an operator may order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import apsw
import pytest

from angelia.model import markers
from angelia.model.errors import NotPossibleError, TryAgainError, UnknownIdError
from angelia.model.outcomes import Accepted, Moved, RateLimited, Refused, Unconfirmed, Unreachable
from angelia.model.record import Record
from angelia.model.states import Event, Reason, State
from angelia.seams.clock import Clock, Now
from angelia.store.invariants import problems
from angelia.store.sqlite import SqliteLedger
from angelia.store.sqlite_operator import cancel, mark_delivered, send_again
from angelia.store.sqlite_reading import latest_answer
from angelia.store.views import (
    DeliveryView,
    chats_view,
    list_deliveries,
    show,
    status,
    timeline,
)
from angelia.testing.ledger_desk import Desk

Order = Callable[[apsw.Connection, str, Now], Record]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    def open_ledger(clock: Clock) -> SqliteLedger:
        return SqliteLedger(tmp_path / "state.db", clock, inline=True)

    desk = Desk(open_ledger)
    yield desk
    await desk.close()


def sqlite(desk: Desk) -> SqliteLedger:
    assert isinstance(desk.ledger, SqliteLedger)
    return desk.ledger


async def listed(desk: Desk, state: str = "", chat: str = "", limit: int = 50) -> list[DeliveryView]:
    now = desk.clock.now()
    return await sqlite(desk).read(lambda c: list_deliveries(c, now, state=state, chat=chat, limit=limit))


async def order(desk: Desk, what: Order, name: str) -> Record:
    return await sqlite(desk).operate("operate", lambda c, now: what(c, name, now))


# -- what is seen ----------------------------------------------------------------------------


async def test_all_states_are_listed_newest_first(desk: Desk) -> None:
    owner = await desk.owner()
    delivered = await desk.send(
        await desk.notice("one", texts=("a", "b")), owner, Accepted("1"), Accepted("2")
    )
    abandoned = await desk.notice("one")
    await desk.ledger.settle(abandoned, Event.CANCELLED)
    failed = await desk.send(await desk.notice("two"), owner, Refused())
    _, attempting = await desk.claim(await desk.notice("three", "topic"), owner)
    pending = await desk.notice("four")
    rows = [pending, attempting, failed, abandoned, delivered]
    found = await listed(desk)
    assert [row.id for row in found] == [row.id for row in rows]
    assert [row.state for row in found] == ["pending", "attempting", "failed", "abandoned", "delivered"]
    assert found[3].reason == Reason.CANCELLED
    assert (found[4].parts, found[4].received, found[4].text) == (2, 2, "a\n\nb")
    assert (found[1].profile, found[1].platform, found[1].chat, found[1].thread) == (
        "bot",
        "talk",
        "three",
        "topic",
    )
    assert [row.id for row in await listed(desk, state="failed")] == [failed.id]
    assert [row.id for row in await listed(desk, chat="one")] == [abandoned.id, delivered.id]
    assert [row.id for row in await listed(desk, limit=2)] == [pending.id, attempting.id]
    assert await listed(desk, state="failed", chat="one") == []


async def test_due_times_are_civil_times(desk: Desk) -> None:
    failed = await desk.send(await desk.notice(), await desk.owner(), Refused())
    desk.clock.step(3600)  # since then the civil clock was set, the wait did not change
    (view,) = await listed(desk)
    assert (view.due, view.created) == (desk.clock.wall + 30_000, failed.written_at)
    await desk.ledger.defer(failed, None)
    (view,) = await listed(desk)
    assert view.due is None


async def test_a_delivery_is_shown_with_its_attempts(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.notice(texts=("one", "two"))
    record = await desk.send(record, owner, Accepted("r1"), Unconfirmed("time-out"))
    desk.pass_until_due(record)
    second = await desk.owner()
    record = await desk.send(record, second, Accepted("r2"))
    detail = await sqlite(desk).read(lambda c: show(c, record.id))
    assert [(a.number, a.part, a.pass_number, a.outcome) for a in detail.attempts] == [
        (1, 1, 1, "accepted"),
        (2, 2, 1, "unconfirmed"),
        (3, 2, 2, "accepted"),
    ]
    assert [a.owner for a in detail.attempts] == [owner, owner, second]
    assert detail.attempts[1].detail == "time-out"
    assert [a.marker != "" for a in detail.attempts] == [False, False, True]
    line = detail.attempts[2].marker
    assert line.startswith(markers.OPENING)
    assert "continuing with part 2 of 2, so it may be a duplicate" in line
    assert "\n" not in line
    assert [p.receipt for p in detail.parts] == ["r1", "r2"]
    assert detail.view.state == "delivered"
    with pytest.raises(UnknownIdError):
        await sqlite(desk).read(lambda c: show(c, "unknown"))


async def test_a_line_that_went_ahead_is_the_marker_of_what_follows(desk: Desk) -> None:
    record = await desk.notice(texts=("x" * 4090,))
    record = await desk.send(record, await desk.owner(), Unconfirmed())
    desk.pass_until_due(record)
    record = await desk.send(record, await desk.owner(), Accepted("line"), Accepted("text"))
    detail = await sqlite(desk).read(lambda c: show(c, record.id))
    assert [a.marker.startswith(markers.OPENING) for a in detail.attempts] == [False, True, True]
    assert detail.view.state == "delivered"


async def test_a_timeline_tells_from_first_sight_to_receipt(desk: Desk) -> None:
    turn = await desk.run(await desk.turn(message_id="m1", text="why?"), await desk.owner())
    assert turn is not None
    found = await sqlite(desk).read(lambda c: timeline(c, "m1"))
    assert [(q.message_id, q.text, q.first_seen) for q in found.questions] == [
        ("m1", "why?", desk.clock.wall)
    ]
    assert [(r.id, r.model, r.ending, r.ended) for r in found.runs] == [
        (f"run of {turn.id}", "model", "", None)
    ]
    assert found.turn is not None
    assert (found.turn.id, found.turn.state, found.deliveries) == (turn.id, "running", ())
    with pytest.raises(UnknownIdError):
        await sqlite(desk).read(lambda c: timeline(c, "unknown"))


async def test_an_empty_receipt_names_nothing(desk: Desk) -> None:
    await desk.send(await desk.notice(), await desk.owner(), Accepted(""))
    with pytest.raises(UnknownIdError):
        await sqlite(desk).read(lambda c: timeline(c, ""))


async def test_the_status_counts_everything(desk: Desk) -> None:
    owner = await desk.owner()
    oldest = await desk.notice("one")
    desk.clock.advance(1)
    await desk.send(await desk.notice("two"), owner, RateLimited(60.0))
    await desk.send(await desk.notice("three"), owner, Unreachable("blocked"))
    await desk.run(await desk.turn(), owner)
    await desk.turn("elsewhere")
    now = desk.clock.now()
    found = await sqlite(desk).read(lambda c: status(c, now))
    assert found.deliveries == {
        "pending": 1,
        "attempting": 0,
        "failed": 1,
        "delivered": 0,
        "abandoned": 1,
    }
    assert found.turns == {"waiting": 1, "running": 1, "answered": 0, "gave_up": 0}
    assert (found.oldest_owed, found.due, found.resting) == (oldest.written_at, 1, 0)
    assert [(chat, detail) for _, _, chat, _, detail in found.unreachable] == [("three", "blocked")]
    assert [(w.scope, w.subject, w.until) for w in found.waits] == [("chat", "two", now.wall + 60_000)]
    assert [(o.id, o.alive, o.deliveries, o.turns) for o in found.owners] == [(owner, True, 0, 1)]
    desk.clock.advance(60)
    now = desk.clock.now()
    found = await sqlite(desk).read(lambda c: status(c, now))
    assert (list(found.waits), found.owners[0].alive) == ([], False)


async def test_the_status_of_an_empty_store(desk: Desk) -> None:
    now = desk.clock.now()
    found = await sqlite(desk).read(lambda c: status(c, now))
    assert (found.oldest_owed, found.due, found.resting, list(found.owners)) == (None, 0, 0, [])
    assert set(found.deliveries) == {state.value for state in State}


async def test_chats_tell_what_is_known_of_them(desk: Desk) -> None:
    owner = await desk.owner()
    await desk.send(await desk.notice("old"), owner, Moved("new"), Accepted("r"))
    await desk.send(await desk.notice("gone"), owner, Unreachable("kicked"))
    desk.clock.advance(1)
    await desk.turn("quiet")
    desk.clock.advance(1)
    await desk.notice("owed")
    found = {chat.chat: chat for chat in await sqlite(desk).read(chats_view)}
    assert list(found)[:2] == ["owed", "quiet"]
    assert (found["owed"].owed, found["quiet"].owed) == (1, 0)
    assert found["old"].moved_to == "new"
    assert (found["gone"].detail, found["gone"].unreachable_since is not None) == ("kicked", True)


async def test_the_latest_answer_of_a_conversation(desk: Desk) -> None:
    lane = desk.new().lane
    assert await sqlite(desk).read(lambda c: latest_answer(c, lane)) is None
    await desk.notice()
    newest = await desk.notice()
    await desk.notice("chat", "topic")
    assert await sqlite(desk).read(lambda c: latest_answer(c, lane)) == newest.id


# -- what may be ordered ---------------------------------------------------------------------


def again(name: str) -> Order:
    return lambda conn, delivery, now: send_again(conn, delivery, name, now)


@pytest.mark.parametrize("what", [cancel, mark_delivered, again("new")])
async def test_orders_about_unknown_and_busy_rows(what: Order, desk: Desk) -> None:
    with pytest.raises(UnknownIdError):
        await order(desk, what, "unknown")
    _, opened = await desk.claim(await desk.notice(), await desk.owner())
    with pytest.raises(TryAgainError, match="a few seconds"):
        await order(desk, what, opened.id)
    assert await desk.look(opened) == opened


async def test_cancelling(desk: Desk) -> None:
    owner = await desk.owner()
    pending = await desk.notice("one")
    failed = await desk.send(await desk.notice("two"), owner, Refused())
    for row in (pending, failed):
        for _ in range(2):
            found = await order(desk, cancel, row.id)
            assert (found.state, found.reason) == (State.ABANDONED, Reason.CANCELLED)
    delivered = await desk.send(await desk.notice("three"), owner, Accepted("r"))
    stale = await desk.notice("four")
    await desk.ledger.settle(stale, Event.GREW_STALE)
    for row in (delivered, stale):
        with pytest.raises(NotPossibleError, match="nothing to cancel"):
            await order(desk, cancel, row.id)


async def test_marking_as_delivered(desk: Desk) -> None:
    failed = await desk.send(await desk.notice("one"), await desk.owner(), Unconfirmed())
    for _ in range(2):
        found = await order(desk, mark_delivered, failed.id)
        assert (found.state, found.reason) == (State.DELIVERED, "marked")
    pending = await desk.notice("two")
    with pytest.raises(NotPossibleError, match="cancel"):
        await order(desk, mark_delivered, pending.id)
    await order(desk, cancel, pending.id)
    with pytest.raises(NotPossibleError, match="send-again"):
        await order(desk, mark_delivered, pending.id)
    wall = desk.clock.wall
    assert await sqlite(desk).read(lambda c: problems(c, wall)) == []


async def test_sending_again_makes_a_new_marked_delivery(desk: Desk) -> None:
    owner = await desk.owner()
    record = await desk.send(await desk.notice(texts=("one", "two")), owner, Accepted("1"), Accepted("2"))
    for _ in range(2):
        found = await order(desk, again("new"), record.id)
        assert (found.id, found.state, found.origin, found.requested) == ("new", State.PENDING, "again", True)
        assert ([p.text for p in found.parts], found.lane) == (["one", "two"], record.lane)
    assert len(await listed(desk)) == 2
    assert (await listed(desk))[0].again_of == record.id
    assert await desk.look(record) == record
    revision = desk.revision(found)
    assert revision.text is not None
    assert revision.text.startswith(markers.OPENING + markers.Cause.REQUESTED)
    assert revision.text.endswith("\n\none")


async def test_sending_again_what_is_owed_or_under_a_taken_id(desk: Desk) -> None:
    owner = await desk.owner()
    pending = await desk.notice("one")
    with pytest.raises(NotPossibleError, match="cancel"):
        await order(desk, again("new"), pending.id)
    delivered = await desk.send(await desk.notice("two"), owner, Accepted("r"))
    with pytest.raises(NotPossibleError, match="taken"):
        await order(desk, again(pending.id), delivered.id)
    with pytest.raises(NotPossibleError, match="taken"):
        await order(desk, again(delivered.id), delivered.id)


async def test_sending_again_to_an_unreachable_chat(desk: Desk) -> None:
    record = await desk.send(await desk.notice(), await desk.owner(), Unreachable("blocked"))
    with pytest.raises(NotPossibleError, match="somebody writes"):
        await order(desk, again("new"), record.id)
    desk.clock.advance(1)
    await desk.turn()
    assert (await order(desk, again("new"), record.id)).state is State.PENDING
