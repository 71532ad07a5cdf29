"""The marker against guarantees §5: its sentences, and when it must and must not stand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from angelia.model import markers
from angelia.model.ids import Lane
from angelia.model.markers import Cause, Facts, facts, line, with_line
from angelia.model.record import Attempt, Ending, Record, Revision, Role, fresh_parts
from angelia.model.states import State

WRITTEN = 1_783_944_180_000  # 2026-07-13 12:03 UTC
MINUTE = 60_000
SOON = WRITTEN + MINUTE
OLD = WRITTEN + 10 * MINUTE + 1
START = "♻️ Recovered reply — "

CAUSES = {
    Cause.RESTARTED: "the gateway restarted while sending this",
    Cause.TAKEN_OVER: "another gateway took this over",
    Cause.DROPPED: "the connection dropped before the platform confirmed it",
    Cause.UNCONFIRMED: "the platform did not confirm it",
    Cause.RATE_LIMITED: "the platform's rate limit delayed this",
    Cause.REROUTED: "its topic is gone, so it comes here",
    Cause.DELAYED: "this was delayed",
    Cause.REQUESTED: "sent again on request",
}
OF_ENDING = {
    Ending.DIED: Cause.RESTARTED,
    Ending.TAKEN_OVER: Cause.TAKEN_OVER,
    Ending.DROPPED: Cause.DROPPED,
    Ending.UNCONFIRMED: Cause.UNCONFIRMED,
    Ending.RATE_LIMITED: Cause.RATE_LIMITED,
    Ending.REFUSED: Cause.DELAYED,
    Ending.BAD_CREDENTIAL: Cause.DELAYED,
}
UNCLEAR = (Ending.DIED, Ending.TAKEN_OVER, Ending.DROPPED, Ending.UNCONFIRMED)
CLEAR = (Ending.REFUSED, Ending.BAD_CREDENTIAL)


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The gateway's own time zone, with summer time, written without any zone file."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


def record_of(*attempts: tuple[int, Ending, int], parts: int = 3, **facts_: object) -> Record:
    """A failed record with these attempts: (part, ending, fence). Accepted parts have receipts."""
    received = {part for part, ending, _ in attempts if ending is Ending.ACCEPTED}
    record = Record(
        id="d",
        seq=1,
        lane=Lane("default", "web", "c", "t"),
        state=State.FAILED,
        written_at=WRITTEN,
        parts=tuple(
            replace(p, receipt="r") if p.number in received else p
            for p in fresh_parts(f"text {i}" for i in range(1, parts + 1))
        ),
        fence=max((fence for _, _, fence in attempts), default=0),
        revisions=tuple(Revision(i, 1) for i in range(1, parts + 1)),
        attempts=tuple(
            Attempt(number, part, 1, fence, WRITTEN + number, ended_at=WRITTEN + number, ending=ending)
            for number, (part, ending, fence) in enumerate(attempts, 1)
        ),
    )
    return replace(record, **facts_)  # type: ignore[arg-type]


def said(record: Record, wall: int = SOON, part_receipts: bool = True) -> str | None:
    """The line in front of the next message, or ``None``."""
    assert record.missing is not None
    found = facts(record, record.missing, wall, part_receipts)
    return None if found is None else line(found)


# -- the sentences ---------------------------------------------------------------------------


def test_every_sentence_of_the_catalogue() -> None:
    """Cause + progress + doubt + age + colon: every combination, exactly."""
    seen = set()
    progresses = ((None, None, ""), (2, 3, ", continuing with part 2 of 3"))
    questions = (
        (False, False, ""),
        (True, False, ", so it may be a duplicate"),
        (False, True, ", so earlier parts may already have arrived"),
        (True, True, ", so earlier parts may already have arrived"),
    )
    ages = ((None, ""), (WRITTEN, " (written 14:03 +02:00)"))
    assert set(CAUSES) == set(Cause)
    for (cause, words), (k, n, progress), (doubt, earlier, question), (written, age) in product(
        CAUSES.items(), progresses, questions, ages
    ):
        sentence = line(Facts(cause, doubt, earlier, k, n, written))
        assert sentence == f"{START}{words}{progress}{question}{age}:"
        assert "\n" not in sentence
        seen.add(sentence)
    assert len(seen) == 8 * 2 * 3 * 2


def test_the_sentence_of_the_guarantees() -> None:
    assert line(Facts(Cause.RESTARTED, True, False, 2, 3, WRITTEN)) == (
        "♻️ Recovered reply — the gateway restarted while sending this, continuing with part 2 of 3, "
        "so it may be a duplicate (written 14:03 +02:00):"
    )


def test_one_line_and_an_empty_line_stand_before_the_text() -> None:
    assert with_line("the line:", "the text\nof two lines") == "the line:\n\nthe text\nof two lines"


def test_no_sentence_is_longer_than_any_platform_allows() -> None:
    longest = max(len(line(Facts(c, True, e, 98, 99, WRITTEN))) for c in Cause for e in (True, False))
    assert longest <= 200


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC0", "12:03 +00:00"),
        ("NST3:30", "08:33 -03:30"),
        ("IST-5:30", "17:33 +05:30"),
        ("XXX12", "00:03 -12:00"),
    ],
)
def test_age_is_the_gateways_local_time(monkeypatch: pytest.MonkeyPatch, zone: str, shown: str) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        assert f" (written {shown}):" in line(Facts(Cause.DELAYED, written_at=WRITTEN))


def test_age_follows_winter_time() -> None:
    winter = WRITTEN + 180 * 24 * 60 * MINUTE
    assert "(written 13:03 +01:00)" in line(Facts(Cause.DELAYED, written_at=winter))


# -- doubt -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", UNCLEAR)
@pytest.mark.parametrize("later", [*UNCLEAR, *CLEAR, Ending.RATE_LIMITED, Ending.BAD_MARKUP, Ending.MOVED])
def test_doubt_stays_whatever_later_attempts_taught(ending: Ending, later: Ending) -> None:
    record = record_of((1, ending, 1), (1, later, 2), parts=1)
    cause = CAUSES[OF_ENDING.get(later, OF_ENDING[ending])]
    assert said(record) == f"{START}{cause}, so it may be a duplicate:"


@pytest.mark.parametrize("ending", UNCLEAR)
def test_no_doubt_once_a_look_up_found_nothing(ending: Ending) -> None:
    record = record_of((1, ending, 1), parts=1)
    absent = replace(record, attempts=tuple(replace(a, absent=True) for a in record.attempts))
    assert said(absent) is None


def test_doubt_of_one_part_is_not_the_doubt_of_another() -> None:
    record = record_of((1, Ending.UNCONFIRMED, 1), (1, Ending.ACCEPTED, 2), (2, Ending.REFUSED, 2))
    assert said(record) == f"{START}this was delayed, continuing with part 2 of 3:"


def test_a_line_in_doubt_is_no_doubt_about_the_part() -> None:
    record = record_of((1, Ending.RATE_LIMITED, 1), (1, Ending.UNCONFIRMED, 2), parts=1)
    line_only = replace(record, revisions=(Revision(1, 1, role=Role.LINE),))
    assert "duplicate" not in (said(line_only) or "")


def test_children_inherit_the_doubt_of_the_part_they_were_split_from() -> None:
    record = record_of((1, Ending.UNCONFIRMED, 1), (1, Ending.TOO_LONG, 2), parts=1)
    parent = replace(record.parts[0], replaced=True)
    child = replace(record.parts[0], number=2, parent=1, position=parent.position + 1)
    assert ", so it may be a duplicate:" in (said(replace(record, parts=(parent, child))) or "")


def test_b2_a_row_that_an_older_build_claimed_while_pending_is_in_doubt() -> None:
    record = record_of(parts=1, inherited_doubt=True, state=State.PENDING)
    assert said(record) == f"{START}the gateway restarted while sending this, so it may be a duplicate:"


@pytest.mark.parametrize("ending", [*UNCLEAR, *CLEAR, Ending.RATE_LIMITED])
def test_where_nobody_can_tell_which_parts_arrived(ending: Ending) -> None:
    """Every redelivery of several parts says so, even after a definite refusal."""
    record = record_of((1, ending, 1))
    cause = CAUSES[OF_ENDING[ending]]
    assert said(record, part_receipts=False) == f"{START}{cause}, so earlier parts may already have arrived:"
    alone = record_of((1, ending, 1), parts=1)
    assert said(alone, part_receipts=False) == said(alone)


def test_the_first_send_needs_no_word_about_earlier_parts() -> None:
    claimed = record_of((1, Ending.ACCEPTED, 1), state=State.ATTEMPTING)
    assert said(claimed, part_receipts=False) is None


# -- cause -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "newest"), list(product(OF_ENDING, OF_ENDING)))
def test_cause_is_the_newest_interruption(first: Ending, newest: Ending) -> None:
    record = record_of((1, Ending.ACCEPTED, 1), (2, first, 1), (2, newest, 2))
    assert (said(record) or "").startswith(START + CAUSES[OF_ENDING[newest]])


def test_cause_of_a_part_that_was_never_called_is_a_delay() -> None:
    assert (
        said(record_of((1, Ending.ACCEPTED, 1))) == f"{START}this was delayed, continuing with part 2 of 3:"
    )


def test_cause_is_a_re_route_before_the_first_message_in_the_chat_itself() -> None:
    record = record_of((1, Ending.THREAD_GONE, 1), parts=1, rerouted=True, state=State.ATTEMPTING)
    assert said(record) == f"{START}its topic is gone, so it comes here:"


def test_a_re_route_is_told_once() -> None:
    record = record_of(
        (1, Ending.THREAD_GONE, 1), (1, Ending.ACCEPTED, 1), rerouted=True, state=State.ATTEMPTING
    )
    assert said(record) is None


def test_a_re_route_within_the_pass_puts_the_line_before_that_message() -> None:
    record = record_of(
        (1, Ending.ACCEPTED, 1), (2, Ending.THREAD_GONE, 1), rerouted=True, state=State.ATTEMPTING
    )
    assert said(record) == f"{START}its topic is gone, so it comes here, continuing with part 2 of 3:"


def test_cause_on_request() -> None:
    record = record_of(parts=1, requested=True, state=State.PENDING)
    assert said(record) == f"{START}sent again on request:"


# -- progress and age ------------------------------------------------------------------------


@pytest.mark.parametrize("done", [1, 2])
def test_progress_when_earlier_parts_have_receipts(done: int) -> None:
    accepted = [(part, Ending.ACCEPTED, 1) for part in range(1, done + 1)]
    record = record_of(*accepted, (done + 1, Ending.REFUSED, 1))
    assert said(record) == f"{START}this was delayed, continuing with part {done + 1} of 3:"


def test_no_progress_without_a_receipt() -> None:
    assert "continuing" not in (said(record_of((1, Ending.DIED, 1))) or "")


@pytest.mark.parametrize(("wall", "shown"), [(WRITTEN + 10 * MINUTE, False), (OLD, True)])
def test_age_only_when_older_than_ten_minutes(wall: int, shown: bool) -> None:
    assert ("(written 14:03 +02:00)" in (said(record_of((1, Ending.DIED, 1)), wall) or "")) is shown


# -- when there is a marker, and when not ----------------------------------------------------


@pytest.mark.parametrize("wall", [SOON, OLD, WRITTEN + 23 * 60 * MINUTE])
@pytest.mark.parametrize("overtaken", [False, True])
@pytest.mark.parametrize("state", [State.PENDING, State.ATTEMPTING])
def test_never_attempted_goes_out_plain_however_late(wall: int, overtaken: bool, state: State) -> None:
    assert said(record_of(state=state, overtaken=overtaken, fence=5), wall) is None


@pytest.mark.parametrize("ending", CLEAR)
def test_a_definite_refusal_retried_in_time_is_plain(ending: Ending) -> None:
    assert said(record_of((1, ending, 1))) is None


@pytest.mark.parametrize("ending", CLEAR)
def test_a_definite_refusal_that_was_overtaken_or_is_old_is_marked(ending: Ending) -> None:
    assert said(record_of((1, ending, 1), overtaken=True)) == f"{START}this was delayed:"
    assert said(record_of((1, ending, 1)), OLD) == f"{START}this was delayed (written 14:03 +02:00):"


def test_a_rate_limit_is_marked_and_says_only_what_is_on_record() -> None:
    assert said(record_of((1, Ending.RATE_LIMITED, 1))) == f"{START}the platform's rate limit delayed this:"
    gained = record_of((1, Ending.ACCEPTED, 1), (2, Ending.RATE_LIMITED, 1))
    assert said(gained) == f"{START}the platform's rate limit delayed this, continuing with part 2 of 3:"


@pytest.mark.parametrize("ending", [Ending.BAD_MARKUP, Ending.ANCHOR_GONE, Ending.MOVED])
def test_what_goes_on_in_the_first_pass_stays_plain(ending: Ending) -> None:
    assert said(record_of((1, ending, 1), state=State.ATTEMPTING), OLD) is None


@pytest.mark.parametrize("ending", [*OF_ENDING])
def test_only_the_first_message_of_a_redelivery_is_marked(ending: Ending) -> None:
    record = record_of((1, ending, 1), (1, Ending.ACCEPTED, 2), state=State.ATTEMPTING)
    assert said(replace(record, overtaken=True), OLD) is None
    assert said(replace(record, requested=True)) is None


def test_this_passes_own_note_in_flight_is_no_earlier_attempt() -> None:
    """A doubt is decided from the record before the claim; this pass's note does not count."""
    record = record_of((1, Ending.DIED, 1), parts=1, fence=0)
    in_flight = replace(
        record,
        state=State.ATTEMPTING,
        fence=1,
        attempts=tuple(replace(a, ending=None, ended_at=None) for a in record.attempts),
    )
    assert said(in_flight) is None


def test_the_marker_is_built_from_the_catalogue_alone() -> None:
    assert markers.OPENING == START
    assert {str(c) for c in Cause} == set(CAUSES.values())
