"""Two kinds of pictures as SVG, on a white ground, so that they are read on any page: bars, and lines over places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH = 760
LEFT, RIGHT, TOP = 280, 90, 56
ROW = 26
COLORS = ("#1f6feb", "#d1570f", "#1a7f37", "#8250df", "#6e7781")
OURS, OTHERS = COLORS[0], "#afb8c1"


@dataclass(frozen=True)
class Bar:
    """``low`` and ``high`` are shown as a whisker."""

    label: str
    value: float
    low: float
    high: float
    is_ours: bool = False


@dataclass(frozen=True)
class Line:
    """A value at each place. Lines of one color belong together."""

    label: str
    values: Sequence[float]
    color: int = 0
    is_dashed: bool = False


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """A row a bar; longer is more."""
    most = max(row.high for row in rows)
    scale = (WIDTH - LEFT - RIGHT) / most
    parts = []
    for nth, row in enumerate(rows):
        top = TOP + nth * ROW
        middle, end = top + 9, LEFT + row.value * scale
        fill = OURS if row.is_ours else OTHERS
        parts += [
            _text(LEFT - 8, middle + 4, row.label, "end"),
            f'<rect x="{LEFT}" y="{top}" width="{end - LEFT:.1f}" height="18" fill="{fill}"/>',
            _line(LEFT + row.low * scale, middle, LEFT + row.high * scale, middle, "#24292f", 1.5),
            _text(max(end, LEFT + row.high * scale) + 6, middle + 4, _short(row.value)),
        ]
    return _picture(title, unit, TOP + len(rows) * ROW + 12, parts)


def lines(title: str, unit: str, places: Sequence[str], counts: str, series: Sequence[Line]) -> str:
    """The scale begins at nothing."""
    left, right, height = 70, 190, 260
    most = _round_up(max(value for line in series for value in line.values))
    step = (WIDTH - left - right) / max(len(places) - 1, 1)
    bottom = TOP + height
    parts = [_text(left + step * (len(places) - 1) / 2, bottom + 42, counts, "middle")]
    for nth in range(5):
        y = bottom - height * nth / 4
        parts += [_line(left, y, WIDTH - right, y, "#d0d7de", 1), _text(left - 8, y + 4, _short(most * nth / 4), "end")]
    parts += [_text(left + step * nth, bottom + 20, place, "middle") for nth, place in enumerate(places)]
    labels: list[float] = []
    for line in series:
        color = COLORS[line.color % len(COLORS)]
        points = [(left + step * nth, bottom - height * value / most) for nth, value in enumerate(line.values)]
        parts += [_line(*here, *there, color, 2, is_dashed=line.is_dashed) for here, there in pairwise(points)]
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
        labels.append(_free(points[-1][1], labels))
        parts.append(_text(points[-1][0] + 8, labels[-1] + 4, line.label, fill=color))
    return _picture(title, unit, bottom + 56, parts)


def _free(wanted: float, taken: Sequence[float]) -> float:
    """The nearest place for a label, above or below, that no other label covers."""
    tried = (wanted + sign * away for away in range(0, 400, 2) for sign in (1, -1))
    return next(y for y in tried if all(abs(y - other) >= 15 for other in taken))


def _picture(title: str, unit: str, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"'
    style = (
        f'width="{WIDTH}" height="{height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="13" role="img"'
    )
    ground = f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="#ffffff"/>'
    titles = [_text(16, 24, title, size=16), _text(16, 43, unit, fill="#57606a")]
    return "\n".join([f"{head} {style}>", ground, *titles, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#24292f", size: int = 13) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">{escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float, *, is_dashed: bool = False) -> str:
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    dashes = ' stroke-dasharray="6 4"' if is_dashed else ""
    return f'<line {place} stroke="{stroke}" stroke-width="{width}"{dashes}/>'


def _round_up(value: float) -> float:
    """To a number of one digit and zeros, or a half more."""
    unit = 10 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return math.ceil(value / unit * 2) / 2 * unit


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"
