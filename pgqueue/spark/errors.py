"""Errors of reading and writing queues with Spark. Spark passes them on as text only, so the text has the remedy."""

from __future__ import annotations


class PipelineError(Exception):
    """The base class of these errors."""


class OptionError(PipelineError):
    """An option of a reader or writer is unknown, missing or invalid. Nothing was read or written."""


class ColumnError(PipelineError):
    """A DataFrame has a column that messages do not have, or one of the wrong type. Nothing was written."""


class DatabaseError(PipelineError):
    """The database cannot be reached, has no queues, or refuses; the text has the remedy. No task was started."""


class BadRowError(PipelineError):
    """A row cannot be sent; the text gives its partition and its number there. Nothing of the job was sent."""


class SnapshotOverError(PipelineError):
    """The database snapshot of a DataFrame has ended: load the DataFrame again, or hold the snapshot."""


class CheckpointError(PipelineError):
    """The checkpoint of a stream does not fit its consumer, so the next batch cannot be determined."""
