"""A generation of source tasks is fenced before the next one begins (KIP-618).

On a gateway and on Kafka.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from brokertwin.clients.connect.config_log import (
    Config,
    connector_record,
    fencing_record,
    task_records,
)
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.connect.worker_config import Support, WorkerConfig
from brokertwin.clients.io.connect.distributed import DistributedWorker
from brokertwin.clients.io.connect.logs import create_topics, read_whole
from brokertwin.clients.io.connect.tasks import TaskError
from brokertwin.clients.io.producer import Producer, TransactionError
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_config import ProducerConfig
from tests.clients.io.test_consumer_members import make_topic, topic_at
from tests.support.connect_tasks import Copy
from tests.support.gateways import running_gateway
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.socket_records import written

NUMBERS = count(1)
STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    settings = {"transaction.state.log.num.partitions": "2"}
    with running_gateway({**settings, "group.initial.rebalance.delay.ms": "100"}) as running:
        yield running.bootstrap


@pytest.fixture(params=["gateway", pytest.param("kafka", marks=pytest.mark.kafka)])
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Copy:
    bootstrap = str(request.getfixturevalue(request.param))
    return Copy(bootstrap, tmp_path, topic_at(bootstrap, f"fenced-{next(NUMBERS)}"))


def settings_of(copy: Copy) -> tuple[WorkerConfig, Config]:
    topic = copy.stream.name
    config = WorkerConfig(
        group_id=f"{topic}-workers",
        config_storage_topic=f"{topic}-configs",
        offset_storage_topic=copy.offsets,
        offset_storage_partitions=1,
        status_storage_topic=f"{topic}-status",
        exactly_once_source_support=Support.ENABLED,
    )
    lines = {"connector.class": "FileStreamSource", "topic": topic, "file": str(copy.file)}
    return config, {"name": "lines", "value.converter": STRING, **lines}


@contextmanager
def worker(copy: Copy, config: WorkerConfig, connector: Config) -> Iterator[DistributedWorker]:
    made = DistributedWorker(copy.bootstrap, config, [connector], "worker 1")
    over = threading.Event()
    thread = threading.Thread(target=made.run, args=(over.is_set, lambda _: None))
    thread.start()
    try:
        yield made
    finally:
        over.set()
        thread.join(PATIENCE_S)


def begun(copy: Copy, config: WorkerConfig, task: ConnectTaskId) -> Producer:
    """A task of the generation before: its lines are sent and not committed."""
    settings = ProducerConfig(transactional_id=config.transactional_id(task))
    producer = Producer(copy.bootstrap, settings)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(copy.stream.name, ProducerRecord(None, b"of a zombie"))
    producer.flush(60_000)
    return producer


def test_example_22_all_tasks_of_the_previous_generation_are_fenced(copy: Copy) -> None:
    """There were two, there is one: the second has no successor that would fence it."""
    config, connector = settings_of(copy)
    create_topics(copy.bootstrap, config)
    before = [
        connector_record("lines", connector),
        *task_records("lines", [connector, connector]),
        fencing_record("lines", 2, 3),
    ]
    messages = [ProducerRecord(key, value) for key, value in before]
    written(copy.bootstrap, config.config_storage_topic, messages)
    zombies = [begun(copy, config, ConnectTaskId("lines", at)) for at in range(2)]
    copy.grow(10)
    with worker(copy, config, connector):
        wait_until(lambda: copy.found(is_committed=True) == copy.expected, "the lines are copied")
        for zombie in zombies:
            with pytest.raises(TransactionError, match="FATAL_ERROR"):
                zombie.commit_transaction(60_000)
            zombie.close()
    assert copy.found(is_committed=True) == copy.expected
    read = read_whole(copy.bootstrap, config.config_storage_topic)
    reported = [
        json.loads(each.value or b"{}") for each in read if each.key == b"tasks-fencing-lines"
    ]
    assert [each["task-count"] for each in reported] == [2, 1]


def test_a_task_of_an_older_generation_ends_before_sending(copy: Copy) -> None:
    """It was late: it has begun, and fenced its successor, when the next generation has begun."""
    make_topic(copy.bootstrap, copy.offsets)
    copy.grow(3)
    with pytest.raises(TaskError, match="belongs to an older generation of tasks"):
        copy.run_exact(lambda: False, is_current=lambda: False)
    assert copy.found(is_committed=False) == []
