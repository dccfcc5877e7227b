"""Numbered records that are produced one after the other while something happens to the brokers."""

import threading
import time
from typing import Any

import confluent_kafka
from kafka.record import MemoryRecords

from tests.support.gateways import Client
from tests.support.patience import PATIENCE_S
from tests.support.time_outs import time_outs


class Stream:
    """Produce small numbered records in order until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                **time_outs("librdkafka", "producers"),
            }
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            value = b"%d" % number
            self._producer.produce(self._topic, value, on_delivery=self._delivered)
            self._producer.poll(0.05)
            number += 1

    def _delivered(self, error: Any, message: confluent_kafka.Message) -> None:
        if error is None:
            self.acknowledged.append(message.value() or b"")
        else:
            self.failed.append(str(error))

    def wait_for(self, count: int) -> None:
        wanted = len(self.acknowledged) + count
        deadline = time.monotonic() + PATIENCE_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def end(self) -> None:
        """Produce nothing more, and wait until everything is acknowledged."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0

    def abandon(self) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(1)


def values_of(client: Client, topic: str) -> list[bytes]:
    """The values of a topic of one partition, from its beginning."""
    end = client.list_offset(topic, -1)["offset"]
    values: list[bytes] = []
    while len(values) < end:
        memory = MemoryRecords(client.fetch(topic, len(values))["records"])
        while memory.has_next():
            values += [record.value for record in memory.next_batch()]
    return values
