"""Decide a job's requests in a query of your own: python own_stream.py KAFKA PREFIX CHECKPOINT."""

import os
import sys

from pyspark.sql import DataFrame, SparkSession

from brokertwin.streaming.job.stage import cells_of_job, decided

BOOTSTRAP, PREFIX, CHECKPOINT = sys.argv[1:]


def show(rows: DataFrame, batch: int) -> None:
    """The sink: rows with the same id are the same, also if a micro-batch runs again."""
    for row in rows.where("topic = 'responses'").orderBy("id").collect():
        print(batch, row.id, row.value.decode())


os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", BOOTSTRAP)
events = reader.option("subscribe", f"{PREFIX}.requests").option("startingOffsets", "earliest")
rows = decided(events.load(), cells_of_job(BOOTSTRAP, PREFIX))
sink = rows.writeStream.foreachBatch(show).option("checkpointLocation", CHECKPOINT)
sink.trigger(availableNow=True).start().awaitTermination()
