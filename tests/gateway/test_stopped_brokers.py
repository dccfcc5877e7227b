"""Three brokers, each stopped in turn: acknowledged records survive."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import kafka as kafka_python
import pytest

from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core.events import Kind
from tests.support.batches import batch
from tests.support.gateways import Client, Running, running_gateway, serving
from tests.support.running_jobs import WAIT_S, RunningJob
from tests.support.stopping_brokers import (
    BROKERS,
    bootstrap_of,
    create_topic,
    each_is_stopped_in_turn,
    intervene_through,
    partitions,
    read_all,
)
from tests.support.time_outs import time_outs

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
QUICK = {"retry_backoff_ms": 50, "reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 200}
TWO = {"min_insync_replicas": "2"}


@pytest.fixture
def local() -> Iterator[Running]:
    engine_type = partial(LocalEngine, may_intervene=True)
    with running_gateway(SETTINGS, BROKERS, engine_type=engine_type) as gateway:
        yield gateway


def test_acknowledged_records_survive_the_stop_of_each_broker(local: Running) -> None:
    create_topic(local, **TWO)
    acknowledged = each_is_stopped_in_turn(local, intervene_through(local), **QUICK)
    assert sorted(read_all(local, **QUICK)) == sorted(acknowledged)


def test_unreplicated_records_with_acks_1_are_lost(local: Running) -> None:
    """Shows that the test above can detect a loss."""
    create_topic(local)
    intervene = intervene_through(local)
    leader = partitions(local, 1)[0]["leaderId"]
    followers = [broker for broker in range(1, BROKERS + 1) if broker != leader]
    for broker in followers:
        intervene("isolate-broker", broker)
    with local.client(leader) as client:
        assert client.produce("orders", batch(b"lost"), acks=1)["errorCode"] == 0
    intervene("stop-broker", leader)
    for broker in followers:
        intervene("rejoin-broker", broker)
    intervene("start-broker", leader)
    assert read_all(local, **QUICK) == []


def test_group_continues_when_its_coordinator_stops(local: Running) -> None:
    create_topic(local, **TWO)
    options = {"group_id": "readers", "auto_offset_reset": "earliest", **QUICK}
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=bootstrap_of(local), acks="all", **QUICK
    )
    producer.send("orders", b"one", partition=0).get(WAIT_S)
    consumer = kafka_python.KafkaConsumer(
        "orders", bootstrap_servers=bootstrap_of(local), **options
    )
    assert next(consumer).value == b"one"
    consumer.commit()
    with local.client(1) as client:
        body = {"keyType": 0, "coordinatorKeys": ["readers"]}
        coordinator = client.call("FIND_COORDINATOR", 4, body)["coordinators"][0]["nodeId"]
    intervene_through(local)("stop-broker", coordinator)
    producer.send("orders", b"two", partition=0).get(WAIT_S)
    assert next(consumer).value == b"two"
    consumer.commit()
    place = kafka_python.TopicPartition("orders", 0)
    assert consumer.committed(place) == 2
    consumer.close()
    producer.close()


@pytest.mark.parametrize("turns", range(8))
def test_connections_to_a_stopping_broker_are_closed_at_once(local: Running, turns: int) -> None:
    """Accepted, started or served: the broker may stop at any turn of the event loop."""

    async def connect_and_stop() -> Client:
        client = local.client(2)
        for _ in range(turns):
            await asyncio.sleep(0)
        await local.engine.intervene(Kind.STOP_BROKER, 2)
        return client

    with local.run(connect_and_stop()) as client:
        with suppress(ConnectionError):
            client.send("API_VERSIONS", 0)
        assert client.is_closed()


@pytest.mark.parametrize(("api", "version"), [("LIST_GROUPS", 4), ("METADATA", 9)])
def test_request_to_a_stopped_broker_gets_no_response(
    local: Running, api: str, version: int
) -> None:
    with local.client(2) as client:
        local.engine.on_broker = lambda broker, is_stopped: None  # connections stay open
        intervene_through(local)("stop-broker", 2)
        client.send(api, version, {})
        assert client.is_closed()


@pytest.fixture
def job(kafka: str, spark: Any, tmp_path: Path) -> Iterator[RunningJob]:
    typed, _ = parse(SETTINGS)
    made = RunningJob(kafka, tmp_path, spark, typed, brokers=str(BROKERS), interventions=True)
    made.start()
    yield made
    made.stop()


@pytest.mark.spark
@pytest.mark.kafka
def test_records_acknowledged_by_a_job_survive_the_stop_of_each_broker(job: RunningJob) -> None:
    """Through one gateway; another one closes the same ports."""
    engines = [job.engine("a") for _ in range(2)]
    with serving(engines[0]) as gateway, serving(engines[1]) as other:
        create_topic(gateway, **TWO)
        options = time_outs("kafka-python", "producers")
        acknowledged = each_is_stopped_in_turn(gateway, intervene_through(other), **options)
        options = time_outs("kafka-python", "consumers")
        assert sorted(read_all(gateway, **options)) == sorted(acknowledged)
    job.stop()
    job.bench.assert_live_run_equals_replay("a", is_done=False)
