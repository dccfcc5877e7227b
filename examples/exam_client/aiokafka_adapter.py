"""Adapter of `brokertwin exam-client` for aiokafka."""

import asyncio
import os
import signal
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

NAME, TOPIC = os.environ["EXAM_NAME"], os.environ["EXAM_TOPIC"]
COUNT, PARTITIONS = int(os.environ["EXAM_COUNT"]), int(os.environ["EXAM_PARTITIONS"])
SHARED = {"bootstrap_servers": os.environ["EXAM_BOOTSTRAP"], "client_id": NAME}


async def produce():
    async with AIOKafkaProducer(**SHARED, enable_idempotence=True) as producer:
        sent = []
        for number in range(COUNT):
            value = f"{NAME}-{number}"
            sent.append(await producer.send(TOPIC, value.encode(), partition=number % PARTITIONS))
            sent[-1].add_done_callback(lambda future, value=value: delivered(future, value))
            await asyncio.sleep(0.005)  # several batches
        await asyncio.gather(*sent, return_exceptions=True)


def delivered(future, value):
    if future.exception() is None:
        print("acked", value, flush=True)


async def transact():
    own_id = os.environ["EXAM_TRANSACTIONAL_ID"]
    async with AIOKafkaProducer(**SHARED, transactional_id=own_id) as producer:
        for number in range(COUNT):
            await producer.begin_transaction()
            for index in range(3):
                value, partition = f"{NAME}-{number}-{index}", (number + index) % PARTITIONS
                await producer.send(TOPIC, value.encode(), partition=partition)
            if number % 3 == 2:
                await producer.abort_transaction()
                print("aborted", number, flush=True)
            else:
                await producer.commit_transaction()
                print("committed", number, flush=True)


async def consume():
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    group = {"group_id": os.environ["EXAM_GROUP"], "session_timeout_ms": 6000}
    start = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    isolation = {"isolation_level": "read_committed", "heartbeat_interval_ms": 2000}
    async with AIOKafkaConsumer(TOPIC, **SHARED, **group, **start, **isolation) as consumer:
        while not ended.is_set():
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for each in records:
                    print("read", each.partition, each.offset, each.value.decode(), flush=True)
                with suppress(KafkaError):  # after a rebalance the new owner reads them again
                    await consumer.commit()


work = {"produce": produce, "transact": transact, "consume": consume}[os.environ["EXAM_WORK"]]
asyncio.run(work())
