"""``python -m benchmarks.versions``: a week with three versions side by side; ends with 1 when a promise is broken."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import positive
from benchmarks.chaos import display
from benchmarks.chaos.__main__ import arena
from benchmarks.disasters.report import write
from benchmarks.versions import report
from benchmarks.versions.round import play
from pgqueue.testing.database import created


def main() -> None:
    options = _options()
    console = Console()
    books = Path(tempfile.mkdtemp(prefix="pgqueue-versions-"))
    shown = display.Display(console)
    shown.begin("a week")
    with arena() as place, created(place.server.dsn(), place.template) as database:
        played = play(
            place.server,
            database,
            options.seed,
            options.minutes * 60,
            books,
            breaking=options.breaking,
            watch=shown.show,
        )
        shown.close()
    rows = list(map(str, report.rows(played)))
    console.print("\n".join([f"\n{report.HEADING}", *rows]), highlight=False, markup=False, soft_wrap=True)
    if options.markdown:
        write(options.markdown, rows, report.HEADING)
    if found := played.result.violations:
        for violation in display.first(found):
            console.print(str(violation), highlight=False, markup=False, soft_wrap=True)
        console.print(f"\n[bold red]{display.counted(len(found), 'violation')}.[/] The books: {books}")
        sys.exit(1)
    shutil.rmtree(books)
    console.print("\n[bold green]Nothing was lost or doubled, and each refusal named its reason.[/]")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("--minutes", type=positive, default=3.0, help="for the week, besides joining and calming down")
    parser.add_argument("--seed", type=int, default=1, help="of the choices of all actors")
    parser.add_argument(
        "--breaking", action="store_true", help="the control: version 2 drops a verb that version 1 calls, which fails"
    )
    parser.add_argument("--markdown", type=Path, help="write the table to this page, in place of its table")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nbroken off: no verdict")
