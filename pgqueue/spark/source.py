"""The format ``pgqueue`` as Spark loads it; the other modules implement it."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pgqueue.spark import consuming, reading, relations, tailing
from pgqueue.spark.options import Options
from pgqueue.spark.writing import QueueSink, QueueWriter


class QueueSource(DataSource):
    """``spark.read``, ``df.write``, ``spark.readStream`` and ``df.writeStream``, each with ``.format("pgqueue")``."""

    @classmethod
    def name(cls) -> str:
        return "pgqueue"

    def schema(self) -> str | StructType:
        if "consumer" in self.options:
            return consuming.layout(self.options.get("columns"))
        return relations.schema(Options(self.options, (*reading.OPTIONS, *tailing.OPTIONS)))

    def reader(self, schema: StructType) -> DataSourceReader:
        return reading.QueueReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if "consumer" in self.options:
            return consuming.QueueStream(self.options, schema)
        return tailing.HistoryTail(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        return QueueWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueSink:
        return QueueSink(self.options, schema, overwrite)
