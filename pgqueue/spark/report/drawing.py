"""The geometry of a chart: paths of SVG in a box that is stretched to the chart's size, and the ticks beside it.

The box is two units wide for each bucket and 1000 high. Ticks are percentages of it, because their texts must not be
stretched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from pgqueue.spark.report import words
from pgqueue.spark.report.charts import Chart, Mark, Series
from pgqueue.spark.report.columns import Unit
from pgqueue.spark.report.span import EPOCH, ROUND_BUCKETS, Span

HEIGHT = 1000
MOST_TICKS = 7
#: A logarithmic axis has no zero: shorter times, in seconds, are drawn here.
SHORTEST = 1e-3
#: The possible ticks of such an axis, in seconds; the shortest and longest value where fewer than two are in between.
MARKS = (SHORTEST, 1e-2, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)


@dataclass(frozen=True)
class Tick:
    """A text beside an axis, and its place in percent."""

    text: str
    at: float


@dataclass(frozen=True)
class Drawing:
    """A chart that is drawn: a path for each series, and the ticks of both axes.

    A bar reaches down to zero, so the first series is drawn last, over those that are stacked on it.
    """

    paths: Sequence[str]
    values: Sequence[Tick]
    times: Sequence[Tick]


def drawing(chart: Chart, series: Sequence[Series], span: Span) -> Drawing:
    """Draw the series of a chart."""
    if chart.mark is Mark.BARS:
        return Drawing(*_bars([each.values for each in series], chart.unit), _times(span))
    return Drawing(*_lines([each.values for each in series]), _times(span))


def _bars(stacked: Sequence[Sequence[float | None]], unit: Unit) -> tuple[list[str], list[Tick]]:
    tops = [
        [sum(value or 0 for value in below) for below in zip(*stacked[: n + 1], strict=True)]
        for n in range(len(stacked))
    ]
    most = max(tops[-1]) or 1
    top = 1.05 * most
    paths = ["M0 1000" + "".join(f"V{_down(each / top)}h2" for each in heights) + "V1000" for heights in tops]
    step = _round_step(most, 1 if unit is Unit.COUNT else 0)
    ticks = [step * number for number in range(int(most / step) + 1)]
    return paths, [Tick(words.said(each, unit).replace(".0", ""), 100 * each / top) for each in ticks]


def _lines(lines: Sequence[Sequence[float | None]]) -> tuple[list[str], list[Tick]]:
    known = [max(value, SHORTEST) for values in lines for value in values if value is not None]
    low, high = math.log(min(known) / 1.3), math.log(max(known) * 1.3)

    def at(value: float) -> float:
        return (math.log(max(value, SHORTEST)) - low) / (high - low)

    inside = [each for each in MARKS if 0 <= at(each) <= 1]
    ticks = inside if len(inside) > 1 else sorted({min(known), max(known)})
    texts = [("≤ " if each == SHORTEST else "") + words.duration(each) for each in ticks]
    paths = ["".join(_line([None if each is None else _down(at(each)) for each in values])) for values in lines]
    return paths, [Tick(text, 100 * at(each)) for text, each in zip(texts, ticks, strict=True)]


def _line(heights: Sequence[int | None]) -> Iterator[str]:
    """A line through the middle of each bucket, interrupted where there is no value; a single value is a dot."""
    for is_gap, points in groupby(enumerate(heights), key=lambda point: point[1] is None):
        if not is_gap:
            text = " ".join(f"{2 * index + 1} {height}" for index, height in points)
            yield f"M{text}" if " " in text.partition(" ")[2] else f"M{text}h0"


def _times(span: Span) -> list[Tick]:
    """Round times, a few of them."""
    whole = span.buckets * span.bucket
    steps = (*ROUND_BUCKETS, *(timedelta(days=each) for each in (28, 91, 364)))
    step = next((step for step in steps if whole / step <= MOST_TICKS), whole)
    first = span.start + (EPOCH - span.start) % step
    moments = [first + number * step for number in range((span.start + whole - first) // step + 1)]
    return [Tick(words.short_moment(each), 100 * ((each - span.start) / whole)) for each in moments]


def _round_step(most: float, least: float) -> float:
    """The shortest round step of which at most five fit."""
    power: float = 10 ** math.floor(math.log10(most / 5))
    return max(least, next(power * each for each in (1, 2, 5, 10) if most / (power * each) <= 5))


def _down(part: float) -> int:
    """A height from the bottom, as SVG counts from the top."""
    return HEIGHT - round(HEIGHT * part)
