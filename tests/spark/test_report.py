"""The report of a history has the same figures as plain Python, and its page is self-contained."""

from __future__ import annotations

import html
import math
import random
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet
import pytest
from axe_core_python.sync_playwright import Axe
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect, sync_playwright
from pyspark.sql import DataFrame, SparkSession

from pgqueue.model.printable import printable
from pgqueue.spark.report import NotReportable, Report, report, words
from pgqueue.spark.report.columns import FIGURES
from pgqueue.spark.report.digest import Digest, digest_of, page_span
from pgqueue.spark.report.figures import figures, settled_messages, waiting_messages
from pgqueue.spark.report.page import page
from pgqueue.spark.report.span import EPOCH, Span, micros, span_of
from pgqueue.spark.report.tables import TABLES

SCHEMA = """
    queue string, sequence_number long, outcome string, reason string, enqueued_time timestamp,
    first_locked_at timestamp, settled_at timestamp, delivery_count int, locked_by string, priority int, body_size int,
    message_id string, correlation_id string, subject string, content_type string, transaction_id long
"""
NAMES = [column.split()[0] for column in SCHEMA.split(",")]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script><img src=https://example.com/x onerror=alert(1)>\u202e\x1b[2J"
BUSY = ["orders", "invoices", HOSTILE]
QUIET = [f"quiet-{number}" for number in range(7)]
EVERY_FIGURE = FIGURES.keys()


@dataclass(frozen=True)
class Settled:
    """A row of history."""

    queue: str = "orders"
    outcome: str = "COMPLETED"
    enqueued_time: datetime = NOON
    first_locked_at: datetime | None = NOON + timedelta(seconds=1)
    settled_at: datetime | None = NOON + timedelta(seconds=3)
    delivery_count: int = 1
    reason: str | None = None
    subject: str | None = None
    content_type: str | None = None

    @property
    def kind(self) -> str:
        return self.subject or self.content_type or "(none)"

    @property
    def settled(self) -> datetime:
        assert self.settled_at
        return self.settled_at

    @property
    def waited(self) -> float | None:
        return seconds(self.first_locked_at - self.enqueued_time) if self.first_locked_at else None

    @property
    def processed(self) -> float | None:
        return seconds(self.settled - self.first_locked_at) if self.first_locked_at else None


Group = Callable[[Settled], Hashable]


def seconds(length: timedelta) -> float:
    return (length // timedelta(microseconds=1)) / 1e6


def history(spark: SparkSession, rows: Iterable[Settled]) -> DataFrame:
    return spark.createDataFrame([tuple(vars(row).get(name) for name in NAMES) for row in rows], SCHEMA)


def waiting(spark: SparkSession, rows: Iterable[tuple[str, datetime]]) -> DataFrame:
    return spark.createDataFrame(list(rows), "queue string, enqueued_time timestamp")


def random_rows(number: int) -> list[Settled]:
    """Ten queues over some hours, with retries, dead letters, cancellations, and locks that are not known."""
    chance = random.Random(20260301)
    return [_random_row(chance) for _ in range(number)]


def _random_row(chance: random.Random) -> Settled:
    enqueued = NOON + timedelta(microseconds=chance.randrange(4 * 3600 * 1_000_000))
    locked = enqueued + timedelta(microseconds=chance.randrange(900 * 1_000_000))
    settled = locked + timedelta(microseconds=chance.randrange(120 * 1_000_000))
    row = Settled(
        queue=chance.choice(BUSY * 12 + QUIET),
        enqueued_time=enqueued,
        first_locked_at=locked,
        settled_at=settled,
        delivery_count=chance.choice([1, 1, 1, 2, 3, 12]),
        subject=chance.choice([None, "", "paid", HOSTILE]),
        content_type=chance.choice([None, "", "image/png"]),
    )
    match chance.randrange(8):
        case 0:
            reason = chance.choice(["MaxDeliveryCountExceeded", HOSTILE, None])
            return replace(row, outcome="DEAD_LETTERED", reason=reason)
        case 1:
            return replace(row, outcome="EXPIRED", first_locked_at=None, delivery_count=0)
        case 2:
            early = enqueued - timedelta(minutes=chance.randrange(30))
            return replace(row, outcome="CANCELLED", first_locked_at=None, delivery_count=0, settled_at=early)
    return row


ROWS = random_rows(600)
STILL_WAITING = [("orders", NOON + timedelta(minutes=5 * index)) for index in range(20)] + [("new", NOON)]
SINCE = NOON + timedelta(minutes=40)
UNTIL = NOON + timedelta(hours=3, minutes=10)
BUCKET = timedelta(minutes=30)


@dataclass(frozen=True)
class Made:
    """A report that was made of rows."""

    report: Report
    rows: list[Settled]

    def figure(self, name: str, *keys: str) -> dict[Any, dict[str, Any]]:
        """The rows of a figure as they are in the files, by their keys."""
        table = pyarrow.parquet.read_table(self.report.figures[name]).to_pylist()
        found = {tuple(_aware(row[key]) for key in keys): row for row in table}
        assert len(found) == len(table)
        return found

    def grouped(self, *groups: Group) -> dict[Any, list[Settled]]:
        """The same messages in plain Python."""
        found = defaultdict(list)
        for row in self.rows:
            found[tuple(group(row) for group in groups)].append(row)
        return found

    @property
    def page(self) -> str:
        return self.report.page.read_text(encoding="utf-8")


def _aware(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def bucket(row: Settled) -> datetime:
    return row.settled - (row.settled - EPOCH) % BUCKET


def queue(row: Settled) -> str:
    return row.queue


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A report on a part of the time."""
    output = tmp_path_factory.mktemp("report")
    frame, still = history(spark, ROWS), waiting(spark, STILL_WAITING)
    written = report(frame, output, waiting=still, since=SINCE, until=UNTIL, bucket=BUCKET)
    return Made(written, [row for row in ROWS if SINCE <= row.settled < UNTIL])


def percentile(values: Iterable[float], share: float) -> float:
    """The shortest that at least this share does not exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1]


def test_the_report_names_its_messages_its_span_and_its_figures(made: Made) -> None:
    said = made.report
    assert (said.messages, said.since, said.until, said.bucket) == (len(made.rows), SINCE, UNTIL, BUCKET)
    assert said.figures.keys() == EVERY_FIGURE


@pytest.mark.parametrize("figure", ["waiting_time", "processing_time"])
def test_percentiles_are_those_of_the_messages_whose_lock_is_known(made: Made, figure: str) -> None:
    measured = {"waiting_time": "waited", "processing_time": "processed"}[figure]
    found = made.figure(figure, "queue", "bucket")
    expected = {}
    for key, rows in made.grouped(queue, bucket).items():
        if values := [value for row in rows if (value := getattr(row, measured)) is not None]:
            expected[key] = [len(values), *(percentile(values, share) for share in (0.5, 0.9, 0.99)), max(values)]
    columns = ("messages", "p50", "p90", "p99", "max")
    assert {key: [row[column] for column in columns] for key, row in found.items()} == expected


def test_throughput_is_counted_by_outcome(made: Made) -> None:
    found = made.figure("throughput", "queue", "bucket", "outcome")
    expected = {key: len(rows) for key, rows in made.grouped(queue, bucket, lambda row: row.outcome).items()}
    assert {key: row["messages"] for key, row in found.items()} == expected
    assert all(row["per_second"] == pytest.approx(row["messages"] / 1800) for row in found.values())


def test_the_backlog_counts_messages_that_had_come_and_not_gone_when_a_bucket_ended(made: Made) -> None:
    found = made.figure("backlog", "queue", "bucket")
    starts = sorted({start for _, start in found})
    assert starts[0] <= SINCE
    assert starts[-1] < UNTIL <= starts[-1] + BUCKET
    assert len(found) == len([*BUSY, *QUIET, "new"]) * len(starts) == 11 * 6
    for (name, start), row in found.items():
        end = min(start + BUCKET, UNTIL)
        here = [each for each in ROWS if each.queue == name and each.settled >= SINCE]
        there = sum(each.enqueued_time < end <= each.settled for each in here)
        still = sum(each == name and moment < end for each, moment in STILL_WAITING)
        assert row["backlog"] == there + still


def test_a_backlog_changes_by_what_came_and_went(made: Made) -> None:
    rows = [row for key, row in sorted(made.figure("backlog", "queue", "bucket").items()) if key[0] == "orders"]
    assert all(
        after["backlog"] == before["backlog"] + after["came"] - after["went"] for before, after in pairwise(rows)
    )


def test_deliveries_are_distributed_as_they_were_counted(made: Made) -> None:
    found = made.figure("delivery_counts", "queue", "bucket", "delivery_count")
    expected = {key: len(rows) for key, rows in made.grouped(queue, bucket, lambda row: row.delivery_count).items()}
    assert {key: row["messages"] for key, row in found.items()} == expected


def test_retries_cost_the_time_of_messages_that_were_delivered_again(made: Made) -> None:
    found = made.figure("retry_cost", "queue", "bucket")
    groups = made.grouped(queue, bucket)
    assert found.keys() == groups.keys()
    for key, rows in groups.items():
        spent = sum(row.processed or 0 for row in rows)
        again = sum(row.processed or 0 for row in rows if row.delivery_count > 1)
        assert found[key]["deliveries"] == sum(row.delivery_count for row in rows)
        assert found[key]["extra_deliveries"] == sum(max(row.delivery_count - 1, 0) for row in rows)
        assert found[key]["retried_messages"] == sum(row.delivery_count > 1 for row in rows)
        assert found[key]["processing_seconds"] == pytest.approx(spent)
        assert found[key]["retried_share"] == (pytest.approx(again / spent) if spent else None)


def test_dead_letters_are_counted_by_reason(made: Made) -> None:
    dead = [row for row in made.rows if row.outcome == "DEAD_LETTERED"]
    expected = Counter((row.queue, bucket(row), row.reason or "(none)") for row in dead)
    found = made.figure("dead_letters", "queue", "bucket", "reason")
    assert {key: row["messages"] for key, row in found.items()} == expected


def test_a_kind_is_the_subject_or_else_the_content_type(made: Made) -> None:
    found = made.figure("kinds", "queue", "kind")
    groups = made.grouped(queue, lambda row: row.kind)
    assert found.keys() == groups.keys()
    assert {kind for _, kind in found} == {"paid", HOSTILE, "image/png", "(none)"}
    for key, rows in groups.items():
        dead = sum(row.outcome == "DEAD_LETTERED" for row in rows)
        assert (found[key]["messages"], found[key]["dead_lettered"]) == (len(rows), dead)
        assert found[key]["dead_letter_share"] == pytest.approx(dead / len(rows))
        times = [row.processed for row in rows if row.processed is not None]
        expected = (percentile(times, 0.99), max(times)) if times else (None, None)
        assert (found[key]["p99"], found[key]["max"]) == expected


def test_totals_are_those_of_each_queue_and_of_all(made: Made) -> None:
    found = made.figure("totals", "queue")
    groups = made.grouped(queue) | {(None,): made.rows}
    assert found.keys() == groups.keys()
    for key, rows in groups.items():
        waited = [row.waited for row in rows if row.waited is not None]
        assert found[key]["messages"] == len(rows)
        assert found[key]["per_second"] == pytest.approx(len(rows) / seconds(UNTIL - SINCE))
        assert found[key]["completed"] == sum(row.outcome == "COMPLETED" for row in rows)
        assert found[key]["waiting_p50"] == percentile(waited, 0.5)


def test_a_second_run_leaves_what_the_first_has_left(made: Made, spark: SparkSession) -> None:
    before = {name: pyarrow.parquet.read_table(path) for name, path in made.report.figures.items()}
    shown = made.page
    again = report(
        history(spark, reversed(ROWS)),
        made.report.page.parent,
        waiting=waiting(spark, STILL_WAITING),
        since=SINCE,
        until=UNTIL,
        bucket=BUCKET,
    )
    assert again == made.report
    for name in EVERY_FIGURE:
        assert pyarrow.parquet.read_table(again.figures[name]) == before[name]
    assert made.page == shown
    assert {path.name for path in made.report.page.parent.iterdir()} == {*EVERY_FIGURE, "report.html"}


class Page(HTMLParser):
    """A page as a browser reads it: its tags with their attributes, and the text of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data.strip("\n")


def test_the_page_refers_to_nothing_outside(made: Made) -> None:
    tags = Page(made.page).tags
    assert not [each for each in tags if each[1].keys() & {"src", "href", "srcset", "action", "data"}]
    assert not [tag for tag, _ in tags if tag in {"link", "img", "iframe", "object", "embed", "base"}]
    policy = next(each["content"] for tag, each in tags if tag == "meta" and "http-equiv" in each)
    assert policy
    assert policy.startswith("default-src 'none'")
    style = re.search(r"<style>(.*?)</style>", made.page, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_names_from_messages_are_text_and_never_tags(made: Made) -> None:
    parsed = Page(made.page)
    assert "script" not in {tag for tag, _ in parsed.tags}
    assert printable(HOSTILE) in parsed.cells
    assert not {"\u202e", "\x1b"} & set(made.page)
    assert printable(HOSTILE) not in made.page


def test_the_page_shows_the_busiest_queues_and_states_that_there_are_more(made: Made) -> None:
    options = re.findall(r'<option value="\d+">(.*?)</option>', made.page)
    busiest = sorted(made.grouped(queue).items(), key=lambda group: (-len(group[1]), group[0]))[:8]
    assert [html.unescape(each) for each in options] == ["All queues", *(printable(name) for (name,), _ in busiest)]
    assert "the 8 busiest of 10" in made.page
    assert "other queues" in _section(made, "backlog").cells


def test_the_slowest_kinds_come_first_and_rare_ones_last(made: Made) -> None:
    cells = _section(made, "slowest").cells
    listed = list(zip(cells[6::6], cells[7::6], strict=True))
    timed = [row for row in made.figure("kinds", "queue", "kind").values() if row["p99"] is not None]
    ordered = sorted(timed, key=lambda row: (row["messages"] < 100, -row["p99"], row["queue"], row["kind"]))
    assert listed == [(printable(row["kind"]), printable(row["queue"])) for row in ordered[:10]]


def test_reasons_beyond_the_first_are_counted_together(spark: SparkSession, tmp_path: Path) -> None:
    reasons = ["Late"] * 5 + ["Broken"] * 3 + ["Lost", "(other reasons)"]
    dead = [Settled(outcome="DEAD_LETTERED", reason=reason) for reason in reasons]
    cells = _section(Made(report(history(spark, dead), tmp_path, top=2), dead), "dead_letters").cells
    shown = [cell.replace(words.THIN, " ") for cell in cells[3:]]
    assert shown == ["Late", "5", "50.0 %", "Broken", "3", "30.0 %", "(other reasons)", "2", "20.0 %"]


def test_deliveries_are_shown_one_by_one_and_many_together(made: Made) -> None:
    counts = Counter(row.delivery_count for row in made.rows)
    listed = _section(made, "delivery_counts").cells[3:]
    assert dict(zip(listed[::3], listed[1::3], strict=True)) == {
        "10 or more" if number == 12 else str(number): str(count) for number, count in sorted(counts.items())
    }


@pytest.mark.parametrize("figure", ["throughput", "backlog", "waiting_time", "processing_time", "retry_cost"])
def test_figure_over_time_has_a_row_for_each_bucket(made: Made, figure: str) -> None:
    section = _section(made, figure)
    assert Counter(tag for tag, _ in section.tags)["tr"] == 1 + 6
    assert "2026-03-01 12:30" in section.cells
    parts = [style for _, each in section.tags if (style := each.get("style"))]
    assert len(parts) == 6
    if figure != "retry_cost":
        assert "--part:1.000" in parts


def test_all_queues_are_shown_side_by_side_over_time(made: Made) -> None:
    columns, rows = TABLES[1].shown(digest_of_files(made), None)
    found = made.figure("backlog", "queue", "bucket")
    start = sorted({start for _, start in found})[2]
    names = [column.name for column in columns[2:]]
    assert rows[2][1].text == str(sum(row["backlog"] for (_, when), row in found.items() if when == start))
    for name, cell in zip(names[:8], rows[2][2:10], strict=True):
        assert cell.text == str(found[name, start]["backlog"])


def digest_of_files(made: Made) -> Digest:
    """The figures on the page of a report, from its files."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    frames = {name: spark.read.parquet(str(path)) for name, path in made.report.figures.items()}
    return digest_of(frames, span_of(SINCE, UNTIL, BUCKET), 10, has_waiting=True)


def _section(made: Made, name: str, view: int = 0) -> Page:
    """A section of the page."""
    return Page(made.page.split(f'aria-labelledby="{name}-{view}">', 1)[1].split("</section>")[0])


@pytest.fixture
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no chromium here, which .ci/run installs")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
        )
        yield browser
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_an_accessible_page_and_complains_of_nothing(
    made: Made, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    shown = browser.new_page(color_scheme=scheme)
    complaints: list[str] = []
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on("console", lambda message: complaints.append(message.text))
    shown.goto(made.report.page.as_uri())
    rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    for view in ("0", "1"):
        shown.get_by_role("combobox").select_option(view)
        violations = Axe().run(shown, options=rules)["violations"]
        assert violations == [], [(each["id"], each["nodes"][0]["html"]) for each in violations]
    assert complaints == []


def test_a_queue_is_chosen_without_javascript_and_on_a_narrow_screen(made: Made, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 740})
    shown = context.new_page()
    shown.goto(made.report.page.as_uri())
    for view in ("0", "2", "0"):
        shown.get_by_role("combobox").select_option(view)
        for number in range(9):
            expect(shown.locator(f".view-{number}")).to_be_visible(visible=str(number) == view)
    expect(shown.get_by_role("cell", name=re.compile(r"\d")).first).to_be_visible()
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_files_describe_their_columns(made: Made, spark: SparkSession) -> None:
    for name, figure in FIGURES.items():
        schema = spark.read.parquet(str(made.report.figures[name])).schema
        assert schema.fieldNames() == [*figure.keys, *figure.measures]
        assert [field.dataType.simpleString() for field in schema] == [column.type for column in figure.columns]
        assert all(field.metadata["comment"] for field in schema)


def test_the_page_of_an_empty_history_states_that_nothing_was_settled(spark: SparkSession, tmp_path: Path) -> None:
    written = report(history(spark, []), tmp_path, title="Nothing & <no one>")
    shown = written.page.read_text()
    assert "No message was settled" in shown
    assert "<h1>Nothing &amp; &lt;no one&gt;</h1>" in shown
    assert "<script" not in shown
    assert (written.messages, written.since, written.until) == (0, None, None)
    assert all(pyarrow.parquet.read_table(path).num_rows == 0 for path in written.figures.values())


def test_nulls_are_not_known_and_never_an_error(spark: SparkSession) -> None:
    nothing_known = spark.createDataFrame([tuple(NOON if name == "settled_at" else None for name in NAMES)], SCHEMA)
    never_settled = history(spark, [replace(Settled(), settled_at=None)])
    settled = settled_messages(nothing_known.unionAll(never_settled))
    found = figures(settled, waiting_messages(waiting(spark, [])), span_of(NOON, NOON + timedelta(hours=1), None))
    rows = {name: found[name].collect() for name in ("totals", "kinds", "waiting_time", "backlog")}
    assert [(row.queue, row.kind, row.messages) for row in rows["kinds"]] == [("(none)", "(none)", 1)]
    assert {(row.queue, row.waiting_p50, row.retried_share) for row in rows["totals"]} == {
        (None, None, None),
        ("(none)", None, None),
    }
    assert rows["waiting_time"] == rows["backlog"] == []


def test_a_page_states_what_is_unknown() -> None:
    known = {"messages": 1, "completed": 1, "dead_lettered": 0, "dead_letter_share": 0.0, "per_second": 0.1}
    times = dict.fromkeys(["waiting_p50", "waiting_p99", "processing_p50", "processing_p99", "retried_share"])
    totals = [{"view": view, **known, **times, "extra_deliveries": 0} for view in (None, "orders")]
    span = span_of(NOON, NOON + BUCKET, None)
    made = page("Little", Digest(span, ["orders"], 0, True, {"totals": totals}), span.bucket)
    assert "No processing time is known." in made
    assert "Nothing was dead-lettered." in made
    assert "There is nothing to show." in made
    assert words.UNKNOWN in made
    assert "<select" not in made


@pytest.mark.parametrize("queues", [1, 8])
def test_a_page_of_many_buckets_is_below_a_megabyte_and_names_the_width_of_its_steps(queues: int) -> None:
    span = page_span(span_of(NOON, NOON + timedelta(days=365), timedelta(hours=3)), 1 + queues)
    made = page("A year", long_digest(queues, span), timedelta(hours=3))
    assert len(made.encode()) < 1_000_000
    shown = {1: "1 day", 8: "4 days"}[queues]
    assert f"in steps of {shown}; of percentiles and maxima the highest of any 3 hours, which the files have" in made


def test_joined_buckets_have_sums_the_last_backlog_and_the_highest_percentiles(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.spark.report.digest.MOST_POINTS", 3 * 9)
    made = Made(report(history(spark, ROWS), tmp_path, since=SINCE, until=UNTIL, bucket=BUCKET), ROWS)
    digest = digest_of_files(made)
    assert digest.span.bucket == 2 * BUCKET
    for figure, value, join in (("throughput", "messages", sum), ("waiting_time", "p99", max)):
        expected: dict[datetime, list[Any]] = defaultdict(list)
        for (name, start), rows in grouped_figure(made, figure).items():
            if name == "orders":
                expected[start - (start - EPOCH) % digest.span.bucket] += [row[value] for row in rows]
        found: dict[datetime, list[Any]] = defaultdict(list)
        for row in digest.of(figure, "orders"):
            found[EPOCH + timedelta(microseconds=row["bucket"])].append(row[value])
        assert {start: join(values) for start, values in found.items()} == {
            start: join(values) for start, values in expected.items()
        }
    backlog = made.figure("backlog", "queue", "bucket")
    last = max(start for _, start in backlog)
    assert digest.of("backlog", "orders")[-1]["backlog"] == backlog["orders", last]["backlog"]


def grouped_figure(made: Made, figure: str) -> dict[Any, list[dict[str, Any]]]:
    found = defaultdict(list)
    for row in pyarrow.parquet.read_table(made.report.figures[figure]).to_pylist():
        found[row["queue"], _aware(row["bucket"])].append(row)
    return found


def long_digest(queues: int, span: Span) -> Digest:
    """A digest in which every bucket has every value."""
    chance = random.Random(20260301)
    names = [f"queue-{number}" for number in range(queues)]
    rows = defaultdict[str, list[dict[str, Any]]](list)
    for view in [None, *names]:
        times = dict.fromkeys(["waiting_p50", "waiting_p99", "processing_p50", "processing_p99", "retried_share"], 0.5)
        counts = {"messages": 9, "completed": 8, "dead_lettered": 1, "dead_letter_share": 0.1, "extra_deliveries": 5}
        rows["totals"].append({"view": view, "queue": view, "per_second": 0.1, **counts, **times})
        for start in map(micros, span.starts()):
            key = {"view": view, "bucket": start}
            for outcome in ("COMPLETED", "DEAD_LETTERED", "EXPIRED"):
                rows["throughput"].append({**key, "outcome": outcome, "messages": chance.randrange(100_000)})
            for name in [view] if view else names:
                counts = {"came": chance.randrange(999), "backlog": chance.randrange(9999)}
                rows["backlog"].append({**key, "queue": name, **counts})
                for figure in ("waiting_time", "processing_time"):
                    values = sorted(chance.lognormvariate(3, 2) for _ in range(4))
                    times = dict(zip(("p50", "p90", "p99", "max"), values, strict=True))
                    rows[figure].append({**key, "queue": name, **times})
            spent = {"processing_seconds": 100 + chance.random(), "retried_seconds": 100 * chance.random()}
            share = spent["retried_seconds"] / spent["processing_seconds"]
            rows["retry_cost"].append({**key, **spent, "retried_share": share})
    return Digest(span, names, 0, True, rows)


@pytest.mark.parametrize("name", ["my reports", "a%20b", "#1", "größer"])
def test_an_output_is_the_directory_of_this_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    made = report(history(spark, [Settled()]), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert {path.name for path in (tmp_path / name).iterdir()} == {"report.html", *EVERY_FIGURE}
    assert (made.page, made.messages) == (tmp_path / name / "report.html", 1)


@pytest.mark.parametrize("name", ["report[1]", "report*", "{report}"])
def test_an_output_that_is_a_pattern_is_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    with pytest.raises(NotReportable, match="which Spark reads as a pattern"):
        report(history(spark, []), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("column", ["settled_at", "first_locked_at", "subject"])
def test_a_missing_column_is_named_with_a_remedy(spark: SparkSession, tmp_path: Path, column: str) -> None:
    with pytest.raises(NotReportable, match=rf"no column '{column}': select it from .* or add it as null"):
        report(history(spark, []).drop(column), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_column_of_another_type_is_named(spark: SparkSession, tmp_path: Path) -> None:
    frame = history(spark, []).selectExpr("* except (settled_at)", "'yesterday' as settled_at")
    with pytest.raises(NotReportable, match=r"'settled_at' of history is string, not timestamp.*: cast it"):
        report(frame, tmp_path)


def test_a_frame_of_waiting_messages_needs_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="waiting has no column 'enqueued_time'"):
        report(history(spark, []), tmp_path, waiting=waiting(spark, []).drop("enqueued_time"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"since": NOON, "until": NOON}, "is not before until"),
        ({"since": NOON.replace(tzinfo=None)}, "since has no time zone"),
        ({"bucket": timedelta(milliseconds=500)}, "whole seconds"),
        ({"bucket": timedelta(seconds=1), "since": NOON, "until": NOON + timedelta(days=1)}, "choose longer ones"),
        ({"top": 0}, "top must be 1 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(NotReportable, match=problem):
        report(history(spark, []), tmp_path, **options)
    assert not list(tmp_path.iterdir())


@given(
    st.timedeltas(timedelta(days=-9000), timedelta(days=9000)).map(lambda away: NOON + away),
    st.timedeltas(timedelta(microseconds=1), timedelta(days=70)),
)
def test_a_span_is_cut_into_a_readable_number_of_buckets(since: datetime, length: timedelta) -> None:
    span = span_of(since, since + length, None)
    starts = list(span.starts())
    assert 1 <= len(starts) == span.buckets <= 121
    assert starts[0] <= since < starts[0] + span.bucket
    assert starts[-1] < span.until <= starts[-1] + span.bucket


def test_a_run_of_a_minute_has_curves() -> None:
    assert span_of(NOON, NOON + timedelta(minutes=1), None).buckets == 60


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (None, "—"),
        (0, "0 s"),
        (0.00035, "350 µs"),
        (0.0122, "12.2 ms"),
        (1.25, "1.25 s"),
        (59.99, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (187200, "2 d 4 h"),
        (-2, "\N{MINUS SIGN}2 s"),
    ],
)
def test_a_duration_is_written_in_one_unit_or_two(length: float | None, said: str) -> None:
    assert words.duration(length).replace(words.THIN, " ") == said


@pytest.mark.parametrize(
    ("part", "said"), [(0, "0 %"), (0.0001, "< 0.1 %"), (0.125, "12.5 %"), (0.9999, "> 99.9 %"), (1, "100 %")]
)
def test_a_little_is_never_nothing(part: float, said: str) -> None:
    assert words.share(part).replace(words.THIN, " ") == said
