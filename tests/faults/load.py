"""Clients under load: records that are produced, offsets that are committed."""

import threading
import time

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from tests.support.gateways import Client
from tests.support.record_streams import Stream, values_of
from tests.support.time_outs import time_outs


class Commits:
    def __init__(self, bootstrap: str, topic: str, first: int) -> None:
        self.acknowledged = first - 1
        self.requested = first - 1
        self._topic = topic
        self._group = f"{topic}-readers"
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self._group,
                "enable.auto.commit": False,
                **time_outs("librdkafka", "consumers"),
            }
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.requested = self.acknowledged + 1
            place = TopicPartition(self._topic, 0, self.requested)
            try:
                (done,) = self._consumer.commit(offsets=[place], asynchronous=False)
            except KafkaException:
                time.sleep(0.2)
                continue
            if done.error is None:
                self.acknowledged = self.requested

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def found(self, client: Client) -> int:
        response = client.call(
            "OFFSET_FETCH", 8, groupId=self._group, name=self._topic, partitionIndexes=[0]
        )["groups"][0]
        return int(response["topics"][0]["partitions"][0]["committedOffset"])


class Load:
    """An idempotent producer and a client that commits, on a separate topic.

    `bootstrap`: address of the gateway.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.stream = Stream(bootstrap, topic)
        self.commits = Commits(bootstrap, topic, 1)

    def wait_for(self, records: int) -> None:
        commits = self.commits.acknowledged
        self.stream.wait_for(records)
        deadline = time.monotonic() + 300
        while self.commits.acknowledged == commits:
            assert time.monotonic() < deadline, "no commit is acknowledged"
            time.sleep(0.05)

    def end(self) -> None:
        """Stop sending and wait until all requests are acknowledged."""
        self.stream.end()
        self.commits.end()

    def wrong(self, client: Client) -> tuple[int, int]:
        """How many records and commits were acknowledged and are lost, and how many are twice."""
        kept = values_of(client, self.topic)
        acknowledged = self.stream.acknowledged
        lost = len(set(acknowledged) - set(kept)) + len(self.stream.failed)
        committed = self.commits.found(client)
        lost += max(self.commits.acknowledged - committed, 0)
        twice = len(kept) - len(set(kept)) + max(committed - self.commits.requested, 0)
        in_order = [value for value in kept if value in set(acknowledged)] == acknowledged
        return lost + (not in_order), twice
