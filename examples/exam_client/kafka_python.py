"""Adapter of `brokertwin exam-client` for kafka-python."""

import os
import signal
import time
from contextlib import suppress

import kafka
from kafka.errors import KafkaError

NAME, TOPIC = os.environ["EXAM_NAME"], os.environ["EXAM_TOPIC"]
COUNT, PARTITIONS = int(os.environ["EXAM_COUNT"]), int(os.environ["EXAM_PARTITIONS"])
SHARED = {"bootstrap_servers": os.environ["EXAM_BOOTSTRAP"], "client_id": NAME}
PATIENT = {"max_block_ms": 600_000, "delivery_timeout_ms": 600_000}


def produce():
    producer = kafka.KafkaProducer(**SHARED, **PATIENT, enable_idempotence=True)
    for number in range(COUNT):
        value = f"{NAME}-{number}"
        future = producer.send(TOPIC, value.encode(), partition=number % PARTITIONS)
        future.add_callback(lambda _, value=value: print("acked", value, flush=True))
        time.sleep(0.005)  # several batches
    producer.flush()
    producer.close()


def transact():
    own_id = os.environ["EXAM_TRANSACTIONAL_ID"]
    producer = kafka.KafkaProducer(**SHARED, **PATIENT, transactional_id=own_id)
    producer.init_transactions()
    for number in range(COUNT):
        producer.begin_transaction()
        for index in range(3):
            value, partition = f"{NAME}-{number}-{index}", (number + index) % PARTITIONS
            producer.send(TOPIC, value.encode(), partition=partition)
        if number % 3 == 2:
            producer.abort_transaction()
            print("aborted", number, flush=True)
        else:
            producer.commit_transaction()
            print("committed", number, flush=True)


def consume():
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    group = {"group_id": os.environ["EXAM_GROUP"], "session_timeout_ms": 6000}
    start = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    isolation = {"isolation_level": "read_committed", "heartbeat_interval_ms": 2000}
    consumer = kafka.KafkaConsumer(TOPIC, **SHARED, **group, **start, **isolation)
    while not ended:
        for records in consumer.poll(200).values():
            for each in records:
                print("read", each.partition, each.offset, each.value.decode(), flush=True)
            with suppress(KafkaError):  # after a rebalance the new owner reads them again
                consumer.commit()
    consumer.close()


{"produce": produce, "transact": transact, "consume": consume}[os.environ["EXAM_WORK"]]()
