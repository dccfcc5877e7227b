"""A follower that copies its leader's log keeps bytes that other replicas delete."""

from functools import partial

import pytest

from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.protocol.errors import Error
from brokertwin.state.logs import log as logs
from tests.support.batches import batch
from tests.support.gateways import Running, running_gateway
from tests.support.patience import wait_until
from tests.support.stopping_brokers import (
    BROKERS,
    TOPIC,
    all_in_sync,
    create_topic,
    intervene_through,
    partitions,
)

RECORDS = 8


def is_reached(gateway: Running, broker: int) -> bool:
    try:
        return bool(partitions(gateway, broker))
    except ConnectionRefusedError:
        return False


def test_replica_that_missed_the_sealing_leads_with_the_sealed_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
    monkeypatch.setattr(logs, "INDEX_CHUNKS_MAX", 2)
    engine_type = partial(LocalEngine, may_intervene=True)
    with running_gateway({}, BROKERS, engine_type=engine_type) as gateway:
        create_topic(gateway)
        intervene = intervene_through(gateway)
        leader = partitions(gateway, 1)[0]["leaderId"]
        away, third = (broker for broker in range(1, BROKERS + 1) if broker != leader)
        intervene("stop-broker", away)
        sent = [batch(b"%d" % number) for number in range(RECORDS)]
        with gateway.client(leader) as client:
            for records in sent:
                assert client.produce(TOPIC, records)["errorCode"] == 0
        intervene("start-broker", away)
        wait_until(lambda: all_in_sync(gateway, leader), "the broker has all again")
        wait_until(lambda: is_reached(gateway, away), "its port is open")
        intervene("isolate-broker", away)
        with gateway.client(leader) as client:
            topic = {"name": TOPIC, "partitions": [{"partitionIndex": 0, "offset": RECORDS}]}
            response = client.call("DELETE_RECORDS", 2, {"topics": [topic], "timeoutMs": 100})
            assert response["topics"][0]["partitions"][0]["errorCode"] == Error.REQUEST_TIMED_OUT
        intervene("stop-broker", leader)
        intervene("stop-broker", third)
        assert partitions(gateway, away)[0]["leaderId"] == away
        with gateway.client(away) as client:
            for offset, records in enumerate(sent):
                found = client.fetch(TOPIC, offset)
                assert (found["errorCode"], found["records"][: len(records)][61:]) == (
                    0,
                    records[61:],
                )
            client.call("DELETE_TOPICS", 5, topicNames=[TOPIC], timeoutMs=1000)
        intervene("start-broker", leader)
        intervene("start-broker", third)
        assert isinstance(gateway.engine, LocalEngine)
        assert len(gateway.engine._store) == 0, "no bytes are left when all logs are gone"
