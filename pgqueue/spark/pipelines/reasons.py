"""The reason of an error, taken from the long texts that Spark wraps it in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no type annotations
from pyspark.errors import AnalysisException, ParseException, PySparkException

from pgqueue.spark.errors import ColumnError, OptionError, PipelineError
from pgqueue.spark.java import JavaMissing
from pgqueue.spark.report import NotReportable
from pgqueue.spark.session import SparkMissing

#: The errors that :func:`reason_of` accepts.
KNOWN = (PySparkException, Py4JError, PipelineError, NotReportable, JavaMissing, SparkMissing)

TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"(?:\w+\.)*(\w+): (.+)")

#: What Spark puts around a text: the class of the error before it, and the SQLSTATE after it.
AROUND = re.compile(r"^(?:[\w.]+(?:Exception|Error): )?(?:\[[A-Z0-9_.]+\] )?|\.? +SQLSTATE: \w+.*$")
BEFORE = re.compile(
    r"^An error occurred while calling \S+\n: |^\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL
)

WRONG_USE = {"OptionError", "ColumnError", "NotReportable"}
OURS = WRONG_USE | {error.__name__ for error in PipelineError.__subclasses__()}


@dataclass(frozen=True)
class Reason:
    """One line about an error, and whether the caller's arguments caused it."""

    line: str
    is_wrong_use: bool
    is_known: bool = True
    """Whether the line is complete; otherwise Spark's log has more."""


def reason_of(error: Exception) -> Reason:
    """The reason of an error: the exception that Python raised in a worker, or the first sentence of Spark's text."""
    text = str(error)
    if TRACEBACK in text:
        name, line = _raised(text)
        return Reason(line, name in WRONG_USE, is_known=name in OURS)
    line = AROUND.sub("", _first_line(BEFORE.sub("", text.strip())))
    return Reason(line, _is_wrong_use(error), is_known=not isinstance(error, Py4JError))


def _raised(text: str) -> tuple[str, str]:
    """The exception at the end of the last traceback: its name and its text."""
    following = text.rsplit(TRACEBACK, 1)[1].splitlines()
    said = next((line for line in following if line and not line[0].isspace()), text)
    found = RAISED.fullmatch(said.strip())
    return (found[1], found[2]) if found else ("", said.strip())


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "Spark gives no reason")


def _is_wrong_use(error: Exception) -> bool:
    """Whether the arguments are wrong, such as an invalid expression; a missing path does not count."""
    if isinstance(error, AnalysisException):
        return error.getCondition() != "PATH_NOT_FOUND"
    return isinstance(error, ParseException | OptionError | ColumnError | NotReportable)
