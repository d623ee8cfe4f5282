"""The page: one HTML file that needs only a browser, and no network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from plotly.offline import get_plotlyjs

from pgqueue.model.printable import printable
from pgqueue.spark.report import words
from pgqueue.spark.report.digest import FEW_MESSAGES, Digest, Row
from pgqueue.spark.report.questions import QUESTIONS, Question

HERE = Path(__file__).parent
EMPTY = "No message was settled in this time, so there is nothing to show."
HOW_EMPTY = (
    "Queues keep history when they are asked to: <code>alter_queue('…', retain_history => interval '30 days')</code>. "
    "It begins with what is settled from then on."
)

Cell = Callable[[Row], str]
Columns = dict[str, Cell]


def page(title: str, digest: Digest) -> str:
    """The HTML of a report; everything that comes from messages is escaped."""
    program = (HERE / "page.js").read_text(encoding="utf-8")
    body = _filled(digest) if digest.messages else f"<p class='empty'>{EMPTY}</p><p class='reading'>{HOW_EMPTY}</p>"
    scripts = [_plotly(), program] if digest.messages else []
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_content_security_policy(scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{_escaped(title)}</title>
<style>{(HERE / "page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<div><h1>{_escaped(title)}</h1><p class="span">{_span(digest)}</p></div>
{_chooser(digest)}
</header>
<main>
{body}
</main>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def _content_security_policy(scripts: Sequence[str]) -> str:
    """Allow our own scripts only, whatever text messages contain; allow no requests."""
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _plotly() -> str:
    return str(get_plotlyjs()).replace("\r\n", "\n")  # browsers normalise newlines before they compute the digest


def _span(digest: Digest) -> str:
    span = digest.span
    if not span.buckets:
        return "no settled messages"
    since, until = (
        f"<time datetime='{each.isoformat()}'>{words.moment(each)}</time>" for each in (span.since, span.until)
    )
    length = words.duration((span.until - span.since).total_seconds())
    return f"{since} to {until} UTC ({length}), in steps of {words.bucket(span.bucket)}"


def _chooser(digest: Digest) -> str:
    if not digest.messages or len(digest.views) == 1:
        return ""
    options = "".join(f"<option value='{number}'>{_name(view)}</option>" for number, view in enumerate(digest.views))
    more = f"<small>the {len(digest.queues)} busiest of {len(digest.queues) + digest.more_queues}</small>"
    return (
        f"<label class='chooser'>Queue <select id='view'>{options}</select>{more if digest.more_queues else ''}</label>"
    )


def _filled(digest: Digest) -> str:
    charts = {question.name: [question.chart(digest, view) for view in digest.views] for question in QUESTIONS}
    embedded = json.dumps(charts, separators=(",", ":")).replace("<", "\\u003c")
    sections = "\n".join(_section(question) for question in QUESTIONS)
    by_queue = _by_queue(digest) if len(digest.views) > 1 else ""
    return f"""{_of_views(digest, _headlines)}
{by_queue}
<noscript><p class="empty">The charts need JavaScript; the numbers and tables do not.</p></noscript>
<div class="questions">
{sections}
{_of_views(digest, _slowest)}
{_of_views(digest, _poisonous)}
</div>
<script type="application/json" id="charts">{embedded}</script>"""


def _section(question: Question) -> str:
    wide = " class='wide'" if question.name == "dead_letters" else ""
    return f"""<section{wide} aria-labelledby="{question.name}-title">
<h2 id="{question.name}-title">{question.title}</h2>
<p class="reading" id="{question.name}-reading">{question.reading}</p>
<div class="chart" id="{question.name}" role="img" aria-labelledby="{question.name}-title"
 aria-describedby="{question.name}-reading"></div>
</section>"""


def _of_views(digest: Digest, part: Callable[[Digest, str | None], str]) -> str:
    """A part of the page for each view; all but the first are hidden until they are chosen."""
    return "\n".join(
        f"<div class='wide' data-view='{number}'{' hidden' if number else ''}>{part(digest, view)}</div>"
        for number, view in enumerate(digest.views)
    )


def _headlines(digest: Digest, view: str | None) -> str:
    row = digest.of("totals", view)[0]
    left = digest.of("backlog", view)
    numbers = [
        ("settled", words.count(row["messages"]), f"{words.rate(row['per_second'])} a second"),
        (
            "completed",
            words.share(row["completed"] / row["messages"]),
            f"{words.count(row['completed'])} messages",
        ),
        (
            "dead-lettered",
            words.share(row["dead_letter_share"]),
            f"{words.count(row['dead_lettered'])} messages",
        ),
        (
            "median waiting",
            words.duration(row["waiting_p50"]),
            f"99{words.THIN}% within {words.duration(row['waiting_p99'])}",
        ),
        (
            "median processing",
            words.duration(row["processing_p50"]),
            f"99{words.THIN}% within {words.duration(row['processing_p99'])}",
        ),
        (
            "extra deliveries",
            words.count(row["extra_deliveries"]),
            f"retried: {words.share(row['retried_share'])} of the work",
        ),
    ]
    if digest.has_waiting:
        numbers.append(("waiting at the end", words.count(left[-1]["backlog"] if left else 0), "messages"))
    tiles = "".join(
        f"<div class='tile'><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>" for name, value, more in numbers
    )
    return f"<dl class='tiles'>{tiles}</dl>"


def _by_queue(digest: Digest) -> str:
    columns: Columns = {
        "queue": lambda row: _name(row["view"]),
        "settled": lambda row: words.count(row["messages"]),
        "per second": lambda row: words.rate(row["per_second"]),
        "dead-lettered": lambda row: words.share(row["dead_letter_share"]),
        "waited p50": lambda row: words.duration(row["waiting_p50"]),
        "waited p99": lambda row: words.duration(row["waiting_p99"]),
        "processed p50": lambda row: words.duration(row["processing_p50"]),
        "processed p99": lambda row: words.duration(row["processing_p99"]),
        "extra deliveries": lambda row: words.count(row["extra_deliveries"]),
    }
    rows = [row for queue in digest.queues for row in digest.of("totals", queue)]
    more = f" {words.count(digest.more_queues)} more are in the files." if digest.more_queues else ""
    table = _table("Every queue beside the others", columns, rows)
    return f"""<section data-view="0" class="queues"><h2>Which queues are there?</h2>
<p class="reading">The queues with the most settled messages, side by side.{more}</p>{table}</section>"""


def _slowest(digest: Digest, view: str | None) -> str:
    rows = digest.of("slowest", view)
    columns = _kind_columns(view) | {
        "p50": lambda row: words.duration(row["p50"]),
        "p99": lambda row: words.duration(row["p99"]),
        "slowest": lambda row: words.duration(row["max"]),
    }
    return _kinds(
        "Which kinds of message are slow?",
        "By the 99th percentile of processing time.",
        _table("The slowest kinds of message", columns, rows)
        if rows
        else "<p class='empty'>No processing time is known.</p>",
    )


def _poisonous(digest: Digest, view: str | None) -> str:
    rows = digest.of("poisonous", view)
    columns = _kind_columns(view) | {
        "dead-lettered": lambda row: words.count(row["dead_lettered"]),
        "share": lambda row: _with_bar(row["dead_letter_share"]),
        "deliveries each": lambda row: f"{row['deliveries'] / row['messages']:.1f}",
    }
    return _kinds(
        "Which kinds of message are poisonous?",
        "By the share of them that were dead-lettered.",
        _table("The most poisonous kinds of message", columns, rows)
        if rows
        else "<p class='empty'>Nothing was dead-lettered.</p>",
    )


def _kinds(title: str, reading: str, table: str) -> str:
    return f"""<section><h2>{title}</h2>
<p class="reading">{reading} A kind is the subject of a message, else its content type;
kinds of fewer than {FEW_MESSAGES} messages come last.</p>{table}</section>"""


def _kind_columns(view: str | None) -> Columns:
    queue: Columns = {"queue": lambda row: _name(row["queue"])} if view is None else {}
    return {
        "kind": lambda row: _name(row["kind"]),
        **queue,
        "messages": lambda row: words.count(row["messages"]),
    }


def _table(caption: str, columns: Columns, rows: Sequence[Row]) -> str:
    """A table whose first column is the header of its row."""
    first, *others = columns
    head = "".join(f"<th scope='col'{_kind_of_cell(name)}>{name}</th>" for name in columns)
    lines = "".join(
        f"<tr><th scope='row'>{columns[first](row)}</th>"
        + "".join(f"<td{_kind_of_cell(name)}>{columns[name](row)}</td>" for name in others)
        + "</tr>"
        for row in rows
    )
    return (
        f"<div class='scroll' tabindex='0' role='region' aria-label='{caption}'><table><caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _kind_of_cell(column: str) -> str:
    return " class='text'" if column == "queue" else ""


def _with_bar(part: float) -> str:
    return f"<span class='bar' style='--part:{100 * part:.1f}%'></span>{words.share(part)}"


def _name(text: str | None) -> str:
    return "All queues" if text is None else _escaped(text)


def _escaped(text: str) -> str:
    return html.escape(printable(text))
