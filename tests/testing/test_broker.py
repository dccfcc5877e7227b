"""KafkaBroker: content, received requests, and rejected arguments."""

import threading
import time
from typing import Any

import kafka
import pytest
from kafka.admin import KafkaAdminClient

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error
from brokertwin.testing import Fault, KafkaBroker
from brokertwin.testing.transcript import transcript
from tests.support.commits import commit
from tests.support.gateways import Client
from tests.support.patience import wait_until


def connect(broker: KafkaBroker, number: int = 1) -> Client:
    host, port = broker.bootstrap_servers[number - 1].split(":")
    return Client(Address(host, int(port)))


def test_records_are_returned_as_produced(kafka_broker: KafkaBroker) -> None:
    with_everything: dict[str, Any] = {
        "key": "k",
        "headers": [("h", b"1")],
        "timestamp_ms": 1_700_000_000_000,
    }
    assert kafka_broker.produce("orders", "é", None, **with_everything) == 0
    assert kafka_broker.produce("orders", b"\0") == 2
    first, second, third = kafka_broker.records("orders")
    assert (first.key, first.value, first.headers) == (b"k", "é".encode(), [("h", b"1")])
    assert (first.topic, first.partition, first.timestamp_ms) == ("orders", 0, 1_700_000_000_000)
    assert (second.offset, second.value, third.key, third.value) == (1, None, None, b"\0")
    assert abs(third.timestamp_ms - time.time() * 1000) < 60_000


def test_records_of_an_idempotent_producer_have_their_sequences(kafka_broker: KafkaBroker) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=kafka_broker.bootstrap_servers,
        enable_idempotence=True,
        compression_type="gzip",
    )
    for number in range(10):
        producer.send("orders", b"%d" % number)
    producer.flush()
    producer.close()
    records = kafka_broker.records("orders")
    assert [record.sequence for record in records] == list(range(10))
    assert len({(record.producer_id, record.producer_epoch) for record in records}) == 1


def test_records_of_a_long_log_are_complete_except_deleted_ones(
    kafka_broker: KafkaBroker,
) -> None:
    count = 64 * 65 + 1
    for number in range(count):
        kafka_broker.produce("orders", str(number))
    assert len(kafka_broker.records("orders")) == count
    with connect(kafka_broker) as client:
        client.call(
            "DELETE_RECORDS", 2, name="orders", partitionIndex=0, offset=count - 2, timeoutMs=1000
        )
    assert [record.offset for record in kafka_broker.records("orders", 0)] == [count - 2, count - 1]


@pytest.mark.kafka_broker(brokers=3, topics={"orders": 3})
def test_topics_are_spread_over_the_brokers(kafka_broker: KafkaBroker) -> None:
    assert len(kafka_broker.bootstrap.split(",")) == 3
    assert {kafka_broker.leader("orders", partition) for partition in range(3)} == {1, 2, 3}
    kafka_broker.create_topic("payments", 2, 3, {"cleanup.policy": "compact"})
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers)
    (described,) = admin.describe_topics(["payments"])
    assert [len(p["replica_nodes"]) for p in described["partitions"]] == [3, 3]
    admin.close()


def test_requests_are_returned_as_received(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("orders")
    kafka_broker.fail_next("METADATA", "LEADER_NOT_AVAILABLE", topic="orders")
    with connect(kafka_broker) as client:
        client.call("METADATA", 12, name="orders")
        client.call("METADATA", 12, topics=[])
    failed, plain = kafka_broker.requests("Metadata", client="tester")
    assert failed["request"]["topics"][0]["name"] == "orders"
    assert failed["response"]["topics"][0]["errorCode"] == Error.LEADER_NOT_AVAILABLE
    assert failed["fault"] == "METADATA fails with LEADER_NOT_AVAILABLE"
    assert (plain["fault"], plain["broker"]) == (None, 1)
    assert kafka_broker.requests("PRODUCE") == kafka_broker.requests(client="nobody") == []
    with pytest.raises(TimeoutError, match="2 of 3 requests"):
        kafka_broker.requests(at_least=3, timeout_s=0.01)
    trouble = "  [METADATA fails with LEADER_NOT_AVAILABLE]  -> LEADER_NOT_AVAILABLE"
    line = "broker 1  tester  METADATA v12"
    assert transcript(kafka_broker.requests()).splitlines() == [line + trouble, line]


def test_rules_apply_in_order_and_a_limited_number_of_times(kafka_broker: KafkaBroker) -> None:
    kafka_broker.fail_next("INIT_PRODUCER_ID", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
    kafka_broker.fail_next("INIT_PRODUCER_ID", 15)
    with connect(kafka_broker) as client:
        body = {"transactionalId": None, "transactionTimeoutMs": 1000}
        codes = [client.call("INIT_PRODUCER_ID", 4, body)["errorCode"] for _ in range(4)]
    assert codes == [14, 14, 15, 0]


def test_a_rule_can_be_limited_to_a_client_or_broker(kafka_broker: KafkaBroker) -> None:
    others = kafka_broker.fail_next("METADATA", 3, client="other")
    only = kafka_broker.fail_next("DESCRIBE_CLUSTER", 31, broker=1, client="tester")
    kafka_broker.create_topic("orders")
    with connect(kafka_broker) as client:
        client.call("METADATA", 12, name="orders")
        assert client.call("DESCRIBE_CLUSTER", 1)["errorCode"] == 31
    assert (others.hits, only.hits) == (0, 1)


def test_a_test_can_wait_for_a_rule_to_apply(kafka_broker: KafkaBroker) -> None:
    trouble = kafka_broker.fail_next("DESCRIBE_CLUSTER", 31, times=2)
    with pytest.raises(TimeoutError, match="0 of 1"):
        trouble.wait(timeout_s=0.01)

    def send() -> None:
        with connect(kafka_broker) as client:
            client.call("DESCRIBE_CLUSTER", 1)
            client.call("DESCRIBE_CLUSTER", 1)

    requesting = threading.Thread(target=send)
    requesting.start()
    trouble.wait(hits=2)
    requesting.join()
    assert trouble.is_over


def test_calm_ends_all_troubles(kafka_broker: KafkaBroker) -> None:
    with kafka_broker.fail_next("DESCRIBE_CLUSTER", 31, times=None) as trouble:
        assert isinstance(trouble, Fault)
        kafka_broker.pause()
        kafka_broker.calm()
        with connect(kafka_broker) as client:
            assert client.call("DESCRIBE_CLUSTER", 1)["errorCode"] == 0


def test_a_groups_first_member_does_not_wait_for_others(kafka_broker: KafkaBroker) -> None:
    body = {
        "groupId": "g",
        "sessionTimeoutMs": 10_000,
        "rebalanceTimeoutMs": 10_000,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    with connect(kafka_broker) as client:
        assert client.call("JOIN_GROUP", 3, body)["errorCode"] == 0
        name = "group.initial.rebalance.delay.ms"
        resource = {"resourceType": 4, "resourceName": "1", "configurationKeys": [name]}
        (result,) = client.call("DESCRIBE_CONFIGS", 4, {"resources": [resource]})["results"]
        assert [(each["name"], each["value"]) for each in result["configs"]] == [(name, "0")]


def test_an_error_can_be_delayed(kafka_broker: KafkaBroker) -> None:
    kafka_broker.delay("DESCRIBE_CLUSTER", 100)
    kafka_broker.fail_next("DESCRIBE_CLUSTER", 31)
    with connect(kafka_broker) as client:
        before = time.monotonic()
        assert client.call("DESCRIBE_CLUSTER", 1)["errorCode"] == 31
        assert time.monotonic() - before >= 0.1


def test_advancing_the_time_ends_a_long_poll(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("orders")
    topic = {"topic": "orders", "partitions": [{"partition": 0, "partitionMaxBytes": 100}]}
    body = {"maxWaitMs": 600_000, "minBytes": 1, "maxBytes": 100, "sessionEpoch": -1}
    with connect(kafka_broker) as client:
        client.send("FETCH", 12, {**body, "topics": [topic]})
        kafka_broker.requests("FETCH", at_least=1)
        kafka_broker.advance_time(400_000)
        assert kafka_broker.requests("FETCH")[0]["response"] is None
        kafka_broker.advance_time(200_000)
        client.receive()
    kafka_broker.produce("orders", "late")
    (record,) = kafka_broker.records("orders")
    assert abs(record.timestamp_ms - time.time() * 1000 - 600_000) < 60_000


def test_advancing_the_time_shortens_pending_deadlines(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("orders")
    topic = {"topic": "orders", "partitions": [{"partition": 0, "partitionMaxBytes": 100}]}
    body = {"maxWaitMs": 60_200, "minBytes": 1, "maxBytes": 100, "sessionEpoch": -1}
    with connect(kafka_broker) as client:
        client.send("FETCH", 12, {**body, "topics": [topic]})
        kafka_broker.requests("FETCH", at_least=1)
        kafka_broker.advance_time(60_000)
        client.receive()  # after 200 ms and not after a minute


@pytest.mark.kafka_broker(
    config={"log.retention.check.interval.ms": 200, "log.initial.task.delay.ms": 0}
)
def test_records_expire_without_any_request(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("orders", config={"retention.ms": 300})
    assert kafka_broker.produce("orders", "old") == 0
    wait_until(lambda: not kafka_broker.records("orders"), patience_s=60)


@pytest.mark.kafka_broker(brokers=2)
def test_only_the_paused_broker_stops_responding(kafka_broker: KafkaBroker) -> None:
    kafka_broker.pause(broker=2)
    with connect(kafka_broker, 1) as awake, connect(kafka_broker, 2) as paused:
        paused.send("DESCRIBE_CLUSTER", 1)
        assert awake.call("DESCRIBE_CLUSTER", 1)["errorCode"] == 0
        first, second = kafka_broker.requests(at_least=2)
        waiting = first if first["broker"] == 2 else second
        assert (waiting["broker"], waiting["response"]) == (2, None)
        kafka_broker.resume(broker=2)
        paused.receive()


@pytest.mark.kafka_broker(brokers=2, topics=["orders"])
def test_a_leader_moves_to_the_given_broker(kafka_broker: KafkaBroker) -> None:
    old = kafka_broker.leader("orders")
    kafka_broker.produce("orders", "before")
    new = kafka_broker.move_leader("orders", to=3 - old)
    assert (new, kafka_broker.leader("orders")) == (3 - old, 3 - old)
    kafka_broker.produce("orders", "after")
    actual = [(record.value, record.leader_epoch) for record in kafka_broker.records("orders")]
    assert actual == [(b"before", 0), (b"after", 1)]
    with pytest.raises(UserError, match=f"Broker {new} already leads orders-0"):
        kafka_broker.move_leader("orders", to=new)
    with pytest.raises(UserError, match="broker 7 is not one of"):
        kafka_broker.move_leader("orders", to=7)


@pytest.mark.kafka_broker(
    config={
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:test",
    }
)
def test_the_test_itself_has_all_permissions(kafka_broker: KafkaBroker) -> None:
    kafka_broker.produce("orders", "one")
    assert kafka_broker.coordinator("g") == 1
    with connect(kafka_broker) as client:
        response = client.call("METADATA", 12, name="orders")
    assert response["topics"][0]["errorCode"] == Error.TOPIC_AUTHORIZATION_FAILED


REFUSED: list[tuple[Any, str]] = [
    (lambda b: b.fail_next("PRODUCES", 1), "no API PRODUCES"),
    (lambda b: b.fail_next("API_VERSIONS", 1), "whose connection handles it"),
    (lambda b: b.fail_next("PRODUCE", "NOT_A_LEADER"), "no error NOT_A_LEADER"),
    (lambda b: b.fail_next("PRODUCE", 0), "is not an error code"),
    (lambda b: b.fail_next("PRODUCE", 1, times=0), "times=0"),
    (lambda b: b.fail_next("PRODUCE", 1, partition=0), "requires a topic"),
    (lambda b: b.fail_next("PRODUCE", 1, broker=2), "Broker 2 does not exist"),
    (lambda b: b.delay("INIT_PRODUCER_ID", 1, topic="orders"), "requests have no topics"),
    (lambda b: b.move_leader("orders"), "Topic orders does not exist"),
    (
        lambda b: b.move_leader("there"),
        "Broker 1 already leads there-0, and the cluster has 1 broker",
    ),
    (lambda b: b.leader("there", 1), "has 1 partition"),
    (lambda b: b.move_coordinator("g"), "leads __consumer_offsets"),
    (lambda b: b.advance_time(-1), "time cannot go back"),
    (lambda b: b.create_topic("a b"), "INVALID_TOPIC_EXCEPTION"),
    (lambda b: b.create_topic("wide", replication_factor=2), "INVALID_REPLICATION_FACTOR"),
    (lambda b: b.produce("there", "x", partition=4), "has 1 partition"),
    (lambda b: b.produce("there", "x" * 2_000_000), "MESSAGE_TOO_LARGE"),
    (lambda b: b.start(), "is already running"),
    (lambda _: KafkaBroker().records("orders"), "not running"),
    (lambda _: KafkaBroker(brokers=0), "Pass 1 to 100"),
    (lambda _: KafkaBroker(topics="orders"), "a list of names"),
    (lambda _: KafkaBroker(config={"no.such": 1}), "no broker setting no.such"),
    (lambda _: KafkaBroker(config={"num.partitions": "x"}), "num.partitions"),
    (lambda _: KafkaBroker(config={"num.partition": 3}), r"did you mean num\.partitions.*\?$"),
]


@pytest.mark.kafka_broker(topics=["there"])
@pytest.mark.parametrize(("verb", "message"), REFUSED)
def test_invalid_arguments_have_clear_error_messages(
    kafka_broker: KafkaBroker, verb: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        verb(kafka_broker)


def test_closing_frees_everything() -> None:
    before = set(threading.enumerate())
    for _ in range(20):
        with KafkaBroker(brokers=3, topics={"orders": 6}):
            pass
    assert set(threading.enumerate()) == before


def test_a_rejected_initial_topic_leaves_nothing_running() -> None:
    before = set(threading.enumerate())
    with pytest.raises(UserError, match="INVALID_TOPIC_EXCEPTION"):
        KafkaBroker(topics=["a b"]).start()
    assert set(threading.enumerate()) == before


def test_committed_offsets_in_zookeeper_are_returned() -> None:
    config = {"brokertwin.offset.storage": "zookeeper"}
    with KafkaBroker(2, ["orders"], config=config) as broker:
        commit(broker.bootstrap_servers[1], "billing", "orders", 5)
        assert broker.committed_offsets("billing") == {("orders", 0): 5}


def test_committed_offsets_are_records_if_internal_topics_are_written() -> None:
    with KafkaBroker(topics=["orders"], config={"brokertwin.internal.logs": True}) as broker:
        commit(broker.bootstrap, "billing", "orders", 5)
        (row,) = broker.records("__consumer_offsets")
        assert row.key is not None
        assert row.key.startswith(b"\0\1\0\7billing\0\6orders")


def test_a_log_directory_fails_until_the_broker_is_restarted() -> None:
    disks = {"log.dirs": "/disk-1,/disk-2", "broker.session.timeout.ms": 1000}
    with KafkaBroker(1, {"orders": 2}, config=disks) as broker:
        assert [broker.produce("orders", "a", partition=each) for each in (0, 1)] == [0, 0]
        broker.fail_log_dir("/disk-2")
        with connect(broker) as client:
            errors = [client.list_offset("orders", -1, each)["errorCode"] for each in (0, 1)]
        assert errors == [Error.NONE, Error.KAFKA_STORAGE_ERROR]
        with pytest.raises(UserError, match="those that have not failed"):
            broker.fail_log_dir("/disk-2")
        broker.restart()
        wait_until(lambda: _listens(broker, 1), "its port is open again")
        with connect(broker) as client:
            assert client.list_offset("orders", -1, 1)["offset"] == 1
        assert len(broker.records("orders")) == 2


def test_a_broker_halted_by_its_first_directory_restarts_after_it_is_fenced() -> None:
    disks = {"log.dirs": "/disk-1,/disk-2"}
    with KafkaBroker(2, ["orders"], config=disks) as broker:
        broker.fail_log_dir("/disk-1", broker=2)
        with pytest.raises(ConnectionRefusedError):
            connect(broker, 2)
        broker.advance_time(10_000)
        broker.restart(2)
        wait_until(lambda: _listens(broker, 2), "its port is open again")


def _listens(broker: KafkaBroker, number: int) -> bool:
    try:
        connect(broker, number).close()
    except ConnectionRefusedError:
        return False
    return True
