"""Client quotas through the gateway, compared with a real broker."""

import time
import uuid
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error
from tests.support.batches import batch
from tests.support.gateways import Client, produce_body, running_gateway
from tests.support.goldens import Track
from tests.support.patience import wait_until
from tests.support.settled import settle

GOLDEN = "configs/client_quotas"
RATE = 1700.0
"""Bytes a second: two records in ten windows exceed it, for a wait of under two seconds."""
RECORD = b"x" * 10_000
TOLERANCE_MS = 1_500
"""Windows start at their own times: the rate varies by one second in ten."""


Send = Callable[[Client], Any]
Both = Callable[..., tuple[Any, Any]]


@pytest.fixture
def both(real_kafka: Address, track: Track) -> Both:
    """Send to a real broker, then to a gateway, as a new client of both."""

    def requested(send: Send, *scenario: object) -> tuple[Any, Any]:
        def request_real() -> Any:
            with Client(real_kafka, name=fresh("tester")) as real:
                forget(real)
                return send(real)

        real = track.response([send.__name__, *scenario], request_real)
        name = fresh("tester")
        with running_gateway() as gateway, Client(gateway.addresses[1], name=name) as ours:
            return real, send(ours)

    return requested


def fresh(name: str) -> str:
    """Return an unused name: brokers count former traffic for ten seconds."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def part(kind: str, name: str | None) -> dict[str, Any]:
    return {"entityType": kind, "entityName": name}


def altered(client: Client, entity: list[dict[str, Any]], **op: Any) -> tuple[int, str | None]:
    op = {"key": "consumer_byte_rate", "value": RATE, "remove": False, **op}
    body = {"entries": [{"entity": entity, "ops": [op]}], "validateOnly": False}
    response = client.call("ALTER_CLIENT_QUOTAS", 1, body)["entries"][0]
    return response["errorCode"], response["errorMessage"]


def alter(client: Client, entity: list[dict[str, Any]], **op: Any) -> int:
    return altered(client, entity, **op)[0]


def describe(client: Client, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    filters = [{"entityType": k, "matchType": t, "match": m} for k, t, m in components]
    response = client.call("DESCRIBE_CLIENT_QUOTAS", 1, components=filters, strict=strict)
    entries = response["entries"]
    for entry in entries or ():
        entry["entity"].sort(key=str)
    return response["errorCode"], None if entries is None else sorted(entries, key=str)


def wait_for(client: Client, entities: int) -> None:
    """Wait until a broker has applied the controller's change."""
    wait_until(lambda: len(describe(client)[1]) == entities, f"{entities} entities have quotas")


def forget(client: Client) -> None:
    for entry in describe(client)[1]:
        for each in entry["values"]:
            assert alter(client, entry["entity"], key=each["key"], remove=True) == 0
    wait_for(client, entities=0)


def write_first(client: Client, topic: str, record: bytes) -> None:
    """Create a topic and write its first record; the broker may not lead it at once."""
    client.topic(topic)

    def is_written() -> bool:
        code = client.produce(topic, batch(record))["errorCode"]
        assert code in (0, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.NOT_LEADER_OR_FOLLOWER)
        return bool(code == 0)

    wait_until(is_written)


USER, CLIENT = part("user", "bob"), part("client-id", "quoted")

ALTERATIONS: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
    ([USER], {}),
    ([USER, CLIENT], {"value": 5.0}),
    ([part("client-id", None)], {"key": "request_percentage", "value": 12.5}),
    ([part("ip", None)], {"key": "connection_creation_rate", "value": 3.0}),
    ([USER], {"key": "no_such_quota"}),
    ([USER], {"value": -1.0}),
    ([USER], {"value": 1.25}),
    ([USER], {"key": "connection_creation_rate"}),
    ([], {}),
    ([part("topic", "t")], {}),
    ([part("ip", "127.0.0.1"), USER], {"key": "connection_creation_rate"}),
    ([USER], {"key": "producer_byte_rate", "remove": True}),
    ([USER], {"value": "Infinity"}),
    ([USER], {"value": "-Infinity"}),
    ([USER], {"value": 9.3e18}),
    ([USER], {"value": 1.0000001}),
    ([USER], {"value": "NaN"}),
    ([part("client-id", None)], {"key": "request_percentage", "value": "Infinity"}),
    ([part("ip", None)], {"key": "connection_creation_rate", "value": 3e9}),
]

FILTERS: list[tuple[list[tuple[str, int, str | None]], bool]] = [
    ([], False),
    ([("user", 0, "bob")], False),
    ([("user", 0, "bob")], True),
    ([("client-id", 1, None)], False),
    ([("client-id", 2, None)], False),
    ([("ip", 2, None)], True),
    ([("user", 2, None), ("user", 1, None)], False),
    ([("topic", 2, None)], False),
    ([("user", 9, None)], False),
    ([("user", 1, "bob")], False),
    ([("ip", 2, None), ("user", 2, None)], False),
]


def altered_and_described(client: Client) -> list[Any]:
    result: list[Any] = [altered(client, entity, **op) for entity, op in ALTERATIONS]
    wait_for(client, entities=4)
    result += [describe(client, *filters, strict=strict) for filters, strict in FILTERS]
    assert [alter(client, e, **{**op, "remove": True}) for e, op in ALTERATIONS[:4]] == [0] * 4
    wait_for(client, entities=0)
    return result


def test_quotas_are_altered_and_described_like_kafkas(both: Both) -> None:
    real, ours = both(altered_and_described, ALTERATIONS, FILTERS)
    assert ours == real


def throttled_reading(client: Client) -> list[tuple[int, bool, bool, bool]]:
    """Fetch three times in a session: error, session, throttled or not, records or not."""
    topic = fresh("quotas")
    write_first(client, topic, RECORD)
    for _ in range(2):
        assert client.produce(topic, batch(RECORD))["errorCode"] == 0
    assert alter(client, [part("client-id", client.name)]) == 0
    settle(client)
    result = []
    session, epoch, offset = 0, 0, 0
    for _ in range(3):
        partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 10_100}
        body = {"maxWaitMs": 0, "maxBytes": 10_100, "sessionId": session, "sessionEpoch": epoch}
        body |= {"topics": [{"topic": topic, "partitions": [partition]}]}
        response = client.call("FETCH", 12, body)
        session, epoch = response["sessionId"], epoch + 1
        has_records = bool(response["responses"])
        offset += has_records
        is_throttled = response["throttleTimeMs"] > 0
        result.append((response["errorCode"], session > 0, is_throttled, has_records))
    assert alter(client, [part("client-id", client.name)], remove=True) == 0
    return result


@pytest.mark.full
def test_a_consumer_above_its_quota_is_throttled_like_kafkas(both: Both) -> None:
    real, ours = both(throttled_reading)
    assert ours == real
    assert any(is_throttled for _, _, is_throttled, _ in ours)


PARTITIONS = 40


def throttled_small_records(client: Client) -> tuple[int, list[int], float]:
    """Return the size of a response with small records, and the throttle time of two.

    The quota allows one and a half of them; overhead is half of each. Also returns how long the two
    took, in ms, which the throttle time is shorter by.
    """
    many = fresh("quotas-many")
    client.topic(many, PARTITIONS)
    for partition in range(PARTITIONS):
        body = produce_body(many, batch(b"x"))
        body["topicData"][0]["partitionData"][0]["index"] = partition
        wait_until(partial(is_produced, client, body), "records in all partitions")
    partitions = [{"partition": each, "partitionMaxBytes": 100} for each in range(PARTITIONS)]
    request = {"sessionEpoch": -1, "topics": [{"topic": many, "partitions": partitions}]}
    with Client(client.address) as other:
        other.send("FETCH", 12, request)
        size = len(other.receive())
    whose = [part("client-id", client.name)]
    assert alter(client, whose, value=float(size * 15 // 100)) == 0
    settle(client)
    began = time.monotonic()
    throttle_time_ms = [client.call("FETCH", 12, request)["throttleTimeMs"] for _ in range(2)]
    took_ms = (time.monotonic() - began) * 1000
    assert alter(client, whose, remove=True) == 0
    wait_for(client, entities=0)
    return size, throttle_time_ms, took_ms


def is_produced(client: Client, body: dict[str, Any]) -> bool:
    response = client.call("PRODUCE", 9, body)["responses"][0]["partitionResponses"][0]
    return not response["errorCode"]


@pytest.mark.full
def test_the_overhead_of_responses_counts_like_kafkas(both: Both) -> None:
    real, ours = both(throttled_small_records)
    assert ours[0] == real[0]
    assert ours[1][0] == real[1][0] == 0
    took_ms = ours[2] + real[2]
    assert min(ours[1][1], real[1][1]) > TOLERANCE_MS - took_ms
    assert abs(ours[1][1] - real[1][1]) < TOLERANCE_MS + took_ms, (real, ours)


def throttled_writing(client: Client) -> tuple[list[int], float]:
    """Return throttle times of two Produce responses, and how long they took, in ms."""
    topic = fresh("quotas-written")
    write_first(client, topic, b"x")
    alteration = {"key": "producer_byte_rate", "value": 1600.0}
    assert alter(client, [part("client-id", client.name)], **alteration) == 0
    settle(client)
    began = time.monotonic()
    throttle_time_ms = [
        client.call("PRODUCE", 9, produce_body(topic, batch(RECORD)))["throttleTimeMs"]
        for _ in range(2)
    ]
    responded = time.monotonic()
    assert alter(client, [part("client-id", client.name)], **alteration, remove=True) == 0
    assert time.monotonic() - began >= throttle_time_ms[-1] / 1000 * 0.9, (
        "it is not heard until then"
    )
    return throttle_time_ms, (responded - began) * 1000


@pytest.mark.full
def test_a_producer_above_its_quota_is_throttled_like_kafkas(both: Both) -> None:
    (real, real_took_ms), (ours, took_ms) = both(throttled_writing)
    assert [ms > 0 for ms in ours] == [ms > 0 for ms in real] == [False, True]
    tolerance_ms = TOLERANCE_MS + took_ms + real_took_ms
    assert all(abs(a - b) < tolerance_ms for a, b in zip(real, ours, strict=True)), (real, ours)


def silent_for_ms(client: Client) -> float:
    """Return for how long a client is muted that exceeded its quota with acks 0."""
    topic = fresh("quotas-unanswered")
    write_first(client, topic, b"x")
    whose = [part("client-id", client.name)]
    alteration = {"key": "producer_byte_rate", "value": 1600.0}
    assert alter(client, whose, **alteration) == 0
    settle(client)
    began = time.monotonic()
    for _ in range(2):
        client.send("PRODUCE", 9, produce_body(topic, batch(RECORD), acks=0))
    client.call("API_VERSIONS", 3)
    silent_ms = (time.monotonic() - began) * 1000
    assert alter(client, whose, **alteration, remove=True) == 0
    wait_for(client, entities=0)
    return silent_ms


@pytest.mark.full
def test_a_producer_with_acks_0_above_its_quota_is_muted_like_kafkas(both: Both) -> None:
    real, ours = both(silent_for_ms)
    assert min(real, ours) > TOLERANCE_MS
    assert abs(real - ours) < TOLERANCE_MS, (real, ours)


def test_a_throttled_client_is_muted() -> None:
    with running_gateway() as gateway, gateway.client() as client:
        client.topic("t")
        client.produce("t", batch(RECORD))
        assert alter(client, [part("client-id", client.name)], value=1950.0) == 0
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100_000}
        body = {"sessionEpoch": -1, "topics": [{"topic": "t", "partitions": [partition]}]}
        throttle_ms = 0
        while not throttle_ms:
            began = time.monotonic()
            throttle_ms = client.call("FETCH", 12, body)["throttleTimeMs"]
        client.call("API_VERSIONS", 3)
        assert time.monotonic() - began >= throttle_ms / 1000 * 0.9


def throttled_creation(client: Client) -> list[tuple[int, list[int]]]:
    """Return throttle times and errors for creating and deleting partitions too fast.

    One partition above the quota waits half a second: so long may the next step take.
    """
    known = [fresh("quotas-grown"), fresh("quotas-deleted")]
    for name in known:
        client.topic(name)
    alteration = {"key": "controller_mutation_rate", "value": 2.0}
    assert alter(client, [part("client-id", client.name)], **alteration) == 0
    settle(client)
    prefix = fresh("fast")

    def made(*sizes: int) -> dict[str, Any]:
        topics = [
            {"name": f"{prefix}-{size}", "numPartitions": size, "replicationFactor": 1}
            for size in sizes
        ]
        return {"topics": topics, "timeoutMs": 5000, "validateOnly": True}

    wanted = {"name": known[0], "count": 9, "assignments": None}
    grown: dict[str, Any] = {"topics": [wanted], "timeoutMs": 5000}
    grown["validateOnly"] = True
    requests: list[tuple[str, int, dict[str, Any]]] = [
        ("CREATE_TOPICS", 7, made(20)),
        ("CREATE_TOPICS", 7, made(3, 2, 4)),
        ("CREATE_TOPICS", 6, made(1)),
        ("CREATE_PARTITIONS", 3, grown),
        ("CREATE_PARTITIONS", 2, grown),
        ("CREATE_TOPICS", 4, made(1)),
        ("DELETE_TOPICS", 5, {"topicNames": known[1:], "timeoutMs": 5000}),
    ]
    result = []
    for api, version, body in requests:
        response = client.call(api, version, body)
        results = response.get("topics") or response.get("results") or response["responses"]
        codes = [each["errorCode"] for each in results]
        result.append((response["throttleTimeMs"], codes))
    assert alter(client, [part("client-id", client.name)], **alteration, remove=True) == 0
    wait_for(client, entities=0)
    return result


@pytest.mark.full
def test_partitions_created_above_the_quota_are_refused_like_kafkas(both: Both) -> None:
    real, ours = both(throttled_creation)
    assert [codes for _, codes in ours] == [codes for _, codes in real]
    assert [codes for _, codes in real[1:5]] == [[0, 89, 89], [0], [89], [0]]
    assert all(abs(a[0] - b[0]) < TOLERANCE_MS for a, b in zip(real, ours, strict=True))
    assert [ms > 0 for ms, _ in ours] == [ms > 0 for ms, _ in real], (real, ours)


LITTLE_PERCENT = 0.000001
"""Exceeded by any request, so that all are throttled for the maximum, one window."""


def throttled_asking(client: Client) -> list[tuple[int, bool]]:
    """Return throttle times of too expensive requests, and whether the client was muted."""
    topic = fresh("quotas-asked")
    write_first(client, topic, b"x")
    whose = [part("client-id", client.name)]
    alteration = {"key": "request_percentage", "value": LITTLE_PERCENT}
    assert alter(client, whose, **alteration) == 0
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    fetch = {"sessionEpoch": -1, "topics": [{"topic": topic, "partitions": [partition]}]}
    result: list[tuple[int, bool]] = []

    def is_throttled() -> bool:
        result[:] = [(client.call("FETCH", 12, fetch)["throttleTimeMs"], True)]
        return result[0][0] > 0

    wait_until(is_throttled, "the broker acts on the quota")
    began = time.monotonic()
    for api, version, body in (
        ("PRODUCE", 9, produce_body(topic, batch(b"x"))),
        ("METADATA", 12, {"topics": []}),
    ):
        throttle_ms = client.call(api, version, body)["throttleTimeMs"]
        now = time.monotonic()
        result.append((throttle_ms, now - began >= 0.9))
        began = now
    assert alter(client, whose, **alteration, remove=True) == 0
    wait_for(client, entities=0)
    return result


@pytest.mark.full
def test_a_client_above_its_request_time_quota_is_muted_like_kafkas(both: Both) -> None:
    real, ours = both(throttled_asking)
    assert ours == real == [(1000, True)] * 3


def held_for_s(address: Address, source: str) -> float:
    """Return how long a new connection is held before it is closed; 0 if it is served."""
    began = time.monotonic()
    try:
        with Client(address, source=(source, 0)) as client:
            client.call("API_VERSIONS", 3)
    except ConnectionError:
        return time.monotonic() - began
    return 0.0


def connecting(address: Address, source: str) -> tuple[list[float], float]:
    """Return how long excess connections are held; later ones are served.

    Also returns how long the earlier ones took.
    """
    alteration = {"key": "connection_creation_rate", "value": 1.0}
    entity = [part("ip", source)]
    with Client(address) as client:
        assert alter(client, entity, **alteration) == 0
        try:
            settle(client)
            began = time.monotonic()
            found = [held_for_s(address, source) for _ in range(10)]
            took_s = time.monotonic() - began
            found.append(held_for_s(address, source))
        finally:
            assert alter(client, entity, **alteration, remove=True) == 0
        settle(client)
        return [*found, held_for_s(address, source)], took_s


@pytest.mark.full
def test_address_that_connects_too_fast_is_held_and_closed_like_kafkas(
    real_kafka: Address, track: Track
) -> None:
    chance = Random()
    source = f"127.{chance.randrange(1, 255)}.{chance.randrange(256)}.{chance.randrange(1, 255)}"
    real, real_took_s = track.response("connecting", lambda: connecting(real_kafka, source))
    with running_gateway() as gateway:
        ours, took_s = connecting(gateway.addresses[1], source)
    assert [held > 0 for held in ours] == [held > 0 for held in real]
    assert sum(held > 0 for held in real) == 1
    assert abs(max(real) - max(ours)) < TOLERANCE_MS / 1000
    for longest, before_s in ((max(real), real_took_s), (max(ours), took_s)):
        assert longest > 0.9 - before_s, "by Kafka's arithmetic a second, less what went by"


WAITS_S = 0.3
"""A longer wait for a response means that the connection was delayed; two a second are allowed."""


def slow_ones(address: Address) -> float:
    """Return how long three connections after a burst are delayed."""
    name = "max.connection.creation.rate"
    with Client(address) as client:
        change = {"name": name, "configOperation": 0, "value": "2"}
        resource = {"resourceType": 4, "resourceName": "", "configs": [change]}
        body = {"resources": [resource], "validateOnly": False}
        assert client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)["responses"][0]["errorCode"] == 0
        waited: list[float] = []
        try:
            settle(client)
            while not any(each > WAITS_S for each in waited[:-3]):
                assert len(waited) <= 24, "twenty in ten seconds, and four"
                began = time.monotonic()
                with Client(address) as other:
                    other.call("API_VERSIONS", 3)
                waited.append(time.monotonic() - began)
        finally:
            change["configOperation"] = 1
            response = client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
            assert response["responses"][0]["errorCode"] == 0
    return sum(waited[-3:])


@pytest.mark.full
def test_connections_above_the_rate_are_delayed_like_kafkas(
    real_kafka: Address, track: Track
) -> None:
    real = track.response("slow ones", lambda: slow_ones(real_kafka))
    with running_gateway() as gateway:
        ours = slow_ones(gateway.addresses[1])
    assert min(real, ours) > 3 * WAITS_S, "one after the other, and all are served"
    assert abs(real - ours) < 2 * TOLERANCE_MS / 1000


IN_ORDER = [
    ("user=lee", ["request_percentage", "producer_byte_rate"]),
    ("client-id=c0/user=zoe", ["request_percentage"]),
    ("user=amy", ["consumer_byte_rate", "request_percentage", "producer_byte_rate"]),
    ("client-id=c6/user=max", ["request_percentage"]),
    ("client-id=c3/user=kim", ["request_percentage"]),
    ("user=bob", ["request_percentage", "producer_byte_rate"]),
    ("user=ida", ["consumer_byte_rate", "request_percentage", "producer_byte_rate"]),
    ("user=ann", ["request_percentage", "producer_byte_rate"]),
]
"""Response of Kafka 4.4.0 without other quotas."""


def test_quotas_are_described_in_the_order_of_kafkas_maps() -> None:
    keys = ("request_percentage", "producer_byte_rate", "consumer_byte_rate")
    users = ("zoe", "bob", "amy", "kim", "lee", "ida", "max", "ann")
    with running_gateway() as gateway, Client(gateway.addresses[1], name="tester") as client:
        for number, user in enumerate(users):
            entity = [{"entityType": "user", "entityName": user}]
            if number % 3 == 0:
                entity.append({"entityType": "client-id", "entityName": f"c{number}"})
            for key in keys[: 1 + number % 3]:
                ops = [{"key": key, "value": 100.0, "remove": False}]
                entries = [{"entity": entity, "ops": ops}]
                client.call("ALTER_CLIENT_QUOTAS", 1, entries=entries, validateOnly=False)
        entries = client.call(
            "DESCRIBE_CLIENT_QUOTAS", 1, entityType="user", matchType=2, match=None, strict=False
        )["entries"]
    actual = [
        (
            "/".join(f"{part['entityType']}={part['entityName']}" for part in entry["entity"]),
            [value["key"] for value in entry["values"]],
        )
        for entry in entries
    ]
    assert actual == IN_ORDER
