"""The charts of a view for plotly: traces and layout; the page resolves the names of colours."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pgqueue.model.printable import printable
from pgqueue.spark.report import words
from pgqueue.spark.report.digest import MANY_DELIVERIES, Digest, Row
from pgqueue.spark.report.span import Span, micros

Chart = Mapping[str, Any]

OUTCOMES = ("COMPLETED", "RECEIVED_AND_DELETED", "DEAD_LETTERED", "EXPIRED", "PURGED", "CANCELLED")
LINES = {"p50": "half", "p90": "9 of 10", "p99": "99 of 100", "max": "all"}
LONGEST_LABEL = 70
MILLISECOND = timedelta(milliseconds=1)
#: A logarithmic axis has no zero: shorter times, in seconds, are drawn here.
SHORTEST = 1e-3
#: The possible ticks of such an axis, in seconds.
MARKS = (SHORTEST, 1e-2, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)
FINE_MARKS = (SHORTEST, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


def throughput(digest: Digest, view: str | None) -> Chart | None:
    """Messages settled in each bucket, in a colour for each outcome."""
    seconds = digest.span.bucket.total_seconds()
    found = digest.of("throughput", view)
    outcomes = sorted({row["outcome"] for row in found}, key=_place)
    traces = []
    for outcome in outcomes:
        messages = _over_time(digest.span, (row for row in found if row["outcome"] == outcome), "messages", 0)
        said = [f"{words.count(each)} ({words.rate(each / seconds)}/s)" if each else "0" for each in messages]
        color = f"--outcome-{outcome.lower().replace('_', '-')}" if outcome in OUTCOMES else "--muted"
        traces.append(_bars(digest.span, messages, said, outcome, color))
    return _time_chart(
        digest.span, traces, yaxis={"title": {"text": f"messages per {_each(digest.span)}"}}, barmode="stack"
    )


def backlog(digest: Digest, view: str | None) -> Chart | None:
    """The number of messages at the end of each bucket; in the view of all queues, stacked by queue."""
    shown = list(digest.queues) if view is None else [view]
    layers = [(queue, _left(digest, queue), _color_of(digest, queue)) for queue in shown]
    if view is None and digest.has_more:
        of_shown = [sum(at_once) for at_once in zip(*(left for _, left, _ in layers), strict=True)]
        rest = [whole - part for whole, part in zip(_left(digest, None), of_shown, strict=True)]
        layers.append(("other queues", rest, "--muted"))
    traces = [_layer(digest.span, left, queue, color) for queue, left, color in layers]
    return _time_chart(digest.span, traces, yaxis={"title": {"text": "messages"}, "rangemode": "tozero"})


def waiting_time(digest: Digest, view: str | None) -> Chart | None:
    """From being enqueued to the first lock."""
    return _times(digest, view, "waiting_time")


def processing_time(digest: Digest, view: str | None) -> Chart | None:
    """From the first lock to the settlement."""
    return _times(digest, view, "processing_time")


def delivery_counts(digest: Digest, view: str | None) -> Chart | None:
    """The share of messages by number of deliveries."""
    found = {row["delivery_count"]: row["messages"] for row in digest.of("delivery_counts", view)}
    if not found:
        return None
    whole = sum(found.values())
    counts = range(min(found), max(found) + 1)
    shares = [found.get(each, 0) / whole for each in counts]
    trace = {
        "type": "bar",
        "x": [f"{each} or more" if each == MANY_DELIVERIES else str(each) for each in counts],
        "y": shares,
        "text": [words.share(each) if each else "" for each in shares],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [words.count(found.get(each, 0)) for each in counts],
        "hovertemplate": "%{customdata} messages<extra></extra>",
        "marker": {"color": ["--calm" if each <= 1 else "--warn" for each in counts]},
    }
    axis = {"tickformat": ".0%", "title": {"text": "share of messages"}, "range": [0, 1.12 * max(shares)]}
    deliveries = {"type": "category", "dtick": 1, "title": {"text": "deliveries"}}
    return _chart([trace], xaxis=deliveries, yaxis=axis, showlegend=False, hovermode="closest", bargap=0.3)


def retry_cost(digest: Digest, view: str | None) -> Chart | None:
    """The share of processing time that went into messages with more than one delivery."""
    found = digest.of("retry_cost", view)
    spent = _over_time(digest.span, found, "processing_seconds", 0)
    again = _over_time(digest.span, found, "retried_seconds", 0)
    if not any(spent):
        return None
    shares = [round(part / whole, 6) if whole else None for part, whole in zip(again, spent, strict=True)]
    said = [
        f"{words.share(part)} of {words.duration(whole)}" if whole else "nothing"
        for part, whole in zip(shares, spent, strict=True)
    ]
    trace = _bars(digest.span, [part or 0 for part in shares], said, "in messages delivered more than once", "--warn")
    axis = {"tickformat": ".0%", "title": {"text": "share of processing time"}, "rangemode": "tozero"}
    return _time_chart(digest.span, [trace], yaxis=axis, showlegend=False)


def dead_letters(digest: Digest, view: str | None) -> Chart | None:
    """The most frequent reasons, in order, and all others together."""
    found = [(str(row["reason"]), int(row["messages"])) for row in digest.of("dead_letters", view)]
    dead = sum(int(row["dead_lettered"]) for row in digest.of("totals", view))
    rest = dead - sum(messages for _, messages in found)
    if rest:
        found.append(("(other reasons)", rest))
    if not dead:
        return None
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [messages for _, messages in found],
        "y": list(range(len(found))),
        "width": 0.36,
        "text": [f"{words.count(messages)} ({words.share(messages / dead)})" for _, messages in found],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [_escaped(reason, 300) for reason, _ in found],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"color": "--outcome-dead-lettered"},
    }
    labels = [_label_above(index, reason) for index, (reason, _) in enumerate(found)]
    longest = max(messages for _, messages in found)
    return _chart(
        [trace],
        annotations=labels,
        height=40 + 54 * len(found),
        xaxis={"type": "linear", "range": [0, 1.35 * longest], "visible": False},
        yaxis={"range": [len(found) - 0.5, -0.75], "visible": False},
        margin={"l": 4, "r": 12, "t": 0, "b": 0},
        hovermode="closest",
        showlegend=False,
    )


def _times(digest: Digest, view: str | None, figure: str) -> Chart | None:
    """The percentiles of one queue, or the 99th of each queue."""
    if view is None:
        lines = [(queue, digest.of(figure, queue), "p99", _color_of(digest, queue)) for queue in digest.queues]
    else:
        lines = [(f"{each} ({said})", digest.of(figure, view), each, f"--{each}") for each, said in LINES.items()]
    traces = [_line(digest.span, *line) for line in lines if line[1]]
    values = [value for trace in traces for value in trace["y"] if value is not None]
    if not values:
        return None
    title = {"title": {"text": "99th percentile"}} if view is None else {}
    return _time_chart(digest.span, traces, yaxis=_logarithmic(values) | title)


def _over_time(span: Span, rows: Iterable[Row], column: str, otherwise: Any) -> list[Any]:
    """A value for every bucket."""
    found = {row["bucket"]: row[column] for row in rows}
    return [found.get(micros(start), otherwise) for start in span.starts()]


def _left(digest: Digest, view: str | None) -> list[int]:
    """The backlog when the span began, and when each bucket ended."""
    found = digest.of("backlog", view)
    before = found[0]["backlog"] - found[0]["came"] + found[0]["went"] if found else 0
    return [before, *_over_time(digest.span, found, "backlog", 0)]


def _time_axis(span: Span, shift: float) -> dict[str, Any]:
    """The axis of buckets, which plotly numbers itself; ``shift`` moves the points by a part of a bucket."""
    return {
        "x0": words.moment(span.start + shift * span.bucket),
        "dx": span.bucket // MILLISECOND,
    }


def _bars(span: Span, values: Sequence[float], said: Sequence[str], name: str, color: str) -> dict[str, Any]:
    return {
        "type": "bar",
        **_time_axis(span, 0.5),
        "width": span.bucket // MILLISECOND,
        "y": values,
        "customdata": said,
        "hovertemplate": "%{customdata}",
        "name": _escaped(name),
        "marker": {"color": color, "line": {"width": 0}},
    }


def _layer(span: Span, values: Sequence[int], name: str, color: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "stackgroup": "queues",
        **_time_axis(span, 0),
        "y": values,
        "customdata": [words.count(each) for each in values],
        "hovertemplate": "%{customdata}",
        "name": _escaped(name),
        "line": {"color": color, "width": 0.8},
    }


def _line(span: Span, name: str, rows: Iterable[Row], column: str, color: str) -> dict[str, Any]:
    values = _over_time(span, rows, column, None)
    drawn = [None if each is None else max(each, SHORTEST) for each in values]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        **_time_axis(span, 0.5),
        "y": drawn,
        "customdata": [words.duration(each) for each in values],
        "hovertemplate": "%{customdata}",
        "name": _escaped(name),
        "line": {"color": color, "width": 2, "dash": "dot" if column == "max" else "solid"},
        "marker": {"color": color, "size": 4},
    }


def _logarithmic(values: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis with round ticks, from slightly below the values to slightly above."""
    low, high = min(values) / 1.3, max(values) * 1.3
    marks = next((some for some in (MARKS, FINE_MARKS) if sum(low <= each <= high for each in some) > 1), None)
    drawn = marks or [min(values), max(values)]
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": list(drawn),
        "ticktext": [("\u2264 " if each == SHORTEST else "") + words.duration(each) for each in drawn],
    }


def _chart(traces: Sequence[Mapping[str, Any]], **layout: Any) -> Chart | None:
    return {"data": list(traces), "layout": layout} if traces else None


def _time_chart(span: Span, traces: Sequence[Mapping[str, Any]], **layout: Any) -> Chart | None:
    """A chart over time; all share the same axis, so that the same time is at the same position."""
    ends = [words.moment(span.start), words.moment(span.start + span.buckets * span.bucket)]
    return _chart(traces, xaxis={"type": "date", "range": ends}, **layout)


def _label_above(index: int, text: str) -> dict[str, Any]:
    return {
        "x": 0,
        "y": index,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 11,
        "showarrow": False,
        "text": _escaped(text),
    }


def _escaped(text: str, longest: int = LONGEST_LABEL) -> str:
    """Text with HTML escaped, because plotly interprets some tags and links."""
    line = printable(" ".join(text.split()))
    return html.escape(line if len(line) <= longest else line[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}")


def _color_of(digest: Digest, queue: str) -> str:
    return f"--queue-{digest.queues.index(queue) + 1}"


def _place(outcome: str) -> int:
    return OUTCOMES.index(outcome) if outcome in OUTCOMES else len(OUTCOMES)


def _each(span: Span) -> str:
    return words.bucket(span.bucket).removeprefix("1 ")
