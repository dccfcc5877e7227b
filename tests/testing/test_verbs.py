"""Verbs of the test broker: holds, duplicates, choices, groups, kills and resets."""

import time
from typing import Any

import confluent_kafka
import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import decode_response
from brokertwin.testing import FaultSpec, KafkaBroker
from tests.support.batches import batch
from tests.support.gateways import Client, produce_body
from tests.support.patience import PATIENCE_S, wait_until


def connect(broker: KafkaBroker, number: int = 1, name: str = "tester") -> Client:
    host, port = broker.bootstrap_servers[number - 1].split(":")
    return Client(Address(host, int(port)), name=name)


def values(broker: KafkaBroker, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def produce(client: Client, value: bytes) -> int:
    error: int = client.produce("orders", batch(value))["errorCode"]
    return error


pytestmark = pytest.mark.kafka_broker(topics=["orders"])


def test_the_nth_request_is_affected(kafka_broker: KafkaBroker) -> None:
    fault = kafka_broker.fail_next("PRODUCE", "REQUEST_TIMED_OUT", nth=2, times=2)
    with connect(kafka_broker) as client:
        errors = [produce(client, b"x") for _ in range(4)]
    assert errors == [0, Error.REQUEST_TIMED_OUT, Error.REQUEST_TIMED_OUT, 0]
    assert fault.is_over


def test_a_seed_decides_which_requests_are_affected(kafka_broker: KafkaBroker) -> None:
    def errors(seed: int) -> list[int]:
        spec: Any = {"effect": "fail", "api": "PRODUCE", "error": 7, "times": "all"}
        fault = kafka_broker.add_fault(FaultSpec(**spec, probability=0.5, seed=seed))
        with fault, connect(kafka_broker) as client:
            return [produce(client, b"x") for _ in range(30)]

    first = errors(1)
    assert first == errors(1) != errors(2)
    assert set(first) == {0, 7}


def test_a_duplicated_produce_is_written_twice_and_both_can_be_read(
    kafka_broker: KafkaBroker,
) -> None:
    kafka_broker.duplicate("PRODUCE")
    with connect(kafka_broker) as client:
        assert client.produce("orders", batch(b"x"))["baseOffset"] == 1
        assert produce(client, b"y") == 0
    assert values(kafka_broker) == [b"x", b"x", b"y"]


def test_a_duplicated_produce_of_an_idempotent_producer_is_written_once(
    kafka_broker: KafkaBroker,
) -> None:
    fault = kafka_broker.duplicate("PRODUCE")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka_broker.bootstrap, "enable.idempotence": True}
    )
    for value in ("a", "b"):
        producer.produce("orders", value)
        assert producer.flush(PATIENCE_S) == 0
    assert fault.hits == 1
    assert values(kafka_broker) == [b"a", b"b"]


def test_a_held_response_belongs_to_a_processed_request(kafka_broker: KafkaBroker) -> None:
    fault = kafka_broker.hold("PRODUCE")
    with connect(kafka_broker) as client:
        client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), 0))
        fault.wait()
        assert values(kafka_broker) == [b"x"]
        fault.release()
        assert decode_response(0, 9, client.receive())[1]["responses"]


def test_a_held_request_is_processed_after_its_release_and_before_later_ones(
    kafka_broker: KafkaBroker,
) -> None:
    with connect(kafka_broker, name="zombie") as zombie, connect(kafka_broker) as other:
        fault = kafka_broker.hold("PRODUCE", client="zombie", before=True)
        kafka_broker.delay("PRODUCE", 50, client="zombie", before=True, nth=2)
        for number in range(4):
            zombie.send("PRODUCE", 9, produce_body("orders", batch(b"%d" % number), 0))
        fault.wait()
        assert produce(other, b"other") == 0
        assert values(kafka_broker) == [b"other"]
        fault.release()
        for _ in range(4):
            zombie.receive()
    assert values(kafka_broker) == [b"other", b"0", b"1", b"2", b"3"]


def test_a_held_request_is_processed_without_its_client(kafka_broker: KafkaBroker) -> None:
    with kafka_broker.hold("PRODUCE", before=True) as fault, connect(kafka_broker) as client:
        client.send("PRODUCE", 9, produce_body("orders", batch(b"late"), 0))
        fault.wait()
    wait_until(lambda: values(kafka_broker) == [b"late"])


def test_a_throttle_time_is_reported_and_later_requests_wait(kafka_broker: KafkaBroker) -> None:
    kafka_broker.throttle(200)
    with connect(kafka_broker) as client:
        started = time.monotonic()
        assert client.call("METADATA", 9, topics=[])["throttleTimeMs"] == 200
        assert client.call("METADATA", 9, topics=[])["throttleTimeMs"] == 0
    assert time.monotonic() - started >= 0.15


def test_a_group_is_awaited_by_state_and_members(kafka_broker: KafkaBroker) -> None:
    kafka_broker.wait_for_group("readers", "Dead", 0)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka_broker.bootstrap, "group.id": "readers"}
    )
    consumer.subscribe(["orders"])
    with pytest.raises(TimeoutError, match=r"Group readers: .*, . members? after 0 s"):
        kafka_broker.wait_for_group("readers", members=2, timeout_s=0)
    kafka_broker.wait_for_group("readers", members=1)
    consumer.close()
    kafka_broker.wait_for_group("readers", "Empty", members=0)
    with pytest.raises(UserError, match="No group has the state Stabel"):
        kafka_broker.wait_for_group("readers", "Stabel")


@pytest.mark.kafka_broker(brokers=3)
def test_a_killed_broker_hands_nothing_over(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("wide", replication_factor=3)
    old = kafka_broker.leader("wide")
    kafka_broker.produce("wide", "before")
    kafka_broker.kill(old)
    with pytest.raises(ConnectionRefusedError):
        connect(kafka_broker, old)
    assert kafka_broker.leader("wide") == old, "the session has not expired"
    kafka_broker.advance_time(10_000)
    assert kafka_broker.leader("wide") != old
    kafka_broker.restart(old)
    wait_until(lambda: _listens(kafka_broker, old), "its port is open again")
    with pytest.raises(UserError, match="Broker 9 does not exist"):
        kafka_broker.kill(9)


def _listens(broker: KafkaBroker, number: int) -> bool:
    try:
        connect(broker, number).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.kafka_broker(brokers=2)
def test_a_reset_keeps_the_addresses_and_nothing_else(kafka_broker: KafkaBroker) -> None:
    addresses = kafka_broker.bootstrap_servers
    kafka_broker.produce("orders", "old")
    kafka_broker.produce("other", "old")
    kafka_broker.kill(2)
    kafka_broker.advance_time(1000)
    held = kafka_broker.hold("PRODUCE")
    with connect(kafka_broker) as client:
        kafka_broker.reset()
        assert client.is_closed()
    assert (held.is_over, kafka_broker.faults, kafka_broker.requests()) == (True, [], [])
    assert kafka_broker.bootstrap_servers == addresses
    assert values(kafka_broker) == []
    with pytest.raises(UserError, match="Topic other does not exist"):
        kafka_broker.records("other")
    with connect(kafka_broker, 2) as client:
        assert len(client.call("METADATA", 9, topics=[])["brokers"]) == 2
