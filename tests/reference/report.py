"""What was seen, as markdown: a summary of both sides, then one table for each story."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.reference.environment import VERSION
from tests.reference.played import Row, Side
from tests.reference.stories import Story
from tests.reference.truth import Verdict

_COLUMNS: tuple[tuple[str, tuple[Verdict, ...]], ...] = (
    ("exactly once", (Verdict.ONCE,)),
    ("once, honest doubt", (Verdict.LABELLED,)),
    ("repeated, marked", (Verdict.MARKED,)),
    ("**repeated silently**", (Verdict.SILENT,)),
    ("**marker, surely not there**", (Verdict.NEEDLESS,)),
    ("**plain, maybe there**", (Verdict.LUCKY,)),
    ("**lost**", (Verdict.LOST,)),
    ("**made, not on record**", (Verdict.NOT_RECORDED,)),
    ("given up, rightly", (Verdict.GAVE_UP,)),
    ("no answer made", (Verdict.NOT_MADE,)),
)

_PREFACE = f"""\
# The same stories through two ledgers

The other ledger is that of **hermes-agent {VERSION}**, the newest release that the package registry
offered when this was written, run from the registry's wheel without a change. Its repository is ahead
of that release. By a public description two faults were fixed there after v0.21.4: a death in the
middle of a redelivery led to a second copy without the line (#120444), and a rebuilt adapter forgot
what it had seen (#120450); later versions also retry while they run. The tables show {VERSION}.

## What is played, and by whose code

Each life is a process of its own, killed by SIGKILL before or after every call below; the platform is
an HTTP server outside of it, and what it took is the truth. The order is not ours: the reference's own
functions call each other.

* **a start**: `SessionStore.suspend_recently_active` (`gateway/session.py`, not after a clean stop) →
  `GatewayRunner._redeliver_pending_obligations` (`gateway/run.py`): `sweep_recoverable` → for each
  row `adapter.send` → `mark_delivered` or `mark_failed` → `clear_resume_pending` →
  `GatewayRunner._schedule_resume_pending_sessions`, whose model runs are counted, not made.
* **a message**: `MessageDeduplicator.is_duplicate` (`gateway/platforms/helpers.py`; called by the
  adapters for Discord, Slack, Mattermost and others, one instance for each adapter) →
  `BasePlatformAdapter.handle_message` → `_process_message_background` (`gateway/platforms/base.py`):
  the turn → `record_obligation` → `mark_attempting` → `_send_with_retry` → `adapter.send`, up to three
  times and a plain-text fallback → `mark_delivered` or `mark_failed`.
* **ours**: the adapter's wire call, cut by the reference's `truncate_message`. A failure is reported as
  its Telegram adapter does (a repeat is safe unless the call timed out; the wait of a 429 is passed
  on), in one story as its Mattermost adapter does ("Failed to create post"). The repeats *within* its
  Telegram adapter's `send` are left out: they would add copies. Its pauses are skipped.
* In {VERSION} nothing redelivers while the gateway runs: `sweep_recoverable` is called at a start only.
  So there is no sweep beside a timer and none at a reconnect to play; *waits* counts the further
  starts, beyond one after each death, until nothing was owed any more.

What its own texts put out of scope: replies to slash commands and ephemeral ones are not recorded
("cheap to regenerate", `_process_message_background`); notices and scheduled messages never reach
`record_obligation` (it has one caller), so the ring's story *notify* has no counterpart; redelivery is
bounded to three tries and 24 hours; a failure of the ledger never blocks a send; everything that was
in flight or refused is redelivered "WITH a visible marker", "never a silent duplicate"
(`gateway/delivery_ledger.py`). A death between the model's answer and `record_obligation` is left to
the session store: the next start lets the model run again.

Words are compared, not messages, so the cutting of an answer does not matter; in the reference's favour
its line stands for all messages of one redelivery. *Marker, surely not there*: the line says "may be a
duplicate" although every earlier call was definitely refused and no death was in between.
*Plain, maybe there*: sent without a line after a call whose outcome was open; that no copy came of
it was luck.
"""


def report(theirs: Side, ours: Side | None, stories: Sequence[Story]) -> str:
    lines = [_PREFACE, "## Summary\n", *_summary(theirs, ours, stories)]
    for story in stories:
        if story.name in theirs.rows:
            lines += [f"\n## {story.name}\n", *_story(story, theirs, ours)]
    return "\n".join(lines) + "\n"


def _verdicts(rows: Sequence[Row]) -> Counter[Verdict]:
    return Counter(Verdict[name] for row in rows for names in row.verdicts for name in names)


def _cells(rows: Sequence[Row]) -> list[str]:
    found = _verdicts(rows)
    counts = [sum(found[verdict] for verdict in column) for _, column in _COLUMNS]
    tail = [sum(row.waited for row in rows), sum(row.again for row in rows) + sum(r.resumed for r in rows)]
    return [str(count) if count else "·" for count in (len(rows), *counts, *tail)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def _summary(theirs: Side, ours: Side | None, stories: Sequence[Story]) -> Iterator[str]:
    yield "Numbers are answers; one that was, say, repeated both ways counts in both columns. Bold: what a"
    yield "ledger should not do. *waits*: further starts until nothing was owed; *runs*: model runs beyond"
    yield "one for each message, made (Angelia) or made and scheduled (hermes-agent).\n"
    rows: list[list[str]] = []
    for side in (theirs, ours):
        if side is None:
            continue
        for story in stories:
            if story.name in side.rows:
                rows.append([side.name, story.name, *_cells(side.rows[story.name])])
        everything = [row for found in side.rows.values() for row in found]
        rows.append([f"**{side.name}**", "**all of these**", *_cells(everything)])
    yield from _table(["ledger", "story", "tellings", *(name for name, _ in _COLUMNS), "waits", "runs"], rows)


def _story(story: Story, theirs: Side, ours: Side | None) -> Iterator[str]:
    yield f"The platform: {', '.join(f'`{one}`' for one in story.script)}, the last one for ever."
    if story.note:
        yield f"Note: {story.note}."
    rows = theirs.rows[story.name]
    mine = ours.rows.get(story.name, []) if ours is not None else []
    for name, told in (("hermes-agent", rows), ("Angelia", mine)):
        if told and not told[0].kills:
            calls, waited = told[0].calls, told[0].waited
            yield f"Undisturbed, {name} makes {calls} wire calls and needs {waited} further starts."
    yield ""
    single = [row for row in rows if len(row.kills) < 2]
    yield from _table(
        ["hermes-agent dies or is held at", "what became of each answer", "waits", "runs"],
        [
            [_where(row), _said(row), str(row.waited or "·"), str(row.again + row.resumed or "·")]
            for row in single
        ],
    )
    twice = [row for row in rows if len(row.kills) == 2]
    if twice:
        yield f"\n{len(twice)} tellings with two places:\n"
        yield from _grouped(twice)
    yield ""
    if mine:
        yield f"Angelia, {len(mine)} tellings with {sum(row.deaths for row in mine)} deaths:\n"
        yield from _grouped(mine)
    else:
        yield f"Angelia, not played here: {story.argued or 'not asked for in this run'}."


def _where(row: Row) -> str:
    return ", then ".join(f"`{_short(kill)}`" for kill in row.kills) or "nowhere"


def _short(place: str) -> str:
    return place.removesuffix(":1")


def _said(row: Row) -> str:
    return "; ".join(" and ".join(_name(name) for name in names) for names in row.verdicts)


def _name(name: str) -> str:
    verdict = Verdict[name]
    fine = (Verdict.ONCE, Verdict.LABELLED, Verdict.MARKED, Verdict.GAVE_UP, Verdict.NOT_MADE)
    return verdict.value if verdict in fine else f"**{verdict.value}**"


def _grouped(rows: Sequence[Row]) -> Iterator[str]:
    """What became of how many, and where, as far as that is telling."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[_said(row)].append(row)
    table = []
    for said, found in sorted(groups.items(), key=lambda group: -len(group[1])):
        places: dict[str, list[str]] = defaultdict(list)
        for row in found:
            first, *second = [_short(kill) for kill in row.kills if kill != "nowhere:1"] or ["nowhere"]
            places[first].extend(f"`{one}`" for one in second)
        shown = "; ".join(
            f"`{first}`" + (f" then {', '.join(dict.fromkeys(then))}" if then else "")
            for first, then in places.items()
        )
        usual = "**" not in said and len(found) > 12
        table.append([said, str(len(found)), "(everywhere else)" if usual else shown])
    yield from _table(["what became of each answer", "tellings", "places"], table)
