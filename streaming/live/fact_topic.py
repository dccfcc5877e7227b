"""The topic of facts: Spark's Python workers write new facts to it, and read it to its end.

Spark has no state that tasks of all keys can read. The topic is compacted, and its rows may be
repeated: a task that Spark runs again writes the same facts.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Protocol

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import (
    POLL_MESSAGES,
    POLL_S,
    consumer,
    first_and_end,
    is_end,
    polled,
)
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S, writer_configuration
from brokertwin.streaming.live.facts import ClusterFacts, FactRow

PARTITION = 0


class FactStore(Protocol):
    def read(self, now: int | None = None) -> dict[str, ClusterFacts]:
        """Return all facts that were written before; a missing cluster has none.

        Args:
            now: time of the micro-batch if all of its facts are written: later calls with the same
                time need not look for new ones.
        """

    def write(self, rows: Iterable[FactRow]) -> None:
        """Write facts, which all later calls of `read` return."""


class FactTopic:
    """The facts in a topic with one partition. Use `fact_topic`, which keeps one for a process."""

    def __init__(self, client: ClientProperties, topic: str) -> None:
        self._topic = topic
        self._facts: dict[str, ClusterFacts] = defaultdict(ClusterFacts)
        self._reader = consumer(client)
        self._reader.assign([TopicPartition(topic, PARTITION, OFFSET_BEGINNING)])
        self._next = 0
        self._read_at: int | None = None
        self._writer = Producer(writer_configuration(client))

    def read(self, now: int | None = None) -> dict[str, ClusterFacts]:
        """Read the topic to its end, once for each micro-batch if its time is given."""
        if now is not None and now == self._read_at:
            return self._facts
        _, end = first_and_end(self._reader, TopicPartition(self._topic, PARTITION))
        while self._next < end:
            for message in polled(self._reader, POLL_MESSAGES, POLL_S):
                at_end, key, value = is_end(message), message.key(), message.value()
                self._next = max(self._next, (message.offset() or 0) + (not at_end))
                if at_end or key is None:
                    continue
                cluster, what, name = msgspec.json.decode(key)
                if value is None:
                    self._facts[cluster].forget(what, name)
                else:
                    shown = message.timestamp()[1]
                    row = FactRow(cluster, what, name, msgspec.json.decode(value), shown)
                    self._facts[cluster].add(row)
        self._read_at = now
        return self._facts

    def write(self, rows: Iterable[FactRow]) -> None:
        """Write facts and wait for Kafka.

        Raises:
            RuntimeError: Kafka does not accept them in time.
        """
        latest = int(time.time() * 1000)  # a broker takes no record of the future
        for cluster, what, key, value, shown in rows:
            named = msgspec.json.encode((cluster, what, key))
            encoded, shown = msgspec.json.encode(value), min(shown, latest)
            self._writer.produce(self._topic, encoded, named, PARTITION, timestamp=shown)
            self._writer.poll(0)
        self._flush()

    def expire(self) -> None:
        """Delete facts that have expired. Call it while no task reads or writes facts.

        Raises:
            RuntimeError: Kafka does not accept the tombstones in time.
        """
        for cluster, facts in self.read().items():
            for what, key in facts.expired():
                named = msgspec.json.encode((cluster, what, key))
                self._writer.produce(self._topic, None, named, PARTITION)
                self._writer.poll(0)
        self._flush()

    def _flush(self) -> None:
        if self._writer.flush(KAFKA_TIMEOUT_S):
            raise RuntimeError(f"Kafka did not accept facts for {self._topic} in time.")


_topics = cache(lambda client, topic: FactTopic(ClientProperties(dict(client)), topic))


def fact_topic(client: ClientProperties, topic: str) -> FactTopic:
    """The facts of this process, which reads only new rows each time."""
    found: FactTopic = _topics(tuple(sorted(client.values.items())), topic)
    return found
