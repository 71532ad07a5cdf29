"""The operator's desk: ``deliveries`` with its orders, ``notify`` and ``chats``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from angelia.cli import ends
from angelia.cli.door import operator
from angelia.cli.show import (
    Column,
    iso,
    on_terminal,
    print_facts,
    print_json,
    print_line,
    print_table,
    printable,
    printable_lines,
    shortened,
    when,
    when_shortly,
)
from angelia.model.ids import Lane
from angelia.model.messages import well_formed
from angelia.model.states import Reason, State

if TYPE_CHECKING:
    from angelia.gateway.operator import DeliveryDetail, DeliveryView

deliveries = typer.Typer(
    help="List the deliveries in all states, newest first; or show, cancel, repeat or mark one.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
Delivery = Annotated[str, typer.Argument(metavar="ID", help="The id of a delivery.")]


@deliveries.callback(invoke_without_command=True)
def _list(
    context: typer.Context,
    state: Annotated[
        State | None,
        typer.Option(metavar="STATE", help=f"Only those in this state: {', '.join(State)}."),
    ] = None,
    chat: Annotated[str, typer.Option(metavar="CHAT", help="Only those of this chat.")] = "",
    parked: Annotated[
        bool, typer.Option("--parked", help="Only those that an old copy of the store owed: they ask first.")
    ] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1_000_000, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    if context.invoked_subcommand is not None:
        return
    found = operator().deliveries(state.value if state else "", well_formed(chat), limit, parked)
    if as_json:
        print_json([as_object(one) for one in found])
        return
    if not found:
        print_line("no deliveries" if not (state or chat or parked) else "no such deliveries")
        return
    columns = [
        Column("ID"),
        Column("STATE", styled=True),
        Column("WRITTEN"),
        Column("TO", may_shrink=True),
        Column("TEXT", may_shrink=True),
    ]
    print_table(columns, [_row(one) for one in found])
    if len(found) == limit:
        print(f"There may be more; --limit {limit * 10} shows more.", file=sys.stderr)


def _row(one: DeliveryView) -> list[str]:
    between = "\n" if on_terminal() else " "
    why = "parked" if one.parked else one.reason
    state = f"{one.state}{between}({why})" if why else one.state
    to = shortened(str(Lane(one.profile, one.platform, one.chat, one.thread)))
    return [one.id, state, when_shortly(one.created), to, shortened(one.text)]


def as_object(one: DeliveryView) -> dict[str, Any]:
    """A delivery as JSON tells it; the names are those of the glossary."""
    return {
        "id": one.id,
        "state": one.state,
        "reason": one.reason,
        "profile": one.profile,
        "platform": one.platform,
        "chat": one.chat,
        "thread": one.thread,
        "text": one.text,
        "parts": one.parts,
        "received": one.received,
        "redeliveries": one.redeliveries,
        "due": iso(one.due),
        "created": iso(one.created),
        "ended": iso(one.ended),
        "origin": one.origin,
        "turn": one.turn,
        "again_of": one.again_of,
        "parked": one.parked,
    }


@deliveries.command()
def show(delivery: Delivery, as_json: AsJson = False) -> None:
    """Show one delivery: its text, its parts and every attempt."""
    found = operator().show(delivery)
    if as_json:
        print_json(detail_object(found))
        return
    one = found.view
    facts = {
        "delivery": one.id,
        "state": f"{one.state} ({one.reason})" if one.reason else one.state,
        "to": printable(str(Lane(one.profile, one.platform, one.chat, one.thread))),
        "written": when(one.created),
        "parts": f"{one.received} of {one.parts} received",
        "redeliveries": str(one.redeliveries),
    }
    if one.parked:
        facts["parked"] = "an old copy of the store owed it, so it may have arrived: release or cancel it"
    if one.due is not None:
        facts["due"] = when(one.due)
    if one.ended is not None:
        facts["ended"] = when(one.ended)
    if one.again_of:
        facts["again of"] = one.again_of
    print_facts(facts)
    if found.attempts:
        print_line("")
        columns = [Column("ATTEMPT"), Column("PART"), Column("STARTED"), Column("OUTCOME")]
        columns += [Column("MARKER", may_shrink=True), Column("DETAIL", may_shrink=True)]
        print_table(
            columns,
            [
                [
                    str(a.number),
                    str(a.part),
                    when_shortly(a.started),
                    "proved absent" if a.absent else words(a.outcome),
                    shortened(a.marker),
                    shortened(a.detail),
                ]
                for a in found.attempts
            ],
        )
    print_line("")
    print_line(printable_lines(one.text))


def detail_object(found: DeliveryDetail) -> dict[str, Any]:
    """A delivery with its parts and attempts as JSON tells them."""
    return {
        **as_object(found.view),
        "reply_to": found.reply_to,
        "messages": [
            {"number": part.number, "text": part.text, "receipt": part.receipt}
            for part in found.record.live_parts
        ],
        "attempts": [
            {
                "number": a.number,
                "part": a.part,
                "revision": a.revision,
                "pass": a.pass_number,
                "owner": a.owner,
                "started": iso(a.started),
                "ended": iso(a.ended),
                "outcome": a.outcome,
                "detail": a.detail,
                "marker": a.marker,
                "absent": a.absent,
            }
            for a in found.attempts
        ],
    }


def words(name: str) -> str:
    """A name of the record as people read it."""
    return name.replace("_", " ")


@deliveries.command()
def cancel(delivery: Delivery) -> None:
    """Give up an owed delivery: it is not sent any more."""
    record = operator().cancel(delivery)
    print_line(f"delivery {record.id} is {record.state} ({record.reason})")


@deliveries.command("send-again")
def send_again(delivery: Delivery) -> None:
    """Send a final delivery once more, as a new one that carries the marker."""
    record = operator().send_again(delivery)
    print_line(record.id)
    print("It goes out within a second or two, or at the next start of the gateway.", file=sys.stderr)


@deliveries.command()
def release(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="The ids of parked deliveries.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every parked delivery.")] = False,
) -> None:
    """Let parked deliveries go: they are sent with the marker, which says that they may be duplicates.

    Parked is what a restored backup, or an old copy of the store put back, owed: it may have been
    sent since the copy was made.
    """
    if bool(ids) == everything:
        ends.fail("name the deliveries to release, or all of them with --all", ends.USAGE)
    released = operator().release(None if everything else ids)
    for delivery in released:
        print_line(delivery)
    said = f"{len(released)} released" if released else "nothing was parked"
    print(f"{said}; a gateway sends what is released within a second or two.", file=sys.stderr)


@deliveries.command("mark-delivered")
def mark_delivered(delivery: Delivery) -> None:
    """Take your word that a failed delivery arrived: it is not sent again."""
    record = operator().mark_delivered(delivery)
    print_line(f"delivery {record.id} is {record.state}")


def notify(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from standard input.")],
    to: Annotated[
        str,
        typer.Option("--to", metavar="PROFILE/PLATFORM/CHAT", help="Whom; the chat may contain : and /."),
    ],
    thread: Annotated[str, typer.Option(metavar="THREAD", help="The thread of the chat.")] = "",
    as_json: AsJson = False,
) -> None:
    """Send a notice, through the same ledger as every reply; also while the gateway is down.

    Prints the id of the delivery once it is on record.
    """
    from angelia.gateway.operator import AddressError

    if text == "-":
        text = _standard_input()
    desk = operator()
    try:
        record = desk.notify(to, thread, text)
    except AddressError as error:
        ends.fail(str(error), ends.USAGE)
    if as_json:
        print_json(as_object(desk.show(record.id).view))
    else:
        print_line(record.id)
    if record.reason == Reason.UNREACHABLE:
        ends.fail("the chat is known to be unreachable, so the notice was abandoned", ends.PROBLEMS)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        ends.fail("standard input holds no UTF-8 text", ends.USAGE)


def chats(as_json: AsJson = False) -> None:
    """List the chats: what is owed to them, who is unreachable or has moved, which waits hold."""
    found, waits = operator().chats()
    if as_json:
        print_json(
            {
                "chats": [
                    {
                        "profile": chat.profile,
                        "platform": chat.platform,
                        "chat": chat.chat,
                        "newest": iso(chat.newest),
                        "owed": chat.owed,
                        "unreachable_since": iso(chat.unreachable_since),
                        "detail": chat.detail,
                        "moved_to": chat.moved_to,
                    }
                    for chat in found
                ],
                "waits": [
                    {
                        "profile": wait.profile,
                        "platform": wait.platform,
                        "scope": wait.scope,
                        "subject": wait.subject,
                        "until": iso(wait.until),
                    }
                    for wait in waits
                ],
            }
        )
        return
    if not found:
        print_line("no chats")
    else:
        columns = [Column("CHAT", may_shrink=True), Column("NEWEST"), Column("OWED", justify="right")]
        print_table(
            [*columns, Column("CONDITION", may_shrink=True)],
            [
                [
                    shortened(str(Lane(chat.profile, chat.platform, chat.chat))),
                    when_shortly(chat.newest),
                    str(chat.owed),
                    _condition(chat.unreachable_since, chat.detail, chat.moved_to),
                ]
                for chat in found
            ],
        )
    for wait in waits:
        held = f"{wait.profile}/{wait.platform}" + ("" if wait.scope == "bot" else f" {wait.subject}")
        print_line(f"a rate limit ({wait.scope}) holds {printable(held)} until {when(wait.until)}")


def _condition(unreachable_since: int | None, detail: str, moved_to: str | None) -> str:
    if unreachable_since is not None:
        why = f": {shortened(detail, 40)}" if detail else ""
        return f"unreachable since {when(unreachable_since)}{why}"
    return f"moved to {shortened(moved_to, 40)}" if moved_to else ""


def add_to(app: typer.Typer) -> None:
    """Put these commands into ``app``."""
    app.add_typer(deliveries, name="deliveries")
    app.command()(notify)
    app.command()(chats)
