"""Writes the output of micro-batches: topics, and findings in Parquet.

Entity rows go to compacted topics: a repeated micro-batch writes the same rows again. Findings go
to their topic in a Kafka transaction together with the number of the micro-batch, so a repeated
micro-batch does not write them again. Readers of this topic use `isolation.level=read_committed`.
A Parquet file has the number of its micro-batch in its name, and replaces one that was written
before.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from confluent_kafka import KafkaException, Producer

from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.kafka_io.topics import (
    KAFKA_TIMEOUT_S,
    ROW_BYTES_MAX,
    full_name,
    writer_configuration,
)
from brokertwin.sinks import files
from brokertwin.streaming.live.operator import EXCHANGES, FINDINGS
from brokertwin.streaming.live.query import PROGRESS, LiveQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_HEADER = "batch"
RETRY_S = 0.5


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """The row of the topic `progress`.

    Attributes:
        query_id: Spark's id of the checkpoint; a new checkpoint has another one.
        batch: the last micro-batch whose findings were written.
        time: when they were written, in ms since 1970.
    """

    query_id: str
    batch: int
    time: int


class FindingRow(NamedTuple):
    """A row of the topic of findings."""

    id: bytes
    value: bytes


class LiveOutputs:
    """The outputs of a query.

    Args:
        query: its settings.
        tables: directory of Parquet files; None for none.
    """

    def __init__(self, query: LiveQuery, tables: Path | None) -> None:
        self._query = query
        self._tables = tables
        self._producer = Producer(
            {
                **writer_configuration(query.client),
                "transactional.id": full_name(query.prefix, "live"),
            }
        )
        self._producer.init_transactions(KAFKA_TIMEOUT_S)
        self._done = self._progress()

    def _progress(self) -> Progress | None:
        """The last row of the topic `progress`; an older query can write no more."""
        last = None
        for row in read_all(self._query.client, self._query.topic(PROGRESS)):
            last = msgspec.json.decode(row.value, type=Progress) if row.value else last
        return last

    def write(self, outputs: "DataFrame", batch: int, query_id: str) -> None:
        """Write the rows of a micro-batch of the query with an id."""
        from pyspark.sql import functions as f

        outputs.persist()
        try:
            of_findings = outputs.where(f.col("topic") == FINDINGS).select("key", "value")
            found = [FindingRow(bytes(key), bytes(value)) for key, value in of_findings.collect()]
            found.sort()
            _to_topics(outputs.where(f.col("topic") != FINDINGS), self._query)
            if self._tables is not None and found:
                write_findings(self._tables, batch, found)
            self._commit(found, batch, query_id)
        finally:
            outputs.unpersist()

    def _commit(self, found: Sequence[FindingRow], batch: int, query_id: str) -> None:
        """Write findings and progress in a transaction, unless this was done before."""
        done = self._done
        is_done = done is not None and done.query_id == query_id and done.batch >= batch
        if is_done or not found:
            return
        progress = Progress(query_id, batch, int(time.time() * 1000))
        headers: list[tuple[str, bytes]] = [(BATCH_HEADER, str(batch).encode())]
        self._producer.begin_transaction()
        for row in found:
            self._produce(FINDINGS, row.id, row.value, headers)
        self._produce(PROGRESS, b"live", msgspec.json.encode(progress), [])
        self._commit_transaction()
        self._done = progress

    def _produce(self, topic: str, key: bytes, value: bytes, headers: Any) -> None:
        name = self._query.topic(topic)
        while True:
            try:
                self._producer.produce(name, key=key, value=value, partition=0, headers=headers)
            except BufferError:
                self._producer.poll(RETRY_S)
            else:
                return

    def _commit_transaction(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(KAFKA_TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                time.sleep(RETRY_S)
            else:
                return


def _to_topics(outputs: "DataFrame", query: LiveQuery) -> None:
    """Write entity rows, and the exchanges that were paired."""
    from pyspark.sql import functions as f

    def header(name: str) -> Any:
        value = f.col(name).cast("string").cast("binary").alias("value")
        return f.struct(f.lit(name).alias("key"), value)

    headers = f.array(header("cluster"), header("broker"))
    rows = outputs.select(
        f.concat(f.lit(full_name(query.prefix, "")), f.col("topic")).alias("topic"),
        "key",
        "value",
        f.when(f.col("topic") == EXCHANGES, headers).alias("headers"),
    )
    options = {**query.client.for_spark(), "kafka.max.request.size": str(ROW_BYTES_MAX)}
    rows.write.format("kafka").options(**options).option("includeHeaders", "true").save()


FINDING_COLUMNS = (
    *("id", "cluster", "severity", "kind", "subject", "error", "what", "cause", "rule", "source"),
    *("do", "withdrawn"),
)


def write_findings(directory: Path, batch: int, found: Sequence[FindingRow]) -> Path:
    """Write the findings of a micro-batch as a Parquet file; replaces one of the same batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    documents = [msgspec.json.decode(each.value) for each in found]
    columns: dict[str, Any] = {name: [each[name] for each in documents] for name in FINDING_COLUMNS}
    columns |= {
        "from_ms": [int(each["from"]) for each in documents],
        "to_ms": [int(each["to"]) for each in documents],
        "clients": pa.array([each["clients"] for each in documents], pa.list_(pa.string())),
        "by": pa.array([each["by"] for each in documents], pa.list_(pa.string())),
        "evidence": pa.array([_evidence(each) for each in documents], pa.list_(_evidence_type())),
        "batch": [batch] * len(documents),
    }
    schema = {name: pa.string() for name in FINDING_COLUMNS} | {"withdrawn": pa.bool_()}
    table = pa.table(
        {
            name: pa.array(values, schema[name]) if name in schema else values
            for name, values in columns.items()
        }
    )
    target = directory / FINDINGS
    target.mkdir(parents=True, exist_ok=True)
    hidden, path = target / f".batch-{batch}", target / f"batch-{batch:010}.parquet"
    pq.write_table(table, hidden)
    files.bring_to_disk(hidden)
    hidden.replace(path)
    files.bring_to_disk(target)
    return path


def _evidence(document: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("place", "client", "said")
    return [
        {**{name: each[name] for name in names}, "time_ms": int(each["time"])}
        for each in document["evidence"]
    ]


def _evidence_type() -> Any:
    import pyarrow as pa

    return pa.struct(
        [
            ("place", pa.string()),
            ("client", pa.string()),
            ("said", pa.string()),
            ("time_ms", pa.int64()),
        ]
    )
