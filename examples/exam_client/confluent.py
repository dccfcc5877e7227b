"""Adapter of `brokertwin exam-client` for confluent-kafka."""

import os
import signal
import sys
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Producer

NAME, TOPIC = os.environ["EXAM_NAME"], os.environ["EXAM_TOPIC"]
COUNT, PARTITIONS = int(os.environ["EXAM_COUNT"]), int(os.environ["EXAM_PARTITIONS"])
SHARED = {"bootstrap.servers": os.environ["EXAM_BOOTSTRAP"], "client.id": NAME}


def produce():
    def delivered(error, message):
        if error is None:
            print("acked", message.value().decode(), flush=True)

    producer = Producer({**SHARED, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(
            TOPIC, f"{NAME}-{number}", partition=number % PARTITIONS, on_delivery=delivered
        )
        producer.poll(0.005)
    sys.exit(producer.flush() > 0)


def transact():
    producer = Producer({**SHARED, "transactional.id": os.environ["EXAM_TRANSACTIONAL_ID"]})
    producer.init_transactions()
    for number in range(COUNT):
        producer.begin_transaction()
        for index in range(3):
            value, partition = f"{NAME}-{number}-{index}", (number + index) % PARTITIONS
            producer.produce(TOPIC, value, partition=partition)
        if number % 3 == 2:
            producer.flush()
            end(producer.abort_transaction)
            print("aborted", number, flush=True)
            continue
        try:
            end(producer.commit_transaction)
            print("committed", number, flush=True)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            end(producer.abort_transaction)
            print("aborted", number, flush=True)


def end(call):
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def consume():
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    group = {"group.id": os.environ["EXAM_GROUP"], "session.timeout.ms": 6000}
    start = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**SHARED, **group, **start, "isolation.level": "read_committed"})
    consumer.subscribe([TOPIC])
    while not ended:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value().decode()
            print("read", message.partition(), message.offset(), value, flush=True)
            with suppress(KafkaException):  # after a rebalance the new owner reads it again
                consumer.commit(message, asynchronous=False)
    consumer.close()


{"produce": produce, "transact": transact, "consume": consume}[os.environ["EXAM_WORK"]]()
