"""The reason of an error, taken from the long texts that Spark wraps it in."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from pgqueue.spark.errors import PipelineError

TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"(?:\w+\.)*(\w+): (.+)")

#: Text that Spark puts around an error: the class of the error before it, and the SQLSTATE after it.
AROUND = re.compile(r"^(?:[\w.]+(?:Exception|Error): )?(?:\[[A-Z0-9_.]+\] )?|\.? +SQLSTATE: \w+.*$")
BEFORE = re.compile(
    r"^An error occurred while calling \S+\n: |^\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL
)

#: Spark refuses its own default mode before it asks the source, and suggests one that a queue refuses.
SAVE_MODE = '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "pgqueue"'
APPEND = "a queue can only be appended to: add .mode('append'), because Spark's default mode is another one"

WRONG_USE = {"OptionError", "ColumnError", "NotReportable"}
OURS = WRONG_USE | {error.__name__ for error in PipelineError.__subclasses__()}


@dataclass(frozen=True)
class Reason:
    """One line about an error, and whether the caller's arguments caused it."""

    line: str
    is_wrong_use: bool
    is_known: bool = True
    """Whether the line is complete; otherwise Spark's log has more."""
    is_ours: bool = False
    """Whether pgqueue raised the error; otherwise Spark, the database or the caller's own code did."""


def reason_of(error: BaseException) -> Reason:
    """The reason of an error that Spark or a pipeline raised, as one line.

    It is the error of pgqueue among the tracebacks in Spark's text, else the exception that Python raised in a worker,
    else the first sentence of the text.

    Example:
        ::

            try:
                orders.write.format("pgqueue").option("queue", "orders").mode("append").save()
            except PySparkException as error:
                raise SystemExit(pgqueue.spark.reason_of(error).line)
    """
    text = str(error)
    if TRACEBACK in text:
        name, line = _raised(text)
        return Reason(line, name in WRONG_USE, is_known=name in OURS, is_ours=name in OURS)
    if SAVE_MODE in text:
        return Reason(APPEND, is_wrong_use=True, is_ours=True)
    line = AROUND.sub("", _first_line(BEFORE.sub("", text.strip())))
    return Reason(line, _is_wrong_use(error), is_known=not _is_of_java(error), is_ours=type(error).__name__ in OURS)


def show_reasons() -> None:
    """Show the reason of each uncaught error that pgqueue raised and Spark wrapped: in a notebook the line alone.

    In a script it is the last line, after Python's traceback. In a notebook ``%tb`` shows the traceback.
    """
    shell = _notebook()
    if shell is None:
        if not isinstance(sys.excepthook, _LastLine):
            sys.excepthook = _LastLine(sys.excepthook)
    elif not shell.custom_exceptions:
        from pyspark.errors import PySparkException

        shell.set_custom_exc((PySparkException,), _show_in_notebook)


def _notebook() -> Any:
    """The IPython shell that this code runs in, if any."""
    ipython: Any = sys.modules.get("IPython")
    return ipython and ipython.get_ipython()


def _show_in_notebook(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    reason = reason_of(error)
    if not reason.is_ours:
        shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)
        return
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, traceback
    sys.stderr.write(f"pgqueue: {reason.line}\n")


class _LastLine:
    """Python's hook for uncaught errors, followed by the reason."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        self._before(kind, error, traceback)
        reason = reason_of(error)
        if reason.is_ours and (TRACEBACK in str(error) or reason.line not in str(error)):
            sys.stderr.write(f"\npgqueue: {reason.line}\n")


def _raised(text: str) -> tuple[str, str]:
    """An exception at the end of a traceback, its name and its text: the first of ours, else the last."""
    raised = [_end_of(traceback) for traceback in text.split(TRACEBACK)[1:]]
    return next((each for each in raised if each[0] in OURS), raised[-1])


def _end_of(traceback: str) -> tuple[str, str]:
    text = next((line for line in traceback.splitlines() if line and not line[0].isspace()), traceback)
    found = RAISED.fullmatch(text.strip())
    return (found[1], found[2]) if found else ("", text.strip())


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "Spark gives no reason")


def _is_wrong_use(error: BaseException) -> bool:
    """Whether the arguments are wrong, such as an invalid expression; a missing path does not count."""
    from pyspark.errors import AnalysisException, ParseException

    if isinstance(error, AnalysisException):
        return error.getCondition() != "PATH_NOT_FOUND"
    return isinstance(error, ParseException) or type(error).__name__ in WRONG_USE


def _is_of_java(error: BaseException) -> bool:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no type annotations

    return isinstance(error, Py4JError)
