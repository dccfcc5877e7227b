"""Adapter of `brokertwin exam-client` for confluent-kafka."""

import os
import signal
from contextlib import suppress

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

NAME, TOPIC = os.environ["EXAM_NAME"], os.environ["EXAM_TOPIC"]
COUNT, PARTITIONS = int(os.environ["EXAM_COUNT"]), int(os.environ["EXAM_PARTITIONS"])
SHARED = {"bootstrap.servers": os.environ["EXAM_BOOTSTRAP"], "client.id": NAME}


def produce():
    def delivered(error, message):
        if error is None:
            print("acked", message.value().decode(), flush=True)

    producer = Producer({**SHARED, "enable.idempotence": True})
    for number in range(COUNT):
        value, partition = f"{NAME}-{number}", number % PARTITIONS
        producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)
        producer.poll(0.005)
    raise SystemExit(producer.flush() > 0)


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


def consumer_of_group():
    group = {"group.id": os.environ["EXAM_GROUP"]}
    if os.environ.get("EXAM_GROUP_INSTANCE"):
        group["group.instance.id"] = os.environ["EXAM_GROUP_INSTANCE"]
    if os.environ.get("EXAM_GROUP_PROTOCOL") == "consumer":
        group["group.protocol"] = "consumer"
    else:
        group["session.timeout.ms"] = 6000
    start = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**SHARED, **group, **start, "isolation.level": "read_committed"})
    consumer.subscribe([TOPIC])
    return consumer


def consume():
    consumer = consumer_of_group()
    while not ended:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value().decode()
            print("read", message.partition(), message.offset(), value, flush=True)
            with suppress(KafkaException):  # after a rebalance the new owner reads it again
                consumer.commit(message, asynchronous=False)
    consumer.close()


def process():
    producer = Producer({**SHARED, "transactional.id": os.environ["EXAM_TRANSACTIONAL_ID"]})
    producer.init_transactions()
    consumer = consumer_of_group()
    while not ended:
        records = [each for each in consumer.consume(20, 0.2) if each.error() is None]
        if not records:
            continue
        producer.begin_transaction()
        for each in records:
            producer.produce(os.environ["EXAM_OUTPUT"], each.value(), partition=each.partition())
        ends = {each.partition(): each.offset() + 1 for each in records}
        offsets = [TopicPartition(TOPIC, *place) for place in ends.items()]
        member = consumer.consumer_group_metadata()
        try:
            end(lambda o=offsets, m=member: producer.send_offsets_to_transaction(o, m))
            end(producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            end(producer.abort_transaction)
            rewind(consumer)
            continue
        for each in records:
            print("copied", each.value().decode(), flush=True)
    consumer.close()


def rewind(consumer):
    """Go back to the committed offsets."""
    while True:
        with suppress(KafkaException):  # partitions may be taken away meanwhile
            for place in consumer.committed(consumer.assignment(), 10):
                place.offset = place.offset if place.offset >= 0 else OFFSET_BEGINNING
                consumer.seek(place)
            return


ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
work = {"produce": produce, "transact": transact, "consume": consume, "process": process}
work[os.environ["EXAM_WORK"]]()
