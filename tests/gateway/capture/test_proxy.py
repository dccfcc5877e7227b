"""The proxy in front of three brokers, and of servers that send anything.

The embedded Kafka is one broker; the cluster here is a gateway with the local engine.
"""

import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from brokertwin.gateway.capture import documents, proxy, relay
from brokertwin.gateway.capture.sinks import SinkError
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.protocol.frames import decode_response
from tests.support.batches import batch
from tests.support.echoes import HOST, Echo, echoing, framed
from tests.support.examples import examples
from tests.support.gateways import Client, Running, produce_body, running_gateway
from tests.support.patience import wait_until
from tests.support.proxies import Capturing, capturing, name_of

BROKERS = [1, 2, 3]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    with running_gateway(brokers=len(BROKERS)) as running:
        with running.client() as client:
            client.topic("orders", partitions=len(BROKERS))
        yield running


def brokers_of(response: dict[str, Any], id_field: str = "nodeId") -> dict[int, Address]:
    return {each[id_field]: Address(each["host"], each["port"]) for each in response["brokers"]}


def leaders(client: Client) -> dict[int, int]:
    """Return brokers and the partition of `orders` that each leads."""
    topics = client.call("METADATA", 9, name="orders")["topics"]
    return {each["leaderId"]: each["partitionIndex"] for each in topics[0]["partitions"]}


def test_each_broker_has_a_port_that_all_responses_name(cluster: Running, tmp_path: Path) -> None:
    with capturing(cluster.addresses[1], tmp_path / "f.jsonl") as capture:
        with Client(capture.first) as client:
            local = brokers_of(client.call("METADATA", 12, topics=[]))
            assert local.keys() == set(BROKERS)
            assert local[1] == capture.first
            assert not set(local.values()) & set(cluster.addresses.values())
            described = client.call("DESCRIBE_CLUSTER", 1, endpointType=1)
            assert brokers_of(described, "brokerId") == local
        partitions = {}
        for broker, address in local.items():
            with Client(address) as client:
                assert brokers_of(client.call("METADATA", 9, topics=[])) == local
                partitions = partitions or leaders(client)
                response = client.produce("orders", batch(b"x"), partitions[broker])
                assert response["errorCode"] == 0, f"port {address.port} leads to broker {broker}"
    produced = capture.of("PRODUCE")
    assert [each["broker"] for each in produced] == BROKERS
    found = capture.of("METADATA")[0]["response"]
    assert brokers_of(found) == local, "the documents have the proxy's addresses"


@pytest.mark.parametrize("version", [2, 4])
def test_coordinators_are_reached_through_the_proxy(
    version: int, cluster: Running, tmp_path: Path
) -> None:
    keys = {"key": "g"} if version < 4 else {"coordinatorKeys": ["g", "h"]}
    with (
        capturing(cluster.addresses[2], tmp_path / "f.jsonl") as capture,
        Client(capture.first) as client,
    ):
        while True:
            response = client.call("FIND_COORDINATOR", version, keys, keyType=0)
            coordinators = response.get("coordinators", [response])
            if all(each["errorCode"] == 0 for each in coordinators):
                break
        for each in coordinators:
            real = cluster.addresses[each["nodeId"]]
            assert Address(each["host"], each["port"]) == capture.proxy.addresses[real]


def test_new_leader_is_reached_through_the_proxy(cluster: Running, tmp_path: Path) -> None:
    with (
        capturing(cluster.addresses[1], tmp_path / "f.jsonl") as capture,
        Client(capture.first) as client,
    ):
        leader, partition = next((b, p) for b, p in leaders(client).items() if b != 1)
        response = client.call("PRODUCE", 10, produce_body("orders", batch(b"x"), partition))
        (endpoint,) = response["nodeEndpoints"]
        real = cluster.addresses[leader]
        assert endpoint["nodeId"] == leader
        assert Address(endpoint["host"], endpoint["port"]) == capture.proxy.addresses[real]


def test_ports_follow_the_first_one(cluster: Running, tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as probe:
        free = probe.getsockname()[1]
    listen = Address(HOST, free)
    with (
        capturing(cluster.addresses[1], tmp_path / "f.jsonl", listen=listen) as capture,
        Client(capture.first) as client,
    ):
        local = brokers_of(client.call("METADATA", 12, topics=[]))
    assert capture.first.port == free
    assert local[1].port < local[2].port < local[3].port <= free + 100


def test_single_broker_needs_no_configuration(tmp_path: Path) -> None:
    with (
        running_gateway() as gateway,
        capturing(gateway.bootstrap, tmp_path / "f.jsonl") as capture,
        Client(capture.first) as client,
    ):
        client.call("METADATA", 12, topics=[])
    assert [document.keys() for document in capture.documents()] == [
        {"time", "requestHeader", "request", "response", "connection", "responseTime", "principal"}
    ]


def test_requests_before_the_first_metadata_wait_for_it(
    cluster: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "HELD_MAX", 3)
    for requests, brokers in ((1, [1, 1]), (3, [None, None, None, 1])):
        file = tmp_path / f"{requests}.jsonl"
        with (
            capturing(cluster.addresses[1], file) as capture,
            Client(capture.first) as client,
        ):
            for _ in range(requests):
                client.call("API_VERSIONS", 2)
            client.call("METADATA", 9, topics=[])
        assert [each.get("broker") for each in capture.documents()] == brokers


def test_requests_in_flight_keep_their_order(cluster: Running, tmp_path: Path) -> None:
    count = 30
    with (
        capturing(cluster.addresses[1], tmp_path / "f.jsonl") as capture,
        Client(capture.first) as client,
    ):
        partition = leaders(client)[1]
        ids = [
            client.send("PRODUCE", 9, produce_body("orders", batch(b"%d" % n), partition))
            for n in range(count)
        ]
        responses = [decode_response(0, 9, client.receive()) for _ in ids]
    assert [correlation_id for correlation_id, _ in responses] == ids
    recorded = capture.of("PRODUCE")
    assert [each["requestHeader"]["correlationId"] for each in recorded] == ids
    assert [each["response"] for each in recorded] == [response for _, response in responses]
    assert capture.lost.total() == 0


def test_concurrent_connections_are_recorded_each_in_order(
    cluster: Running, tmp_path: Path
) -> None:
    def work(first: Address, partition: int) -> None:
        with Client(first) as client:
            for number in range(20):
                client.produce("orders", batch(b"%d" % number), partition)

    with capturing(cluster.addresses[1], tmp_path / "f.jsonl") as capture:
        with Client(capture.first) as client:
            partition = leaders(client)[1]
        threads = [
            threading.Thread(target=work, args=(capture.first, partition)) for _ in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert capture.proxy.counts.apis["PRODUCE"].exchanges == 200
    by_connection: dict[str, list[int]] = {}
    for document in capture.of("PRODUCE"):
        ids = by_connection.setdefault(document["connection"], [])
        ids.append(document["requestHeader"]["correlationId"])
    assert len(by_connection) == 10
    assert all(ids == list(range(1, 21)) for ids in by_connection.values())


def test_acks_0_is_not_waited_for(cluster: Running, tmp_path: Path) -> None:
    with (
        capturing(cluster.addresses[1], tmp_path / "f.jsonl") as capture,
        Client(capture.first) as client,
    ):
        partition = leaders(client)[1]
        client.send("PRODUCE", 9, produce_body("orders", batch(b"x"), partition, acks=0))
        client.call("METADATA", 9, topics=[])
    before, unanswered, after = capture.documents()
    assert (unanswered["response"], unanswered["responseTime"]) == (None, 0)
    assert "delivered" not in unanswered
    assert name_of(before) == name_of(after) == "METADATA"


def waiting(capture: Capturing) -> int:
    """Return how many requests wait for a response."""
    return sum(len(each._waiting) for each in capture.proxy._relays.values() if each is not None)


def waiting_fetch(partition: int, wait_ms: int) -> dict[str, Any]:
    part = {"partition": partition, "fetchOffset": 0, "partitionMaxBytes": 1000}
    topics = [{"topic": "empty", "partitions": [part]}]
    return {"maxWaitMs": wait_ms, "minBytes": 1, "sessionEpoch": -1, "topics": topics}


@pytest.fixture(scope="module")
def empty(cluster: Running) -> Iterator[int]:
    """Return an empty partition that broker 1 leads."""
    with cluster.client() as client:
        client.topic("empty", partitions=len(BROKERS))
        topic = client.call("METADATA", 9, name="empty")["topics"][0]
        yield next(p["partitionIndex"] for p in topic["partitions"] if p["leaderId"] == 1)


def test_response_after_the_client_has_disconnected(
    cluster: Running, empty: int, tmp_path: Path
) -> None:
    with (
        capturing(cluster.addresses[1], tmp_path / "f.jsonl") as capture,
        Client(capture.first) as client,
    ):
        client.send("FETCH", 12, waiting_fetch(empty, 300))
        wait_until(lambda: waiting(capture) == 1)
    (document,) = capture.documents()
    assert document["delivered"] is False
    assert document["response"]["responses"][0]["partitions"][0]["batches"] == []
    assert document["responseTime"] >= 290


def test_requests_in_flight_at_the_end_are_waited_for_briefly(
    cluster: Running, empty: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "RESPONSES_TIMEOUT_S", 0.6)
    clients = []
    with capturing(cluster.addresses[1], tmp_path / "f.jsonl") as capture:
        for wait_ms in (200, 20_000):
            clients.append(Client(capture.first))
            clients[-1].send("FETCH", 12, waiting_fetch(empty, wait_ms))
            wait_until(lambda: waiting(capture) == len(clients))
    responded, unanswered = capture.documents()
    assert "delivered" not in responded
    assert decode_response(1, 12, clients[0].receive())[1]["errorCode"] == 0
    assert unanswered["delivered"] is False
    assert "response" not in unanswered
    for client in clients:
        assert client.is_closed()


def test_broker_closes_the_connection(cluster: Running, tmp_path: Path) -> None:
    frame = b"\x03\xe7\0\0\0\0\0\x09hunter2"
    with (
        capturing(cluster.addresses[1], tmp_path / "f.jsonl") as capture,
        Client(capture.first) as client,
    ):
        client.send_frame(frame)
        assert client.is_closed()
    (document,) = capture.documents()
    assert document["requestHeader"]["requestApiKey"] == 999
    assert document["delivered"] is False
    assert document["reason"] == "request: API key 999 version 0 is not supported"


def test_broker_is_unreachable(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as probe:
        nobody = Address(HOST, probe.getsockname()[1])
    with capturing(nobody, tmp_path / "f.jsonl") as capture:
        with Client(capture.first) as client:
            assert client.is_closed()
        assert capture.proxy.counts.refused.total() == 1
    assert capture.documents() == []


class FullDisk:
    """A sink that cannot write."""

    name = "full disk"

    def open(self) -> None:
        pass

    def write(self, documents: Sequence[bytes]) -> None:
        raise SinkError("No space left on device")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_traffic_continues_when_recording_fails(cluster: Running, tmp_path: Path) -> None:
    with (
        capturing(cluster.addresses[1], tmp_path / "f", FullDisk) as capture,
        Client(capture.first) as client,
    ):
        partition = leaders(client)[1]
        for number in range(10):
            assert client.produce("orders", batch(b"%d" % number), partition)["errorCode"] == 0
    assert capture.lost.total() == 11


def test_decoding_fault_stops_no_traffic_and_logs_no_values(
    cluster: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(frame: bytes) -> None:
        raise ZeroDivisionError(frame)

    monkeypatch.setattr(documents, "decode_request", fail)
    with (
        capture_logs() as logs,
        capturing(cluster.addresses[1], tmp_path / "f") as capture,
        Client(capture.first) as client,
    ):
        response = client.call("METADATA", 9, name="hunter2")
    assert response["topics"][0]["name"] == "hunter2"
    (document,) = capture.documents()
    assert document["reason"] == "request: fault: ZeroDivisionError"
    assert document["requestHeader"]["correlationId"] == 1
    assert "in read_request" in str(logs)
    assert "hunter2" not in str(logs)


def respond_with_same_id(frame: bytes) -> bytes:
    return framed(frame[4:8] + frame[::-1])


@pytest.fixture(scope="module")
def echo_capture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Echo, Capturing]]:
    file = tmp_path_factory.mktemp("echo") / "f.jsonl"
    with echoing(respond_with_same_id) as echo, capturing(echo.address, file) as capture:
        yield echo, capture


@given(frames=st.lists(st.binary(min_size=8, max_size=60), max_size=5))
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
def test_unknown_frames_pass_through_unchanged(
    echo_capture: tuple[Echo, Capturing], frames: list[bytes]
) -> None:
    echo, capture = echo_capture
    echo.received.clear()
    frames = [b"\x7f" + frame[1:] for frame in frames]  # no API has this key
    with Client(capture.first) as client:
        for frame in frames:
            client.send_frame(frame)
            assert client.receive() == frame[4:8] + frame[::-1]
    assert echo.received == frames
    assert capture.lost.total() == 0


def test_bytes_after_an_oversized_frame_pass_undecoded(tmp_path: Path) -> None:
    with (
        echoing(respond_with_same_id) as echo,
        capturing(echo.address, tmp_path / "f", limits=GatewayLimits(frame_bytes=50)) as capture,
        Client(capture.first) as client,
    ):
        sent = [b"\x7f" + bytes(39), bytes(range(60)), b"\x7f" + b"x" * 39]
        for frame in sent:
            client.send_frame(frame)
            assert client.receive() == frame[4:8] + frame[::-1]
        assert echo.received == sent
    reasons = [document["reason"] for document in capture.documents()]
    assert "request: a frame of 60 bytes is not read, and nothing behind it" in reasons
    assert "response: a frame of 64 bytes is not read" in reasons


def test_malformed_frame_passes_through(tmp_path: Path) -> None:
    """For example from a client that speaks TLS to a plain port."""
    hello, refusal = b"\x16\x03\x01\x02\x00hunter2", b"\x15\x03\x01\x00\x02\x02\x46"
    with socket.create_server((HOST, 0)) as server:
        real = Address(*server.getsockname()[:2])
        with capturing(real, tmp_path / "f") as capture, Client(capture.first) as client:
            client.send_bytes(hello)
            connection, _ = server.accept()
            with connection:
                assert connection.recv(len(hello), socket.MSG_WAITALL) == hello
                connection.sendall(refusal)
            assert client._exactly(len(refusal)) == refusal
            assert client.is_closed()
    (document, _) = capture.documents()
    assert "is not read, and nothing behind it" in document["reason"]
    assert "hunter2" not in capture.file.read_text()


def test_partial_frame_at_the_end_passes_through(tmp_path: Path) -> None:
    responses = iter([b"\0\0\0\x09half", None])
    with (
        echoing(lambda _: next(responses)) as echo,
        capturing(echo.address, tmp_path / "f") as capture,
        Client(capture.first) as client,
    ):
        for _ in range(2):
            client.send_frame(b"\x7f" + bytes(20))
        assert client._exactly(8) == b"\0\0\0\x09half"
        assert client.is_closed()
    assert [document["delivered"] for document in capture.documents()] == [False, False]


def test_closed_connection_is_recorded_if_a_broker_keeps_state_for_it(
    cluster: Running, tmp_path: Path
) -> None:
    with (
        capturing(cluster.addresses[1], tmp_path / "f.jsonl") as capture,
        Client(capture.first) as client,
        Client(capture.first) as other,
    ):
        client.call("METADATA", 12, topics=[])
        client.call("SHARE_FETCH", 2, groupId="g", memberId="m", shareSessionEpoch=0, topics=[])
        other.call("METADATA", 12, topics=[])
    of_client = [each for each in capture.documents() if each["connection"] == "c1"]
    assert [each.get("kind", name_of(each)) for each in of_client] == [
        *("METADATA", "SHARE_FETCH"),
        "disconnect",
    ]
    assert of_client[-1].keys() == {"time", "kind", "connection", "broker"}
    assert len(capture.documents()) == len(of_client) + 1
