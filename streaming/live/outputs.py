"""Writes the output of micro-batches: topics, and findings in Parquet.

All rows of a micro-batch go to their topics in one Kafka transaction, together with its number. So
a micro-batch that Spark repeats writes nothing twice, and an older query can write nothing more.
Readers use `isolation.level=read_committed`. Findings in Parquet: `finding_files`.

The driver collects the rows: they are those of changed entities, some hundred bytes each.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from confluent_kafka import KafkaException, Producer

from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S, full_name, writer_configuration
from brokertwin.streaming.live import finding_files
from brokertwin.streaming.live.operator import EXCHANGES, FINDINGS, OutputRow
from brokertwin.streaming.live.query import PROGRESS, LiveQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FINDINGS_KEPT_DAYS = 90
"""How long findings are kept in Parquet by default."""

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
        kept_days: see `finding_files.write`.
        found: called with the findings of a micro-batch after they are committed, as in the topic.
    """

    def __init__(
        self,
        query: LiveQuery,
        tables: Path | None,
        kept_days: int = FINDINGS_KEPT_DAYS,
        found: Found = lambda _: None,
    ) -> None:
        self._query = query
        self._tables = tables
        self._kept_days = kept_days
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
        last = None
        for row in read_all(self._query.client, self._query.topic(PROGRESS)):
            last = msgspec.json.decode(row.value, type=Progress) if row.value else last
        return last

    def write(self, outputs: "DataFrame", batch: int, query_id: str) -> None:
        columns = outputs.toArrow().to_pydict().values()
        rows = [OutputRow(*row) for row in zip(*columns, strict=True)]
        if not rows:
            return
        values = [row.value for row in rows if row.topic == FINDINGS and row.value]
        if self._tables is not None:
            finding_files.write(self._tables, query_id, batch, values, self._kept_days)
        done = self._done
        if done is None or done.query_id != query_id or done.batch < batch:
            self._commit(rows, Progress(query_id, batch, int(time.time() * 1000)))
            self._found(values)

    def _commit(self, rows: Sequence[OutputRow], progress: Progress) -> None:
        self._producer.begin_transaction()
        for topic, key, value, cluster, broker in rows:
            headers: Headers = {}
            if topic == EXCHANGES:
                headers = {"cluster": cluster, "broker": str(broker)}
            self._produce(topic, key, value, headers)
        self._produce(PROGRESS, b"live", msgspec.json.encode(progress), {})
        self._commit_transaction()
        self._done = progress

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
