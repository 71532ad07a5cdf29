"""When an owed row goes again, how often, and what the person reads in front of it."""

from __future__ import annotations

import asyncio

from tests.engine.stage import Stage

from angelia.model.outcomes import Accepted, NotSent, RateLimited, Refused, Unconfirmed
from angelia.platforms.base import Capabilities
from angelia.testing.fakes import Arrives, Held

UNCONFIRMED = "♻️ Recovered reply — the platform did not confirm it, so it may be a duplicate:\n\n"
RESTARTED = "♻️ Recovered reply — the gateway restarted while sending this, so it may be a duplicate:\n\n"
KEYED = Capabilities(text_limit=4096, key_window_s=180, call_limit_s=30)
READS = Capabilities(text_limit=4096, read_back=True)


async def test_a1_b4_unconfirmed_goes_again_after_30_s_and_2_min_each_with_the_marker(stage: Stage) -> None:
    at: list[int] = []

    def doubtful(_message: object) -> Unconfirmed:
        at.append(stage.clock.steady)
        return Unconfirmed("503")

    stage.platform(doubtful, doubtful, Accepted("ok"))
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(31)
    assert (at[1] - at[0]) // 1000 == 30
    await stage.advance(118)
    assert len(stage.talk.calls) == 2
    await stage.advance(2)
    assert stage.talk.texts == [UNCONFIRMED + "text"]
    assert (stage.record(id).state, stage.record(id).tries) == ("delivered", 1)


async def test_b5_after_two_timed_tries_it_rests_and_the_next_start_releases_it(stage: Stage) -> None:
    stage.platform(Arrives(), Arrives(), Arrives())
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(200)
    await stage.clock.jump(3600)
    await stage.advance(20)
    assert len(stage.talk.calls) == 3
    assert (stage.record(id).state, stage.record(id).due_at, stage.record(id).tries) == ("failed", None, 2)
    await node.connected()  # a connection is no start
    await stage.advance(30)
    assert len(stage.talk.calls) == 3
    await node.kill()
    await stage.start()
    await stage.advance(1)
    assert len(stage.talk.calls) == 4
    assert stage.talk.texts[0] == "text"
    assert stage.talk.texts[3].startswith("♻️ Recovered reply — the platform did not confirm it, so it may be")
    assert stage.record(id).state == "delivered"


async def test_b5_the_third_waits_two_minutes_from_the_last_attempt_also_after_a_start(stage: Stage) -> None:
    stage.platform(Arrives(), Arrives(), Arrives())
    node = await stage.start()
    await node.owe("text")
    await stage.advance(151)
    await node.kill()
    await stage.start()
    await stage.advance(110)
    assert len(stage.talk.calls) == 3
    await stage.advance(12)
    assert len(stage.talk.calls) == 4


async def test_b5_a_failed_third_abandons_for_the_operator_to_see(stage: Stage) -> None:
    stage.platform(otherwise=Unconfirmed("503"))
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(160)
    await node.stop()
    node = await stage.start()
    await stage.advance(130)
    assert (stage.record(id).state, stage.record(id).reason) == ("abandoned", "tries_used_up")
    await node.kill()
    await stage.start()
    await stage.advance(130)
    assert len(stage.talk.calls) == 4


async def test_b5_no_call_after_24_hours(stage: Stage) -> None:
    stage.platform(otherwise=Unconfirmed("503"))
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(160)
    await node.kill()
    await stage.clock.jump(24 * 3600)
    await stage.start()
    await stage.advance(10)
    assert len(stage.talk.calls) == 3
    assert (stage.record(id).state, stage.record(id).reason) == ("abandoned", "stale")


async def test_b17_only_owed_rows_younger_than_24_hours_go_out_oldest_first(stage: Stage) -> None:
    node = await stage.node().start(connect=False)
    await node.owe("too old")
    await stage.clock.jump(20 * 3600)
    for number in range(3):
        await node.owe(f"n{number}")
    await node.kill()
    await stage.clock.jump(10 * 3600)
    await stage.start()
    await stage.advance(10)
    assert stage.talk.texts == ["n0", "n1", "n2"]
    assert [record.state for record in stage.records()] == [
        "abandoned",
        "delivered",
        "delivered",
        "delivered",
    ]


async def test_a_definite_refusal_retried_in_time_is_plain(stage: Stage) -> None:
    stage.platform(Refused("not now"))
    node = await stage.start()
    await node.owe("text")
    await stage.advance(29)
    assert len(stage.talk.calls) == 1
    await stage.advance(2)
    assert stage.talk.texts == ["text"]


async def test_a_dropped_connection_says_so(stage: Stage) -> None:
    stage.platform(Arrives(Unconfirmed("reset", dropped=True)))
    node = await stage.start()
    await node.owe("text")
    await stage.advance(31)
    assert stage.talk.texts[1] == (
        "♻️ Recovered reply — the connection dropped before the platform confirmed it,"
        " so it may be a duplicate:\n\ntext"
    )


async def test_j8_a_marker_never_stacks_and_tells_the_age_after_ten_minutes(stage: Stage) -> None:
    stage.platform(*[Arrives()] * 3)
    node = await stage.start()
    await node.owe("text")
    await stage.advance(160)
    await stage.clock.jump(600)
    await stage.advance(10)
    await node.stop()
    await stage.start()
    await stage.advance(130)
    assert stage.talk.texts[2] == UNCONFIRMED + "text"
    assert stage.talk.texts[3].count("♻️") == 1
    assert " (written " in stage.talk.texts[3].splitlines()[0]
    assert stage.talk.texts[3].endswith(":\n\ntext")


async def test_a_reconnect_never_shortens_a_backoff(stage: Stage) -> None:
    stage.platform(Unconfirmed("?"))
    node = await stage.start()
    await node.owe("text")
    for _ in range(29):
        await stage.advance(1)
        await node.connect()
    assert len(stage.talk.calls) == 1
    await stage.advance(2)
    assert len(stage.talk.calls) == 2


async def test_a9_f2_a_doubt_in_the_third_of_four_parts_goes_on_there_with_the_marker(stage: Stage) -> None:
    stage.platform(Accepted("1"), Accepted("2"), Arrives())
    node = await stage.start()
    id = await node.owe("one", "two", "three", "four")
    await stage.advance(31)
    line = (
        "♻️ Recovered reply — the platform did not confirm it, continuing with part 3 of 4,"
        " so it may be a duplicate:"
    )
    assert stage.talk.texts == ["one", "two", "three", f"{line}\n\nthree", "four"]
    assert stage.record(id).state == "delivered"


async def test_f3_receipts_add_up_over_all_attempts(stage: Stage) -> None:
    def fails(_message: object) -> Unconfirmed:
        return Unconfirmed("503")

    stage.platform(Accepted("1"), fails, Accepted("2"), Accepted("3"), fails, Accepted("4"), Accepted("5"))
    node = await stage.start()
    id = await node.owe("p1", "p2", "p3", "p4", "p5")
    await stage.advance(300)
    assert [m.part for m in stage.talk.calls] == [1, 2, 2, 3, 4, 4, 5]
    assert [p.receipt for p in stage.record(id).parts] == ["1", "2", "3", "4", "5"]


# -- deaths -----------------------------------------------------------------------------------


async def test_b1_a_death_before_the_claim_leaves_a_row_that_goes_out_plain(stage: Stage) -> None:
    node = await stage.node().start(connect=False)
    await node.owe("text")
    await node.kill()
    await stage.start()
    assert stage.talk.texts == ["text"]


async def test_b1_a_death_in_flight_is_redelivered_at_once_with_the_marker(stage: Stage) -> None:
    never = asyncio.Event()
    stage.platform(Held(never, arrives_first=True))
    node = await stage.start()
    await node.owe("text")
    await node.kill()
    await stage.start()
    assert stage.talk.texts == ["text", RESTARTED + "text"]


async def test_b1_a_death_after_delivered_was_stored_sends_nothing_more(stage: Stage) -> None:
    node = await stage.start()
    await node.owe("text")
    await node.kill()
    await stage.start()
    await stage.advance(300)
    assert stage.talk.texts == ["text"]


async def test_b2_second_crash_during_recovery_is_labelled(stage: Stage) -> None:
    node = await stage.node().start(connect=False)
    await node.owe("text")
    await node.kill()
    stage.talk.script.append(Held(asyncio.Event(), arrives_first=True))
    node = await stage.start()  # sends, the platform accepts, nobody hears it
    await node.kill()
    await stage.start()
    assert stage.talk.texts == ["text", RESTARTED + "text"]


async def test_b3_starts_without_a_transport_spend_nothing(stage: Stage) -> None:
    node = await stage.node().start(connect=False)
    id = await node.owe("text")
    for _ in range(3):
        await node.kill()
        await stage.clock.jump(300)
        node = await stage.node().start(connect=False)
        await stage.advance(5)
    assert (stage.record(id).state, stage.record(id).tries, stage.record(id).fence) == ("pending", 0, 0)
    await node.connect()
    assert stage.talk.texts == ["text"]
    assert len(stage.record(id).attempts) == 1


async def test_b13_an_outage_of_three_minutes_kills_no_row(stage: Stage) -> None:
    def while_down(_message: object) -> Unconfirmed | Accepted:
        down = stage.clock.steady < began + 180_000
        return Unconfirmed("503") if down else Accepted("ok")

    stage.platform(otherwise=while_down)
    node = await stage.start()
    began = stage.clock.steady
    for number in range(20):
        await node.owe("text", chat=f"c{number}")
    await stage.advance(200)
    assert {record.state for record in stage.records()} == {"failed"}
    await node.stop()
    await stage.start()
    await stage.advance(80)
    assert {record.state for record in stage.records()} == {"delivered"}
    assert all(text.startswith("♻️") for text in stage.talk.texts)


async def test_a_crash_loop_does_not_burn_the_tries(stage: Stage) -> None:
    stage.platform(otherwise=Held(asyncio.Event()))
    node = await stage.start()
    await node.owe("text")
    for _ in range(6):  # each start finds a row that died in flight
        await node.kill()
        node = await stage.start()
        await stage.advance(1)
    assert len(stage.talk.calls) == 2  # the second after a death waits 30 s
    await stage.advance(30)
    assert len(stage.talk.calls) == 3


async def test_c12_a_row_makes_at_most_four_calls_in_its_life(stage: Stage) -> None:
    stage.platform(otherwise=RateLimited(1))
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(160)
    for _ in range(5):
        await stage.clock.jump(600)
        await stage.advance(10)
        await node.kill()
        node = await stage.start()
    assert len(stage.talk.calls) == 4
    assert (stage.record(id).state, stage.record(id).reason) == ("abandoned", "tries_used_up")


async def test_c12_claims_released_without_a_call_spend_nothing(stage: Stage) -> None:
    stage.platform(Unconfirmed("?"), *[NotSent("gone")] * 10)
    node = await stage.start()
    id = await node.owe("text")
    await stage.advance(400)
    assert len(stage.talk.calls) == 12
    record = stage.record(id)
    assert (record.state, record.tries, len(record.attempts)) == ("delivered", 0, 2)


async def test_f5_a_death_between_two_parts_goes_on_with_the_one_in_flight(stage: Stage) -> None:
    stage.platform(Accepted("1"), Accepted("2"), Held(asyncio.Event()))
    node = await stage.start()
    await node.owe("one", "two", "three", "four")
    await node.kill()
    await stage.start()
    assert [m.part for m in stage.talk.calls] == [1, 2, 3, 3, 4]
    assert "continuing with part 3 of 4, so it may be a duplicate" in stage.talk.texts[2]
    assert stage.talk.texts[3] == "four"


async def test_f5_a_death_before_a_receipt_was_stored_repeats_that_part_alone(stage: Stage) -> None:
    stage.platform(Accepted("1"), Held(asyncio.Event(), arrives_first=True))
    node = await stage.start()
    await node.owe("one", "two", "three")
    await node.kill()
    await stage.start()
    assert [m.part for m in stage.talk.seen] == [1, 2, 2, 3]
    assert [m.recovered for m in stage.talk.seen] == [False, False, True, False]


async def test_a3_an_answer_and_a_notice_in_doubt_have_the_same_fate(stage: Stage) -> None:
    stage.platform(Arrives(), Arrives())
    node = await stage.start()
    await node.owe("news", chat="job")
    await node.say("hello", chat="c")
    await stage.advance(31)
    assert stage.talk.texts_in("job") == ["news", UNCONFIRMED + "news"]
    assert stage.talk.texts_in("c") == ["You said: hello", UNCONFIRMED + "You said: hello"]


async def test_h7_owed_rows_are_never_pruned_whatever_their_number_and_age(stage: Stage) -> None:
    node = await stage.node().start(connect=False)
    for number in range(12):
        await node.owe("owed", chat=f"c{number}")
    await node.stop()
    await stage.clock.jump(8 * 24 * 3600)
    node = stage.node(protected=False)  # which touches no owed row
    await node.start(connect=False)
    await stage.advance(5)
    assert {record.state for record in stage.records()} == {"pending"}
    assert len(stage.records()) == 12


async def test_h9_delivered_and_abandoned_rows_are_pruned_after_seven_days(stage: Stage) -> None:
    stage.platform(Accepted("ok"), otherwise=Unconfirmed("503"))
    node = await stage.start()
    await node.owe("delivered")
    await node.owe("abandoned")
    await stage.clock.jump(25 * 3600)
    await stage.advance(15)
    assert [record.state for record in stage.records()] == ["delivered", "abandoned"]
    await stage.clock.jump(6 * 24 * 3600 + 23 * 3600)
    await stage.advance(15)
    assert [record.state for record in stage.records()] == ["abandoned"]
    await stage.clock.jump(2 * 3600)
    await stage.advance(15)
    assert stage.records() == []
    assert stage.ask("SELECT (SELECT count(*) FROM parts), (SELECT count(*) FROM attempts)") == [(0, 0)]
