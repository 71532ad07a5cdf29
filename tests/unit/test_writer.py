"""The writer: told means committed, one faulty verb harms nobody, the thread lives on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from angelia.model.errors import StoreUnavailableError, TryAgainError
from angelia.seams import crash
from angelia.store.connection import StoreBusy, open_connection
from angelia.store.writer import Writer

patience_s = 10.0  # no test waits longer than this for anything


class Store:
    """A store file with one table, and a writer on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened = 0
        self.commits = 0
        with self.look() as connection:
            connection.execute(
                "CREATE TABLE note (id INTEGER PRIMARY KEY, parent INTEGER "
                "REFERENCES note DEFERRABLE INITIALLY DEFERRED)"
            )
        self.writer = Writer(self.open)

    def open(self) -> apsw.Connection:
        connection = open_connection(self.path)
        self.opened += 1
        connection.set_commit_hook(self.count)
        return connection

    def count(self) -> bool:
        self.commits += 1
        return False

    def look(self) -> apsw.Connection:
        return open_connection(self.path)

    def ids(self) -> list[int]:
        return [row[0] for row in self.look().execute("SELECT id FROM note ORDER BY id")]


def add(number: int, parent: int | None = None) -> Callable[[apsw.Connection], int]:
    def work(connection: apsw.Connection) -> int:
        connection.execute("INSERT INTO note VALUES (?, ?)", (number, parent))
        return number

    return work


def add_and_raise(number: int, error: BaseException) -> Callable[[apsw.Connection], int]:
    def work(connection: apsw.Connection) -> int:
        connection.execute("INSERT INTO note VALUES (?, NULL)", (number,))
        raise error

    return work


class Gate:
    """A verb that holds the writer thread, so that a test can fill the queue behind it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()

    def __call__(self, connection: apsw.Connection) -> str:
        self.entered.set()
        assert self.leave.wait(patience_s)
        return "gate"


async def behind_gate(store: Store, works: list[Callable[[apsw.Connection], int]]) -> list[object]:
    """The answers (or errors) of verbs that all wait at the same moment: one batch."""
    gate = Gate()
    held = asyncio.create_task(store.writer.run("gate", gate))
    await asyncio.to_thread(gate.entered.wait, patience_s)
    tasks = [asyncio.create_task(store.writer.run("add", work)) for work in works]
    await asyncio.sleep(0)  # lets each task put its verb into the queue
    gate.leave.set()
    await held
    return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state.db")
    yield store
    store.writer.close_blocking()


async def test_a_result_is_told_after_its_commit(store: Store) -> None:
    assert await store.writer.run("add", add(7)) == 7
    assert store.ids() == [7]
    assert store.writer.trouble is None


async def test_waiting_verbs_share_one_commit_and_one_wake_up(store: Store) -> None:
    loop = asyncio.get_running_loop()
    woken = 0
    wake = loop.call_soon_threadsafe

    def counting(callback: Callable[..., object], *args: object, **more: object) -> asyncio.Handle:
        nonlocal woken
        woken += getattr(callback, "__module__", "") == "angelia.store.worker"
        return wake(callback, *args, **more)  # type: ignore[arg-type]

    loop.call_soon_threadsafe = counting  # type: ignore[method-assign]
    assert await behind_gate(store, [add(number) for number in range(50)]) == list(range(50))
    assert (store.commits, woken) == (2, 2)  # the gate's, and one for all fifty


async def test_a_batch_is_bounded(tmp_path: Path) -> None:
    store = Store(tmp_path / "bounded.db")
    store.writer.close_blocking()
    store.writer = Writer(store.open, most_at_once=10)
    await behind_gate(store, [add(number) for number in range(25)])
    assert store.commits == 1 + 3
    await store.writer.close()


async def test_a_faulty_verb_fails_alone_and_leaves_nothing(store: Store) -> None:
    answers = await behind_gate(store, [add(1), add_and_raise(2, TryAgainError("claimed")), add(3)])
    assert answers[0] == 1
    assert isinstance(answers[1], TryAgainError)
    assert str(answers[1]) == "claimed"
    assert answers[2] == 3
    assert store.ids() == [1, 3]
    assert store.opened == 1, "a verb's own error is no trouble of the store"


async def test_a_broken_reference_is_told_to_the_verb_that_made_it(store: Store) -> None:
    answers = await behind_gate(store, [add(1), add(2, parent=99), add(3, parent=1)])
    assert answers[0] == 1
    assert isinstance(answers[1], apsw.ConstraintError)
    assert answers[2] == 3
    assert store.ids() == [1, 3]


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()]
)
async def test_an_error_that_would_end_the_caller_arrives_as_a_bug(
    store: Store, error: BaseException
) -> None:
    answers = await behind_gate(store, [add(1), add_and_raise(2, error)])
    assert answers[0] == 1
    assert isinstance(answers[1], RuntimeError)
    assert answers[1].__cause__ is error
    assert await store.writer.run("add", add(3)) == 3
    assert store.ids() == [1, 3]


async def test_a_cancelled_caller_harms_nobody(store: Store) -> None:
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    gate = Gate()
    held = asyncio.create_task(store.writer.run("gate", gate))
    await asyncio.to_thread(gate.entered.wait, patience_s)
    impatient = asyncio.create_task(store.writer.run("add", add(1)))
    patient = asyncio.create_task(store.writer.run("add", add(2)))
    await asyncio.sleep(0)
    impatient.cancel()
    gate.leave.set()
    assert await patient == 2
    await held
    assert impatient.cancelled()
    assert store.ids() == [1, 2]
    assert complaints == []


def test_callers_from_several_loops_and_from_none(store: Store) -> None:
    async def many(first: int) -> list[int]:
        return await asyncio.gather(
            *(store.writer.run("add", add(number)) for number in range(first, first + 40))
        )

    told: list[list[int]] = []
    threads = [threading.Thread(target=lambda f=f: told.append(asyncio.run(many(f)))) for f in (0, 100)]
    for thread in threads:
        thread.start()
    told.append([store.writer.run_blocking("add", add(number)) for number in range(200, 210)])
    for thread in threads:
        thread.join(patience_s)
    assert (
        sorted(number for share in told for number in share)
        == store.ids()
        == [*range(40), *range(100, 140), *range(200, 210)]
    )


def test_a_loop_that_is_gone_harms_nobody(store: Store) -> None:
    gate = Gate()
    loop = asyncio.new_event_loop()
    task = loop.create_task(store.writer.run("gate", gate))
    loop.run_until_complete(loop.run_in_executor(None, gate.entered.wait, patience_s))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    gate.leave.set()
    assert store.writer.run_blocking("add", add(1)) == 1


class FakeTime:
    """A clock that moves only while the writer pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.at_pause: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)
        self.at_pause()


@pytest.fixture
def waiting_store(tmp_path: Path) -> Iterator[tuple[Store, FakeTime]]:
    store, time = Store(tmp_path / "locked.db"), FakeTime()
    store.writer.close_blocking()
    store.writer = Writer(store.open, patience_s=0.5, monotonic=time.monotonic, pause=time.pause)
    yield store, time
    store.writer.close_blocking()


async def test_a_locked_store_is_asked_again(waiting_store: tuple[Store, FakeTime]) -> None:
    store, time = waiting_store
    other = store.look()
    other.execute("BEGIN IMMEDIATE")

    def let_go() -> None:
        if len(time.pauses) == 4:
            other.execute("ROLLBACK")

    time.at_pause = let_go
    assert await store.writer.run("add", add(1)) == 1
    assert len(time.pauses) == 4
    assert time.pauses == sorted(time.pauses)
    assert time.pauses[0] < time.pauses[-1], "the pauses grow"
    assert store.writer.trouble is None


async def test_a_store_locked_too_long_is_unavailable_until_it_is_free(
    waiting_store: tuple[Store, FakeTime],
) -> None:
    store, time = waiting_store
    other = store.look()
    other.execute("BEGIN IMMEDIATE")
    answers = await asyncio.gather(
        *(store.writer.run("add", add(number)) for number in (1, 2)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [StoreBusy, StoreBusy]
    assert isinstance(answers[0], StoreUnavailableError)
    assert answers[0] is not answers[1], "each caller has an exception of its own"
    assert time.now >= 0.5
    assert "locked.db" in (store.writer.trouble or "")
    other.execute("ROLLBACK")
    assert await store.writer.run("add", add(3)) == 3
    assert store.writer.trouble is None
    assert store.ids() == [3]


async def test_a_store_that_cannot_be_opened_is_tried_again_by_the_next_verb(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    writer = Writer(lambda: open_connection(folder / "state.db"))
    with pytest.raises(StoreUnavailableError, match=r"later/state\.db"):
        await writer.run("add", add(1))
    assert writer.trouble is not None
    folder.mkdir()
    await writer.run("make", lambda connection: connection.execute("CREATE TABLE note (id)").get)
    assert writer.trouble is None
    await writer.close()


async def test_a_failure_of_the_opener_itself_reaches_the_caller(tmp_path: Path) -> None:
    def broken() -> apsw.Connection:
        raise ZeroDivisionError("a bug in the wiring")

    writer = Writer(broken)
    for _ in range(2):  # twice: the thread lives on
        with pytest.raises(ZeroDivisionError):
            await writer.run("add", add(1))
    await writer.close()


async def test_a_damaged_page_fails_only_those_who_touch_it(store: Store) -> None:
    def touch(connection: apsw.Connection) -> int:
        raise apsw.CorruptError("database disk image is malformed")

    answers = await behind_gate(store, [add(1), touch, add(2)])
    assert [answers[0], answers[2]] == [1, 2]
    assert type(answers[1]).__name__ == "StoreDamagedError"
    assert store.ids() == [1, 2]


async def test_closing_serves_what_waits_and_refuses_what_comes_later(store: Store) -> None:
    gate = Gate()
    held = asyncio.create_task(store.writer.run("gate", gate))
    await asyncio.to_thread(gate.entered.wait, patience_s)
    waiting = asyncio.create_task(store.writer.run("add", add(1)))
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.writer.close())
    gate.leave.set()
    await closing
    assert (await held, await waiting) == ("gate", 1)
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.writer.run("add", add(2))
    with pytest.raises(StoreUnavailableError, match="closed"):
        store.writer.run_blocking("add", add(2))
    await store.writer.close()
    assert store.ids() == [1]


def test_whoever_comes_while_it_closes_gets_an_answer(tmp_path: Path) -> None:
    store = Store(tmp_path / "closing.db")
    told: list[int | None] = []
    ready = threading.Barrier(9)

    def caller(first: int) -> None:
        ready.wait(patience_s)
        for number in range(first, first + 30):
            try:
                told.append(store.writer.run_blocking("add", add(number)))
            except StoreUnavailableError:
                told.append(None)

    threads = [threading.Thread(target=caller, args=(first,)) for first in range(0, 800, 100)]
    for thread in threads:
        thread.start()
    ready.wait(patience_s)
    store.writer.close_blocking()
    for thread in threads:
        thread.join(patience_s)
    assert len(told) == 8 * 30
    assert sorted(number for number in told if number is not None) == store.ids()


async def test_a_verb_that_waits_for_its_own_thread_is_told_so(store: Store) -> None:
    with pytest.raises(RuntimeError, match="own thread"):
        await store.writer.run("outer", lambda _: store.writer.run_blocking("inner", add(1)))


async def test_a_verb_that_ends_the_transaction_is_a_bug(store: Store) -> None:
    with pytest.raises(RuntimeError, match="ended the transaction"):
        await store.writer.run("add", lambda connection: connection.execute("ROLLBACK").get)
    assert await store.writer.run("add", add(1)) == 1


async def test_a_long_wal_is_moved_into_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "wal.db")

    def with_small_wal() -> apsw.Connection:
        connection = store.open()
        connection.pragma("wal_autocheckpoint", 10)
        return connection

    store.writer.close_blocking()
    store.writer = Writer(with_small_wal)
    for number in range(100):
        await store.writer.run("add", add(number))
    assert (tmp_path / "wal.db-wal").stat().st_size < 30 * 4096
    await store.writer.close()
    assert len(store.ids()) == 100


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, list[int]]]]:
    monkeypatch.setitem(crash.POINTS, "add.before_commit", "a test's")
    monkeypatch.setitem(crash.POINTS, "add.after_commit", "a test's")
    yield []
    crash.install(None)


async def test_crash_points_stand_around_the_commit(
    store: Store, points: list[tuple[str, list[int]]]
) -> None:
    told: list[bool] = []

    def look(name: str) -> None:
        points.append((name, store.ids()))
        told.append(task.done())

    crash.install(look)
    task = asyncio.create_task(store.writer.run("add", add(1)))
    await task
    assert points == [("add.before_commit", []), ("add.after_commit", [1])]
    assert told == [False, False]


class Killed(BaseException):
    """A death in simulation."""


async def test_inline_a_death_travels_unchanged(tmp_path: Path, points: list[tuple[str, list[int]]]) -> None:
    store = Store(tmp_path / "inline.db")
    store.writer.close_blocking()
    writer = Writer(store.open, inline=True)
    assert await writer.run("add", add(1)) == 1

    def die_at(name: str) -> Callable[[str], None]:
        def hook(passed: str) -> None:
            if passed == name:
                raise Killed

        return hook

    crash.install(die_at("add.before_commit"))
    with pytest.raises(Killed):
        await writer.run("add", add(2))
    crash.install(die_at("add.after_commit"))
    with pytest.raises(Killed):
        await writer.run("add", add(3))
    crash.install(None)
    assert store.ids() == [1, 3]
    with pytest.raises(TryAgainError, match="claimed"):
        writer.run_blocking("add", add_and_raise(4, TryAgainError("claimed")))
    await writer.close()
    with pytest.raises(StoreUnavailableError):
        await writer.run("add", add(5))
    assert store.ids() == [1, 3]
