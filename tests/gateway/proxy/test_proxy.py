"""The proxy with faults in front of brokers in this process, with a raw client."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import kafka
import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.faults.fault import Effect
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import decode_response
from brokertwin.testing import FaultSpec, KafkaBroker, KafkaProxy
from tests.support.batches import batch
from tests.support.gateways import Client, produce_body
from tests.support.patience import wait_until

CONFIGS = {"resources": [{"resourceType": 2, "resourceName": "orders"}]}


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(topics={"orders": 2, "payments": 1}) as broker:
        yield broker


@pytest.fixture
def proxy(broker: KafkaBroker) -> Iterator[KafkaProxy]:
    with KafkaProxy(broker.bootstrap) as proxy:
        yield proxy


def connect(proxy: KafkaProxy, name: str = "tester") -> Client:
    host, port = proxy.bootstrap.split(":")
    return Client(Address(host, int(port)), name=name)


@pytest.fixture
def client(proxy: KafkaProxy) -> Iterator[Client]:
    with connect(proxy) as client:
        client.call("METADATA", 12, topics=None)
        yield client


def values(broker: KafkaBroker, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def test_requests_pass_and_are_listed(proxy: KafkaProxy, client: Client) -> None:
    assert client.produce("orders", batch(b"x"))["errorCode"] == 0
    (produced,) = proxy.requests("PRODUCE", client="tester", at_least=1)
    assert (produced["fault"], produced["response"] is not None) == (None, True)
    assert proxy.requests("PRODUCE", client="other") == []
    with pytest.raises(TimeoutError, match="1 of 2 requests"):
        proxy.requests("PRODUCE", at_least=2, timeout_s=0)


def test_a_failed_request_does_not_reach_the_broker(
    broker: KafkaBroker, proxy: KafkaProxy, client: Client
) -> None:
    fault = proxy.fail_next("PRODUCE", "NOT_LEADER_OR_FOLLOWER")
    assert client.produce("orders", batch(b"x"))["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER
    assert (fault.hits, values(broker)) == (1, [])
    assert client.produce("orders", batch(b"y"))["errorCode"] == 0
    (failed, _) = proxy.requests("PRODUCE")
    assert failed["fault"] == "PRODUCE fails with NOT_LEADER_OR_FOLLOWER"


def test_only_the_selected_partition_fails(
    broker: KafkaBroker, proxy: KafkaProxy, client: Client
) -> None:
    proxy.fail_next("PRODUCE", "KAFKA_STORAGE_ERROR", topic="orders", partition=1)
    partitions = [{"index": index, "records": batch(b"v")} for index in (0, 1)]
    body = {"acks": -1, "timeoutMs": 1000}
    data = [{"name": "orders", "partitionData": partitions}]
    (topic,) = client.call("PRODUCE", 9, {**body, "topicData": data})["responses"]
    errors = {each["index"]: each["errorCode"] for each in topic["partitionResponses"]}
    assert errors == {0: Error.NONE, 1: Error.KAFKA_STORAGE_ERROR}
    assert [record.partition for record in broker.records("orders")] == [0]


@pytest.mark.parametrize("version", [12, 13])
def test_a_partition_fails_in_a_session_that_no_longer_names_it(
    broker: KafkaBroker, proxy: KafkaProxy, client: Client, version: int
) -> None:
    broker.produce("orders", "first")
    topics = client.call("METADATA", 12, name="orders")["topics"]
    partitions = [{"partition": index, "partitionMaxBytes": 1000} for index in (0, 1)]
    named = [{"topic": "orders", "topicId": topics[0]["topicId"], "partitions": partitions}]
    body = {"maxBytes": 1000, "maxWaitMs": 0}
    opened = client.call("FETCH", version, {**body, "sessionEpoch": 0, "topics": named})
    fault = proxy.fail_next("FETCH", "OFFSET_OUT_OF_RANGE", topic="orders", partition=1)
    failed = client.call("FETCH", version, body, sessionId=opened["sessionId"], sessionEpoch=1)
    errors = {
        partition["partitionIndex"]: partition["errorCode"]
        for topic in failed["responses"]
        for partition in topic["partitions"]
    }
    assert (fault.hits, errors[1]) == (1, Error.OFFSET_OUT_OF_RANGE)
    assert errors.get(0, 0) == 0


def test_a_lost_response_belongs_to_a_processed_request(
    broker: KafkaBroker, proxy: KafkaProxy, client: Client
) -> None:
    fault = proxy.lose_response("PRODUCE")
    client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), 0))
    assert client.is_closed()
    assert (fault.hits, values(broker)) == (1, [b"x"])
    (lost,) = proxy.requests("PRODUCE", at_least=1)
    assert (lost["delivered"], lost["response"] is not None) == (False, True)


def test_a_response_is_lost_without_closing_the_connection(
    broker: KafkaBroker, proxy: KafkaProxy
) -> None:
    proxy.lose_response("PRODUCE", closes=False)
    host, port = proxy.bootstrap.split(":")
    with Client(Address(host, int(port)), timeout_s=0.3) as client:
        client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), 0))
        client.send("METADATA", 9, topics=[])
        with pytest.raises(TimeoutError):
            client.receive()
    wait_until(lambda: values(broker) == [b"x"])


def test_a_cut_connection_ends_after_earlier_responses(
    broker: KafkaBroker, proxy: KafkaProxy, client: Client
) -> None:
    proxy.drop_connection("PRODUCE", nth=2)
    first = client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), 0))
    client.send("PRODUCE", 9, produce_body("orders", batch(b"y"), 0))
    assert decode_response(0, 9, client.receive())[0] == first
    assert client.is_closed()
    assert values(broker) == [b"x"]


def test_a_duplicated_request_is_processed_twice_and_gets_one_response(
    broker: KafkaBroker, proxy: KafkaProxy, client: Client
) -> None:
    proxy.duplicate("PRODUCE")
    response = client.produce("orders", batch(b"x"))
    assert (response["errorCode"], response["baseOffset"]) == (0, 1)
    assert values(broker) == [b"x", b"x"]
    assert client.call("METADATA", 9, topics=[])["brokers"]
    assert [each.get("delivered", True) for each in proxy.requests("PRODUCE")] == [False, True]


def test_delayed_responses_keep_their_order(proxy: KafkaProxy, client: Client) -> None:
    proxy.delay("PRODUCE", 150)
    started = time.monotonic()
    ids = [client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), 0))]
    ids.append(client.send("METADATA", 9, topics=[]))
    actual = [int.from_bytes(client.receive()[:4], "big") for _ in ids]
    assert actual == ids
    assert time.monotonic() - started >= 0.15


def test_a_held_response_waits_for_its_release(
    broker: KafkaBroker, proxy: KafkaProxy, client: Client
) -> None:
    fault = proxy.hold("PRODUCE")
    client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), 0))
    fault.wait()
    wait_until(lambda: values(broker) == [b"x"])
    (pending,) = proxy.requests("PRODUCE")
    assert pending["fault"] == "PRODUCE held"
    fault.release()
    assert decode_response(0, 9, client.receive())[1]["responses"]


def test_a_held_request_arrives_late_even_without_its_client(
    broker: KafkaBroker, proxy: KafkaProxy
) -> None:
    """A zombie's last request, for example."""
    fault = proxy.hold("PRODUCE", before=True, client="zombie")
    with connect(proxy, "zombie") as zombie:
        zombie.send("PRODUCE", 9, produce_body("orders", batch(b"late"), 0))
        fault.wait()
    with connect(proxy, "heir") as heir:
        heir.produce("orders", batch(b"early"))
    fault.release()
    wait_until(lambda: values(broker) == [b"early", b"late"])


def test_a_throttle_time_is_reported_and_later_requests_wait(
    proxy: KafkaProxy, client: Client
) -> None:
    proxy.throttle(200, "METADATA")
    assert client.call("METADATA", 9, topics=[])["throttleTimeMs"] == 200
    started = time.monotonic()
    assert client.call("METADATA", 9, topics=[])["throttleTimeMs"] == 0
    assert time.monotonic() - started >= 0.15


def test_errors_and_delays_combine(proxy: KafkaProxy, client: Client) -> None:
    proxy.delay("PRODUCE", 100)
    proxy.fail_next("PRODUCE", "REQUEST_TIMED_OUT")
    started = time.monotonic()
    assert client.produce("orders", batch(b"x"))["errorCode"] == Error.REQUEST_TIMED_OUT
    assert time.monotonic() - started >= 0.1


@pytest.mark.parametrize("verb", ["fail_next", "lose_response", "drop_connection"])
def test_a_produce_with_acks_0_ends_its_connection(
    broker: KafkaBroker, proxy: KafkaProxy, client: Client, verb: str
) -> None:
    arguments = ["REQUEST_TIMED_OUT"] if verb == "fail_next" else []
    getattr(proxy, verb)("PRODUCE", *arguments)
    client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), 0, acks=0))
    assert client.is_closed()
    wait_until(lambda: values(broker) == ([b"x"] if verb == "lose_response" else []))


def test_api_versions_can_be_lost(proxy: KafkaProxy) -> None:
    proxy.lose_response("API_VERSIONS")
    with connect(proxy) as client:
        client.send("API_VERSIONS", 3, clientSoftwareName="a", clientSoftwareVersion="1")
        assert client.is_closed()


def test_a_broker_is_selected_by_its_id() -> None:
    with KafkaBroker(brokers=3) as broker, KafkaProxy(broker.bootstrap_servers[0]) as proxy:
        with connect(proxy) as client:
            brokers = client.call("METADATA", 12, topics=[])["brokers"]
        addresses = {each["nodeId"]: Address(each["host"], each["port"]) for each in brokers}
        proxy.drop_connection("METADATA", broker=2, times=None)
        for node in (1, 3):
            with Client(addresses[node]) as client:
                assert client.call("METADATA", 12, topics=[])["brokers"]
        with Client(addresses[2]) as client:
            client.send("METADATA", 12, topics=[])
            assert client.is_closed()
        (cut,) = [each for each in proxy.requests("METADATA") if each["fault"]]
        assert cut["broker"] == 2


def test_a_held_response_outlives_the_brokers_connection(
    broker: KafkaBroker, proxy: KafkaProxy, client: Client
) -> None:
    fault = proxy.hold("PRODUCE")
    client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), 0))
    fault.wait()
    wait_until(lambda: proxy.requests("PRODUCE")[0]["response"] is not None)
    broker.restart()
    fault.release()
    assert decode_response(0, 9, client.receive())[1]["responses"]
    assert client.is_closed()


def test_a_response_above_the_limit_passes_undecoded_and_in_order(
    proxy: KafkaProxy, client: Client
) -> None:
    proxy._proxy.limits = GatewayLimits(frame_bytes=200)
    proxy.delay("HEARTBEAT", 50)
    ids = [client.send("HEARTBEAT", 3, groupId="g")]
    ids.append(client.send("DESCRIBE_CONFIGS", 4, CONFIGS))
    ids.append(client.send("HEARTBEAT", 3, groupId="g"))
    frames = [client.receive() for _ in ids]
    assert [int.from_bytes(frame[:4], "big") for frame in frames] == ids
    assert len(frames[1]) > 200


def test_logins_pass_and_their_requests_are_affected() -> None:
    users = {"alice": "secret"}
    with (
        KafkaBroker(security_protocol="SASL_PLAINTEXT", users=users) as broker,
        KafkaProxy(broker.bootstrap) as proxy,
    ):
        delayed = proxy.delay("METADATA", 1)
        admin = kafka.KafkaAdminClient(
            bootstrap_servers=proxy.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="alice",
            sasl_plain_password="secret",
        )
        admin.list_topics()
        admin.close()
        assert delayed.hits == 1
        assert {each["principal"] for each in proxy.requests("METADATA")} == {"User:alice"}


def test_closing_the_proxy_releases_held_responses(broker: KafkaBroker) -> None:
    spec = FaultSpec(effect=Effect.HOLD, api="METADATA")
    proxy = KafkaProxy(broker.bootstrap, [spec]).start()
    with connect(proxy) as client:
        client.send("METADATA", 9, topics=[])
        proxy.faults[0].wait()
        proxy.close()
        assert decode_response(3, 9, client.receive())[1]["brokers"]


def test_faults_may_be_added_and_removed_while_requests_pass(
    broker: KafkaBroker, proxy: KafkaProxy
) -> None:
    errors: list[Any] = []

    def work(partition: int) -> None:
        with connect(proxy) as client:
            for number in range(50):
                response = client.produce("orders", batch(b"%d" % number), partition)
                errors.append(response["errorCode"])

    threads = [threading.Thread(target=work, args=(partition,)) for partition in (0, 1)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with proxy.fail_next("PRODUCE", "REQUEST_TIMED_OUT", times=None, probability=0.5):
            time.sleep(0.001)
    assert len(errors) == 100
    assert len(broker.records("orders")) == errors.count(0)
