"""The machine of ``test_ledger_machine`` with every other verb, and deaths inside verbs.

A death can be armed: the next verb that commits then dies before its commit or right after it,
the file is opened anew, and the verb is asked again with the same ids, as the engine does. The
rules do not know of it: whatever they expect must come out all the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.property.mortal import Careful, Mortal, reached
from tests.property.test_ledger_machine import CHATS, OUTCOMES, LedgerMachine, Row

from angelia.model.errors import NotPossibleError, TryAgainError
from angelia.model.ids import Claim, Lane
from angelia.model.messages import NO_USAGE, NewDelivery, Reception
from angelia.model.outcomes import Accepted, LookUp, Outcome, Scope, Unconfirmed
from angelia.model.record import DOUBTFUL, Record, open_attempt
from angelia.model.states import FINAL, RunEnd, State
from angelia.store import sqlite_operator as orders
from angelia.store.ledger import AdvanceAnswer, ClaimAnswer, Limit, Turn, TurnKind
from angelia.testing.ledger_desk import ADAPTER

T = TypeVar("T")

OUTCOMES_OF_A_PASS = st.lists(OUTCOMES, max_size=4)
DEATHS = st.sampled_from(["before_commit", "after_commit"])


class EveryVerb(LedgerMachine):
    """Rules beside those of ``LedgerMachine``."""

    def __init__(self) -> None:
        super().__init__()
        self.do(self.desk.close())
        Mortal.dies_at = ""
        self.desk = Careful(lambda clock: Mortal(self.folder / "state.db", clock, inline=True))

    @rule(point=DEATHS)
    def the_next_verb_dies(self, point: str) -> None:
        Mortal.dies_at = point

    def pick(self, data: st.DataObject, *states: State) -> Record | None:
        names = sorted(name for name in self.rows if self.see(name).state in states)
        return self.see(data.draw(st.sampled_from(names))) if names else None

    def state_of(self, turn: str) -> str:
        found = self.do(
            self.sqlite.read(lambda c: c.execute("SELECT state FROM turns WHERE id = ?", (turn,)).get)
        )
        return str(found)

    def open_run(self, turn: str) -> str:
        asked = "SELECT id FROM model_runs WHERE turn = ? AND ending IS NULL"
        return str(self.do(self.sqlite.read(lambda c: c.execute(asked, (turn,)).get)))

    # -- whole passes ------------------------------------------------------------------------

    # Single rules alone hardly ever find a due row, a live owner and an open attempt together; so
    # whole passes are rules, too, several of them, with a death or a lapse at any place within.

    @rule(outcomes=OUTCOMES_OF_A_PASS, lingers=st.booleans(), data=st.data())
    def a_pass(self, outcomes: list[Outcome], lingers: bool, data: st.DataObject) -> None:
        self.work([Accepted("r"), *outcomes], data, 16 if lingers else 0, "")

    @rule(
        outcomes=OUTCOMES_OF_A_PASS,
        data=st.data(),
        then=st.sampled_from(["marked", *(found.value for found in LookUp)]),
    )
    def a_pass_in_doubt(self, outcomes: list[Outcome], data: st.DataObject, then: str) -> None:
        """Nobody knows what arrived; then somebody looks, or says so."""
        name = self.work([*outcomes, *(Unconfirmed("time-out"),) * 3], data, 0, "")
        if name is None or self.see(name).state is not State.FAILED:
            return
        if then == "marked":
            self.order("mark", name)
        else:
            self.note_a_look(self.see(name), LookUp(then), data)

    @rule(outcomes=OUTCOMES_OF_A_PASS, data=st.data(), point=DEATHS, in_claim=st.booleans())
    def a_pass_with_a_death(
        self, outcomes: list[Outcome], data: st.DataObject, point: str, in_claim: bool
    ) -> None:
        self.work(outcomes, data, 0, point, in_claim)

    @rule(outcomes=OUTCOMES_OF_A_PASS, data=st.data())
    def a_pass_of_a_gateway_that_dies(self, outcomes: list[Outcome], data: st.DataObject) -> None:
        """What it leaves in flight is taken over by the other one."""
        self.work(outcomes, data, 0, "")
        self.desk.clock.advance(16)
        self.owners[1] = self.start()
        Mortal.dies_at = "before_commit"
        self.take_over(self.owners[1], False)

    def work(
        self,
        outcomes: list[Outcome],
        data: st.DataObject,
        lingers_s: float,
        dies: str,
        in_claim: bool = False,
    ) -> str | None:
        """Claim a row as soon as it is due, and let its attempts end like that. Its name, if the
        pass was not cut."""
        waiting = sorted(n for n in self.rows if self.see(n).state in (State.PENDING, State.FAILED))
        if not waiting:
            return None
        name = data.draw(st.sampled_from(waiting))
        record = self.see(name)
        due_ms = max(record.due_at or 0, record.held_until) - self.desk.clock.steady
        if 0 < due_ms <= 700_000:
            self.desk.clock.advance(due_ms / 1000 + 0.001)
        if not self.alive(self.owners[0]):
            assert self.do(self.desk.try_claim(record, self.owners[0])) is not ClaimAnswer.GRANTED
            self.owners[0] = self.start()
        Mortal.dies_at = dies if in_claim else ""
        if self.do(self.desk.try_claim(record, self.owners[0])) is not ClaimAnswer.GRANTED:
            return None
        row = self.rows[name]
        row.claim = Claim(name, self.owners[0], record.fence + 1)
        before = self.see(name)
        assert self.do(self.desk.ledger.holds(row.claim))
        reached("holds: True")
        lost = replace(row.claim, fence=row.claim.fence - 1)
        assert not self.do(self.desk.ledger.holds(lost))
        reached("holds: False")
        assert self.do(self.desk.ledger.advance(lost, self.desk.change(before, Accepted("r"))[0])) is (
            AdvanceAnswer.STALE
        )
        self.desk.clock.advance(lingers_s)
        Mortal.dies_at = "" if in_claim else dies
        for outcome in outcomes:
            before = self.see(name)
            if row.claim is None or open_attempt(before) is None:
                return name
            change, going_on = self.desk.change(before, outcome)
            answer = self.do(self.desk.ledger.advance(row.claim, change))
            if answer is not AdvanceAnswer.DONE:
                assert going_on is not None
                assert (answer is AdvanceAnswer.LAPSED) is not self.alive(row.claim.owner)
                assert self.do(self.desk.ledger.record(name)) == before
                return None
            after = self.see(name)
            assert going_on is None or after.attempts == going_on.attempts
        return name

    @rule(chat=CHATS, falls_back=st.booleans(), dies=DEATHS, drained=st.booleans())
    def a_turn(self, chat: str, falls_back: bool, dies: str, drained: bool) -> None:
        """From the question to the answer, by a gateway that is alive."""
        if not self.alive(self.owners[0]):
            self.owners[0] = self.start()
        self.accept(len(self.keys) + 6, chat)
        self.run_waiting_turns(0)
        if self.running:
            if falls_back:
                self.fall_back()
            Mortal.dies_at = dies
            self.end_a_run(drained)

    # -- inbound and turns -------------------------------------------------------------------

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), text=st.sampled_from(["one", "two"]))
    def edit(self, data: st.DataObject, text: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.keys)))
        chat, number = key.split("/")
        waits = self.state_of(self.keys[key]) == "waiting"
        assert self.do(self.desk.ledger.edit(self.desk.inbound(number, chat, text))) is waits
        opened = self.do(self.desk.ledger.open_turn(self.keys[key]))
        assert (opened is not None) is waits
        assert opened is None or opened.text == text

    @precondition(lambda self: self.running)
    @rule()
    def fall_back(self) -> None:
        name, (turn, _) = next(iter(self.running.items()))
        ended, again = self.open_run(name), self.desk.new_id("run")
        for _ in range(2):
            assert self.do(self.desk.ledger.next_run(turn, ended, NO_USAGE, "429", again, "other"))
            assert self.open_run(name) == again
        stale = replace(turn, fence=turn.fence + 1)
        assert not self.do(
            self.desk.ledger.next_run(stale, again, NO_USAGE, "", self.desk.new_id("run"), "x")
        )

    @precondition(lambda self: self.running)
    @rule(ledger_off=st.booleans())
    def end_a_run_without_a_delivery(self, ledger_off: bool) -> None:
        name, (turn, _) = next(iter(self.running.items()))
        run = self.open_run(name)
        end, reason = (RunEnd.ANSWERED, "") if ledger_off else (RunEnd.STOPPED, "stopped")
        for _ in range(2):
            assert self.do(self.desk.ledger.finish_turn(turn, run, end, gave_up=reason))
        assert self.state_of(name) == ("answered" if ledger_off else "gave_up")
        del self.running[name]

    @rule(number=st.integers(0, 3), chat=CHATS, ledger_off=st.booleans(), anew=st.booleans())
    def command(self, number: int, chat: str, ledger_off: bool, anew: bool) -> None:
        key, turn_id = f"{chat}/c{number}", self.desk.new_id("turn")
        said = self.do(
            self.desk.ledger.accept(self.desk.inbound(f"c{number}", chat), turn_id, TurnKind.COMMAND)
        )
        assert said is (Reception.DUPLICATE if key in self.keys else Reception.ACCEPTED)
        if key in self.keys:
            return
        self.keys[key] = turn_id
        turn = self.do(self.desk.ledger.open_turn(turn_id))
        assert isinstance(turn, Turn)
        if anew:
            self.do(self.desk.ledger.new_conversation(turn.lane, turn_id))
        if ledger_off:
            Mortal.dies_at = ""  # an answer that was lost may not be given twice: it is given up
            assert self.do(self.desk.ledger.finish_turn(turn, None, RunEnd.ANSWERED))
            # Somebody else with the same command may not believe that it is his.
            assert self.do(self.desk.ledger.finish_turn(turn, None, RunEnd.ANSWERED)) is None
            return
        told = NewDelivery(turn_id, turn.lane, ("done",), origin="notice")
        for _ in range(2):
            assert self.do(self.desk.ledger.finish_turn(turn, None, RunEnd.ANSWERED, delivery=told))
        self.answered[turn_id] = told.id
        self.rows[told.id] = Row(self.do(self.desk.ledger.record(told.id)))

    @rule(which=st.integers(0, 1))
    def take_over_with_the_ledger_off(self, which: int) -> None:
        """Turns of the dead wait again; deliveries stay untouched until a gateway that has one."""
        before = {name: self.do(self.desk.ledger.record(name)) for name in self.rows}
        taker, now = self.owners[which], self.desk.clock.wall
        dead = {owner for owner, until in self.leases.items() if until <= now and owner != taker}
        taken = self.do(self.desk.ledger.take_over(taker, False, protected=False))
        assert taken.deliveries == 0
        lost = [name for name, (_, owner) in self.running.items() if owner in self.gone(dead)]
        assert taken.turns == len(lost)
        for name in lost:
            del self.running[name]
        for owner in dead:
            del self.leases[owner]
        limit = now + 15_000
        self.leases = {owner: min(until, limit) for owner, until in self.leases.items()}
        assert before == {name: self.do(self.desk.ledger.record(name)) for name in self.rows}

    # -- deliveries --------------------------------------------------------------------------

    @precondition(lambda self: self.claimed())
    @rule(data=st.data(), stale=st.booleans())
    def holds(self, data: st.DataObject, stale: bool) -> None:
        name = data.draw(st.sampled_from(self.claimed()))
        mine = self.rows[name].claim
        assert mine is not None
        found = self.do(self.desk.ledger.record(name))
        claim = Claim(name, mine.owner, mine.fence - stale)
        expected = (found.state, found.owner, found.fence) == (State.ATTEMPTING, claim.owner, claim.fence)
        held = self.do(self.desk.ledger.holds(claim))
        assert held is (expected and self.alive(claim.owner))
        reached(f"holds: {held}")

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), found=st.sampled_from([LookUp.ABSENT, LookUp.CANNOT_TELL]))
    def look_up(self, data: st.DataObject, found: LookUp) -> None:
        record = self.pick(data, State.FAILED)
        if record is not None:
            self.note_a_look(record, found, data)

    def note_a_look(self, record: Record, found: LookUp, data: st.DataObject) -> None:
        doubtful = [a for a in record.attempts if a.ending in DOUBTFUL and not a.absent]
        if not doubtful:
            return
        attempt = data.draw(st.sampled_from(doubtful))
        self.do(self.desk.ledger.note_look_up(record, attempt.number, found))
        noted = next(a for a in self.see(record.id).attempts if a.number == attempt.number)
        assert noted.absent is (found is LookUp.ABSENT)
        reached(f"looked up: {found}")

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), seconds=st.sampled_from([2, 60]), offline=st.booleans(), rest=st.booleans())
    def defer(self, data: st.DataObject, seconds: int, offline: bool, rest: bool) -> None:
        record = self.pick(data, State.PENDING, State.FAILED)
        if record is None:
            return
        until = self.desk.clock.steady + seconds * 1000
        due_at = None if rest and record.attempts and not offline else until
        # Never earlier than it was.
        later = due_at is None or record.due_at is None or due_at >= record.due_at
        assert self.do(self.desk.ledger.defer(record, due_at, offline)) is later
        assert self.see(record.id).due_at == (due_at if later else record.due_at)
        assert not self.do(self.desk.ledger.defer(replace(record, fence=record.fence + 1), due_at, offline))

    @rule(chat=CHATS, seconds=st.sampled_from([3, 40]), scope=st.sampled_from([Scope.BOT, Scope.CHAT]))
    def hold(self, chat: str, seconds: int, scope: Scope) -> None:
        until = self.desk.clock.steady + seconds * 1000
        self.do(self.desk.ledger.hold(ADAPTER, Limit(scope, "" if scope is Scope.BOT else chat, until)))
        assert self.do(self.desk.ledger.held_until(Lane(*ADAPTER, chat, ""))) >= until

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), order=st.sampled_from(["cancel", "mark", "again"]))
    def operator(self, data: st.DataObject, order: str) -> None:
        """Mostly something that is possible in that state."""
        fit = {"cancel": {State.PENDING, State.FAILED}, "mark": {State.FAILED}, "again": FINAL}[order]
        fitting = sorted(name for name in self.rows if self.see(name).state in fit)
        names = sorted(self.rows) if not fitting or data.draw(st.integers(0, 3)) == 0 else fitting
        self.order(order, data.draw(st.sampled_from(names)))

    def order(self, order: str, name: str) -> None:
        record, new = self.see(name), self.desk.new_id("again")
        works: dict[str, Any] = {
            "cancel": lambda c, now: orders.cancel(c, name, now),
            "mark": lambda c, now: orders.mark_delivered(c, name, now),
            "again": lambda c, now: orders.send_again(c, name, new, now),
        }
        try:
            done = self.do(self.sqlite.operate("operate", works[order]))
        except (NotPossibleError, TryAgainError) as error:
            reached(f"{order} of {record.state}: {type(error).__name__}")
            assert self.see(name) == record
            return
        reached(f"{order} of {record.state}: done")
        if order == "again":
            assert record.state in FINAL
            assert (done.state, done.requested) == (State.PENDING, True)
            self.rows[new] = Row(done)
            return
        assert self.see(name).state is (State.ABANDONED if order == "cancel" else State.DELIVERED)

    # -- reading -----------------------------------------------------------------------------

    @rule(chat=CHATS, thread=st.sampled_from(["", "t"]))
    def read(self, chat: str, thread: str) -> None:
        lane, now = Lane(*ADAPTER, chat, thread), self.desk.clock.now()
        mine = [self.see(name) for name in self.rows if self.see(name).lane == lane]
        waiting = [
            one
            for one in sorted(mine, key=lambda one: one.seq)
            if one.state is State.PENDING
            or one.state is State.ATTEMPTING
            or (one.state is State.FAILED and one.due_at is not None)
        ]
        head = self.do(self.desk.ledger.head(lane))
        if not waiting or waiting[0].state is State.ATTEMPTING:
            assert head is None
        else:
            assert head == waiting[0]
        due = self.do(self.desk.ledger.due_lanes([ADAPTER], 99))
        if head is not None and head.due_at is not None and head.due_at <= now.steady:
            assert lane in due
        for old in self.do(self.desk.ledger.stale(99)):
            assert old.state in (State.PENDING, State.FAILED)
            assert now.wall - old.written_at >= 86_400_000
