"""Joins buckets for the page, where only so many points of time are readable; the files have every bucket."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pgqueue.spark.report.columns import PERCENTILES
from pgqueue.spark.report.digest import Digest, Row
from pgqueue.spark.report.span import EPOCH, ROUND_BUCKETS, Span, micros, moment_of

#: Points of time on a page, those of each view counted: with all charts and their tables, less than 500 bytes each.
MOST_POINTS = 2000
LENGTHS = sorted((*ROUND_BUCKETS, timedelta(days=2), timedelta(days=4)))

ADDED = ("messages", "came", "processing_seconds", "retried_seconds")
HIGHEST = (*PERCENTILES, "max")


def thinned(digest: Digest) -> Digest:
    """The same, with fewer and longer buckets if there are too many for a page of less than a megabyte.

    Counts are added; the backlog is the one at the end; of percentiles and maxima the highest is kept.
    """
    span = _thinned_span(digest.span, MOST_POINTS // max(1, len(digest.views)))
    if span == digest.span:
        return digest
    return replace(digest, span=span, rows={name: _joined(rows, span) for name, rows in digest.rows.items()})


def _thinned_span(span: Span, most: int) -> Span:
    """The shortest round buckets, or else the shortest, that are few enough."""
    if span.buckets <= most:
        return span
    needed = -(-span.buckets // most) * span.bucket
    fitting = (each for each in LENGTHS if each >= needed and not each % span.bucket)
    return replace(span, bucket=next(fitting, needed))


def _joined(rows: Sequence[Row], span: Span) -> Sequence[Row]:
    groups = defaultdict(list)
    for row in rows:
        if "bucket" not in row:
            return rows
        start = moment_of(row["bucket"])
        start -= (start - EPOCH) % span.bucket
        groups[row["view"], micros(start), row.get("outcome")].append(row)
    return [{**_sum(group), "bucket": start} for (_, start, _), group in groups.items()]


def _sum(rows: Sequence[Row]) -> dict[str, Any]:
    """Several rows of one series as one; they come in the order of time."""
    joined = dict(rows[-1])
    for names, join in ((ADDED, sum), (HIGHEST, max)):
        for name in joined.keys() & set(names):
            known = [row[name] for row in rows if row[name] is not None]
            joined[name] = join(known) if known else None
    if joined.get("processing_seconds"):
        joined["retried_share"] = joined["retried_seconds"] / joined["processing_seconds"]
    return joined
