"""Which tests `pytest --lean`, which is `make test`, leaves out: those whose outcome others already prove.

- *Modes.* A test of the contract that runs in every mode runs in one mode of each kind, another one for each test: in
  a transaction of its own, in the caller's, and in one of another driver. So each test runs, each mode is used by many
  of them, and not every pair is tried.
- *Rooms.* A folder or file of `ROOMS` runs whole when something that it rests on differs from what was proved last;
  otherwise only its tests that are marked `core` run.
- *Twins.* A twin runs when its function, or the file of the test that catches it, differs from what was proved last.

`proof.json` holds digests of what was proved: `make test-all` writes them, `pytest --prove tests/ROOM` one.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import zlib
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.sql.twins.twin import Twin

ROOT = Path(__file__).parents[1]
PROOF = ROOT / "tests" / "proof.json"


def _has_another_driver(transaction: str | None) -> bool | None:
    """Whether a transaction of the caller's has another driver than pgqueue; None if it is not the caller's."""
    return None if transaction is None else "other" in transaction


#: Fixtures with many modes, and the function that separates their kinds.
MODES: dict[str, Callable[[Any], Hashable]] = {
    "world": lambda mode: _has_another_driver(mode.caller),
    "own": lambda _: None,
    "caller": lambda mode: _has_another_driver(mode.caller),
    "prepared": lambda mode: (mode.face, _has_another_driver(mode.caller)),
    "either": lambda _: None,
    "workplace": _has_another_driver,
}

#: The modules that benchmarks share.
BENCHMARKS = [
    "benchmarks/arguments.py", "benchmarks/report.py", "benchmarks/server.py", "benchmarks/spark", "benchmarks/working",
]  # fmt: skip

#: Folders and files of `tests`, and what each rests on besides itself and the queue.
ROOMS: dict[str, Sequence[str]] = {
    "benchmarks": ["benchmarks"],
    "chaos": [*BENCHMARKS, "benchmarks/chaos", "pgqueue/spark"],
    "cli": ["pgqueue/cli", "pgqueue/dashboard", "pgqueue/demo", "pgqueue/doctor"],
    "dashboard": ["pgqueue/cli", "pgqueue/dashboard", "pgqueue/doctor"],
    "deadlines": ["tests/chaos", "tests/contract", "tests/worker"],
    "demo": ["pgqueue/cli", "pgqueue/demo"],
    "deploy": ["deploy", "pgqueue/cli", "pgqueue/dashboard"],
    "django": ["pgqueue/cli", "pgqueue/dashboard", "pgqueue/django"],
    "docs": ["README.md", "docs", "examples", "mkdocs.yml", "pgqueue"],
    "doctor": ["pgqueue/doctor"],
    "gateway": ["benchmarks/gateway", "pgqueue/cli", "pgqueue/gateway"],
    "notifications": ["tests/chaos", "tests/contract", "tests/sql/stage.py"],
    "properties": [],
    "schema": ["pgqueue/doctor"],
    "schema/test_reproducible.py": [".ci/sbom.py", "Makefile", "pgqueue", "pyproject.toml"],
    "schema/test_wheel.py": ["Makefile", "pgqueue", "pyproject.toml"],
    "soak": [*BENCHMARKS, "benchmarks/soak"],
    "spark": ["pgqueue/cli", "pgqueue/demo", "pgqueue/spark"],
    "sql": [],
    "sql/test_wear.py": ["tests/sql"],
    "testing": [],
    "unit/test_imports.py": ["pgqueue"],
    "worker": ["benchmarks/chaos", "tests/chaos", "tests/contract"],
}

#: Packages that only the gateway and its tests import: other versions of them prove nothing about other rooms.
OF_THE_GATEWAY = {
    "aiohappyeyeballs", "aiohttp", "aiosignal", "azure-core", "azure-servicebus", "frozenlist", "isodate", "multidict",
    "propcache", "websocket-client", "websockets", "yarl",
}  # fmt: skip

CORE = "pytest.mark.core"
TWINS = "tests/sql/test_broken_twins.py"

#: Parts of `pgqueue` that the queue itself does not import.
ANNEXES = {"cli", "dashboard", "demo", "django", "doctor", "gateway", "spark"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pgqueue")
    group.addoption("--lean", action="store_true", help="leave out what others prove; see tests/selection.py")
    group.addoption("--prove", action="store_true", help="write what was proved to tests/proof.json")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "core: runs even if nothing that its room rests on has changed")
    if config.getoption("prove") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Prover(config))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file of which nothing would run: that costs more than many tests."""
    lean = config.getoption("lean")
    return True if lean and not has_tests_to_run(collection_path, proved()) else None


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("lean"):
        return
    chosen = list(zip(items, selected(items, proved()), strict=True))
    config.hook.pytest_deselected(items=[item for item, runs in chosen if not runs])
    items[:] = [item for item, runs in chosen if runs]


class Prover:
    """Writes what a run has proved: rooms, and twins, in which nothing failed and nothing changed meanwhile."""

    def __init__(self, config: pytest.Config) -> None:
        self._paths = [Path(argument) for argument in config.args]
        if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            self._paths = [Path("tests")]
        self._rooms = [room for room in ROOMS if self._has_run(Path("tests", room))]
        if not self._rooms or config.option.keyword or config.option.markexpr:
            raise pytest.UsageError("--prove runs all tests, or whole rooms: leave out other paths, -k and -m")
        self._before = provable()
        self._failed: set[str] = set()
        self._is_whole = False

    def _has_run(self, path: Path) -> bool:
        return any(path.is_relative_to(run) for run in self._paths)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """A run that is interrupted again while it ends has the exit status of one that passed."""
        result = yield
        self._is_whole = True
        return result

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if not self._is_whole or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        now, known, paths = provable(), proved(), [Path(test.partition("::")[0]) for test in self._failed]
        rooms, twins = known["rooms"], known["twins"]
        for room in self._rooms:
            rooms[room] = self._before["rooms"][room] if now["rooms"][room] == self._before["rooms"][room] else None
        for failed in filter(None, map(room_of, paths)):
            rooms[failed] = None
        if self._has_run(Path(TWINS)):
            twins = [] if Path(TWINS) in paths else sorted({*self._before["twins"]} & {*now["twins"]})
        rooms = {room: rooms[room] for room in ROOMS if rooms.get(room)}
        PROOF.write_text(json.dumps({"rooms": rooms, "twins": twins}, indent=1) + "\n")


def proved() -> dict[str, Any]:
    """The record of the last whole run."""
    return dict(json.loads(PROOF.read_text())) if PROOF.exists() else {"rooms": {}, "twins": []}


def provable() -> dict[str, Any]:
    """The record that a whole run of the present files makes."""
    from tests.sql.test_broken_twins import ALL

    for function in (_contents, digest_of_room):
        function.cache_clear()
    return {
        "rooms": {room: digest_of_room(room) for room in ROOMS},
        "twins": sorted({digest_of_twin(twin) for twin in ALL}),
    }


def selected(items: Sequence[pytest.Item], proof: dict[str, Any]) -> Iterator[bool]:
    """Whether each test runs."""
    modes = _modes(items)
    for item in items:
        parameters = _parameters(item)
        if _is_proved(item.path, proof):
            yield item.get_closest_marker("core") is not None
        elif isinstance(twin := parameters.get("twin"), Twin):
            yield digest_of_twin(twin) not in proof["twins"]
        else:
            yield all(parameters[name] in chosen for name, chosen in modes.get(_test(item), {}).items())


def has_tests_to_run(path: Path, proof: dict[str, Any]) -> bool:
    """Whether a file may contain a test that runs; a test of the core is marked in its own file."""
    return not _is_file_of_tests(path) or not _is_proved(path, proof) or CORE in path.read_text()


def _is_file_of_tests(path: Path) -> bool:
    return path.match("test_*.py") and path.is_relative_to(ROOT / "tests")


def _is_proved(path: Path, proof: dict[str, Any]) -> bool:
    room = room_of(path.relative_to(ROOT))
    return room is not None and proof["rooms"].get(room) == digest_of_room(room)


def room_of(path: Path) -> str | None:
    """The room of a file of tests, by its path in the project."""
    inside = path.relative_to("tests")
    return next((room for room in (str(inside), inside.parts[0]) if room in ROOMS), None)


def _modes(items: Iterable[pytest.Item]) -> dict[Hashable, dict[str, set[Any]]]:
    """For each test that has modes, those that are chosen."""
    offered: dict[Hashable, dict[str, dict[Any, None]]] = {}
    for item in items:
        for name in MODES.keys() & _parameters(item).keys():
            offered.setdefault(_test(item), {}).setdefault(name, {})[_parameters(item)[name]] = None
    return {
        test: {name: set(_one_of_each_kind(str(test), name, list(modes))) for name, modes in named.items()}
        for test, named in offered.items()
    }


def _one_of_each_kind(test: str, name: str, modes: Sequence[Any]) -> Iterator[Any]:
    kinds: dict[Any, list[Any]] = {}
    for mode in modes:
        kinds.setdefault(MODES[name](mode), []).append(mode)
    for of_a_kind in kinds.values():
        yield of_a_kind[zlib.crc32(test.encode()) % len(of_a_kind)]


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _test(item: pytest.Item) -> str:
    """The name of a test without its modes."""
    name = item.nodeid
    for mode in MODES.keys() & _parameters(item).keys():
        name = name.replace(str(_parameters(item)[mode]), mode, 1)
    return name


@cache
def digest_of_room(room: str) -> str:
    """Of all that the tests of a room rest on."""
    queue = [path for path in sorted((ROOT / "pgqueue").iterdir()) if path.name not in ANNEXES]
    shared = sorted({*(ROOT / "tests").glob("*.py")} - {Path(__file__)})
    others = [ROOT / name for name in ("sql", "migrations", f"tests/{room}", *ROOMS[room])]
    return _digest(_locked(room) + b"".join(_contents(path) for path in (*queue, *shared, *others)))


def _locked(room: str) -> bytes:
    """The packages that a room can import, from requirements.lock, without what needs them."""
    text = re.sub(r"(?m)^ *#.*\n", "", (ROOT / "requirements.lock").read_text())
    left_out = set() if room == "gateway" else OF_THE_GATEWAY
    entries = re.split(r"\n(?=[^ ])", text)
    return "\n".join(entry for entry in entries if entry.partition("==")[0] not in left_out).encode()


def digest_of_twin(twin: Twin) -> str:
    """Of a twin, its function, and the files of what catches it."""
    catches = twin.caught_by.func if isinstance(twin.caught_by, partial) else twin.caught_by
    files = (Path(inspect.getfile(catches)), ROOT / "tests/sql/stage.py")
    return _digest(f"{twin}\n{twin.broken}".encode() + b"".join(map(_contents, files)))


@cache
def _contents(path: Path) -> bytes:
    """Names and contents of a file, or of all files of a folder."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    hashes = (
        f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n"
        for file in files
        if file.is_file() and "__pycache__" not in file.parts
    )
    return "".join(hashes).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
