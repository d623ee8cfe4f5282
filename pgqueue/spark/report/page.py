"""The page: one HTML file that needs only a browser, and no network."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pgqueue.model.printable import printable
from pgqueue.spark.report import charts, words
from pgqueue.spark.report.digest import Digest
from pgqueue.spark.report.drawing import drawing
from pgqueue.spark.report.thinning import thinned

HERE = Path(__file__).parent
FILTERS = {
    "bucket": words.bucket,
    "count": words.count,
    "duration": words.duration,
    "moment": words.moment,
    "name": lambda text: "All queues" if text is None else printable(text),
    "rate": words.rate,
    "said": words.said,
    "share": words.share,
}


def page(title: str, digest: Digest) -> str:
    """The HTML of a report; the template escapes everything that comes from messages."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    templates = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= FILTERS
    bucket = digest.span.bucket
    digest = thinned(digest)
    return templates.get_template("page.html").render(
        title=title,
        digest=digest,
        bucket=bucket,
        views=digest.views if digest.messages else [],
        of_queues=[row for queue in digest.queues for row in digest.of("totals", queue)],
        declared=charts,
        drawing=drawing,
        style=style,
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
