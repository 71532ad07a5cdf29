"""Who watches a simulated world while it happens, and never dies.

It keeps the trace, counts the rare branches that were reached, and judges at once what only
that moment can show: whether a first byte left under a valid claim, in time, in order, and
outside every limit that was on record. Its knowledge comes from the outside: from what the
platform took, what was committed, and a trigger that logs every change of state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from angelia.agents.base import Question
from angelia.model import limits
from angelia.model.ids import Lane
from angelia.model.messages import Outgoing, Reception
from angelia.model.outcomes import Scope
from angelia.model.states import Event
from angelia.store.ledger import AdvanceAnswer, ClaimAnswer

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.people import Said
    from tests.simulation.platform import Arrival, SimPlatform
    from tests.simulation.world import World

#: Between the last look at a clock and the first byte (a connection is made meanwhile).
SLACK_S = 2.0

#: What works on deliveries that are owed: never done by a gateway whose ledger is off.
_ON_OWED_ROWS = frozenset({"claim", "advance", "settle", "defer", "record_receipt", "note_look_up"})

#: Logs every change of a row's state, whoever makes it.
TRIGGERS = """
CREATE TABLE sim_log (n INTEGER PRIMARY KEY, what TEXT, id TEXT, old TEXT, new TEXT, old_fence INT,
                      new_fence INT, due INT, reason TEXT);
CREATE TRIGGER sim_d AFTER UPDATE ON deliveries WHEN OLD.state <> NEW.state OR OLD.fence <> NEW.fence
BEGIN INSERT INTO sim_log (what, id, old, new, old_fence, new_fence, due, reason)
      VALUES ('d', NEW.id, OLD.state, NEW.state, OLD.fence, NEW.fence, OLD.due_at, NEW.reason); END;
CREATE TRIGGER sim_di AFTER INSERT ON deliveries
BEGIN INSERT INTO sim_log (what, id, new, new_fence) VALUES ('d', NEW.id, NEW.state, NEW.fence); END;
CREATE TRIGGER sim_dd AFTER DELETE ON deliveries
BEGIN INSERT INTO sim_log (what, id, old) VALUES ('pruned', OLD.id, OLD.state); END;
CREATE TRIGGER sim_id AFTER DELETE ON inbound
BEGIN INSERT INTO sim_log (what, id) VALUES ('forgotten', OLD.message_id); END;
CREATE TRIGGER sim_t AFTER UPDATE ON turns WHEN OLD.state <> NEW.state
BEGIN INSERT INTO sim_log (what, id, old, new, old_fence, new_fence, reason)
      VALUES ('t', NEW.id, OLD.state, NEW.state, OLD.fence, NEW.fence, NEW.reason); END;
"""


@dataclass
class Hold:
    """A rate limit from the moment at which it was on record (seconds of the loop)."""

    scope: Scope
    subject: str
    until: float
    known: float


class Look(NamedTuple):
    """When a process looked at its claim, and what had happened to it and its clock until then."""

    t: float
    thaws: int
    stepped: int


@dataclass
class Held:
    """A claim of a node, as of its newest commit."""

    owner: str
    fence: int
    since: float
    thaws: int
    stepped: int
    starts: int


class Witness:
    """``flaws``: sentences about what must not be. ``reached``: rare branches, counted."""

    def __init__(self, world: World) -> None:
        self.world = world
        #: When, who, what: put into words only when somebody reads it.
        self.notes: list[tuple[float, str, str]] = []
        self.flaws: list[str] = []
        self.reached: Counter[str] = Counter()
        self.redeliveries = 0
        self.holds: dict[str, list[Hold]] = {}
        self.due: dict[str, float | None] = {}
        self.starts = 0
        self.rests: dict[str, int] = {}
        self.notices: dict[str, Lane] = {}
        self.absent_too_early: dict[str, float] = {}
        #: When the first byte of a key first left, and how far the civil clock was set then.
        self.first_of_key: dict[str, tuple[float, int]] = {}
        self.set_at_start: dict[str, int] = {}
        #: Turns that a gateway without the ledger closed, so that no delivery belongs to them.
        self.closed_off: set[str] = set()

    # -- the trace ---------------------------------------------------------------------------

    def note(self, who: str, what: str) -> None:
        self.notes.append((self.world.loop.now_s, who, what))

    def reach(self, branch: str) -> None:
        self.reached[branch] += 1

    def flaw(self, sentence: str) -> None:
        self.note("FLAW", sentence)
        self.flaws.append(f"{self.world.loop.time():.3f} {sentence}")

    # -- what was committed ------------------------------------------------------------------

    def verb(self, node: Node, name: str, given: Any, named: Any, result: Any) -> None:
        told = getattr(self, f"_{name}", None)
        if told is not None:
            told(node, result, *given, **named)

    def _start(self, node: Node, _: Any, owner: str, _kind: Any, reborn: bool = False, *_more: Any) -> None:
        self.note(node.name, f"owner {owner[:6]}{' reborn' if reborn else ''}")
        self.starts += not reborn
        self.set_at_start.setdefault(node.name, self.world.civil.set_by_ms)
        if reborn:
            self.reach("owner reborn")

    def _claim(self, node: Node, result: Any, record: Any, owner: str, revision: Any, at: int) -> None:
        self.note(
            node.name, f"claim {record.id} part {revision.part}.{revision.number} {result} f{record.fence}"
        )
        if result is ClaimAnswer.GRANTED:
            self._holds_now(node, record.id, owner, record.fence + 1)
            self.redeliveries += bool(record.attempts)
            self._in_order(record.id)
        else:
            self.reach(f"claim {result}")

    def _holds_now(self, node: Node, delivery: str, owner: str, fence: int) -> None:
        t, thaws, stepped = self.look(node)
        node.claims[delivery] = Held(owner, fence, t, thaws, stepped, self.starts)

    def _advance(self, node: Node, result: Any, claim: Any, change: Any) -> None:
        ending = change.ending.value if change.ending else "-"
        opened = f" opens {change.opened[1].part}.{change.opened[1].number}" if change.opened else ""
        self.note(node.name, f"advance {claim.delivery} {change.event} {ending}{opened} {result}")
        if result is not AdvanceAnswer.DONE:
            self.reach(f"advance {result}")
            return
        held = node.claims.get(claim.delivery)
        if change.opened:
            self._holds_now(node, claim.delivery, claim.owner, claim.fence)
        if change.children:
            self.reach("split")
        now = node.clock.now().steady
        t = self.world.loop.time()
        if change.limit is not None:
            lane = self.world.ask("SELECT platform FROM deliveries WHERE id = ?", claim.delivery)[0]
            until = t + (change.limit.until - now) / 1000
            self.holds.setdefault(lane[0], []).append(
                Hold(change.limit.scope, change.limit.subject, until, t)
            )
        if change.event is Event.PASS_FAILED:
            rests = change.due_at is None
            self.due[claim.delivery] = None if rests else t + (change.due_at - now) / 1000
            # Counted from the beginning of the last attempt, as the record does.
            self.rests[claim.delivery] = held.starts if held else self.starts
        if change.event in (Event.RELEASED, Event.RELEASED_UNTRIED):
            self.due.pop(claim.delivery, None)

    def _accept(self, node: Node, result: Any, inbound: Any, turn: str, kind: Any) -> None:
        self.note(node.name, f"accept {inbound.message_id} turn {turn[:6]} {result}")

    def _start_run(self, node: Node, result: Any, turn: str, *_given: Any) -> None:
        self.note(node.name, f"start run of {turn[:6]}: {'yes' if result else 'no'}")

    def _finish_turn(self, node: Node, result: Any, turn: Any, *given: Any, **named: Any) -> None:
        self.note(node.name, f"finish turn {turn.id[:6]} {given[1] if len(given) > 1 else ''} {result}")
        if len(given) > 5 and given[5] is not None:
            self.reach("sent unprotected, then committed")

    def _take_over(self, node: Node, result: Any, *_given: Any, **_named: Any) -> None:
        if result.deliveries or result.turns:
            self.note(node.name, f"takes over {result.deliveries} deliveries, {result.turns} turns")

    def _settle(self, node: Node, result: Any, record: Any, event: Any) -> None:
        self.note(node.name, f"settle {record.id} {event} {result}")

    def _defer(self, node: Node, result: Any, record: Any, due: Any, offline: bool = False) -> None:
        self.note(node.name, f"defer {record.id} {'offline' if offline else due} {result}")

    def _note_look_up(self, node: Node, _: Any, record: Any, attempt: int, found: Any) -> None:
        self.note(node.name, f"look-up {record.id} attempt {attempt} {found}")

    def _record_receipt(self, node: Node, _: Any, delivery: str, attempt: int, receipt: str) -> None:
        self.note(node.name, f"receipt {delivery} attempt {attempt} {receipt}")
        self.reach("receipt recorded late or by look-up")

    def _release_turn(self, node: Node, result: Any, turn: Any, run: str) -> None:
        self.note(node.name, f"turn {turn.id[:6]} waits again {result}")
        self.reach("turn cut by a drain")

    # -- what happens outside ----------------------------------------------------------------

    def acknowledged(self, said: Said, answer: Reception) -> None:
        """Invariants 1 and 2: an acknowledged inbound has a row, and only one."""
        said.acked = True
        said.accepted += answer is Reception.ACCEPTED
        forgotten = "SELECT count(*) FROM sim_log WHERE what = 'forgotten' AND id = ?"
        gone = self.world.ask(forgotten, said.id)[0][0]  # a week later
        if said.accepted > 1 + gone:
            self.flaw(f"2: {said.id} was accepted {said.accepted} times")
        known = self.world.ask("SELECT count(*) FROM inbound WHERE message_id = ?", said.id)[0][0]
        if known != 1 and not gone:
            self.flaw(f"1: {said.id} is acknowledged with {known} rows")

    def ran(self, node: Node, name: str, question: Question) -> None:
        """Money: a run that is not on record must not exist."""
        self.note(node.name, f"model run for {name} ({question.attempt})")
        said = self.world.said.get("m" + name[1:])
        forgotten = "SELECT 1 FROM sim_log WHERE what = 'forgotten' AND id = ?"
        if said is None or self.world.ask(forgotten, said.id):
            return
        said.runs.append(node.name)
        if said.edited and question.text != said.edited and self.world.loop.time() > said.edited_t + 1:
            started = self.world.ask(
                "SELECT max(r.started_at) FROM model_runs r JOIN inbound i ON i.turn = r.turn"
                " WHERE i.message_id = ?",
                said.id,
            )[0][0]
            if not self.world.civil.stepped_ms and started > node.clock.now().wall - 500:
                self.flaw(f"8: {said.id} was edited in time, yet the model was asked the old text")
        recorded = self.world.ask(
            "SELECT count(*) FROM model_runs r JOIN inbound i ON i.turn = r.turn WHERE i.message_id = ?",
            said.id,
        )[0][0]
        if len(said.runs) > recorded:
            self.flaw(f"9: {len(said.runs)} model runs for {said.id}, {recorded} on record")

    def arrived(self, platform: SimPlatform, arrival: Arrival) -> None:
        marked = "♻️ " if arrival.text.startswith("♻️") else ""
        words = arrival.text.splitlines()[0][:70]
        self.note(platform.id.platform, f"ARRIVES in {arrival.chat} {arrival.key} {marked}{words!r}")

    def looked_up_absent(self, key: str, landing: bool) -> None:
        """A call that is still on its way although nobody on record waits for it any more lands
        after the look-up that did not find it: the second residue of guarantees §10."""
        self.reach("look-up absent")
        delivery, part, revision = key.rsplit(".", 2)
        waits = self.world.ask(
            "SELECT 1 FROM attempts WHERE delivery = ? AND part = ? AND revision = ? AND ending IS NULL",
            delivery,
            int(part),
            int(revision),
        )
        if landing and not waits:
            self.absent_too_early[key] = self.world.loop.time()

    def typing(self, platform: SimPlatform, lane: Lane) -> None:
        self._outside_limits(f"typing in {lane}", platform, lane.chat, self.world.loop.time(), False)

    def _after_the_last_look(self, node: Node, held: Held, entered: Look) -> bool:
        """The residue of guarantees §10: after the last look at the claim the process stood still
        or, a claim being taken as valid for a second, the clock that leases use was set."""
        look = min(node.looked, entered) if node.looked.t >= held.since else entered
        fresh = self.world.loop.time() - held.since <= limits.guard_recheck_ms / 1000 + SLACK_S
        stepped = self.world.civil.stepped_ms
        return (
            node.process.thaws != look.thaws or stepped != look.stepped or (fresh and stepped != held.stepped)
        )

    def _holds(self, node: Node, _result: bool, _claim: Any) -> None:
        node.looked = self.look(node)

    def look(self, node: Node) -> Look:
        """This moment, as the process sees it."""
        return Look(self.world.loop.time(), node.process.thaws, self.world.civil.stepped_ms)

    def first_byte(self, node: Node, platform: SimPlatform, message: Outgoing, entered: Look) -> str:
        """The first byte leaves: is it allowed to? ``entered``: when the adapter was called.
        Returns the name of a known residue, or ""."""
        t = self.world.loop.time()
        delivery, part, revision = message.key.rsplit(".", 2)
        self.note(node.name, f"first byte {message.key} to {message.chat}#{message.thread}")
        row = self.world.ask(
            "SELECT d.state, d.owner, d.fence, d.written_at, a.part, a.revision"
            " FROM deliveries d LEFT JOIN attempts a ON a.delivery = d.id AND a.ending IS NULL"
            " WHERE d.id = ?",
            delivery,
        )
        held = node.claims.get(delivery)
        if not node.protected:
            return self._first_byte_without_ledger(node, delivery, bool(row))
        if not row or held is None:
            if node.engine.answers.kept:
                self.reach("sent unprotected")
                return "unprotected"
            self.flaw(f"4: {message.key} is sent by {node.name}, but nothing of it is on record")
            return ""
        state, owner, fence, written_at, a_part, a_revision = row[0]
        valid = state == "attempting" and (owner, fence) == (held.owner, held.fence)
        valid = valid and (str(a_part), str(a_revision)) == (part, revision)
        interrupted = node.process.thaws != held.thaws
        stepped = self.world.civil.stepped_ms != held.stepped
        if not valid:
            if node.engine.answers.kept and state == "attempting" and owner != held.owner:
                return "unprotected"
            if self._after_the_last_look(node, held, entered):
                self.reach("late copy of a frozen process")
                return "frozen"
            self.flaw(f"4: {message.key} leaves {node.name} without a valid claim ({state}, fence {fence})")
            return ""
        if not interrupted and not stepped:
            age = self.world.civil.wall() - written_at
            if age > limits.freshness_ms + SLACK_S * 1000:
                self.flaw(f"6: {message.key} leaves {age / 3.6e6:.2f} h after it was written")
            self._after_due(delivery, message, t)
            self._outside_limits(message.key, platform, message.chat, held.since, True)
        return self._key_outlived(node, platform, message.key, t)

    def _key_outlived(self, node: Node, platform: SimPlatform, key: str, t: float) -> str:
        """The residue of guarantees §4: the clock was set back while nobody ran, by so much that
        by every clock of the new process the key's window is still open."""
        first_t, set_by = self.first_of_key.setdefault(key, (t, self.world.civil.set_by_ms))
        back_s = (set_by - self.set_at_start[node.name]) / 1000
        window_s = platform.capabilities.key_window_s - platform.capabilities.call_limit_s
        if back_s > 0 and t - first_t >= window_s > t - first_t - back_s:
            self.reach("key outlived unseen")
            return "clock"
        return ""

    # -- the ledger switched off -------------------------------------------------------------

    def ledger_off(self, node: Node, name: str, given: Any) -> Callable[[], None] | None:
        """A verb of a gateway whose ledger is off: rows already owed stay untouched. Returns what
        to look at once the verb has returned."""
        if name in _ON_OWED_ROWS:
            self.flaw(f"6: {node.name} does {name}, although its ledger is off")
        if name == "finish_turn":
            self.closed_off.add(given[0].id)
        if name != "take_over":
            return None
        changes = "SELECT count(*) FROM sim_log WHERE what = 'd'"
        before = self.world.ask(changes)

        def compare() -> None:
            if self.world.ask(changes) != before:
                self.flaw(f"6: {node.name} took over deliveries, although its ledger is off")

        return compare

    def _first_byte_without_ledger(self, node: Node, delivery: str, on_record: bool) -> str:
        """Its turn is closed by now, so that it never runs again; nothing owed goes out."""
        closed = self.world.ask(
            "SELECT state FROM turns WHERE id = ?1 OR id = (SELECT turn FROM model_runs WHERE id = ?1)",
            delivery,
        )
        if closed != [("answered",)]:
            self.flaw(f"9: {node.name} answers without the ledger before the turn is closed: {closed}")
        if on_record:
            self.flaw(f"6: {node.name} sends the owed {delivery}, although its ledger is off")
        self.reach("sent with the ledger off")
        return "off"

    def _after_due(self, delivery: str, message: Outgoing, t: float) -> None:
        slack = 0.05 + self.world.civil.stepped_ms / 1000
        due = self.due.get(delivery, 0.0)
        if due is None:
            if self.starts == self.rests[delivery]:
                self.flaw(f"6: {message.key} rests until the next start, yet it is sent")
            self.reach("resting row released")
        elif t < due - slack:
            self.flaw(f"6: {message.key} leaves {due - t:.2f} s before its due time")

    def _in_order(self, delivery: str) -> None:
        """Invariant 7, at the moment of a claim: only a resting or final row may be overtaken."""
        older = self.world.ask(
            "SELECT e.id, e.state FROM deliveries d JOIN deliveries e ON e.profile = d.profile"
            " AND e.platform = d.platform AND e.chat = d.chat AND e.thread = d.thread AND e.seq < d.seq"
            " WHERE d.id = ? AND e.state IN ('pending', 'attempting', 'failed')"
            " AND NOT (e.state = 'failed' AND e.due_at IS NULL)",
            delivery,
        )
        if older:
            self.flaw(f"7: {delivery} overtakes {older[0][0]}, which is {older[0][1]}")

    def _outside_limits(
        self, what: str, platform: SimPlatform, chat: str, decided: float, sends: bool
    ) -> None:
        slack = 0.05 + self.world.civil.stepped_ms / 1000
        for hold in self.holds.get(platform.id.platform, ()):
            applies = hold.scope is Scope.BOT or hold.subject == chat or (sends and hold.subject == "send")
            if applies and hold.known < decided - SLACK_S and decided < hold.until - slack:
                self.flaw(f"6: {what} inside the {hold.scope} limit until {hold.until:.2f}")
