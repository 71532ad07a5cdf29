"""What must be true at the end of a simulated world, of the store and of the platforms' truth.

The shared invariants come from ``angelia.testing.checks`` and ``store.invariants``; here is
what only a world can know: who was acknowledged, what each platform really answered, what was
ordered by hand, and which changes of state the trigger saw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from angelia.model import limits
from angelia.model.markers import OPENING
from angelia.model.record import DOUBTFUL, Ending, Record, Role
from angelia.model.states import FINAL, TRANSITIONS, TURN_TRANSITIONS, State
from angelia.store.invariants import problems
from angelia.store.rows import load_record
from angelia.testing.checks import Arrived, truth_problems

if TYPE_CHECKING:
    from tests.simulation.platform import Arrival
    from tests.simulation.world import World

_CHANGES = {(old.value, new.value) for (old, _), new in TRANSITIONS.items()}
_TURN_CHANGES = {(old.value, new.value) for (old, _), new in TURN_TRANSITIONS.items()}

#: What the platform must have said before a delivery may be abandoned for this reason.
_WITNESSES = {"unreachable": {"Unreachable"}, "rejected": {"BadContent"}}


def flaws_of(world: World) -> list[str]:
    """Everything that is wrong with what has happened until now."""
    wall = world.civil.wall()
    found = list(problems(world.look, wall))
    if world.civil.stepped_ms:  # ages by a clock that was set prove nothing
        found = [one for one in found if "24 h" not in one]
    records = [load_record(world.look, id) for (id,) in world.ask("SELECT id FROM deliveries ORDER BY seq")]
    found += _truth(world, records)
    found += _changes(world)
    found += _inbound(world)
    for record in records:
        found += _abandoned(world, record)
        found += _passes(record)
    found += _conversations(world, records)
    found += _reach(world, records)
    return found


def _truth(world: World, records: list[Record]) -> Iterator[str]:
    """Invariants 3 to 5, without the residues that guarantees §10 names."""
    pruned = {id for (id,) in world.ask("SELECT id FROM sim_log WHERE what = 'pruned'")}
    on_record = {id for (id,) in world.ask("SELECT id FROM deliveries WHERE unprotected")}
    early = world.witness.absent_too_early
    sent_off: dict[tuple[str, str], str] = {}
    arrived: list[Arrival] = []
    late: list[Arrival] = []
    for platform in world.platforms.values():
        for one in platform.arrived:
            delivery, part, _ = one.key.rsplit(".", 2)
            if one.flaw == "off":
                before = sent_off.get((delivery, part))
                if not (before is None or before.startswith(OPENING) or one.text.startswith(OPENING)):
                    yield f"4: {one.key} was repeated without a word by a gateway whose ledger is off"
                sent_off[delivery, part] = one.text
            elif one.flaw == "unprotected" and delivery not in on_record:
                world.witness.reach("documented hole: unprotected and died")
            elif delivery not in pruned:
                residue = one.flaw in ("frozen", "clock") or one.sent_t < early.get(one.key, 0.0)
                (late if residue else arrived).append(one)
    # A residue is no copy that the record could know of; but what came by it alone has come. A
    # marker line of its own is no part.
    lines = {
        f"{record.id}.{revision.part}.{revision.number}"
        for record in records
        for revision in record.revisions
        if revision.role is Role.LINE
    }
    known = {one.key.rsplit(".", 1)[0] for one in arrived if one.key not in lines}
    arrived += [one for one in late if one.key.rsplit(".", 1)[0] not in known]
    # A copy is what was sent later, whichever of the two the network brought first.
    arrived.sort(key=lambda one: one.sent_t)
    yield from truth_problems(world.look, records, [Arrived(a.key, a.text, a.chat) for a in arrived])


def _changes(world: World) -> Iterator[str]:
    """Invariant 6: the table, and fences that grow."""
    for what, id, old, new, old_fence, new_fence in world.ask(
        "SELECT what, id, old, new, old_fence, new_fence FROM sim_log ORDER BY n"
    ):
        if what == "pruned" and old not in FINAL:
            yield f"6: delivery {id} was pruned while {old}"
        if what == "d" and old is None and new != "pending":
            yield f"6: delivery {id} began as {new}"
        if what == "d" and old is not None:
            if (old, new) not in _CHANGES and (old, new) not in _UNPROTECTED:
                yield f"6: delivery {id} went from {old} to {new}"
            if new_fence < old_fence or (new == "attempting" != old and new_fence != old_fence + 1):
                yield f"6: the fence of delivery {id} went from {old_fence} to {new_fence}"
        if what == "t" and (old, new) not in _TURN_CHANGES:
            yield f"6: turn {id} went from {old} to {new}"


#: A delivery sent without the ledger is recorded with its outcome in one commit.
_UNPROTECTED = {("pending", "delivered"), ("pending", "failed"), ("pending", "pending")}


def _inbound(world: World) -> Iterator[str]:
    """Invariants 1 and 2, and that nothing was lost on the way."""
    forgotten = {id for (id,) in world.ask("SELECT id FROM sim_log WHERE what = 'forgotten'")}
    rows = defaultdict(list)
    for id, turn, state, reason, kind in world.ask(
        "SELECT i.message_id, t.id, t.state, t.reason, t.kind FROM inbound i JOIN turns t ON t.id = i.turn"
    ):
        rows[id].append((turn, state, reason, kind))
    for said in world.said.values():
        known = rows.get(said.id, [])
        if said.acked and said.id not in forgotten and len(known) != 1:
            yield f"1: {said.id} is acknowledged with {len(known)} turns"
        for turn, state, reason, _ in known:
            owed = world.ask("SELECT count(*) FROM deliveries WHERE turn = ?", turn)[0][0]
            if state == "answered" and owed != 1 and turn not in world.witness.closed_off:
                yield f"2: {said.id} is answered with {owed} deliveries"
            if state == "gave_up" and reason not in ("stopped", "expired", "interrupted twice"):
                yield f"2: the turn of {said.id} was given up: {reason}"


def _abandoned(world: World, record: Record) -> Iterator[str]:
    """Nothing is given up without what justifies it."""
    if record.state is not State.ABANDONED:
        return
    platform = world.platforms[record.lane.adapter]
    root = platform.root(record.lane.chat)
    needed = _WITNESSES.get(record.reason)
    about = root if record.reason == "unreachable" else record.id
    if needed and not needed & platform.said.get(about, set()):
        yield f"8: {record.id} is {record.reason}, but the platform never said so"
    if record.reason == "cancelled" and record.id not in world.operator.cancelled:
        yield f"8: {record.id} is cancelled, but nobody ordered that"
    if record.reason == "stale" and not world.civil.stepped_ms:
        ended = world.ask("SELECT ended_at FROM deliveries WHERE id = ?", record.id)[0][0]
        if ended - record.written_at < limits.freshness_ms:
            yield f"8: {record.id} grew stale {(ended - record.written_at) / 3.6e6:.2f} h after its birth"
    if record.reason == "tries_used_up" and len({a.fence for a in record.attempts}) < 4:
        yield f"8: {record.id} used up its tries in {len({a.fence for a in record.attempts})} passes"


def _passes(record: Record) -> Iterator[str]:
    """Invariant 6: at most 3 redeliveries that counted, recounted from the attempts alone."""
    counted = set(DOUBTFUL) | {Ending.REFUSED}
    fences = {a.fence for a in record.attempts}
    bad = [f for f in fences if all(a.ending in counted for a in record.attempts if a.fence == f)]
    if len(bad) > 1 + limits.redeliveries_max:
        yield f"6: {record.id} had {len(bad)} passes that failed and counted"
    if record.tries > limits.redeliveries_max:
        yield f"6: {record.id} counts {record.tries} redeliveries"


def _conversations(world: World, records: list[Record]) -> Iterator[str]:
    """Answers are written in the order of their questions, and reach who asked."""
    asked = {
        turn: (seq, conversation)
        for turn, seq, *conversation in world.ask(
            "SELECT id, seq, platform, chat, thread FROM turns WHERE kind = 'message'"
        )
    }
    newest: dict[str, int] = {}
    for record in records:
        if record.turn is None or record.turn not in asked:
            continue
        seq, conversation = asked[record.turn]
        if seq < newest.get(str(conversation), 0):
            yield f"7: delivery {record.id} answers an older question than the delivery before it"
        newest[str(conversation)] = seq
    for platform in world.platforms.values():
        for arrival in platform.arrived:
            words = arrival.text.split("answer to q")
            if len(words) > 1:
                said = world.said["m" + words[1].split(":")[0]]
                if platform.root(said.lane.chat) != platform.root(arrival.chat):
                    yield f"4: the answer to {said.id} of {said.lane.chat} arrived in {arrival.chat}"


def open_rows(world: World) -> list[str]:
    """Invariant 8: what is not settled, in words. With the ledger off, rows already owed rest."""
    off = world.mixture.ledger_off == "always"
    return [
        f"{kind} {id} is {state}"
        for kind, id, state in world.ask(
            "SELECT 'delivery', id, state FROM deliveries WHERE state IN ('pending', 'attempting', 'failed')"
            " UNION ALL SELECT 'turn', id, state FROM turns WHERE state IN ('waiting', 'running')"
        )
        if not (off and kind == "delivery")
    ]


def _reach(world: World, records: list[Record]) -> Iterator[str]:
    """Counts the rare branches that stand on record. Finds nothing wrong."""
    reach = world.witness.reach
    for record in records:
        endings = {a.ending for a in record.attempts if a.ending}
        for ending in endings:
            reach(f"ending {ending}")
        if record.reason:
            reach(f"reason {record.reason}")
        if record.tries == limits.redeliveries_max:
            reach("third redelivery")
        if record.rerouted:
            reach("rerouted")
        if record.anchor_dropped:
            reach("anchor dropped")
        if record.moves:
            reach("moved")
        if any(r.role == "line" for r in record.revisions):
            reach("marker as a message of its own")
        if any(r.doubt for r in record.revisions):
            reach("marked with its doubt")
    for (reason,) in world.ask("SELECT reason FROM turns WHERE reason <> ''"):
        reach(f"turn {reason}")
    if world.ask("SELECT 1 FROM sim_log WHERE what = 'pruned'"):
        reach("pruned")
    return iter(())
