"""The values of ``option(...)``: read and checked once, on the driver, before any task runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgqueue.model.schemas import DEFAULT
from pgqueue.spark.connections import Instance
from pgqueue.spark.errors import OptionError
from pgqueue.transports.dsn import for_libpq

ENVIRONMENT = "PGQUEUE_DSN"
SCHEMA_ENVIRONMENT = "PGQUEUE_SCHEMA"

#: The options for the database and the schema, which every reader and writer has.
PLACE = ("dsn", "schema")

#: Options that Spark adds or reads itself.
OPTIONS_OF_SPARK = {"checkpointlocation", "queryname"}

#: Options of Spark's Kafka source that mean the same as ours. A reader that takes one has it among its known options.
OF_KAFKA = {
    "subscribe": "queue",
    "startingOffsets": "startingFrom",
    "maxOffsetsPerTrigger": "maxMessagesPerTrigger",
}

#: Those that do not mean the same, or not everywhere, and what to use here.
INSTEAD = {
    "kafka.bootstrap.servers": "name the database in 'dsn'",
    "kafka.group.id": "name the 'consumer', under which one query at a time works",
    "subscribe": "name the queue in 'queue'",
    "topic": "name the queue in 'queue'",
    "assign": "name one queue in 'queue'",
    "subscribepattern": "name one queue in 'queue', or filter by the column 'queue'",
    "startingoffsets": "only the history as a stream has it; a consumer continues after its last settled claim",
    "startingtimestamp": "filter by a column that holds a time",
    "startingoffsetsbytimestamp": "filter by a column that holds a time",
    "endingoffsets": "a read ends at its snapshot, and Trigger.AvailableNow at the newest message",
    "endingtimestamp": "filter by a column that holds a time",
    "endingoffsetsbytimestamp": "filter by a column that holds a time",
    "maxoffsetspertrigger": "only a stream with a 'consumer' has it, as 'maxMessagesPerTrigger'",
    "minoffsetspertrigger": "use a trigger with a longer processingTime",
    "maxtriggerdelay": "use a trigger with a longer processingTime",
    "minpartitions": "'numPartitions' is the number of tasks, not the least number",
    "maxrecordsperpartition": "use 'numPartitions'",
    "failondataloss": "'onLostLocks' is about messages that others have received meanwhile, not about lost ones",
    "groupidprefix": "name the 'consumer', under which one query at a time works",
    "includeheaders": "add 'application_properties' to 'columns'",
}


class Options:
    """The options of one DataFrame or stream. An unknown name is an error, not ignored.

    Raises:
        OptionError: an option has an unknown name or an invalid value, is given twice, or is missing.
    """

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        unknown = self._given.keys() - {name.lower() for name in known} - OPTIONS_OF_SPARK - {*PLACE}
        if unknown:
            ours = [name for name in known if name not in OF_KAFKA]
            remedy = INSTEAD.get(min(unknown)) or f"there are {', '.join((*PLACE, *ours))}"
            raise OptionError(f"there is no option {min(unknown)!r} here; {remedy}")
        for name in OF_KAFKA.keys() & set(known):
            self._rename(name, OF_KAFKA[name])

    def _rename(self, name: str, ours: str) -> None:
        value = self._given.pop(name.lower(), None)
        if value is None:
            return
        if ours.lower() in self._given:
            raise OptionError(f"the options {ours!r} and {name!r} mean the same: give one of them")
        if ours == "queue" and "," in value:
            raise OptionError(f"the option {name!r} names several queues, {value!r}: name one")
        self._given[ours.lower()] = value

    @property
    def instance(self) -> Instance:
        """Where the queues are: the options ``dsn`` and ``schema``, else ``PGQUEUE_DSN`` and ``PGQUEUE_SCHEMA``."""
        given = self._given.get("dsn") or os.environ.get(ENVIRONMENT)
        if not given:
            raise OptionError(f"no database was named: give option('dsn', 'postgresql://...'), or set {ENVIRONMENT}")
        dsn = for_libpq(given)
        try:
            conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:  # its text contains the DSN, and with it the password
            raise OptionError("the dsn cannot be read: write postgresql://user:password@host:5432/name") from None
        return Instance(dsn, self.text("schema") or os.environ.get(SCHEMA_ENVIRONMENT) or DEFAULT)

    def needed(self, name: str) -> str:
        """The text of an option that must be given."""
        value = self.text(name)
        if value is None:
            raise OptionError(f"the option {name!r} is missing")
        return value

    def text(self, name: str) -> str | None:
        """The text of an option; None if it is absent or empty."""
        return self._given.get(name.lower()) or None

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices; the first is the default."""
        value = self._given.get(name.lower(), choices[0])
        if value not in choices:
            raise OptionError(f"the option {name!r} must be one of {', '.join(choices)}, not {value!r}")
        return value

    def number(self, name: str) -> int | None:
        """A whole number above 0; None if it is absent."""
        value = self.text(name)
        if value is not None and (not value.isdecimal() or int(value) < 1):
            raise OptionError(f"the option {name!r} must be a whole number, 1 or more, not {value!r}")
        return int(value) if value else None

    def seconds(self, name: str, default: float) -> timedelta:
        """A positive duration, given in seconds."""
        value = self._given.get(name.lower(), str(default))
        try:
            duration = timedelta(seconds=float(value))
        except (ValueError, OverflowError):
            duration = timedelta(0)
        if duration <= timedelta(0):
            raise OptionError(f"the option {name!r} must be a number of seconds above 0, not {value!r}")
        return duration
