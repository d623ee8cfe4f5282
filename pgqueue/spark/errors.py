"""What can go wrong between Spark and a queue. Spark hands these on as text, so the text says what to do."""

from __future__ import annotations


class PipelineError(Exception):
    """The base of them."""


class OptionError(PipelineError):
    """An option of a reader or writer is unknown, missing, or not what it may be. Nothing was read or written."""


class ColumnError(PipelineError):
    """A DataFrame has a column that no message has, or one of another type. Nothing was written."""


class BadRowError(PipelineError):
    """A row cannot be sent; it is named by its partition and its place there. Nothing of the job was sent."""


class SnapshotOverError(PipelineError):
    """The snapshot of the database that a DataFrame was read from is over: load it again, or hold the snapshot."""


class CheckpointError(PipelineError):
    """The checkpoint of a stream and its consumer do not belong together, so the next batch is not certain."""
