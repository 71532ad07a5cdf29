"""The real ledger against a plain dictionary, under any order of verbs, waits and crashes.

Hypothesis draws the verbs, lets time pass, sets the clock, drops the ledger object between two
verbs and opens the file again, lets leases lapse and delivers receipts late. What a verb
answers is compared with what a dictionary of the same rows says it must; after every step the
store is asked for problems (``store/invariants.py``) and the rows for what may never change.

In the model nothing is computed twice: next steps, waits and counts come from ``model``, which
has exhaustive tests of its own. What is proved here is that the store stores exactly that.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from angelia.model import limits
from angelia.model.ids import Claim
from angelia.model.messages import NewDelivery, Reception
from angelia.model.outcomes import (
    Accepted,
    BadContent,
    ContentFault,
    Moved,
    NotSent,
    Outcome,
    RateLimited,
    Refused,
    Scope,
    ThreadGone,
    Unconfirmed,
    Unreachable,
)
from angelia.model.record import DOUBTFUL, Record, open_attempt
from angelia.model.states import FINAL, Event, Reason, RunEnd, State
from angelia.store.invariants import problems
from angelia.store.ledger import AdvanceAnswer, ClaimAnswer, OwnerKind, Turn
from angelia.store.sqlite import SqliteLedger
from angelia.testing.ledger_desk import ADAPTER, Desk

T = TypeVar("T")
RAM = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
CHATS = st.sampled_from(["a", "b"])
OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(
    [
        Accepted("r"),
        Accepted("r"),
        NotSent("refused"),
        RateLimited(7.0),
        RateLimited(3.0, Scope.BOT),
        Unconfirmed("time-out"),
        Unconfirmed("reset", dropped=True),
        Refused("no"),
        BadContent(),
        BadContent(ContentFault.TOO_LONG),
        ThreadGone(),
        Moved("b"),
        Unreachable("blocked"),
    ]
)


@dataclass
class Row:
    """What the dictionary knows of a delivery: its newest record, and the claim on it."""

    record: Record
    claim: Claim | None = None


class LedgerMachine(RuleBasedStateMachine):
    deliveries = Bundle("deliveries")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="angelia-machine-", dir=RAM))
        self.loop = asyncio.new_event_loop()
        self.desk = Desk(lambda clock: SqliteLedger(self.folder / "state.db", clock, inline=True))
        self.rows: dict[str, Row] = {}
        self.keys: dict[str, str] = {}
        self.answered: dict[str, str] = {}
        self.running: dict[str, tuple[Turn, str]] = {}
        self.leases: dict[str, int] = {}
        self.owners: list[str] = []

    def do(self, verb: Awaitable[T]) -> T:
        async def done() -> T:
            return await verb

        return self.loop.run_until_complete(done())

    @property
    def sqlite(self) -> SqliteLedger:
        assert isinstance(self.desk.ledger, SqliteLedger)
        return self.desk.ledger

    def teardown(self) -> None:
        self.do(self.desk.close())
        self.loop.close()
        shutil.rmtree(self.folder)

    # -- owners, time and crashes ------------------------------------------------------------

    @initialize()
    def two_owners(self) -> None:
        self.owners = [self.start(), self.start()]

    def start(self) -> str:
        owner = self.do(self.desk.owner(OwnerKind.LIBRARY))
        self.leases[owner] = self.desk.clock.wall + limits.lease_ms
        return owner

    def alive(self, owner: str) -> bool:
        return self.leases.get(owner, 0) > self.desk.clock.wall

    @rule(which=st.integers(0, 1))
    def renew(self, which: int) -> None:
        owner = self.owners[which]
        expected = self.alive(owner)
        assert self.do(self.desk.ledger.renew(owner)) is expected
        if expected:
            self.leases[owner] = self.desk.clock.wall + limits.lease_ms

    @rule(seconds=st.sampled_from([0.001, 1, 10, 16, 31, 121, 700, 3600, 86_400, 8 * 86_400]))
    def time_passes(self, seconds: float) -> None:
        self.desk.clock.advance(seconds)

    @rule(hours=st.sampled_from([-2, -1, 1]), new_process=st.booleans())
    def the_clock_is_set(self, hours: int, new_process: bool) -> None:
        self.desk.clock.step(hours * 3600)
        if new_process:
            self.desk.clock.reboot()

    @rule()
    def crash_and_reopen(self) -> None:
        """The process is gone between two verbs: nothing that was told may be missing."""
        before = {name: self.do(self.desk.ledger.record(name)) for name in self.rows}
        self.desk.ledger = self.desk.another()
        assert before == {name: self.do(self.desk.ledger.record(name)) for name in self.rows}

    @rule(which=st.integers(0, 1), lock_held=st.booleans())
    def restart(self, which: int, lock_held: bool) -> None:
        """One of the two is replaced by a new instance, which takes over the dead."""
        old, self.owners[which] = self.owners[which], self.start()
        self.do(self.desk.ledger.retire(old))
        self.leases.pop(old, None)
        self.take_over(self.owners[which], lock_held)

    @rule(which=st.integers(0, 1))
    def take_over_by(self, which: int) -> None:
        self.take_over(self.owners[which], False)

    def take_over(self, taker: str, lock_held: bool) -> None:
        now = self.desk.clock.wall
        for owner, until in list(self.leases.items()):
            # A lease that a step of the clock made longer than a lease is cut to one.
            self.leases[owner] = min(until, now + limits.lease_ms)
        dead = {owner for owner in self.leases if owner != taker and not self.alive(owner)}
        held = [row for row in self.rows.values() if row.claim and self.held(row) in self.gone(dead)]
        lost = [name for name, (_, owner) in self.running.items() if owner in self.gone(dead)]
        taken = self.do(self.desk.ledger.take_over(taker, lock_held))
        assert (taken.deliveries, taken.turns) == (len(held), len(lost))
        for owner in dead:
            del self.leases[owner]
        for row in held:
            found = self.see(row.record.id)
            assert found.state in (State.FAILED, State.DELIVERED)
            assert open_attempt(found) is None
        for name in lost:
            del self.running[name]
        again = self.do(self.desk.ledger.take_over(taker, lock_held))
        assert (again.deliveries, again.turns) == (0, 0)

    def gone(self, dead: set[str]) -> set[str]:
        known = {row.claim.owner for row in self.rows.values() if row.claim}
        known |= {owner for _, owner in self.running.values()}
        return dead | {owner for owner in known if owner not in self.leases}

    def held(self, row: Row) -> str:
        assert row.claim is not None
        return row.claim.owner

    # -- inbound and turns -------------------------------------------------------------------

    @rule(number=st.integers(0, 5), chat=CHATS)
    def accept(self, number: int, chat: str) -> None:
        key = f"{chat}/{number}"
        turn = self.desk.new_id("turn")
        said = self.do(self.desk.ledger.accept(self.desk.inbound(str(number), chat), turn))
        assert said is (Reception.DUPLICATE if key in self.keys else Reception.ACCEPTED)
        self.keys.setdefault(key, turn)

    @rule(which=st.integers(0, 1))
    def run_waiting_turns(self, which: int) -> None:
        owner = self.owners[which]
        for name, _, _ in self.do(self.desk.ledger.waiting_turns(9)):
            turn = self.do(self.desk.run(name, owner, self.desk.new_id("run")))
            if turn is None:
                continue
            assert self.alive(owner)
            assert turn.lane not in {other.lane for other, _ in self.running.values()}
            assert name not in self.answered
            self.running[name] = (turn, owner)

    @precondition(lambda self: self.running)
    @rule(drained=st.booleans())
    def end_a_run(self, drained: bool) -> None:
        name, (turn, _) = next(iter(self.running.items()))
        run = self.do(
            self.sqlite.read(
                lambda c: (
                    c.execute("SELECT id FROM model_runs WHERE turn = ? AND ending IS NULL", (name,)).get
                )
            )
        )
        if drained:
            assert self.do(self.desk.ledger.release_turn(turn, run))
        else:
            told = NewDelivery(self.desk.new_id("answer"), turn.lane, ("the answer", "its second part"))
            for _ in range(2):
                assert self.do(self.desk.ledger.finish_turn(turn, run, RunEnd.ANSWERED, delivery=told))
            self.answered[name] = told.id
            self.rows[told.id] = Row(self.do(self.desk.ledger.record(told.id)))
        del self.running[name]
        assert not self.do(self.desk.ledger.release_turn(replace(turn, fence=turn.fence + 1), "other"))

    # -- deliveries --------------------------------------------------------------------------

    def see(self, name: str) -> Record:
        """The row as it is, compared with the last look: what may never change did not."""
        row, found = self.rows[name], self.do(self.desk.ledger.record(name))
        known = row.record
        assert found.fence >= known.fence
        assert found.tries >= known.tries
        if known.state in FINAL:
            assert (found.state, found.reason, found.fence) == (known.state, known.reason, known.fence)
        for part in known.parts:
            assert part.receipt is None or found.part(part.number).receipt == part.receipt
        ended = {a.number: a.ending for a in found.attempts}
        for attempt in known.attempts:
            assert attempt.ending is None or ended[attempt.number] in (attempt.ending, "accepted")
        row.record = found
        if found.state is not State.ATTEMPTING:
            row.claim = None
        return found

    @rule(target=deliveries, chat=CHATS, thread=st.sampled_from(["", "t"]), parts=st.integers(1, 3))
    def enqueue(self, chat: str, thread: str, parts: int) -> str:
        new = self.desk.new(chat, thread, tuple(f"part {n} of it" for n in range(parts)))
        first = self.do(self.desk.ledger.enqueue(new))
        assert self.do(self.desk.ledger.enqueue(new)) == first
        expected = State.ABANDONED if first.unreachable else State.PENDING
        assert (first.state, len(first.parts)) == (expected, parts)
        self.rows[new.id] = Row(first)
        return new.id

    @precondition(lambda self: self.rows)
    @rule(which=st.integers(0, 1), data=st.data(), stale=st.booleans())
    def claim(self, which: int, data: st.DataObject, stale: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.rows)))
        row, owner = self.rows[name], self.owners[which]
        seen = row.record if stale else self.see(name)
        now = self.do(self.desk.ledger.record(name))
        answer = self.do(self.desk.try_claim(seen, owner))
        found = self.do(self.desk.ledger.record(name))
        if answer is not ClaimAnswer.GRANTED:
            assert found == now
            return
        assert self.alive(owner)
        assert seen.state in (State.PENDING, State.FAILED)
        assert (found.state, found.owner, found.fence) == (State.ATTEMPTING, owner, seen.fence + 1)
        assert now.held_until <= self.desk.clock.steady
        assert (now.due_at or 0) <= self.desk.clock.steady
        assert self.desk.clock.wall - now.written_at < limits.freshness_ms
        for other in self.rows.values():
            ahead = self.do(self.desk.ledger.record(other.record.id))
            if ahead.lane == found.lane and ahead.seq < found.seq and ahead.moves + found.moves == 0:
                assert ahead.state in FINAL or (ahead.state is State.FAILED and ahead.due_at is None)
        row.claim = Claim(name, owner, found.fence)
        assert self.do(self.desk.try_claim(seen, owner)) is ClaimAnswer.GRANTED
        self.see(name)

    def claimed(self) -> list[str]:
        return sorted(name for name, row in self.rows.items() if row.claim)

    @precondition(lambda self: self.claimed())
    @rule(outcome=OUTCOMES, data=st.data(), told_twice=st.booleans())
    def advance(self, outcome: Outcome, data: st.DataObject, told_twice: bool) -> None:
        name = data.draw(st.sampled_from(self.claimed()))
        row = self.rows[name]
        assert row.claim is not None
        before = self.do(self.desk.ledger.record(name))
        if open_attempt(before) is None:
            return
        change, going_on = self.desk.change(before, outcome)
        answer = self.do(self.desk.ledger.advance(row.claim, change))
        if going_on is not None and not self.alive(row.claim.owner):
            assert answer is AdvanceAnswer.LAPSED
            assert self.do(self.desk.ledger.record(name)) == before
            return
        assert answer is AdvanceAnswer.DONE
        after = self.do(self.desk.ledger.record(name))
        if told_twice:
            assert self.do(self.desk.ledger.advance(row.claim, change)) is AdvanceAnswer.DONE
            assert self.do(self.desk.ledger.record(name)) == after
        if going_on is not None:
            assert after.attempts == going_on.attempts
            assert (after.state, after.owner) == (State.ATTEMPTING, row.claim.owner)
        self.see(name)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), outcome=OUTCOMES)
    def advance_under_a_lost_claim(self, data: st.DataObject, outcome: Outcome) -> None:
        name = data.draw(st.sampled_from(sorted(self.rows)))
        before = self.do(self.desk.ledger.record(name))
        lost = Claim(name, self.owners[0], before.fence + data.draw(st.sampled_from([-1, 1])))
        if open_attempt(before) is None:
            return
        change, _ = self.desk.change(before, outcome)
        assert self.do(self.desk.ledger.advance(lost, change)) is AdvanceAnswer.STALE
        assert self.do(self.desk.ledger.record(name)) == before

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def late_receipt(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.rows)))
        before = self.do(self.desk.ledger.record(name))
        # A platform that refused a message definitely does not report it as received.
        possible = [a for a in before.attempts if a.ending is None or a.ending in DOUBTFUL]
        if not possible:
            return
        attempt = data.draw(st.sampled_from(possible))
        self.do(self.desk.ledger.record_receipt(name, attempt.number, "late"))
        found = self.see(name)
        if before.state is not State.FAILED:
            assert found.state is before.state
        elif found.missing is None:
            assert found.state is State.DELIVERED

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), event=st.sampled_from([Event.CANCELLED, Event.GREW_STALE]))
    def settle(self, data: st.DataObject, event: Event) -> None:
        name = data.draw(st.sampled_from(sorted(self.rows)))
        record = self.see(name)
        if record.state not in (State.PENDING, State.FAILED):
            return
        for _ in range(2):
            assert self.do(self.desk.ledger.settle(record, event))
        assert self.see(name).state is State.ABANDONED

    @rule()
    def connect(self) -> None:
        before = {name: self.do(self.desk.ledger.record(name)) for name in self.rows}
        self.do(self.desk.ledger.connected(ADAPTER, None))
        for name, was in before.items():
            found = self.see(name)
            if found != was:
                assert was.not_sent > 0
                assert found.due_at == self.desk.clock.steady

    @rule()
    def prune(self) -> None:
        self.do(self.desk.ledger.prune())
        old = self.desk.clock.wall - limits.retention_ms
        left = self.do(self.sqlite.read(lambda c: {r[0] for r in c.execute("SELECT id FROM deliveries")}))
        for name in list(self.rows):
            if name not in left:
                assert self.rows[name].record.state in FINAL or self.rows[name].record.unreachable
                del self.rows[name]
        seen: Any = self.do(
            self.sqlite.read(
                lambda c: c.execute(
                    "SELECT chat || '/' || message_id, first_seen_at, turn FROM inbound"
                ).fetchall()
            )
        )
        known = {key for key, _, _ in seen}
        assert all(at >= old or turn not in self.answered or self.owes(turn) for _, at, turn in seen)
        self.keys = {key: turn for key, turn in self.keys.items() if key in known}

    def owes(self, turn: str) -> bool:
        name = self.answered[turn]
        return name in self.rows and self.see(name).state not in FINAL

    # -- always ------------------------------------------------------------------------------

    @invariant()
    def nothing_is_wrong_with_the_store(self) -> None:
        wall = self.desk.clock.wall
        assert self.do(self.sqlite.read(lambda c: problems(c, wall))) == []

    @invariant()
    def books_balance(self) -> None:
        def count(connection: object) -> tuple[int, int]:
            execute = connection.execute  # type: ignore[attr-defined]
            return (
                execute("SELECT count(*) FROM inbound").get,
                execute(
                    "SELECT count(*) FROM turns WHERE id IN (SELECT turn FROM inbound) "
                    "AND state IN ('waiting', 'running', 'answered', 'gave_up')"
                ).get,
            )

        inbound, turns = self.do(self.sqlite.read(count))
        assert inbound == turns

    @invariant()
    def abandoned_has_a_reason(self) -> None:
        for name in self.rows:
            found = self.see(name)
            if found.state is State.ABANDONED:
                assert found.reason in set(Reason)


#: ``ANGELIA_SOAK=5000`` looks at that many other examples; CI looks at the same ones every time.
SOAK = int(os.environ.get("ANGELIA_SOAK", "0"))
settings.register_profile(
    "ledger",
    max_examples=SOAK or 100,
    stateful_step_count=40,
    derandomize=not SOAK,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck), phases=[__import__("hypothesis").Phase.generate],
)

TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings.get_profile("ledger")
