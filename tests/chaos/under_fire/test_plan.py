"""A seed determines the whole plan, and the books survive the death of their writers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.chaos.history import Book, Outcome, read
from benchmarks.chaos.kinds import KINDS, RECEIVERS, SESSIONS
from benchmarks.chaos.plan import BESIDE, FAILOVERS, FAULTS, HEAVY, MISCHIEF, SPARK, Plan, draw
from pgqueue.errors import ConnectionLostError, LockLostError

SENDING = ("sender", "async sender")


def plan(seed: int = 7, only: tuple[str, ...] = ()) -> Plan:
    return draw(seed, 60, list(RECEIVERS), SENDING, only)


def test_a_seed_replays() -> None:
    assert plan() == plan()
    assert plan() != plan(seed=8)


def test_each_kind_is_alone_at_one_queue_when_it_is_calm() -> None:
    homes = [
        (actor.kind, actor.queue) for process in plan().processes if process.role == "home" for actor in process.actors
    ]
    assert sorted(homes) == sorted((kind, kind) for kind in RECEIVERS)


def test_every_actor_is_of_a_kind_that_there_is() -> None:
    assert {actor.kind for process in plan().processes for actor in process.actors} <= KINDS.keys()


def test_all_faults_come_up() -> None:
    drawn = {fault.name for seed in range(20) for fault in plan(seed).faults}
    assert drawn == FAULTS.keys()


def test_faults_that_all_sessions_feel_are_over_at_half_time() -> None:
    heavy = [fault.at for seed in range(20) for fault in plan(seed).faults if fault.name in HEAVY]
    assert max(heavy) <= 30


@pytest.mark.parametrize("name", [*FAULTS, *MISCHIEF, *FAILOVERS])
def test_one_fault_can_be_played_by_itself(name: str) -> None:
    alone = plan(only=(name,))
    assert {fault.name for fault in alone.faults} | alone.mischief == {name}


@pytest.mark.parametrize("name", FAILOVERS)
def test_a_failover_happens_once_and_only_where_it_is_asked_for(name: str) -> None:
    assert [fault.name for fault in plan(only=(name, "kill")).faults].count(name) == 1
    assert name not in {fault.name for fault in plan().faults}


@pytest.fixture
def promoted() -> Plan:
    return draw(7, 60, list(RECEIVERS), SENDING, ["failover"], sessions=list(SESSIONS), spark=True)


def test_sessions_and_spark_take_part_where_a_standby_is_promoted(promoted: Plan) -> None:
    homes = {actor.queue: actor.kind for each in promoted.processes if each.role == "home" for actor in each.actors}
    assert homes == {kind: kind for kind in (*RECEIVERS, *SESSIONS, SPARK)}
    assert {*promoted.queues} == {*homes, BESIDE}
    assert {*promoted.plain} == {*RECEIVERS, SPARK}


def test_queues_that_require_sessions_have_visitors_that_accept_them(promoted: Plan) -> None:
    actors = [actor for process in promoted.processes for actor in process.actors if process.role == "visitor"]
    assert {actor.queue for actor in actors if actor.kind in SESSIONS} == SESSIONS.keys()
    assert not [actor for actor in actors if actor.queue in SESSIONS and actor.kind not in SESSIONS]


def test_spark_has_a_process_of_its_own_and_is_the_only_one(promoted: Plan) -> None:
    (alone,) = [each for each in promoted.processes if SPARK in {actor.kind for actor in each.actors}]
    assert len(alone.actors) == 1


def test_rounds_without_a_standby_have_neither() -> None:
    kinds = {actor.kind for process in plan().processes for actor in process.actors}
    assert kinds.isdisjoint({*SESSIONS, SPARK})


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    book = Book(tmp_path, "somebody")
    yield book
    book.close()


def test_an_operation_is_read_as_it_was_written(book: Book, tmp_path: Path) -> None:
    with book.operation("send", "an actor", "q", doubt=True, ids=["m"]) as operation:
        operation.facts["number"] = 7
    [known] = read(tmp_path)
    assert (known.verb, known.actor, known.queue, known.outcome) == ("send", "an actor", "q", Outcome.OK)
    assert known.facts == {"ids": ["m"], "number": 7}
    assert known.invoked <= known.ended < float("inf")


def test_a_killed_actor_leaves_an_operation_that_never_ended(book: Book, tmp_path: Path) -> None:
    with book.operation("send", "an actor", "q", doubt=False, ids=["m"]) as operation:
        operation.leave_open()
    with (tmp_path / "somebody.jsonl").open("a") as file:
        file.write('{"op": "torn off')
    [known] = read(tmp_path)
    assert (known.outcome, known.ended) == (Outcome.UNKNOWN, float("inf"))


@pytest.mark.parametrize(
    ("error", "doubt", "outcome"),
    [
        (ConnectionLostError("gone"), True, Outcome.UNKNOWN),
        (ConnectionLostError("gone"), False, Outcome.FAIL),
        (LockLostError("lost"), True, Outcome.FAIL),
        (KeyboardInterrupt(), True, Outcome.UNKNOWN),
    ],
)
def test_an_error_is_recorded_with_whether_the_operation_may_have_been_done(
    book: Book, tmp_path: Path, error: BaseException, doubt: bool, outcome: Outcome
) -> None:
    with pytest.raises(type(error)), book.operation("settle", "an actor", "q", doubt=doubt, how="complete", locks=[]):
        raise error
    assert read(tmp_path)[0].outcome is outcome
