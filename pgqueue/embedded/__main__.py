"""``python -m pgqueue.embedded [DIRECTORY]``: the server in a terminal of its own, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from pgqueue import embedded
from pgqueue.embedded.directories import default_directory
from pgqueue.embedded.server import ServerError

STOPS = (signal.SIGINT, signal.SIGTERM)


def main(arguments: list[str]) -> int:
    """Start the server, print its DSN, and wait for a signal; what was registered for the exit stops the server."""
    if len(arguments) > 1 or any(each.startswith("-") for each in arguments):
        sys.stderr.write("usage: python -m pgqueue.embedded [DIRECTORY]\n")
        return 2
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # from here on they wait for sigwait
    directory = Path(*arguments) if arguments else default_directory()
    try:
        dsn = embedded.start(directory)
    except (ServerError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write(f"the data are in {directory}; Ctrl-C or SIGTERM stops the server, and they stay\n")
    sys.stdout.write(f"{dsn}\n")
    sys.stdout.flush()
    signal.sigwait(STOPS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
