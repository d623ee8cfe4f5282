"""The options of readers and writers: which there are, and which of Kafka's mean the same."""

from __future__ import annotations

from types import ModuleType

import pytest

from pgqueue.spark import consuming, options, reading, tailing, writing
from pgqueue.spark.connections import Instance
from pgqueue.spark.errors import OptionError
from pgqueue.spark.options import Options

READERS = [reading.OPTIONS, tailing.OPTIONS, consuming.OPTIONS]
WRITERS = [writing.OPTIONS, writing.SINK_OPTIONS]


@pytest.mark.parametrize("known", READERS)
def test_a_topic_that_is_subscribed_to_is_the_queue(known: tuple[str, ...]) -> None:
    assert Options({"subscribe": "orders"}, known).needed("queue") == "orders"
    with pytest.raises(OptionError, match="'subscribe' names several queues, 'orders,bills': name one"):
        Options({"subscribe": "orders,bills"}, known)


@pytest.mark.parametrize(
    ("module", "name", "ours", "value"),
    [
        (tailing, "startingOffsets", "startingFrom", "latest"),
        (consuming, "maxOffsetsPerTrigger", "maxMessagesPerTrigger", "7"),
    ],
)
def test_a_name_of_kafkas_means_ours(module: ModuleType, name: str, ours: str, value: str) -> None:
    assert Options({name.lower(): value}, module.OPTIONS).text(ours) == value


@pytest.mark.parametrize("name", options.OF_KAFKA)
def test_both_names_of_an_option_are_refused(name: str) -> None:
    ours = options.OF_KAFKA[name]
    with pytest.raises(OptionError, match=f"the options '{ours}' and '{name}' mean the same: give one of them"):
        Options({name: "1", ours: "1"}, (name, ours))


@pytest.mark.parametrize("name", options.INSTEAD)
@pytest.mark.parametrize("known", READERS + WRITERS)
def test_another_option_of_kafkas_is_refused_in_favour_of_ours(known: tuple[str, ...], name: str) -> None:
    if name in {each.lower() for each in known}:
        return
    with pytest.raises(OptionError) as raised:
        Options({name: "1"}, known)
    assert str(raised.value) == f"there is no option '{name}' here; {options.INSTEAD[name]}"


def test_the_options_that_are_listed_are_ours() -> None:
    with pytest.raises(OptionError, match=r"'quue' here; there are dsn, schema, queue, table, columns, startingFrom"):
        Options({"quue": "orders"}, tailing.OPTIONS)


def test_the_environment_names_the_database_and_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGQUEUE_DSN", "dbname=shop")
    assert Options({}, ()).instance == Instance("dbname=shop", "pgqueue")
    monkeypatch.setenv("PGQUEUE_SCHEMA", "jobs")
    assert Options({}, ()).instance == Instance("dbname=shop", "jobs")
    assert Options({"schema": "other"}, ()).instance == Instance("dbname=shop", "other")


def test_each_option_of_kafkas_has_a_remedy_where_it_is_unknown() -> None:
    assert {name.lower() for name in options.OF_KAFKA} <= options.INSTEAD.keys()
