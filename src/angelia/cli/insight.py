"""What explains: ``why`` an answer came as it came, the ``status`` of the house, the ``doctor``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from angelia.cli import ends
from angelia.cli.desk import AsJson, as_object, detail_object, words
from angelia.cli.door import operator
from angelia.cli.show import (
    STYLES,
    iso,
    print_facts,
    print_json,
    print_line,
    printable,
    shortened,
    span,
    when,
)
from angelia.model.ids import Lane
from angelia.model.messages import well_formed

if TYPE_CHECKING:
    from angelia.gateway.doctor import Finding
    from angelia.gateway.operator import DeliveryView, Timeline

# -- why -----------------------------------------------------------------------------------------


def why(
    name: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a delivery, or a platform's id of a message.")
    ],
    as_json: AsJson = False,
) -> None:
    """Tell the story behind an answer: how often the model ran, how often it was sent, and why.

    The last line is the verdict; it begins with the number of model runs.
    """
    story, verdict = operator().why(well_formed(name))
    if as_json:
        print_json(_story_object(story, verdict))
        return
    if story.matches > 1:
        print_line(f"{printable(name)} names {story.matches} messages; this is the newest.")
    for at, said in sorted(_events(story), key=lambda event: event[0]):
        print_line(f"{when(at)}  {said}")
    print_line("")
    print_line(verdict, "bold")


def _events(story: Timeline) -> Iterator[tuple[int, str]]:
    """What happened, each with its time in milliseconds."""
    for question in story.questions:
        name = printable(question.user_name or question.user)
        yield question.first_seen, f"first seen: {name} wrote “{shortened(question.text)}”"
    for number, run in enumerate(story.runs, 1):
        model = f" of {printable(run.model)}" if run.model else ""
        yield run.started, f"model run {number}{model} started"
        if run.ended is not None:
            detail = f": {shortened(run.detail)}" if run.detail else ""
            usage = _usage(run.input_tokens, run.output_tokens)
            yield run.ended, f"model run {number} ended: {words(run.ending)}{usage}{detail}"
    for delivery in story.deliveries:
        one = delivery.view
        parts = f", {one.parts} parts" if one.parts > 1 else ""
        again = f", again of {one.again_of}" if one.again_of else ""
        yield one.created, f"delivery {one.id} written{parts}{again}"
        for attempt in delivery.attempts:
            part = f" of part {attempt.part}" if one.parts > 1 else ""
            yield attempt.started, f"attempt {attempt.number}{part} {_outcome(attempt)}"
        if one.ended is not None:
            reason = f" ({words(one.reason)})" if one.reason else ""
            yield one.ended, f"delivery {one.id} {one.state}{reason}"


def _usage(input_tokens: int | None, output_tokens: int | None) -> str:
    if input_tokens is None and output_tokens is None:
        return ""
    said = ["?" if count is None else str(count) for count in (input_tokens, output_tokens)]
    return f", {said[0]} tokens in, {said[1]} out"


def _outcome(attempt: Any) -> str:
    marker = ", with the marker" if attempt.marker else ""
    detail = f": {shortened(attempt.detail)}" if attempt.detail else ""
    absent = " (read back: it had not arrived)" if attempt.absent else ""
    return f"({words(attempt.outcome)}{marker}){absent}{detail}"


def _story_object(story: Timeline, verdict: str) -> dict[str, Any]:
    return {
        "id": story.id,
        "found": story.found,
        "matches": story.matches,
        "verdict": verdict,
        "questions": [
            {
                "message_id": one.message_id,
                "user": one.user,
                "user_name": one.user_name,
                "text": one.text,
                "sent": iso(one.sent),
                "first_seen": iso(one.first_seen),
            }
            for one in story.questions
        ],
        "turn": story.turn
        and {
            "id": story.turn.id,
            "kind": story.turn.kind,
            "state": story.turn.state,
            "reason": story.turn.reason,
            "received": iso(story.turn.received),
            "ended": iso(story.turn.ended),
            "interruptions": story.turn.interruptions,
        },
        "runs": [
            {
                "id": run.id,
                "model": run.model,
                "started": iso(run.started),
                "ended": iso(run.ended),
                "ending": run.ending,
                "detail": run.detail,
                "input_tokens": run.input_tokens,
                "output_tokens": run.output_tokens,
            }
            for run in story.runs
        ],
        "deliveries": [detail_object(one) for one in story.deliveries],
    }


# -- status --------------------------------------------------------------------------------------


def status(as_json: AsJson = False) -> None:
    """Say whether the gateway runs, what is owed, and what is in the way."""
    health, store, now = operator().status()
    if as_json:
        print_json(
            {
                "running": health.running,
                "health": health.status,
                "address": health.address,
                "process": health.process,
                "started": iso(health.started_at or None),
                "reasons": list(health.reasons),
                "deliveries": store.deliveries if store else {},
                "turns": store.turns if store else {},
                "oldest_owed": iso(store.oldest_owed) if store else None,
                "due": store.due if store else 0,
                "resting": store.resting if store else 0,
                "parked": store.parked if store else 0,
                "unreachable": len(store.unreachable) if store else 0,
                "waits": len(store.waits) if store else 0,
            }
        )
        return
    facts = {"gateway": _gateway_words(health.status, health.address, health.process)}
    if health.started_at:
        facts["started"] = f"{when(health.started_at)}, {span(now - health.started_at)} ago"
    if health.reasons:
        facts["in the way"] = "; ".join(health.reasons)
    if store is None:
        facts["store"] = "there is none yet; the first start makes it"
    else:
        facts["deliveries"] = ", ".join(f"{count} {state}" for state, count in store.deliveries.items())
        facts["turns"] = ", ".join(f"{count} {words(state)}" for state, count in store.turns.items())
        if store.oldest_owed is not None:
            facts["oldest owed"] = f"{when(store.oldest_owed)}, {span(now - store.oldest_owed)} ago"
            idle = store.deliveries["pending"] + store.deliveries["failed"]
            waiting = max(0, idle - store.due - store.resting - store.parked)
            facts["owed"] = (
                f"{store.due} due now, {waiting} waiting for a due time or an open chat, "
                f"{store.resting} resting until the next start"
            )
        if store.parked:
            facts["parked"] = f"{store.parked}, owed by an old copy: angelia deliveries --parked"
        facts["unreachable"] = f"{len(store.unreachable)} chat{'s' * (len(store.unreachable) != 1)}"
        facts["rate limits"] = str(len(store.waits))
    print_facts(facts)


def _gateway_words(health: str, address: str, process: int) -> str:
    return {
        "ok": f"runs at {address} (process {process})",
        "unavailable": f"runs at {address} (process {process}), but does not accept messages now",
        "silent": f"runs (process {process}), but does not answer at {address}",
        "starting": f"is starting (process {process})",
        "down": "is not running",
    }.get(health, health)


# -- doctor --------------------------------------------------------------------------------------


def doctor(as_json: AsJson = False) -> None:
    """Examine the home: configuration, credentials, durability, store, and what would be sent.

    Changes and sends nothing. Ends with 0 if all is well (warnings included), 1 if there are
    problems, 78 if configuration or store cannot be used.
    """
    from angelia.gateway.doctor import Level, examine, would_send
    from angelia.gateway.home import default_home

    home = default_home(os.environ)
    findings = examine(home, os.environ)
    owed = would_send(home, os.environ)
    levels = {finding.level for finding in findings}
    code = ends.OK
    if Level.UNUSABLE in levels:
        code = ends.CONFIGURATION
    elif Level.PROBLEM in levels:
        code = ends.PROBLEMS
    if as_json:
        print_json(
            {
                "exit": code,
                "findings": [
                    {"area": one.area, "level": one.level.value, "sentence": one.sentence} for one in findings
                ],
                "would_send": None if owed is None else [as_object(one) for one in owed],
            }
        )
        raise typer.Exit(code)
    _print_findings(findings)
    print_line("")
    _print_owed(owed)
    raise typer.Exit(code)


def _print_owed(owed: list[DeliveryView] | None) -> None:
    if owed is None:
        print_line("What is owed cannot be read.")
        return
    if not owed:
        print_line("Nothing is owed: a start would send nothing.")
        return
    parked = [one for one in owed if one.parked]
    going = [one for one in owed if not one.parked]
    if going:
        print_line(f"{len(going)} owed, oldest first; a gateway sends them when they are due:")
        _print_twenty(going, "angelia deliveries")
    if parked:
        print_line(
            f"{len(parked)} parked, oldest first; they may have arrived, and are sent once you say so:"
        )
        _print_twenty(parked, "angelia deliveries --parked")


def _print_twenty(owed: list[DeliveryView], all_of_them: str) -> None:
    for one in owed[:20]:
        to = shortened(str(Lane(one.profile, one.platform, one.chat, one.thread)))
        print_line(f"  {one.id}  {when(one.created)}  {one.state}  {to}  {shortened(one.text, 40)}")
    if len(owed) > 20:
        print_line(f"  and {len(owed) - 20} more: {all_of_them}")


def _print_findings(findings: list[Finding]) -> None:
    area = ""
    for one in findings:
        if one.area != area:
            area = one.area
            print_line(area, "bold")
        sign = "" if one.level == "ok" else f"{one.level.value.upper()}: "
        print_line(f"  {sign}{printable(one.sentence)}", STYLES[one.level] if sign else "")


def add_to(app: typer.Typer) -> None:
    """Put these commands into ``app``."""
    app.command()(status)
    app.command()(why)
    app.command()(doctor)
