"""Writes the output of micro-batches: topics, and findings in Parquet.

All rows of a micro-batch go to their topics in one Kafka transaction, together with its number. So
a micro-batch that Spark repeats writes nothing twice, and an older query can write nothing more.
Readers use `isolation.level=read_committed`. A Parquet file has the number of its micro-batch in
its name, and replaces one that was written before.

The driver collects the rows: they are those of changed entities, some hundred bytes each.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import KafkaException, Producer

from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S, full_name, writer_configuration
from brokertwin.sinks import files
from brokertwin.streaming.live.operator import EXCHANGES, FINDINGS, OutputRow
from brokertwin.streaming.live.query import PROGRESS, LiveQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RETRY_S = 0.5
Found = Callable[[Sequence[bytes]], None]
Headers = dict[str, str | bytes | None]


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """The row of the topic `progress`.

    Attributes:
        query_id: Spark's id of the checkpoint; a new checkpoint has another one.
        batch: the last micro-batch whose rows were written.
        time: when they were written, in ms since 1970.
    """

    query_id: str
    batch: int
    time: int


class LiveOutputs:
    """The outputs of a query.

    Args:
        query: its settings.
        tables: directory of Parquet files; None for none.
        found: called with the findings of a micro-batch after they are committed, as in the topic.
    """

    def __init__(
        self, query: LiveQuery, tables: Path | None, found: Found = lambda _: None
    ) -> None:
        self._query = query
        self._tables = tables
        self._found = found
        self._producer = Producer(
            {
                **writer_configuration(query.client),
                "transactional.id": full_name(query.prefix, "live"),
            }
        )
        self._producer.init_transactions(KAFKA_TIMEOUT_S)
        self._done = self._progress()

    def _progress(self) -> Progress | None:
        """The last row of the topic `progress`."""
        last = None
        for row in read_all(self._query.client, self._query.topic(PROGRESS)):
            last = msgspec.json.decode(row.value, type=Progress) if row.value else last
        return last

    def write(self, outputs: "DataFrame", batch: int, query_id: str) -> None:
        """Write the rows of a micro-batch of the query with an id."""
        columns = outputs.toArrow().to_pydict().values()
        rows = [OutputRow(*row) for row in zip(*columns, strict=True)]
        if not rows:
            return
        if self._tables is not None:
            write_findings(self._tables, batch, rows)
        done = self._done
        if done is None or done.query_id != query_id or done.batch < batch:
            self._commit(rows, Progress(query_id, batch, int(time.time() * 1000)))

    def _commit(self, rows: Sequence[OutputRow], progress: Progress) -> None:
        """Write rows and progress in a transaction."""
        self._producer.begin_transaction()
        for topic, key, value, cluster, broker in rows:
            headers: Headers = {}
            if topic == EXCHANGES:
                headers = {"cluster": cluster, "broker": str(broker)}
            self._produce(topic, key, value, headers)
        self._produce(PROGRESS, b"live", msgspec.json.encode(progress), {})
        self._commit_transaction()
        self._done = progress
        self._found([row.value for row in rows if row.topic == FINDINGS and row.value])

    def _produce(self, topic: str, key: bytes, value: bytes | None, headers: Headers) -> None:
        name = self._query.topic(topic)
        while True:
            try:
                self._producer.produce(name, value, key, partition=0, headers=headers)
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


FINDING_COLUMNS = (
    *("id", "cluster", "severity", "kind", "subject", "error", "what", "cause", "rule", "source"),
    *("do", "withdrawn"),
)


def write_findings(directory: Path, batch: int, rows: Iterable[OutputRow]) -> None:
    """Write the findings of a micro-batch as a Parquet file, if there are any."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    documents = [msgspec.json.decode(e.value or b"") for e in rows if e.topic == FINDINGS]
    if not documents:
        return
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
    with files.replacing(target / f"batch-{batch:010}.parquet") as temporary:
        pq.write_table(table, temporary)


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
