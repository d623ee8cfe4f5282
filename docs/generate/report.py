"""The figures of Spark's report, from their descriptions."""

from __future__ import annotations

from docs.generate.text import code, table
from pgqueue.spark.report.columns import COLUMNS, FIGURES


def report_figures() -> str:
    """A row for each directory of Parquet files."""
    return table(
        ["directory", "a row for each", "columns", "how to read it"],
        ([f"`{name}`", code(each.keys), code(each.measures), each.reading] for name, each in FIGURES.items()),
    )


def report_columns() -> str:
    """A row for each column of these files."""
    written = {name for figure in FIGURES.values() for name in figure.keys + figure.measures}
    return table(
        ["column", "unit", "meaning"],
        ([f"`{each.name}`", each.unit, each.meaning] for each in COLUMNS.values() if each.name in written),
    )
