"""What must be true at the end of a telling, whatever died when."""

from __future__ import annotations

from collections import Counter, defaultdict

from angelia.model.markers import DOUBT, OPENING
from angelia.seams.clock import clock_from
from angelia.store.connection import integrity_problems, open_connection
from angelia.store.migrate import migrations
from angelia.testing.checks import Arrived, problems_of
from tests.crash.telling import Telling


def check(telling: Telling) -> None:
    """Compare what people saw with what is on record."""
    story, platform, ask = telling.story, telling.platform, telling.ask
    said = Counter(ask("SELECT message_id FROM inbound WHERE message_id NOT LIKE 'old%'"))
    assert all(count == 1 for count in said.values())
    assert len(said) == len(story.messages)
    _check_runs(telling)
    check_copies(telling)
    check_invariants(telling)
    states = Counter(row[0] for row in ask("SELECT state FROM deliveries WHERE reason <> 'stale'"))
    assert states.pop("pending", 0) == telling.prepared.parked, "what an old copy owes asks first"
    stale = ask(
        "SELECT count(*) FROM deliveries d WHERE reason = 'stale' AND state = 'abandoned'"
        " AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.delivery = d.id)"
    )
    assert stale == [(telling.prepared.stale,)], "what was too old was abandoned, without a call"
    if story.arrives:
        assert set(states) == {"delivered"}, states
        seen = {message.delivery for message in platform.seen}
        assert len(seen) == len(story.messages) + int(story.notify)
    else:
        assert set(states) == {"abandoned"}, states
        assert len(platform.calls) >= 1
    missing = ask(
        "SELECT count(*) FROM parts p JOIN deliveries d ON d.id = p.delivery"
        " WHERE d.state = 'delivered' AND p.receipt IS NULL AND NOT p.replaced"
    )
    assert missing == [(0,)]
    if story.later:
        _check_migrated(telling)


def _check_runs(telling: Telling) -> None:
    """Books: every run but the one that answered is an interruption, a drain or a fallback; a
    second interruption is the end, and the person is told."""
    runs = telling.ask("SELECT turn, count(*), sum(ending = 'answered') FROM model_runs GROUP BY turn")
    turns = {id: told for id, *told in telling.ask("SELECT id, interruptions, state, reason FROM turns")}
    for turn, count, answered in runs:
        interruptions, state, reason = turns[turn]
        gave_up = int(state == "gave_up")
        assert not gave_up or (reason == "interrupted twice" and telling.died >= 2), (state, reason)
        assert answered == 1 - gave_up, "an answered turn has exactly one run that answered"
        (others,) = telling.ask(
            f"SELECT count(*) FROM model_runs WHERE turn = '{turn}' AND ending IN ('drained', 'fallback')"
        )
        assert count == 1 + interruptions + others[0], "every other run is a recorded interruption"
    # What was paid for is on record; a run that died before its call cost nothing.
    recorded = Counter(row[0] for row in telling.ask("SELECT model FROM model_runs"))
    for model, calls in Counter(telling.platform.asked).items():
        assert calls <= recorded[model], (model, calls, recorded)


def check_invariants(telling: Telling) -> None:
    """The invariants that all rings share, against the store and what people saw."""
    connection = open_connection(telling.home / "state.db", read_only=True)
    try:
        seen = (*telling.prepared.seen, *telling.platform.seen)
        arrived = [Arrived(one.key, one.text, one.chat) for one in seen]
        problems = problems_of(connection, clock_from(telling.prepared.clock).now().wall, arrived)
    finally:
        connection.close()
    assert problems == []


def _check_migrated(telling: Telling) -> None:
    """The step was made whole and once, and nothing that was owed before it is lost."""
    connection = open_connection(telling.home / "state.db", read_only=True)
    try:
        assert connection.pragma("user_version") == len(migrations()) + 1
        assert integrity_problems(connection) == []
        owed = "SELECT count(*) FROM owed_before o JOIN deliveries d ON d.id = o.delivery"
        assert connection.execute(owed).get == int(telling.story.notify)
        connection.execute("SELECT mood FROM conversations").fetchall()
    finally:
        connection.close()


def check_copies(telling: Telling) -> None:
    """Copies ≤ 1 + unconfirmed outcomes; every copy after the first says that it may be one."""
    seen = telling.platform.seen
    copies: dict[tuple[str, int], list[str]] = defaultdict(list)
    announced: dict[str, str] = {}
    for message in seen:
        if message.text.startswith(OPENING) and "\n\n" not in message.text:
            announced[message.delivery] = message.text  # the line as a message of its own
            continue
        line = announced.pop(message.delivery, "")
        copies[message.delivery, message.part].append(line + message.text)
    doubts = {
        (delivery, part): int(str(count))
        for delivery, part, count in telling.ask(
            "SELECT delivery, part, count(*) FROM attempts WHERE ending IN"
            " ('unconfirmed', 'dropped', 'died', 'taken_over') GROUP BY delivery, part",
        )
    }
    for key, texts in copies.items():
        assert len(texts) <= 1 + doubts.get(key, 0), (key, texts)
        for text in texts[1:]:
            assert text.startswith(OPENING), ("an unmarked second copy", texts)
            assert DOUBT in text.splitlines()[0], ("a second copy without its doubt", texts)
        if telling.story.keyed:
            assert len(texts) == 1, ("the key makes a copy impossible", texts)
    orders = [message.delivery for message in seen]
    lanes: dict[str, list[str]] = defaultdict(list)
    for delivery, thread in telling.ask("SELECT id, thread FROM deliveries ORDER BY seq"):
        if delivery in orders:
            lanes[thread].append(delivery)
    for written in lanes.values():
        assert sorted(written, key=orders.index) == written, "a later reply overtook an earlier one"
