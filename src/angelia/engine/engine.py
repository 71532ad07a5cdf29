"""The engine: receiver, turner, sender, rescuer and pruner around one ledger.

This is the part that people embed. It knows no concrete store, platform or agent; whoever
starts it hands these in, connects adapters and tells the roster. Order at start: register,
take over, then loops; order at stop: no new inbound, turns, sends, loops, retire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from angelia.agents.base import Agent
from angelia.engine.answers import Answers
from angelia.engine.attaching import Attaching, Spool
from angelia.engine.lanes import Lanes
from angelia.engine.pruner import Pruner
from angelia.engine.receiver import Receiver
from angelia.engine.rescuer import Rescuer
from angelia.engine.roster import Roster
from angelia.engine.sender import Sender
from angelia.engine.tenure import Tenure
from angelia.engine.turner import Turner
from angelia.engine.typing import Typing
from angelia.model import limits
from angelia.model.ids import Lane
from angelia.model.messages import NewDelivery
from angelia.model.record import Record
from angelia.platforms.base import Capabilities
from angelia.seams import crash
from angelia.seams.clock import Clock
from angelia.seams.rng import Rng
from angelia.store.ledger import Ledger, OwnerKind, TakenOver


class Engine:
    """``split`` cuts a text for the platform of a lane; ``is_command`` recognises chat
    commands; ``protected`` is the setting ``gateway.delivery_ledger``; ``spool`` keeps files, and
    ``capabilities`` says what the platform of a lane can take."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        rng: Rng,
        agents: Mapping[str, Agent],
        split: Callable[[Lane, str], list[str]],
        *,
        kind: OwnerKind = OwnerKind.LIBRARY,
        lock_held: bool = False,
        is_command: Callable[[str], bool] = lambda _text: False,
        protected: bool = True,
        spool: Spool | None = None,
        capabilities: Callable[[Lane], Capabilities | None] = lambda _lane: None,
    ) -> None:
        self.ledger = ledger
        self.clock = clock
        self.protected = protected
        self.roster = Roster()
        self.tenure = Tenure(ledger, clock, rng, kind, lock_held, protected)
        self.sender = Sender(ledger, clock, self.tenure, self.roster)
        self.lanes = Lanes(self.sender, clock)
        self.spool = spool
        attaching = Attaching(spool, capabilities, clock)
        self.answers = Answers(ledger, clock, self.roster, split, self.lanes.hint, attaching, protected)
        typing = Typing(ledger, clock, self.roster)
        self.turner = Turner(ledger, clock, rng, self.tenure, agents, self.answers, typing)
        self.tenure.live_turns = lambda: tuple(self.turner.live)
        self.receiver = Receiver(ledger, rng, self.turner.hint, is_command)
        self.sender.answers_kept = lambda: self.answers.kept
        self.rescuer = Rescuer(
            ledger,
            clock,
            self.tenure,
            self.roster,
            self.lanes,
            self.turner.hint,
            kept=lambda: self.sender.kept + self.answers.kept,
            protected=protected,
        )
        self.pruner = Pruner(ledger, clock, spool)
        if not protected:
            # Rows already owed stay untouched and age.
            self.lanes.close()

    async def start(self) -> TakenOver:
        """Take over what dead owners left (committed when this returns) and start the loops.
        The receiver opens later, when its adapters are connected."""
        taken = await self.tenure.begin()
        self.rescuer.start()
        self.pruner.start()
        return taken

    async def enqueue(self, delivery: NewDelivery) -> Record:
        """Owe a notice from now on; it goes out when its lane is free."""
        record = await self.ledger.enqueue(delivery)
        self.lanes.hint(record.lane, record)
        return record

    async def stop(self) -> None:
        """No new inbound; turns get 30 s, sends in flight 10 s. What did not finish is
        exactly what its rows say."""
        crash.point("drain.before")
        self.receiver.open = False
        self.rescuer.turns_open = False
        await self.turner.drain(limits.drain_turns_s)
        await self.lanes.drain(limits.drain_sends_s)
        await self.rescuer.stop()
        await self.pruner.stop()
        crash.point("drain.after")
        await self.tenure.end()
