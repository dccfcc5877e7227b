"""Mixed load for hours, by clients that only count violations.

The members of a group have to see each offset of a partition after the one before, whoever of them
it is; offsets that come again after a rebalance are counted, and allowed. A read_committed reader
has to see a transaction's records together, and none of one that was aborted.

A slow client may find records deleted by retention. So after a gap the log's start offset is
queried: the records are lost if it is below the next received offset.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.patience import PATIENCE_S
from tests.support.time_outs import time_outs

RETENTION = {"retention.ms": "300000", "segment.ms": "60000"}
"""Topics keep five minutes: a long run has a steady number of records."""

IDEMPOTENT = {"enable.idempotence": True, "linger.ms": 1000}
"""While five requests are in flight librdkafka's thread looks for room without a pause: fewer are
with a longer linger, and half as much of a core."""

PAUSE_S = 0.1
ROUND_S = 20.0
"""How long a topic exists."""
STAYS_S = 20.0
"""How long a member that goes again stays after its first record, however late that comes."""

UNREPORTED = -1
TRIES, TRY_S = 10, 30.0
"""Attempts and the timeout of each for a query of a log's start offset."""

TRANSACTION_RECORDS = 5
IDS = 4
"""Transactional ids: each is known for days, and so are the producers that had one."""

TRANSACTION = {"transaction.timeout.ms": 180_000}
TIMED_OUT = "Request in flight"
"""What librdkafka logs where a request has no response in time."""
OF_BROKER = ("session.timeout.ms", "heartbeat.interval.ms")
"""Settings that members of a consumer group (KIP-848) receive from their coordinator."""


class Client(threading.Thread, ABC):
    """A client that repeats an action until it is stopped.

    Attributes:
        done: number of actions or records.
        wrong: descriptions of violations.
        failed: tolerated errors, after which it continues.
        failure: the last of them.
        timed_out: number of requests that timed out; it continues after these, too.
        noted: further remarks.
    """

    noted = ""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True, name=type(self).__name__)
        self.bootstrap = bootstrap
        self.topic = topic
        self.done = 0
        self.wrong: list[str] = []
        self.failed = 0
        self.failure = ""
        self.timed_out = 0
        self.ended = threading.Event()
        self._logger = logging.getLogger(f"{__name__}.{self.name}.{id(self)}")
        self._logger.addFilter(self._received)

    def run(self) -> None:
        """Repeat the action despite errors."""
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
        common = {"bootstrap.servers": self.bootstrap, "logger": self._logger}
        return {**common, **time_outs("librdkafka", role), **own}

    def _received(self, record: logging.LogRecord) -> bool:
        """Count time-outs in a client's log; pass on other messages."""
        is_late = TIMED_OUT in record.getMessage()
        self.timed_out += is_late
        return not is_late


class Produces(Client):
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
        self.deleted = 0
        self._next: dict[int, int] = {}
        self._lock = threading.Lock()

    def seen(self, partition: int, offset: int, log_start: Callable[[], int]) -> str:
        """Note a received record; return the violation, or "".

        `log_start` queries the partition's current log start offset.
        """
        with self._lock:
            wanted = self._next.get(partition, offset)
            self.again += offset < wanted
            self._next[partition] = max(wanted, offset + 1)
        if offset <= wanted:
            return ""
        begins = log_start()
        if begins >= offset:
            self.deleted += offset - wanted
            return ""
        return f"{self.topic}-{partition}: {offset} follows {wanted - 1}, the log has {begins}"


def log_start(consumer: confluent_kafka.Consumer, topic: str, partition: int) -> int:
    """Return a log's start offset at its broker; NOBODY_SAYS if it does not respond."""
    place = TopicPartition(topic, partition)
    for _ in range(TRIES):
        with suppress(KafkaException):
            begins, _end = consumer.get_watermark_offsets(place, TRY_S)
            return int(begins)
    return UNREPORTED


class Reads(Client):
    """A member of a group that stays, or comes and goes.

    It commits only noted records. Otherwise another member could note later records before this one
    notes its own.
    """

    def __init__(self, bootstrap: str, group: Group, stays: bool) -> None:
        super().__init__(bootstrap, group.topic)
        self._group = group
        self._stays = stays

    def turn(self) -> None:
        consumer = confluent_kafka.Consumer(self._settings())
        begins, first = time.monotonic(), 0.0
        try:
            consumer.subscribe([self.topic])
            while not self.ended.is_set() and (self._stays or not self._is_over(begins, first)):
                message = consumer.poll(PAUSE_S)
                if message is not None and message.error() is None:
                    first = first or time.monotonic()
                    self._note(consumer, message)
        finally:
            consumer.close()

    def _is_over(self, begins: float, first: float) -> bool:
        """Whether a member goes; one that gets nothing has a group that does not come to rest."""
        if first:
            return time.monotonic() > first + STAYS_S
        is_late = time.monotonic() > begins + PATIENCE_S
        if is_late:
            self.wrong.append(f"no record for {PATIENCE_S} s")
        return is_late

    def _note(self, consumer: confluent_kafka.Consumer, message: confluent_kafka.Message) -> None:
        self.done += 1
        partition, offset = message.partition() or 0, message.offset() or 0
        wrong = self._group.seen(
            partition, offset, lambda: log_start(consumer, self.topic, partition)
        )
        self.wrong += [wrong] if wrong else []
        with suppress(KafkaException):  # the partition is another member's by now
            consumer.store_offsets(message)

    @property
    def noted(self) -> str:  # type: ignore[override]
        return f"its group: {self._group.again} again, {self._group.deleted} deleted before"

    def _settings(self) -> dict[str, Any]:
        protocol = self._group.protocol
        own = {
            "group.id": f"{self.topic}-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "enable.auto.offset.store": False,
        }
        of_broker = OF_BROKER if protocol == "consumer" else ()
        settings = self.settings("consumers", **own)
        return {name: value for name, value in settings.items() if name not in of_broker}


class Transacts(Client):
    """Transactions of some records, every third of which is aborted, with another id now and then.

    One whose end is not known is not tried again: the next has another number.
    """

    number = 0

    def turn(self) -> None:
        own = {"transactional.id": f"{self.topic}-{self.done // 100 % IDS}", **TRANSACTION}
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
        own["auto.offset.reset"] = "earliest"
        consumer = confluent_kafka.Consumer(self.settings("consumers", **own))
        try:
            consumer.assign([TopicPartition(self.topic, 0, confluent_kafka.OFFSET_END)])
            last: tuple[int, int] | None = None
            while not self.ended.is_set():
                message = consumer.poll(PAUSE_S)
                if message is not None and message.error() is None:
                    words, offset = (message.value() or b"").split(), message.offset() or 0
                    last = self.seen(words, last, self._before(consumer, offset))
        finally:
            consumer.close()

    def _before(self, consumer: confluent_kafka.Consumer, offset: int) -> Callable[[], bool]:
        return lambda: log_start(consumer, self.topic, 0) >= offset

    def seen(
        self, words: list[bytes], last: tuple[int, int] | None, is_deleted: Callable[[], bool]
    ) -> tuple[int, int]:
        """Notes a record behind `last`; `is_deleted` asks whether the log has none before it."""
        number, index = int(words[0]), int(words[1])
        self.done += 1
        if words[2] == b"abort":
            self.wrong.append(f"a record of transaction {number}, which was aborted")
        is_next = last is None or (
            (number, index) == (last[0], last[1] + 1)
            if index
            else number > last[0] and last[1] == TRANSACTION_RECORDS - 1
        )
        if not is_next and not is_deleted():
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
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic("lines", 2, 1, config=RETENTION), NewTopic("sums", 1, 1, config=RETENTION)]
    for made in admin.create_topics(wanted).values():
        made.result(60)
    clients: list[Client] = [Produces(bootstrap, "lines"), Administers(bootstrap, "short")]
    for protocol in ("classic", "consumer"):
        group = Group("lines", protocol)
        clients += [Reads(bootstrap, group, stays) for stays in (True, False)]
    return [*clients, Transacts(bootstrap, "sums"), ReadsCommitted(bootstrap, "sums")]


def end(clients: list[Client]) -> None:
    """Stop all clients; a client that does not end is a violation."""
    for one in clients:
        one.ended.set()
    for one in clients:
        one.join(PATIENCE_S)
        if one.is_alive():
            one.wrong.append(f"has not ended in {PATIENCE_S} s")
