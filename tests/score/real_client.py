"""A client process for accidents: it can be killed, frozen, closed, or told to hang.

SIGTERM closes the client as an application does, SIGUSR1 lets the application hang or go on. Lines
on the standard output are JSON: what the client saw.
"""

import json
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)

PAUSE_S = 0.1


class Application:
    def __init__(self) -> None:
        self.is_over = self.is_hanging = False
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGUSR1, self._hang)

    def _end(self, _: int, __: FrameType | None) -> None:
        self.is_over = True

    def _hang(self, _: int, __: FrameType | None) -> None:
        self.is_hanging = not self.is_hanging
        say("hangs" if self.is_hanging else "goes on")

    def hang(self) -> None:
        while self.is_hanging and not self.is_over:
            time.sleep(PAUSE_S)


def say(what: str, **more: Any) -> None:
    document = {"what": what, "time": int(time.time() * 1000), **more}
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def on_error(error: KafkaError) -> None:
    say("error", error=error.name())


def consume(app: Application, config: dict[str, Any], topics: list[str], _: dict[str, Any]) -> None:
    """Consume and commit automatically."""
    consumer = Consumer({**config, "error_cb": on_error})
    consumer.subscribe(
        topics,
        on_assign=lambda c, parts: say("assigned", count=len(parts), member=c.memberid()),
        on_revoke=lambda _, parts: say("revoked", count=len(parts)),
        on_lost=lambda _, parts: say("lost", count=len(parts)),
    )
    while not app.is_over:
        app.hang()
        for message in consumer.consume(100, PAUSE_S):
            if message.error() is not None:
                say("error", error=message.error().name())
    consumer.close()


def share(app: Application, config: dict[str, Any], topics: list[str], more: Any) -> None:
    """Take part in a share group, and release each record."""
    consumer = ShareConsumer({**config, "error_cb": on_error})
    consumer.subscribe(topics)
    say("assigned", count=0)
    taken = 0
    while not app.is_over:
        app.hang()
        for message in consumer.poll(timeout=PAUSE_S):
            kind = AcknowledgeType.RELEASE if more.get("releases") else AcknowledgeType.ACCEPT
            consumer.acknowledge(message, kind)
            taken += 1
            if taken == 1:
                say("received")
    consumer.close()


def produce(app: Application, config: dict[str, Any], topics: list[str], more: Any) -> None:
    """Produce a record now and then; with `keys`, the keys are as many as that."""
    pause_s, keys, count = more.get("pause_s", PAUSE_S), more.get("keys"), 0
    producer = Producer({**config, "error_cb": on_error})
    acked = 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acked
        acked += error is None
        if error is not None:
            say("refused", error=error.name())
        elif acked in (1, 20):
            say("acked", count=acked)

    while not app.is_over:
        app.hang()
        for topic in topics:
            try:
                key = str(count % keys) if keys else None
                producer.produce(topic, b"x" * 100, key, on_delivery=delivered)
            except KafkaException as error:
                say("refused", error=error.args[0].name())
        count += 1
        producer.poll(pause_s / 2)
        time.sleep(pause_s / 2)
    producer.flush(10)


def transact(app: Application, config: dict[str, Any], topics: list[str], more: Any) -> None:
    """Produce in transactions; it hangs within one. With `copies`, move offsets in them."""
    producer = Producer({**config, "error_cb": on_error})
    producer.init_transactions(30)
    say("initialized")
    count = 0
    while not app.is_over:
        count += 1
        try:
            producer.begin_transaction()
            for topic in topics:
                producer.produce(topic, b"x" * 100)
            producer.flush(10)
            if app.is_hanging:
                say("open", count=count)
            app.hang()
            if more.get("aborts") and count % 2:
                producer.abort_transaction(10)
                say("aborted", count=count)
            else:
                producer.commit_transaction(10)
                say("committed", count=count)
        except KafkaException as error:
            say("failed", error=error.args[0].name(), fatal=error.args[0].fatal())
            if error.args[0].fatal():
                break
            try:
                producer.abort_transaction(10)
            except KafkaException as another:
                say("failed", error=another.args[0].name(), fatal=another.args[0].fatal())
                break
        time.sleep(more.get("pause_s", 2 * PAUSE_S))


def copy(app: Application, config: dict[str, Any], topics: list[str], more: Any) -> None:
    """Consume, and commit offsets in transactions, of which every second is aborted."""
    shared = {"bootstrap.servers": config["bootstrap.servers"], "error_cb": on_error}
    name = config["client.id"]
    producer = Producer({**shared, "client.id": f"{name}-out", "transactional.id": name})
    producer.init_transactions(30)
    consumer = Consumer({**config, "error_cb": on_error})
    consumer.subscribe(topics, on_assign=lambda _, parts: say("assigned", count=len(parts)))
    count = 0
    while not app.is_over:
        found = [each for each in consumer.consume(20, PAUSE_S) if each.error() is None]
        if not found:
            continue
        count += 1
        producer.begin_transaction()
        producer.produce(more["to"], b"y" * 100)
        ends = {(m.topic(), m.partition()): m.offset() + 1 for m in found}
        offsets = [TopicPartition(*place, offset) for place, offset in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        if count % 2:
            producer.commit_transaction(10)
            say("committed", count=count)
        else:
            producer.abort_transaction(10)
            for each in consumer.committed(consumer.assignment(), 10):
                if each.offset >= 0:
                    consumer.seek(each)
            say("aborted", count=count)
    consumer.close()


ROLES: dict[str, Callable[[Application, dict[str, Any], list[str], dict[str, Any]], None]] = {
    each.__name__: each for each in (consume, share, produce, transact, copy)
}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    say("starts")
    ROLES[given["role"]](Application(), given["config"], given["topics"], given["more"])
    say("ends")
