"""Decide events of a source of your own with Spark: python own_stream.py EVENTS CHECKPOINT."""

import os
import sys

from pyspark.sql import DataFrame, SparkSession

from brokertwin.state.core.settings import CellSettings
from brokertwin.streaming.job.stage import decided

COLUMNS = "partition INT, offset LONG, timestamp TIMESTAMP, key BINARY, value BINARY"


def show(rows: DataFrame, batch: int) -> None:
    """The sink: rows with the same id are the same, also if a micro-batch runs again."""
    for row in rows.where("topic = 'responses'").orderBy("id").collect():
        print(batch, row.id, row.value.decode())


os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
source = spark.readStream.schema(COLUMNS).parquet(sys.argv[1])  # any source with these columns
rows = decided(source, {0: CellSettings(name="shop", cluster="shop", requests_partitions=1)})
sink = rows.writeStream.foreachBatch(show).option("checkpointLocation", sys.argv[2])
sink.trigger(availableNow=True).start().awaitTermination()
