"""The pages are true: their code runs, their links lead somewhere, their tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgqueue.model.context import TRANSITIONS, ReceiveState
from pgqueue.notifications import AGGREGATION, REMOVAL
from pgqueue.testing.database import Database

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "sql" / "README.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "models" / "README.md",
    *ROOT.glob("docs/**/*.md"),
]
RECIPES = ROOT.glob("docs/how-to/*.md")
EXAMPLE_DSN = "postgresql://localhost/shop"

PAGES_THAT_RUN = [
    "README.md",
    "docs/guide.md",
    "docs/workers.md",
    "docs/tasks.md",
    "docs/scheduling.md",
    "docs/schedules.md",
    "docs/sessions.md",
    "docs/groups.md",
    "docs/forwarding.md",
    "docs/topics.md",
    "docs/typed-bodies.md",
    "docs/interceptors.md",
    "docs/encryption.md",
    "docs/deferral.md",
    "docs/expiry.md",
    "docs/duplicates.md",
    "docs/unique.md",
    "docs/dead-letters.md",
    "docs/single-messages.md",
    "docs/limits.md",
    "docs/flow.md",
    "docs/timeouts.md",
    "docs/history.md",
    "docs/results.md",
    "docs/batches.md",
    "docs/notifications.md",
    "docs/schemas.md",
    *sorted(str(page.relative_to(ROOT)) for page in RECIPES if "```python\n" in page.read_text()),
]


@pytest.mark.parametrize("page", PAGES_THAT_RUN)
def test_the_python_on_a_page_runs_from_top_to_bottom(page: str, database: Database) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    code = "\n".join(blocks).replace(EXAMPLE_DSN, database.dsn)
    for driver in ("psycopg", "psycopg2", "asyncpg"):
        url = EXAMPLE_DSN.replace("postgresql", f"postgresql+{driver}")
        code = code.replace(url, database.url.replace("+psycopg", f"+{driver}"))
    namespace: dict[str, object] = {}
    exec(compile(code, page, "exec", dont_inherit=True), namespace)
    for name, end in {"client": "close", "engine": "dispose"}.items():
        if name in namespace:
            getattr(namespace[name], end)()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


DECISIONS = {int(page.name[:4]) for page in ROOT.glob("docs/adr/0*.md")}
MENTIONING = ("pgqueue", "sql", "migrations", "models", "benchmarks", "docs", "tests", "CONTRIBUTING.md", "README.md")


def test_decisions_that_are_mentioned_have_a_page() -> None:
    files = [each for name in MENTIONING for each in (ROOT / name, *(ROOT / name).rglob("*")) if each.is_file()]
    texts = {each: each.read_text() for each in files if each.suffix in {".md", ".py", ".sql", ".tla"}}
    found = {(number, each) for each, text in texts.items() for number in re.findall(r"\bADR\s+(\d+)", text)}
    assert len(found) > 50
    assert [f"ADR {number} in {each.relative_to(ROOT)}" for number, each in found if int(number) not in DECISIONS] == []


#: Names in the table of the architecture page that are no modules or directories.
OTHERS = {"_", "migrate", "pgqueue"}


def test_the_architecture_page_names_what_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    missing = [path for path in re.findall(r"`(\w[\w.-]*/[\w./-]*)`", page) if not (ROOT / path).exists()]
    for where, what in re.findall(r"^\| (`[^|]*) \| (.*) \|$", page, re.MULTILINE):
        directories = [ROOT / path for path in re.findall(r"`([\w/]+)/`", where)]
        known = {each.stem for directory in directories for each in directory.iterdir()} | OTHERS
        missing += [f"{where}: {name}" for name in re.findall(r"`(\w+)`", what) if directories and name not in known]
    assert not missing


def rows(page: str) -> list[list[str]]:
    """The rows of a page's tables, as cells."""
    found = re.findall(r"^\| (.*?) \|$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    return [row.split(" | ") for row in found]


def test_the_lifecycle_page_has_the_transition_table_of_the_code() -> None:
    said = {cells[0]: cells[1:] for cells in rows("lifecycle.md")}
    for event, following in TRANSITIONS.items():
        cells = [following[state] for state in ReceiveState]
        assert said[event.value] == [cell.__name__ if isinstance(cell, type) else cell.name for cell in cells]


def test_the_notifications_page_has_both_tables_of_the_code() -> None:
    receipts = [cells for cells in rows("notifications.md") if cells[0] in AGGREGATION]
    removal, aggregation = (([c for c in receipts if len(c) == width]) for width in (4, 5))
    assert [(receipt, int(weight), stops, answer) for receipt, _, weight, stops, answer in aggregation] == [
        (receipt, rule.weight, "yes" if rule.stops else "no", rule.answer) for receipt, rule in AGGREGATION.items()
    ]
    assert removal == [[receipt, *(fate.value for fate in fates)] for receipt, fates in REMOVAL.items()]
