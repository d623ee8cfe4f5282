"""What went wrong, out of the long texts that Spark wraps it in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it says no types
from pyspark.errors import AnalysisException, ParseException, PySparkException

from pgqueue.spark.errors import ColumnError, OptionError, PipelineError
from pgqueue.spark.java import JavaMissing
from pgqueue.spark.report import NotReportable
from pgqueue.spark.session import SparkMissing

#: Errors that :func:`reason_of` knows to read.
KNOWN = (PySparkException, Py4JError, PipelineError, NotReportable, JavaMissing, SparkMissing)

TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"(?:\w+\.)*(\w+): (.+)")

#: What Spark puts around a text: the class of the error before it, and what follows a state of SQL.
AROUND = re.compile(r"^(?:[\w.]+(?:Exception|Error): )?(?:\[[A-Z0-9_.]+\] )?|\.? +SQLSTATE: \w+.*$")
BEFORE = re.compile(
    r"^An error occurred while calling \S+\n: |^\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL
)

WRONG_USE = {"OptionError", "ColumnError", "NotReportable"}
OURS = WRONG_USE | {error.__name__ for error in PipelineError.__subclasses__()}


@dataclass(frozen=True)
class Reason:
    """One line about an error, and whether it is in what was asked for rather than in what was met."""

    line: str
    is_wrong_use: bool
    is_known: bool = True
    """Whether the line says it all; else somebody may want to read on elsewhere."""


def reason_of(error: Exception) -> Reason:
    """What matters in an error: of Python in a worker, what it raised; of Spark, the first sentence."""
    text = str(error)
    if TRACEBACK in text:
        name, line = _raised(text)
        return Reason(line, name in WRONG_USE, is_known=name in OURS)
    line = AROUND.sub("", _first_line(BEFORE.sub("", text.strip())))
    return Reason(line, _is_wrong_use(error), is_known=not isinstance(error, Py4JError))


def _raised(text: str) -> tuple[str, str]:
    """The error at the end of the last traceback: its name, and what it says."""
    following = text.rsplit(TRACEBACK, 1)[1].splitlines()
    said = next((line for line in following if line and not line[0].isspace()), text)
    found = RAISED.fullmatch(said.strip())
    return (found[1], found[2]) if found else ("", said.strip())


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "Spark does not say why")


def _is_wrong_use(error: Exception) -> bool:
    """A path that is not there is a fact, an expression that makes no sense is not."""
    if isinstance(error, AnalysisException):
        return error.getCondition() != "PATH_NOT_FOUND"
    return isinstance(error, ParseException | OptionError | ColumnError | NotReportable)
