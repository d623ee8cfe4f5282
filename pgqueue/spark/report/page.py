"""The page: one HTML file that needs only a browser, and no network."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pgqueue.model.printable import printable
from pgqueue.spark.report import tables, words
from pgqueue.spark.report.digest import OTHERS, Digest

HERE = Path(__file__).parent
FILTERS = {
    "bucket": words.bucket,
    "count": words.count,
    "duration": words.duration,
    "moment": words.moment,
    "name": lambda text: {None: "All queues", OTHERS: "other queues"}.get(text) or printable(text),
    "rate": words.rate,
    "share": words.share,
}


def page(title: str, digest: Digest, bucket: timedelta) -> str:
    """The HTML of a report whose files have this bucket; the template escapes everything that comes from messages."""
    templates = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= FILTERS
    return templates.get_template("page.html").render(
        title=title,
        digest=digest,
        bucket=bucket,
        views=digest.views if digest.messages else [],
        of_queues=[row for queue in digest.queues for row in digest.of("totals", queue)],
        declared=tables,
        style=(HERE / "page.css").read_text(encoding="utf-8"),
    )
