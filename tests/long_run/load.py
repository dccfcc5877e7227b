"""Mixed load that goes on for hours, by clients who count what is wrong and keep nothing else.

The members of a group have to see each offset of a partition after the one before, whoever of them
it is; offsets that come again after a rebalance are counted, and allowed. A read_committed reader
has to see a transaction's records together, and none of one that was aborted.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.time_outs import time_outs

RETENTION = {"retention.ms": "300000", "segment.ms": "60000"}
"""Topics keep five minutes: a long run has a steady number of records."""

IDEMPOTENT = {"enable.idempotence": True, "linger.ms": 20}
PAUSE_S = 0.1
ROUND_S = 20.0
"""How long a topic exists."""
STAYS_S = 90.0
"""How long a member stays that goes again: a group hands a partition over in three heartbeats."""

TRANSACTION_RECORDS = 5
TRANSACTION = {"transaction.timeout.ms": 180_000}
OF_BROKER = ("session.timeout.ms", "heartbeat.interval.ms")
"""What members of a consumer group (KIP-848) are told by their coordinator."""


class Client(threading.Thread, ABC):
    """Someone who does the same again and again until told to end.

    Attributes:
        done: how often, or how many records.
        wrong: what must not be, in words.
        failed: errors that a client may get, and goes on after.
        failure: the last of them.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True, name=type(self).__name__)
        self.bootstrap = bootstrap
        self.topic = topic
        self.done = 0
        self.wrong: list[str] = []
        self.failed = 0
        self.failure = ""
        self.ended = threading.Event()

    def run(self) -> None:
        """Go on, come what may."""
        while not self.ended.is_set():
            try:
                self.turn()
            except KafkaException as error:
                self.failed += 1
                self.failure = str(error)
                self.ended.wait(1)

    @abstractmethod
    def turn(self) -> None:
        """One time."""

    def settings(self, role: str, **own: Any) -> dict[str, Any]:
        """Those of a librdkafka client."""
        return {"bootstrap.servers": self.bootstrap, **time_outs("librdkafka", role), **own}


class Produces(Client):
    """Numbered records, with idempotence."""

    def turn(self) -> None:
        producer = confluent_kafka.Producer(self.settings("producers", **IDEMPOTENT))
        number = self.done
        while not self.ended.is_set():
            producer.produce(self.topic, b"%d" % number, on_delivery=self._delivered)
            number += 1
            producer.poll(PAUSE_S)
        producer.flush(30)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is None:
            self.done += 1
        else:
            self.wrong.append(f"a record is not taken: {error}")


class Group:
    """How far the members of a group have come, all together."""

    def __init__(self, topic: str, protocol: str) -> None:
        self.topic = topic
        self.protocol = protocol
        self.again = 0
        self._next: dict[int, int] = {}
        self._lock = threading.Lock()

    def seen(self, partition: int, offset: int) -> str:
        """A member has got a record; gives back what is wrong with that."""
        with self._lock:
            wanted = self._next.get(partition, offset)
            self.again += offset < wanted
            self._next[partition] = max(wanted, offset + 1)
        return f"{self.topic}-{partition}: {offset} follows {wanted - 1}" * (offset > wanted)


class Reads(Client):
    """A member of a group that stays, or comes and goes."""

    def __init__(self, bootstrap: str, group: Group, stays: bool) -> None:
        super().__init__(bootstrap, group.topic)
        self._group = group
        self._stays = stays

    def turn(self) -> None:
        consumer = confluent_kafka.Consumer(self._settings())
        leaves = time.monotonic() + STAYS_S
        try:
            consumer.subscribe([self.topic])
            while not self.ended.is_set() and (self._stays or time.monotonic() < leaves):
                message = consumer.poll(PAUSE_S)
                if message is not None and message.error() is None:
                    self.done += 1
                    wrong = self._group.seen(message.partition() or 0, message.offset() or 0)
                    self.wrong += [wrong] if wrong else []
        finally:
            consumer.close()

    def _settings(self) -> dict[str, Any]:
        protocol = self._group.protocol
        own = {
            "group.id": f"{self.topic}-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
        }
        of_broker = OF_BROKER if protocol == "consumer" else ()
        found = self.settings("consumers", **own)
        return {name: value for name, value in found.items() if name not in of_broker}


class Transacts(Client):
    """Transactions of some records, every third of which is aborted, with a new id now and then.

    One whose end is not known is not tried again: the next has another number.
    """

    number = 0

    def turn(self) -> None:
        own = {"transactional.id": f"{self.topic}-{self.done // 100}", **TRANSACTION}
        producer = confluent_kafka.Producer(self.settings("producers", **own))
        producer.init_transactions(30)
        for _ in range(100):
            if self.ended.wait(PAUSE_S):
                return
            producer.begin_transaction()
            self.number += 1
            fate = b"abort" if self.number % 3 == 2 else b"commit"
            for index in range(TRANSACTION_RECORDS):
                producer.produce(self.topic, b"%d %d %b" % (self.number, index, fate))
            (producer.abort_transaction if fate == b"abort" else producer.commit_transaction)(30)
            self.done += 1


class ReadsCommitted(Client):
    """Reads what transactions leave, without a group."""

    def turn(self) -> None:
        own = {"group.id": "none", "isolation.level": "read_committed"}
        consumer = confluent_kafka.Consumer(self.settings("consumers", **own))
        try:
            consumer.assign([TopicPartition(self.topic, 0, confluent_kafka.OFFSET_END)])
            last: tuple[int, int] | None = None
            while not self.ended.is_set():
                message = consumer.poll(PAUSE_S)
                if message is not None and message.error() is None:
                    last = self.seen((message.value() or b"").split(), last)
        finally:
            consumer.close()

    def seen(self, words: list[bytes], last: tuple[int, int] | None) -> tuple[int, int]:
        number, index = int(words[0]), int(words[1])
        self.done += 1
        if words[2] == b"abort":
            self.wrong.append(f"a record of transaction {number}, which was aborted")
        is_next = last is None or (
            (number, index) == (last[0], last[1] + 1)
            if index
            else number > last[0] and last[1] == TRANSACTION_RECORDS - 1
        )
        if not is_next:
            self.wrong.append(f"{(number, index)} comes after {last}")
        return number, index


class Administers(Client):
    """Topics that come, get a record, and go; each has another name."""

    number = 0

    def turn(self) -> None:
        admin = AdminClient(self.settings("producers"))
        self.number += 1
        name = f"{self.topic}-{self.number}"
        admin.create_topics([NewTopic(name, 3, 1)])[name].result(30)
        producer = confluent_kafka.Producer(self.settings("producers"))
        producer.produce(name, b"one")
        producer.flush(30)
        self.ended.wait(ROUND_S)
        admin.delete_topics([name])[name].result(30)
        self.done += 1


def mixed(bootstrap: str) -> list[Client]:
    """All of them, on topics that are there afterwards."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic("lines", 2, 1, config=RETENTION), NewTopic("sums", 1, 1, config=RETENTION)]
    for made in admin.create_topics(wanted).values():
        made.result(60)
    found: list[Client] = [Produces(bootstrap, "lines"), Administers(bootstrap, "short")]
    for protocol in ("classic", "consumer"):
        group = Group("lines", protocol)
        found += [Reads(bootstrap, group, stays) for stays in (True, False)]
    return [*found, Transacts(bootstrap, "sums"), ReadsCommitted(bootstrap, "sums")]


def end(clients: list[Client], waits: Callable[[Client], None] = lambda one: one.join(120)) -> None:
    """Have all of them end."""
    for one in clients:
        one.ended.set()
    for one in clients:
        with suppress(RuntimeError):  # it has never begun
            waits(one)
