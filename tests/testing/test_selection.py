"""``pytest --lean`` leaves out only what others prove."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from pgqueue.testing import Database
from tests import selection
from tests.contract.world import OWN, SHARED
from tests.selection import (
    CORE,
    MODES,
    ROOMS,
    ROOT,
    Prover,
    digest_of_room,
    digest_of_twin,
    has_tests_to_run,
    provable,
    proved,
    selected,
)
from tests.sql.twins import tokens
from tests.sql.twins.twin import Twin

NOTHING: dict[str, Any] = {"rooms": {}, "twins": []}
TWIN = tokens.TWINS[0]


@dataclass
class Calls:
    params: dict[str, Any]


@dataclass
class Collected:
    """The attributes of a test that the selection reads."""

    nodeid: str
    parameters: dict[str, Any] = field(default_factory=dict)
    is_core: bool = False

    @property
    def path(self) -> Path:
        return ROOT / self.nodeid.partition("::")[0]

    @property
    def callspec(self) -> Calls:
        return Calls(self.parameters)

    def get_closest_marker(self, name: str) -> object:
        return (self.is_core and name == "core") or None


def chosen(*tests: Collected, proof: dict[str, Any] = NOTHING) -> list[Collected]:
    runs = selected(cast("list[pytest.Item]", list(tests)), proof)
    return [test for test, is_chosen in zip(tests, runs, strict=True) if is_chosen]


def in_every_mode(test: str) -> list[Collected]:
    return [
        Collected(f"tests/contract/test_a.py::{test}[{mode}-x]", {"world": mode, "other": "x"}) for mode in OWN + SHARED
    ]


def test_a_test_runs_in_one_mode_of_each_kind() -> None:
    modes = [test.parameters["world"] for test in chosen(*in_every_mode("test_it"))]
    assert len(modes) == 3
    assert {mode.caller and "other" in mode.caller for mode in modes} == {None, False, True}


def test_every_mode_is_that_of_some_test() -> None:
    tests = [test for number in range(200) for test in in_every_mode(f"test_{number}")]
    assert {test.parameters["world"] for test in chosen(*tests)} == {*OWN, *SHARED}


def test_other_parameters_are_not_thinned() -> None:
    tests = [Collected(f"tests/contract/test_a.py::test_it[{each}]", {"verb": each}) for each in range(3)]
    assert chosen(*tests) == tests


def test_fixtures_with_modes_are_those_of_the_contract(request: pytest.FixtureRequest) -> None:
    text = (ROOT / "tests/contract/conftest.py").read_text()
    assert MODES.keys() == {name for name in MODES if f"def {name}(request" in text}


@pytest.mark.parametrize("room", ROOMS)
def test_a_proved_room_runs_its_core(room: str) -> None:
    file = room if room.endswith(".py") else f"{room}/test_a.py"
    core, other = Collected(f"tests/{file}::test_a", is_core=True), Collected(f"tests/{file}::test_b")
    assert chosen(core, other, proof={"rooms": {room: digest_of_room(room)}, "twins": []}) == [core]
    assert chosen(core, other, proof={"rooms": {room: "other"}, "twins": []}) == [core, other]


def test_a_file_of_which_nothing_would_run_is_not_imported() -> None:
    core, other = ROOT / "tests/spark/test_reading.py", ROOT / "tests/spark/test_cluster.py"
    proof = {"rooms": {"spark": digest_of_room("spark")}, "twins": []}
    assert has_tests_to_run(core, proof)
    assert not has_tests_to_run(other, proof)
    assert has_tests_to_run(other, NOTHING)


@pytest.mark.parametrize("path", ["tests/contract/test_sending.py", "tests/spark/conftest.py", "tests/spark"])
def test_other_files_and_folders_are_collected(path: str) -> None:
    assert has_tests_to_run(ROOT / path, {"rooms": {"spark": digest_of_room("spark")}, "twins": []})


def test_a_test_of_the_core_is_marked_in_its_own_file(request: pytest.FixtureRequest) -> None:
    marked = {item.path for item in request.session.items if item.get_closest_marker("core")}
    assert [path for path in sorted(marked) if CORE not in path.read_text()] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_a_core(room: str) -> None:
    path = ROOT / "tests" / room
    files = [path] if path.is_file() else list(path.rglob("test_*.py"))
    assert any(CORE in file.read_text() for file in files)


@pytest.mark.parametrize("changed", ["pgqueue/queue.py", "sql/functions/verbs/send.sql", "pgqueue/spark/schema.py"])
def test_a_room_is_proved_again_when_its_foundations_change(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = ["spark"] if changed.startswith("pgqueue/spark") else list(ROOMS)
    before = {room: digest_of_room(room) for room in ROOMS}
    contents = selection._contents

    def otherwise(path: Path) -> bytes:
        return contents(path) + (b"changed" if (ROOT / changed).is_relative_to(path) else b"")

    monkeypatch.setattr(selection, "_contents", otherwise)
    digest_of_room.cache_clear()
    try:
        assert all(digest_of_room(room) != before[room] for room in rooms)
    finally:
        digest_of_room.cache_clear()


def test_a_proved_twin_runs_when_it_differs() -> None:
    test = Collected("tests/sql/test_broken_twins.py::test_a_broken_twin_is_caught[x]", {"twin": TWIN})
    assert chosen(test) == [test]
    assert chosen(test, proof={"rooms": {}, "twins": [digest_of_twin(TWIN)]}) == []


def test_a_twin_differs_when_its_function_or_its_test_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def otherwise(database: Database) -> None: ...

    digests = {
        digest_of_twin(twin) for twin in (TWIN, replace(TWIN, replacement="x"), replace(TWIN, caught_by=otherwise))
    }
    monkeypatch.setattr(Twin, "original", property(lambda twin: f"changed {twin.text}"))
    assert len(digests | {digest_of_twin(TWIN)}) == 4


class Run:
    """A whole run of all tests, or of some, whose proof is written to a file of its own."""

    def __init__(self, config: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(selection, "PROOF", tmp_path / "proof.json")
        monkeypatch.setattr(config.option, "keyword", "")
        monkeypatch.setattr(config.option, "markexpr", "")
        self._config, self._monkeypatch = config, monkeypatch
        self.of()

    def of(self, *paths: str) -> None:
        source = pytest.Config.ArgsSource.ARGS if paths else pytest.Config.ArgsSource.TESTPATHS
        self._monkeypatch.setattr(self._config, "args", [*paths] or ["tests"])
        self._monkeypatch.setattr(self._config, "args_source", source)
        self._prover = Prover(self._config)

    def fails(self, test: str) -> None:
        self._prover.pytest_runtest_logreport(pytest.TestReport(test, ("", 0, ""), {}, "failed", None, "call"))

    def ends(self, code: int = pytest.ExitCode.TESTS_FAILED, *, whole: bool = True) -> dict[str, Any]:
        loop = self._prover.pytest_runtestloop()
        next(loop)
        with suppress(StopIteration):
            loop.send(True) if whole else loop.close()
        self._prover.pytest_sessionfinish(code)
        return proved()


@pytest.fixture
def run(pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(pytestconfig, tmp_path, monkeypatch)


def test_a_run_without_failures_proves_everything(run: Run) -> None:
    assert run.ends(pytest.ExitCode.OK) == provable()


def test_an_interrupted_run_proves_nothing(run: Run) -> None:
    assert run.ends(pytest.ExitCode.OK, whole=False) == NOTHING
    assert run.ends(pytest.ExitCode.INTERRUPTED) == NOTHING


def test_a_failed_test_leaves_its_room_unproved(run: Run) -> None:
    run.fails("tests/spark/test_reading.py::test_a")
    run.fails("tests/sql/test_wear.py::test_b[x]")
    run.fails("tests/contract/test_settling.py::test_c")
    before, after = provable(), run.ends()
    assert before["rooms"].keys() - after["rooms"].keys() == {"spark", "sql/test_wear.py"}
    assert after["twins"] == before["twins"]


def test_a_failed_twin_leaves_twins_and_sql_unproved(run: Run) -> None:
    run.fails(f"{selection.TWINS}::test_a_broken_twin_is_caught[x]")
    rooms = {room: digest for room, digest in provable()["rooms"].items() if room != "sql"}
    assert run.ends() == {"rooms": rooms, "twins": []}


def test_a_room_that_changes_during_the_run_is_unproved(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    now = provable()
    monkeypatch.setattr(
        selection, "provable", lambda: {**now, "rooms": {**now["rooms"], "spark": "changed"}, "twins": []}
    )
    assert run.ends() == {
        "rooms": {room: digest for room, digest in now["rooms"].items() if room != "spark"},
        "twins": [],
    }


def test_a_run_of_a_room_proves_that_room(run: Run) -> None:
    run.of("tests/spark/")
    assert run.ends(pytest.ExitCode.OK) == {"rooms": {"spark": digest_of_room("spark")}, "twins": []}
    run.of("tests/sql", "tests/cli")
    run.fails("tests/cli/test_queues.py::test_a")
    rooms = {room: digest_of_room(room) for room in ("spark", "sql", "sql/test_wear.py")}
    assert run.ends() == {"rooms": rooms, "twins": provable()["twins"]}
    run.of("tests/spark")
    run.fails("tests/spark/test_reading.py::test_a")
    assert run.ends()["rooms"].keys() == {"sql", "sql/test_wear.py"}


@pytest.mark.parametrize("path", ["tests/spark/test_reading.py", "tests/contract", "tests/spark::test_a"])
def test_a_part_of_a_room_proves_nothing(run: Run, path: str) -> None:
    with pytest.raises(pytest.UsageError, match="leave out other paths"):
        run.of(path)
