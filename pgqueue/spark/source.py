"""The format ``pgqueue`` as Spark loads it; the other modules implement it."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pgqueue.spark import consuming, reading, relations, tailing
from pgqueue.spark.connections import looking
from pgqueue.spark.options import Options
from pgqueue.spark.writing import QueueSink, QueueWriter


class QueueSource(DataSource):
    """``spark.read``, ``df.write``, ``spark.readStream`` and ``df.writeStream``, each with ``.format("pgqueue")``."""

    @classmethod
    def name(cls) -> str:
        return "pgqueue"

    def schema(self) -> StructType:
        if "consumer" in self.options:
            consuming.QueueStream(self.options, StructType()).look()
            return relations.schema(Options(self.options, consuming.OPTIONS), relations.CLAIMED)
        options = Options(self.options, tuple(dict.fromkeys(reading.OPTIONS + tailing.OPTIONS)))
        schema = relations.schema(options)
        with looking(options.instance) as connection:
            reading.of_queue(connection, options.text("queue"))
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return reading.QueueReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if "consumer" in self.options:
            return consuming.QueueStream(self.options, schema)
        return tailing.HistoryTail(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        writer = QueueWriter(self.options, schema, overwrite)
        writer.look()
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueSink:
        sink = QueueSink(self.options, schema, overwrite)
        sink.look()
        return sink
