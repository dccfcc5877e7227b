"""The server as its clients see it: order, limits, errors, addresses, bytes."""

import asyncio
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka.record.memory_records import MemoryRecords
from structlog.testing import capture_logs

from brokertwin.errors import UserError
from brokertwin.gateway.admin.api_versions import ITS_OWN, SERVED, UNNAMED
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.engine import EdgeRequest, EngineResponse, internal_header
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.engine.persistence import JournalOptions
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.gateway.server import Gateway
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import RequestFrame, decode_response, encode_request
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core.api import NotBuilt
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.logs.log import CHUNK_BATCHES_MAX, INDEX_CHUNKS_MAX
from tests.support.batches import START, batch
from tests.support.gateways import Client, Running, produce_body, running_gateway
from tests.support.patience import PATIENCE_S, growing, wait_until
from tests.support.replicas import FEATURES
from tests.support.typed_commands import free_port

PRODUCE, METADATA = 0, 3
LONG_WAIT_MS = 600_000
NOT_BUILT = next(
    key for key, api in KAFKA_APIS.items() if api.is_listed and key not in SERVED.keys() | ITS_OWN
)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway() as running:
        yield running


@pytest.fixture
def client(gateway: Running) -> Iterator[Client]:
    with gateway.client() as connected:
        yield connected


def values_of(data: bytes) -> list[tuple[int, bytes]]:
    memory = MemoryRecords(data)
    values = []
    while memory.has_next():
        read = memory.next_batch()
        assert read.validate_crc()
        values += [(record.offset, record.value) for record in read]
    return values


# -- bytes


def test_read_records_equal_the_written_ones(client: Client) -> None:
    client.topic("bytes")
    first, second = batch(b"a", b"b", codec="zstd"), batch(b"c" * 500, codec="lz4")
    assert client.produce("bytes", first)["baseOffset"] == 0
    assert client.produce("bytes", second)["baseOffset"] == 2
    data = client.fetch("bytes", 0)["records"]
    assert values_of(data) == [(0, b"a"), (1, b"b"), (2, b"c" * 500)]
    assert data[16 : len(first)] == first[16:]
    assert data[len(first) + 16 :] == second[16:]


def test_fetch_within_a_batch_returns_the_batch(client: Client) -> None:
    client.topic("within")
    client.produce("within", batch(b"a", b"b", b"c"))
    assert values_of(client.fetch("within", 2)["records"]) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_log_longer_than_its_index_is_read_from_the_beginning(client: Client) -> None:
    """The oldest batches are in sealed rows only, no longer in the machine's state."""
    client.topic("long")
    count = CHUNK_BATCHES_MAX * (INDEX_CHUNKS_MAX + 2) + 3
    for number in range(count):
        client.send("PRODUCE", 9, produce_body("long", batch(b"%d" % number)))
        if number % 50 == 49:
            [client.receive() for _ in range(50)]
    [client.receive() for _ in range(count % 50)]
    actual: list[tuple[int, bytes]] = []
    while len(actual) < count:
        offset = len(actual)
        read = values_of(client.fetch("long", offset, max_bytes=20_000)["records"])
        assert read, offset
        actual += [record for record in read if record[0] >= offset]
    assert actual == [(number, b"%d" % number) for number in range(count)]
    in_sealed = client.list_offset("long", START)
    assert (in_sealed["offset"], in_sealed["timestamp"]) == (0, START)


def test_list_offsets_searches_inside_the_batch(client: Client) -> None:
    client.topic("times")
    times = [START, START + 100, START + 50, START + 100]
    client.produce("times", batch(b"a", b"b", b"c", b"d", codec="gzip", timestamps=times))
    client.produce("times", batch(b"e", timestamps=[START + 70]))
    for wanted, place in [(0, (0, START)), (1, (1, START + 100)), (101, (-1, -1))]:
        offset = client.list_offset("times", START + wanted)
        assert (offset["offset"], offset["timestamp"]) == place
    greatest = client.list_offset("times", -3)
    assert (greatest["offset"], greatest["timestamp"]) == (1, START + 100)


def test_list_offsets_continues_behind_deleted_first_records(client: Client) -> None:
    client.topic("deleted")
    client.produce("deleted", batch(b"a", b"b", timestamps=[START + 90, START]))
    client.produce("deleted", batch(b"c", b"d", timestamps=[START, START + 80]))
    client.call("DELETE_RECORDS", 2, name="deleted", partitionIndex=0, offset=1, timeoutMs=1000)
    offset = client.list_offset("deleted", START + 60)
    assert (offset["offset"], offset["timestamp"]) == (3, START + 80)


def test_records_of_a_topic_with_log_append_time(client: Client) -> None:
    client.topic("append", message_timestamp_type="LogAppendTime")
    response = client.produce("append", batch(b"a", b"b"))
    read = MemoryRecords(client.fetch("append", 0)["records"]).next_batch()
    assert read.validate_crc()
    actual = [(record.timestamp, record.timestamp_type) for record in read]
    assert actual == [(response["logAppendTimeMs"], 1)] * 2


def test_bytes_of_refused_and_deleted_batches_are_deleted(gateway: Running, client: Client) -> None:
    kept = len(gateway.engine._store)
    topic_id = client.topic("gone")
    refused = batch(b"a", producer=(999, 0, 0))
    repeated = batch(b"b", producer=(998, 0, 0))
    assert client.produce("gone", refused[:-1] + b"x")["errorCode"] == Error.CORRUPT_MESSAGE
    for _ in range(3):
        assert client.produce("gone", repeated)["baseOffset"] == 0
    client.produce("gone", batch(b"c"))
    assert len(gateway.engine._store) == kept + 2
    client.call("DELETE_RECORDS", 2, name="gone", partitionIndex=0, offset=1, timeoutMs=1000)
    assert len(gateway.engine._store) == kept + 1
    deleted = client.call("DELETE_TOPICS", 6, topicId=topic_id, name=None, timeoutMs=30000)
    assert deleted["responses"][0]["errorCode"] == Error.NONE
    assert len(gateway.engine._store) == kept


# -- order


def test_responses_are_in_request_order(client: Client) -> None:
    client.topic("order")
    ids = [client.send("PRODUCE", 9, produce_body("order", batch(b"x"))) for _ in range(20)]
    ids += [client.send("METADATA", 9, topics=None) for _ in range(3)]
    ids += [client.send("PRODUCE", 9, produce_body("order", batch(b"x"))) for _ in range(5)]
    assert [struct.unpack(">i", client.receive()[:4])[0] for _ in ids] == ids


def test_long_poll_delays_requests_of_its_connection_only(gateway: Running) -> None:
    with gateway.client() as first, gateway.client() as second:
        second.topic("poll")
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
        body = {"minBytes": 1, "topics": [{"topic": "poll", "partitions": [partition]}]}
        first.send("FETCH", 12, {**body, "maxWaitMs": LONG_WAIT_MS, "sessionEpoch": -1})
        first.send("METADATA", 9, topics=[])
        second.call("METADATA", 9, topics=[])
        assert not first.has_something()
        second.produce("poll", batch(b"ends the poll"))
        assert [struct.unpack(">i", first.receive()[:4])[0] for _ in range(2)] == [1, 2]


def test_long_poll_waits_for_its_max_wait_time(client: Client) -> None:
    client.topic("lasting")
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    body = {"minBytes": 1, "topics": [{"topic": "lasting", "partitions": [partition]}]}
    begin = time.monotonic()
    client.call("FETCH", 12, {**body, "maxWaitMs": 400, "sessionEpoch": -1})
    assert time.monotonic() - begin >= 0.4


def test_disconnected_client_has_no_long_poll_left(gateway: Running) -> None:
    with gateway.client() as client:
        client.topic("left")
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
        body = {"minBytes": 1, "topics": [{"topic": "left", "partitions": [partition]}]}
        client.send("FETCH", 12, {**body, "maxWaitMs": 600_000, "sessionEpoch": -1})
        wait_until(lambda: len(gateway.engine._pending) == 1)
    wait_until(lambda: len(gateway.engine._pending) == 0)


def test_requests_of_a_disconnected_client_are_handled(gateway: Running) -> None:
    """As in Kafka: with acks 0 a client has no response to wait for."""
    with gateway.client() as client:
        client.topic("orphaned")
        for number in range(100):
            client.send("PRODUCE", 9, produce_body("orphaned", batch(b"%d" % number), acks=0))
    with gateway.client() as other:
        wait_until(lambda: other.list_offset("orphaned", -1)["offset"] == 100)
    assert len(gateway.engine._pending) == 0


class SlowEngine(LocalEngine):
    """An engine that decides at once, and responds to earlier requests later."""

    in_flight = 0
    most_in_flight = 0

    def submit(self, request: EdgeRequest) -> asyncio.Future[EngineResponse]:
        decided = super().submit(request)
        late: asyncio.Future[EngineResponse] = asyncio.get_running_loop().create_future()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

        def response() -> None:
            self.in_flight -= 1
            if not late.done():
                late.set_result(decided.result())

        asyncio.get_running_loop().call_later(0.3 / self.in_flight, response)
        return late


def test_only_produce_requests_are_pipelined() -> None:
    with (
        running_gateway(engine_type=SlowEngine, limits=GatewayLimits(requests_ahead=8)) as running,
        running.client() as client,
    ):
        assert isinstance(running.engine, SlowEngine)
        client.topic("slow")
        for number in range(20):
            client.send("PRODUCE", 9, produce_body("slow", batch(b"%d" % number)))
        ids = []
        for number in range(20):
            found, response = decode_response(PRODUCE, 9, client.receive())
            ids.append(found)
            partition = response["responses"][0]["partitionResponses"][0]
            assert partition["baseOffset"] == number
        assert ids == sorted(ids)
        assert client.list_offset("slow", -1)["offset"] == 20
        assert 4 <= running.engine.most_in_flight <= 8
        stored = values_of(client.fetch("slow", 0)["records"])
        assert stored == [(number, b"%d" % number) for number in range(20)]


COMMIT = {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "", "topics": []}
REPEATED = {
    ("FIND_COORDINATOR", 2): {"keyType": 0, "key": "g"},
    ("OFFSET_COMMIT", 9): COMMIT,
    ("HEARTBEAT", 4): {"groupId": "g", "generationId": 1, "memberId": "m"},
    ("CONSUMER_GROUP_HEARTBEAT", 1): {"groupId": "g", "memberId": "m", "memberEpoch": 1},
}


def test_periodic_identical_requests_are_pipelined() -> None:
    """As librdkafka sends them: each took its own micro-batch, and the last ones timed out."""
    with (
        running_gateway(engine_type=SlowEngine, limits=GatewayLimits(requests_ahead=8)) as running,
        running.client() as client,
    ):
        assert isinstance(running.engine, SlowEngine)
        ids = [
            client.send(api, version, body)
            for _ in range(5)
            for (api, version), body in REPEATED.items()
        ]
        ids.append(client.send("METADATA", 9, topics=[]))
        assert [struct.unpack(">i", client.receive()[:4])[0] for _ in ids] == ids
        assert 4 <= running.engine.most_in_flight <= 8


@pytest.mark.parametrize("api", list(REPEATED))
def test_periodic_requests_are_submitted_at_once(api: tuple[str, int]) -> None:
    with running_gateway(engine_type=SlowEngine) as running, running.client() as client:
        assert isinstance(running.engine, SlowEngine)
        ids = [client.send(*api, REPEATED[api]) for _ in range(10)]
        assert [struct.unpack(">i", client.receive()[:4])[0] for _ in ids] == ids
        assert running.engine.most_in_flight >= 4


def test_client_that_disconnects_before_its_responses_does_not_affect_others() -> None:
    with running_gateway(engine_type=SlowEngine) as running, running.client() as other:
        other.topic("left")
        with running.client() as client:
            for _ in range(10):
                client.send("PRODUCE", 9, produce_body("left", batch(b"x")))
            _, topic = decode_response(PRODUCE, 9, client.receive())
            assert topic["responses"][0]["partitionResponses"][0]["baseOffset"] == 0
        assert other.list_offset("left", -1)["offset"] == 10


# -- errors


def test_error_without_a_response_closes_the_connection(client: Client) -> None:
    client.topic("acks-0")
    client.send("PRODUCE", 9, produce_body("acks-0", batch(b"a"), acks=0))
    assert client.list_offset("acks-0", -1)["offset"] == 1
    client.send("PRODUCE", 9, produce_body("acks-0", batch(b"a")[:-1] + b"x", acks=0))
    assert client.is_closed()


@pytest.mark.parametrize(
    ("raised", "error"),
    [(NotBuilt("a part"), Error.UNSUPPORTED_VERSION), (KeyError(7), Error.UNKNOWN_SERVER_ERROR)],
)
def test_dead_letter_is_an_error_response(
    client: Client, monkeypatch: pytest.MonkeyPatch, raised: Exception, error: Error
) -> None:
    """Whether the machine does not support the request or fails; the connection stays."""

    def fails(*_: object) -> Any:
        raise raised

    for key in (PRODUCE, METADATA):
        monkeypatch.setitem(BUILT, key, msgspec.structs.replace(BUILT[key], handle=fails))
    response = client.produce("any", batch(b"a"), partition=3)
    assert (response["index"], response["errorCode"]) == (3, error)
    (topic,) = client.call("METADATA", 9, name="any")["topics"]
    assert (topic["name"], topic["errorCode"]) == ("any", error)
    client.send("PRODUCE", 9, produce_body("any", batch(b"a"), acks=0))
    assert client.is_closed()


def test_unsupported_api_is_not_listed_and_closes_the_connection(client: Client) -> None:
    response = client.call("API_VERSIONS", 3, clientSoftwareName="a", clientSoftwareVersion="1")
    listed = {each["apiKey"]: each for each in response["apiKeys"]}
    served = {key for key, api in SERVED.items() if api.kafka.last >= 0} - UNNAMED
    assert listed.keys() == served | ITS_OWN
    for key in served:
        assert listed[key]["maxVersion"] == SERVED[key].versions[1]
    header = {"requestApiKey": NOT_BUILT, "requestApiVersion": 0, "correlationId": 1}
    version = KAFKA_APIS[NOT_BUILT].last
    frame = encode_request(
        RequestFrame({**header, "requestApiVersion": version, "clientId": "x"}, {})
    )
    client.send_frame(frame)
    assert client.is_closed()


def test_group_features_are_listed_with_their_apis(client: Client) -> None:
    response = client.call("API_VERSIONS", 4, clientSoftwareName="a", clientSoftwareVersion="1")
    supported = {each["name"] for each in response["supportedFeatures"]}
    finalized = {each["name"]: each["maxVersionLevel"] for each in response["finalizedFeatures"]}
    assert finalized["transaction.version"] == 2
    assert finalized.keys() <= supported
    heartbeats = {each["apiKey"] for each in response["apiKeys"]} & {68, 76, 88}
    assert heartbeats == {68, 76, 88}
    of_groups = {"group.version", "share.version", "streams.version"}
    assert supported >= of_groups
    assert [finalized[each] for each in sorted(of_groups)] == [1, 1, 1]


@pytest.mark.parametrize("version", [5, 99, -1])
def test_api_versions_can_be_retried_after_an_unsupported_version(
    client: Client, version: int
) -> None:
    client.send_frame(struct.pack(">hhih", 18, version, 77, -1) + b"\0\1a\1b\0")
    correlation, body = decode_response(18, 0, client.receive())
    assert (correlation, body["errorCode"]) == (77, Error.UNSUPPORTED_VERSION)
    assert [each["apiKey"] for each in body["apiKeys"]] == [18]
    assert client.call("API_VERSIONS", 4, clientSoftwareName="a", clientSoftwareVersion="1")


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 0),
        struct.pack(">i", -5),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhih", 10, 3, 9, 1, 500),
        struct.pack(">ihhih", 10, 67, 0, 1, -1),
    ],
    ids=["empty", "negative", "huge", "no header", "string beyond the end", "between brokers"],
)
def test_malformed_frame_closes_its_connection_only(gateway: Running, data: bytes) -> None:
    with gateway.client() as bad, gateway.client() as good:
        good.call("METADATA", 9, topics=[])
        bad.send_bytes(data)
        assert bad.is_closed()
        good.call("METADATA", 9, topics=[])


@pytest.mark.parametrize(("host", "error"), [("127.0.0.1", 29), ("10.1.2.3", 0)])
def test_acls_match_the_hosts_of_clients(host: str, error: int) -> None:
    authorized = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    denied = {
        "resourceType": 2,
        "resourceName": "t",
        "resourcePatternType": 3,
        "principal": "User:ANONYMOUS",
        "host": host,
        "operation": 4,
        "permissionType": 2,
    }
    allowed = {**denied, "host": "*", "permissionType": 3}
    with running_gateway(authorized) as running, running.client() as client:
        client.topic("t")
        response = client.call("CREATE_ACLS", 3, {"creations": [denied, allowed]})
        assert [each["errorCode"] for each in response["results"]] == [0, 0]
        assert client.produce("t", batch(b"a"))["errorCode"] == error


def test_fifty_connections_are_served_fairly(gateway: Running) -> None:
    """With the load tool; no connection gets far fewer responses than another."""
    tool = Path(__file__).parents[2] / "bench" / "gateway_load.py"
    for seconds in growing(1):
        command = [sys.executable, str(tool), gateway.bootstrap, "--seconds", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE_S)
        assert done.returncode == 0, done.stderr
        result = re.search(r"(\d+) requests on 50 .* a connection had (\d+) to (\d+)", done.stdout)
        assert result is not None, done.stdout
        total, least, most = (int(part) for part in result.groups())
        if total > 50 * 20:  # enough for a comparison
            break
    assert least >= 0.7 * most, done.stdout


# -- limits


def test_frame_above_the_limit_closes_the_connection() -> None:
    with (
        running_gateway({"socket.request.max.bytes": "1024"}) as running,
        running.client() as client,
    ):
        client.topic("small")
        client.send("PRODUCE", 9, produce_body("small", batch(b"x" * 2000)))
        assert client.is_closed()


def test_idle_connection_is_closed_and_one_in_a_long_poll_is_not() -> None:
    with (
        running_gateway({"connections.max.idle.ms": "1000"}) as running,
        running.client() as idle,
        running.client() as polling,
    ):
        polling.topic("quiet")
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
        body = {"minBytes": 1, "topics": [{"topic": "quiet", "partitions": [partition]}]}
        polling.send("FETCH", 12, {**body, "maxWaitMs": LONG_WAIT_MS, "sessionEpoch": -1})
        assert idle.is_closed()
        assert not polling.has_something()
        with running.client() as writes:
            writes.produce("quiet", batch(b"ends the poll"))
        assert polling.receive()


@pytest.mark.parametrize(("idle_ms", "is_closed"), [("-1", False), ("0", True)])
def test_idle_time_can_be_disabled(idle_ms: str, is_closed: bool) -> None:
    with running_gateway({"connections.max.idle.ms": idle_ms}) as running, running.client() as idle:
        time.sleep(0.2)
        if is_closed:
            assert idle.is_closed()
        else:
            idle.call("METADATA", 9, topics=[])


def test_gateway_stops_reading_from_a_client_that_does_not_read() -> None:
    """Read-ahead is bounded; the client gets every response when it reads again."""
    count = 2000
    with (
        running_gateway(limits=GatewayLimits(requests_ahead=4)) as running,
        running.client() as client,
    ):
        client.topic("slow", partitions=50)
        sender = threading.Thread(
            target=lambda: [client.send("METADATA", 9, topics=None) for _ in range(count)]
        )
        sender.start()
        time.sleep(0.5)
        (connection,) = running.gateway._connections
        assert len(connection._frames) <= 4
        for _ in range(count):
            client.receive()
        sender.join()


# -- addresses


def addresses_of(response: dict[str, Any]) -> dict[int, tuple[str, int]]:
    return {each["nodeId"]: (each["host"], each["port"]) for each in response["brokers"]}


def test_metadata_has_the_address_of_each_broker() -> None:
    with running_gateway(brokers=3) as running, running.client() as client:
        client.topic("spread", partitions=6)
        response = client.call("METADATA", 9, name="spread")
        assert addresses_of(response) == running.addresses
        leaders = {each["leaderId"] for each in response["topics"][0]["partitions"]}
        assert leaders == {1, 2, 3}
        for partition in response["topics"][0]["partitions"]:
            with running.client(partition["leaderId"]) as leader:
                produced = leader.produce("spread", batch(b"a"), partition["partitionIndex"])
                assert produced["errorCode"] == Error.NONE
        body = {"keyType": 0, "coordinatorKeys": ["a", "b"]}
        client.call("FIND_COORDINATOR", 4, body)
        for coordinator in client.call("FIND_COORDINATOR", 4, body)["coordinators"]:
            assert (coordinator["host"], coordinator["port"]) == running.addresses[
                coordinator["nodeId"]
            ]


def test_wrong_broker_returns_the_leader() -> None:
    with running_gateway(brokers=2) as running, running.client() as client:
        client.topic("led")
        topics = client.call("METADATA", 9, name="led")["topics"]
        leader = topics[0]["partitions"][0]["leaderId"]
        with running.client(3 - leader) as other:
            response = other.call("PRODUCE", 10, produce_body("led", batch(b"a")))
        partition = response["responses"][0]["partitionResponses"][0]
        assert partition["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER
        assert partition["currentLeader"]["leaderId"] == leader
        (endpoint,) = response["nodeEndpoints"]
        assert (endpoint["host"], endpoint["port"]) == running.addresses[leader]


def test_advertised_address_replaces_the_bound_one() -> None:
    outside = Address("kafka.example.org", 7000)
    with running_gateway(brokers=2, advertise=outside) as running:
        port = running.gateway._servers[1].sockets[0].getsockname()[1]
        with Client(Address("127.0.0.1", port)) as client:
            response = client.call("METADATA", 9, topics=[])
        assert addresses_of(response) == {1: outside, 2: ("kafka.example.org", 7001)}


def test_port_in_use_is_an_error_with_a_hint_and_leaves_no_journal(
    gateway: Running, tmp_path: Path
) -> None:
    journal = JournalOptions(tmp_path / "journal")
    engine = LocalEngine("another", [1, 2], BrokerSettings(), journal)
    in_use = gateway.addresses[1]
    for listen in (in_use, in_use._replace(port=in_use.port - 1)):
        second = Gateway(engine, listen)
        with pytest.raises(UserError, match="Cannot listen on"):
            asyncio.run(second.start())
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_lost_while_the_engine_starts_ends_the_gateway(tmp_path: Path) -> None:
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ports = [free_port(), free_port()]

    class SlowEngine(LocalEngine):
        async def start(self) -> None:
            await super().start()
            other.bind(("127.0.0.1", ports[1]))
            other.listen()

    def engine(kind: type[LocalEngine] = LocalEngine) -> LocalEngine:
        return kind("c", [1, 2], BrokerSettings(), JournalOptions(tmp_path / "journal"))

    gateway = Gateway(engine(SlowEngine), Address("127.0.0.1", ports[0]))
    with other, pytest.raises(UserError, match="Cannot listen on"):
        asyncio.run(gateway.start({1: ports[0], 2: ports[1]}))
    again = Gateway(engine(), Address("127.0.0.1", ports[0]))  # the journal is not in use

    async def started_and_closed() -> None:
        await again.start({1: ports[0], 2: ports[1]})
        await again.close()

    asyncio.run(started_and_closed())


def test_addresses_of_remote_brokers_depend_on_the_clients_listener() -> None:
    listeners = [
        {"name": name, "host": name.lower(), "port": 7, "securityProtocol": 0}
        for name in ("INNER", "PLAINTEXT")
    ]
    body = {"brokerId": 9, "incarnationId": ZERO_UUID, "listeners": listeners}
    body |= {"features": FEATURES, "logDirs": ["dirdirdirdirdirdirdird"]}
    beat = {"brokerId": 9, "brokerEpoch": 1, "currentMetadataOffset": 1000}
    with running_gateway() as running, running.client() as client:
        body["clusterId"] = client.call("DESCRIBE_CLUSTER", 0)["clusterId"]
        for key, wanted in ((62, body), (63, beat)):
            header = internal_header(key, 1 if key == 63 else 4, None)
            request = EdgeRequest(1, "c", "User:ANONYMOUS", "", header, wanted)

            async def submitted(request: EdgeRequest = request) -> EngineResponse:
                return await running.engine.submit(request)

            response = running.run(submitted())
            assert response.response.error_code == 0, response
        (broker,) = [each for each in client.call("METADATA", 12)["brokers"] if each["nodeId"] == 9]
        assert (broker["host"], broker["port"]) == ("plaintext", 7)
        assignments = [{"partitionIndex": n, "brokerIds": [9]} for n in range(50)]
        topic = {"name": "__consumer_offsets", "numPartitions": -1, "replicationFactor": -1}
        wanted = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 1000}
        assert client.call("CREATE_TOPICS", 7, wanted)["topics"][0]["errorCode"] == 0
        wanted = {"keyType": 0, "coordinatorKeys": ["g"]}
        (led,) = client.call("FIND_COORDINATOR", 4, wanted)["coordinators"]
        assert (led["nodeId"], led["host"], led["port"]) == (9, "plaintext", 7)


def test_log_names_the_request_for_which_a_connection_is_closed() -> None:
    body = {"resourceTypeFilter": 0, "patternTypeFilter": 3, "operation": 1, "permissionType": 1}
    with capture_logs() as logs, running_gateway() as running, running.client() as client:
        client.send("DESCRIBE_ACLS", 3, body)
        assert client.is_closed()
        wait_until(lambda: any(each["event"] == "connection closed" for each in logs))
    (reason,) = {each["reason"] for each in logs if each["event"] == "connection closed"}
    assert reason == "a request without a response: DESCRIBE_ACLS"


def test_logged_lines_have_the_addresses_of_brokers(gateway: Running) -> None:
    port = gateway.addresses[1].port
    line = "[one-1, initOffset 6538 to broker BrokerEndPoint(1,,-1)]"
    shown = f"[one-1, initOffset 6538 to broker BrokerEndPoint(1,127.0.0.1,{port})]"
    assert gateway.gateway.addressed(line) == shown
    assert gateway.gateway.addressed(line.replace("(1,", "(9,")) == line.replace("(1,", "(9,")
