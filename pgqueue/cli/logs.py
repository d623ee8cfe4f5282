"""The log of a command that runs for long, on standard error: lines for people, or JSON for programs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum

from pgqueue.model.printable import printable

#: The attributes of every record; what a record has besides these was given as ``extra``.
OF_EVERY_RECORD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


LogLevel = StrEnum("LogLevel", ["DEBUG", "INFO", "WARNING", "ERROR"])
LogFormat = StrEnum("LogFormat", ["TEXT", "JSON"])


class JsonFormatter(logging.Formatter):
    """An object in one line for each record, with the fields that it has about a message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in OF_EVERY_RECORD},
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


class TextFormatter(logging.Formatter):
    """A line for each record, and indented lines after it for an error.

    A text from a message cannot control the terminal, nor pass for a record of its own.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines."""
        return printable(super().format(record)).replace("\n", "\n    ")


def log_to_stderr(level: LogLevel, form: LogFormat, *, with_process: bool) -> None:
    """Set up the log of this process; lines name it where several processes write."""
    process = "[%(process)d] " if with_process else ""
    lines = TextFormatter(f"%(asctime)s %(levelname)s {process}%(name)s: %(message)s")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form is LogFormat.JSON else lines)
    logging.basicConfig(level=level.name, handlers=[handler])
