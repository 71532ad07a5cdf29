"""The table of the canaries: each planted bug, what it costs people, and which rings find it.

``chosen`` are the tests that look for it in CI; ``found_by`` the whole rings that must find it
(``make canaries``); ``blind`` the rings that cannot, and why. A ring in neither is no promise:
it may see a bug or not, and the matrix says what it saw. ``says`` is what a find speaks of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.canaries.hunt import Quarry
from tests.simulation.mixture import THEMES

#: The simulated worlds of the matrix: each theme, and mixtures as chance draws them.
WORLDS = tuple(f"{theme}/{seed}" for theme in THEMES for seed in range(2)) + tuple(map(str, range(6)))

#: Every ring, by the tests that are it.
RINGS: Mapping[str, Quarry] = {
    "unit": Quarry(("tests/unit/test_dedup.py", "tests/unit/test_connection.py")),
    "exhaustive": Quarry(("tests/exhaustive",)),
    "property": Quarry(("tests/property",)),
    "conformance": Quarry(
        (
            "tests/conformance/test_sqlite_ledger.py",
            "tests/conformance/test_one_commit.py",
            "tests/conformance/test_failed_rows.py",
        )
    ),
    "engine": Quarry(("tests/engine",)),
    "simulation": Quarry(worlds=WORLDS),
    "crash points": Quarry(("tests/crash",)),
    "power loss": Quarry(("tests/powerloss",)),
}

#: What passes with every canary: it has one mistake and otherwise works.
SIGN_OF_LIFE = Quarry(("tests/engine/test_turns.py::test_a_message_is_one_run_and_one_answer",))


@dataclass(frozen=True)
class Canary:
    """One planted bug. ``patch`` is the name of its file without the ending."""

    patch: str
    story: str
    says: str
    chosen: Mapping[str, Quarry] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    blind: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.patch.partition("-")[2].replace("-", " ")

    @property
    def found_by(self) -> tuple[str, ...]:
        """The rings that must find it."""
        return (*self.chosen, *self.also)


NOTHING_PLANTED = Canary("00-nothing-planted", "the sources as they are: every ring passes", "")


def tests(*names: str) -> Quarry:
    return Quarry(tuple(f"tests/{name}" for name in names))


def exam(*questions: str) -> Quarry:
    return tests(*(f"conformance/test_sqlite_ledger.py::test_exam_inline[{name}]" for name in questions))


def worlds(*names: str) -> Quarry:
    return Quarry(worlds=names)


PURE = {"exhaustive": "it is about the pure model, which the mistake leaves as it is"}
NO_CUT = {"power loss": "what it cuts is the writer and its file, which the mistake leaves as they are"}
NO_ENGINE = {
    "property": "it drives the ledger, and no engine",
    "conformance": "it drives the ledger, and no engine",
}
NO_MEMORY = {"unit": "its two files are about deduplication in memory and the connection"}
#: What is left where a mistake is about something very particular.
REST = ("property", "conformance", "engine", "simulation", "crash points")
STORE = PURE | NO_CUT | NO_MEMORY
ENGINE = STORE | NO_ENGINE
MODEL = NO_CUT | NO_MEMORY

CANARIES: tuple[Canary, ...] = (
    Canary(
        "01-acknowledged-before-commit",
        "The platform hears that a message is taken before its commit: a crash loses the question.",
        r"acknowledged with 0 rows|was accepted \d times|DID NOT RAISE StoreUnavailable|Reception\.DUPLICATE"
        r"|did not happen in time: all is settled",
        {
            "engine": tests(
                "engine/test_store_trouble.py::test_an_inbound_that_cannot_be_stored_is_not_acknowledged_and_not_seen"
            ),
            "simulation": worlds("rough platforms/0"),
        },
        blind=ENGINE,
    ),
    Canary(
        "02-two-commits-where-one-is-needed",
        "Answering and owing are two commits: a crash between them loses the answer for good.",
        r"answered with 0 deliveries|half of an answer is on record|set\(\) == \{'delivered'\}",
        {"conformance": tests("conformance/test_one_commit.py")},
        ("simulation", "crash points"),
        blind=STORE,
    ),
    Canary(
        "03-settled-without-the-claim",
        "An outcome is stored without asking whose row it is: the dead write over the living.",
        r"AdvanceAnswer|STALE|stale|still in flight",
        {"conformance": exam("a_stale_claim_changes_nothing")},
        ("property",),
        blind=PURE | NO_CUT | NO_MEMORY,
    ),
    Canary(
        "04-synchronous-normal",
        "Commits wait for no sync: a power cut loses what people were told is safe.",
        r"synchronous|lost by a power cut",
        {
            "unit": tests("unit/test_connection.py::test_what_makes_a_commit_durable_is_set"),
            "power loss": tests(
                "powerloss/test_as_it_ships.py::test_the_connection_of_the_house_survives_every_power_cut[1-12]"
            ),
        },
        blind=PURE
        | dict.fromkeys(REST, "a killed process leaves the system's memory behind, and nothing is missing"),
    ),
    Canary(
        "05-marker-decided-after-the-claim",
        "The pass's own note in flight counts as an earlier attempt: first sends carry a marker.",
        r"marker|Recovered|♻",
        {
            "exhaustive": tests(
                "exhaustive/test_markers.py::test_what_goes_on_in_the_first_pass_stays_plain"
            ),
            "engine": tests(
                "engine/test_sending.py::test_f1_three_parts_go_out_in_order_each_with_its_receipt"
            ),
        },
        ("simulation",),
        blind=MODEL,
    ),
    Canary(
        "06-marker-by-the-last-outcome-only",
        "A refusal after a doubt makes the doubt forgotten: a second copy without a marker.",
        r"doubt|marker|copies|copy",
        {"exhaustive": tests("exhaustive/test_markers.py::test_doubt_stays_whatever_later_attempts_taught")},
        blind=MODEL,
    ),
    Canary(
        "07-failed-row-claimable-during-its-boot-send",
        "Who saw a row failed may claim it while another sends it: two gateways send it at once.",
        r"claimed while another sends it|claimed by several|without a valid claim|still in flight",
        {"conformance": tests("conformance/test_failed_rows.py")},
        ("simulation",),
        blind=STORE,
    ),
    Canary(
        "08-dedup-inside-the-adapter",
        "Only the connection remembers who was seen: after a reconnect old messages run again.",
        r"Reception\.DUPLICATE|is acknowledged with 2 rows|was accepted 2 times|all\(count == 1",
        {
            "engine": tests("engine/test_duplicates.py::test_e3_a_replay_after_a_restart_starts_nothing"),
            "simulation": worlds("rough platforms/0"),
        },
        blind=PURE | NO_CUT | NO_MEMORY,
    ),
    Canary(
        "09-seen-times-refreshed-on-adoption",
        "Every reconnect makes all seen ids young again: they never expire, and the times on record lie.",
        r"seen_at|is_duplicate|contains|assert",
        {
            "unit": tests(
                "unit/test_dedup.py::test_e2_seen_set_rebuilt_with_its_adapter_keeps_the_original_times",
                "unit/test_dedup.py::test_of_an_id_that_both_know_the_earlier_sight_counts",
            )
        },
        blind=PURE
        | NO_CUT
        | dict.fromkeys(
            REST, "the gateway keeps its keys in the store; the class is for those who embed only that"
        ),
    ),
    Canary(
        "10-claim-without-an-attempt",
        "A claim writes no part in flight: who dies while sending leaves no doubt, and the copy comes plain.",
        r"a_claim_puts_owner_fence_and_attempt|so it may be a duplicate|without a valid claim"
        r"|half of a claim|unmarked second copy|2 <= \(1 \+ 0\)",
        {
            "conformance": exam("a_claim_puts_owner_fence_and_attempt_on_record_at_once"),
            "engine": tests(
                "engine/test_redelivery.py::test_b1_a_death_in_flight_is_redelivered_at_once_with_the_marker"
            ),
        },
        ("crash points", "simulation"),
        blind=PURE | NO_CUT | NO_MEMORY,
    ),
    Canary(
        "11-rate-limit-lost-at-a-start",
        "A start brings all that is owed forward: it calls inside the platform's penalty and is banned.",
        r"calls|HELD|due|limit|wait",
        {
            "conformance": exam("a_limited_row_survives_a_restart_inside_its_wait"),
            "engine": tests(
                "engine/test_rate_limits.py::test_c3_a_penalty_spans_a_restart_without_starting_over"
            ),
        },
        blind=PURE | NO_CUT | NO_MEMORY,
    ),
    Canary(
        "12-late-receipt-dropped",
        "A platform's yes that comes after the lease is thrown away: the reply is sent a second time.",
        r"receipt|calls|seen|texts",
        {
            "engine": tests(
                "engine/test_tenure.py::test_a_late_receipt_is_a_fact_also_when_another_claim_is_in_force"
            )
        },
        blind=ENGINE,
    ),
    Canary(
        "13-key-reused-for-a-changed-text",
        "A changed text goes out under the old key: the platform takes it for the old one and swallows it.",
        r"so it may be a duplicate|without a valid claim|other bytes|under its key",
        {
            "engine": tests(
                "engine/test_doubt.py::test_a5_after_the_window_it_goes_under_a_new_key_with_the_marker"
            )
        },
        blind=ENGINE,
    ),
    Canary(
        "14-owed-rows-pruned",
        "Whoever waits longer than a week is swept away with the old rows: a reply is lost without a word.",
        r"UnknownIdError|record|pruned|owed|assert",
        {
            "conformance": exam("owed_rows_are_never_pruned"),
            "engine": tests(
                "engine/test_redelivery.py::test_h7_owed_rows_are_never_pruned_whatever_their_number_and_age"
            ),
        },
        blind=PURE | NO_CUT | NO_MEMORY,
    ),
    Canary(
        "15-third-redelivery-by-timer",
        "The last try is spent while the trouble still lasts: nothing is left when the gateway is mended.",
        r"rests|calls|Rest|due",
        {
            "exhaustive": tests(
                "exhaustive/test_next_step.py::test_the_third_redelivery_waits_for_a_start_and_then_two_minutes"
            ),
            "engine": tests(
                "engine/test_redelivery.py::test_b5_after_two_timed_tries_it_rests_and_the_next_start_releases_it"
            ),
        },
        blind=MODEL,
    ),
    Canary(
        "16-lease-not-checked-before-the-first-byte",
        "Who froze after the claim sends when it wakes, although another has taken over: an unmarked copy.",
        r"calls|texts|copy|copies|arrived|lease",
        {
            "engine": tests(
                "engine/test_tenure.py::test_who_freezes_before_the_first_byte_past_its_lease_sends_nothing"
            )
        },
        blind=ENGINE
        | {"simulation": "what a thawed sender sends late is the residue that its checker excuses"},
    ),
    Canary(
        "17-unprotected-send-forgotten",
        "What was sent while the store was away is owed afresh when it is back: sent twice, both plain.",
        r"texts|calls|copies|arrived|attempts|seen",
        {
            "engine": tests(
                "engine/test_store_trouble.py::test_once_the_store_is_back_the_attempt_is_committed_with_the_answer"
            )
        },
        blind=ENGINE | {"crash points": "none of its stories takes the store away"},
    ),
    Canary(
        "18-interruptions-not-counted",
        "A question that kills the gateway runs at every start again, for ever, and is paid each time.",
        r"interruptions|runs|waiting|gave_up|INTERRUPTED",
        {
            "conformance": exam("a_second_interruption_tells_the_person"),
            "engine": tests(
                "engine/test_interruptions.py::test_after_a_second_death_the_person_is_told_to_send_it_again"
            ),
        },
        blind=PURE | NO_CUT | NO_MEMORY,
    ),
)
