"""Client quotas through the gateway, against a real broker that is asked the same."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from brokerstream.gateway.answers import Address
from brokerstream.state.core.errors import Error
from tests.support.batches import batch
from tests.support.gateways import Client, produce_body, running_gateway
from tests.support.patience import PATIENCE_S, wait_until

TOPIC, WRITTEN, UNANSWERED = "quotas", "quotas-written", "quotas-unanswered"
SETTLING_S = 0.3
"""A real broker shows a quota a moment before it acts on it."""
RATE = 1950.0
"""Two records in the ten windows are a little too many: the wait is a fraction of a second."""
RECORD = b"x" * 10_000
TOLERANCE_MS = 1_500
"""Rates are taken over windows, which begin when they do: a second more or less of ten."""


@pytest.fixture
def both(kafka: str) -> Iterator[list[Client]]:
    """A raw connection to a real broker, and one to a gateway."""
    host, _, port = kafka.rpartition(":")
    address = Address(host, int(port))
    with running_gateway() as gateway, gateway.client() as ours, Client(address) as real:
        yield [real, ours]


def part(kind: str, name: str | None) -> dict[str, Any]:
    return {"entityType": kind, "entityName": name}


def altered(client: Client, entity: list[dict[str, Any]], **op: Any) -> tuple[int, str | None]:
    """Error and message of an alteration."""
    op = {"key": "consumer_byte_rate", "value": RATE, "remove": False, **op}
    body = {"entries": [{"entity": entity, "ops": [op]}], "validateOnly": False}
    answer = client.call("ALTER_CLIENT_QUOTAS", 1, body)["entries"][0]
    return answer["errorCode"], answer["errorMessage"]


def alter(client: Client, entity: list[dict[str, Any]], **op: Any) -> int:
    return altered(client, entity, **op)[0]


def describe(client: Client, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    filters = [{"entityType": k, "matchType": t, "match": m} for k, t, m in components]
    body = {"components": filters, "strict": strict}
    answer = client.call("DESCRIBE_CLIENT_QUOTAS", 1, body)
    entries = answer["entries"]
    for entry in entries or ():
        entry["entity"].sort(key=str)
    return answer["errorCode"], None if entries is None else sorted(entries, key=str)


def wait_for(client: Client, entities: int) -> None:
    """A broker reads what the controller has written a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    while len(describe(client)[1]) != entities:
        assert time.monotonic() < deadline
        time.sleep(0.05)


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


def test_quotas_are_altered_and_described_as_by_kafka(both: list[Client]) -> None:
    real, ours = ([altered(client, entity, **op) for entity, op in ALTERATIONS] for client in both)
    assert ours == real
    for client in both:
        wait_for(client, entities=4)
    for filters, strict in FILTERS:
        described = [describe(client, *filters, strict=strict) for client in both]
        assert described[1] == described[0], filters
    for client in both:
        assert [alter(client, e, **{**op, "remove": True}) for e, op in ALTERATIONS[:4]] == [0] * 4
        wait_for(client, entities=0)


def throttled_reading(client: Client) -> list[tuple[int, bool, bool, bool]]:
    """Three fetches in a session: error, a session, whether throttled, whether records came."""
    client.topic(TOPIC)
    while client.produce(TOPIC, batch(RECORD))["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER:
        time.sleep(0.05)  # the topic was created a moment ago
    for _ in range(2):
        assert client.produce(TOPIC, batch(RECORD))["errorCode"] == 0
    assert alter(client, [part("client-id", "tester")]) == 0
    wait_for(client, entities=1)
    time.sleep(SETTLING_S)
    found = []
    session, epoch, offset = 0, 0, 0
    for _ in range(3):
        wanted = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 10_100}
        body = {"maxWaitMs": 0, "maxBytes": 10_100, "sessionId": session, "sessionEpoch": epoch}
        body |= {"topics": [{"topic": TOPIC, "partitions": [wanted]}]}
        answer = client.call("FETCH", 12, body)
        session, epoch = answer["sessionId"], epoch + 1
        has_records = bool(answer["responses"])
        offset += has_records
        is_throttled = answer["throttleTimeMs"] > 0
        found.append((answer["errorCode"], session > 0, is_throttled, has_records))
    assert alter(client, [part("client-id", "tester")], remove=True) == 0
    return found


def test_a_consumer_that_is_too_fast_is_throttled_as_by_kafka(both: list[Client]) -> None:
    real, ours = (throttled_reading(client) for client in both)
    assert ours == real
    assert any(is_throttled for _, _, is_throttled, _ in ours)


MANY, PARTITIONS = "quotas-many", 40


def throttled_small_records(client: Client) -> tuple[int, list[int]]:
    """Size of an answer with small records, and for how long two such want the client silent.

    The quota lets one and a half of them through; what is around the records is half of each.
    """
    client.topic(MANY, PARTITIONS)
    for partition in range(PARTITIONS):
        body = produce_body(MANY, batch(b"x"))
        body["topicData"][0]["partitionData"][0]["index"] = partition
        wait_until(partial(is_produced, client, body), "records in all partitions")
    wanted = [{"partition": each, "partitionMaxBytes": 100} for each in range(PARTITIONS)]
    asked = {"sessionEpoch": -1, "topics": [{"topic": MANY, "partitions": wanted}]}
    client.send("FETCH", 12, asked)
    size = len(client.receive())
    whose = [part("user", "ANONYMOUS")]  # nobody has counted what it read before
    assert alter(client, whose, value=float(size * 15 // 100)) == 0
    wait_for(client, entities=1)
    time.sleep(SETTLING_S)
    found = [client.call("FETCH", 12, asked)["throttleTimeMs"] for _ in range(2)]
    assert alter(client, whose, remove=True) == 0
    wait_for(client, entities=0)
    return size, found


def is_produced(client: Client, body: dict[str, Any]) -> bool:
    answer = client.call("PRODUCE", 9, body)["responses"][0]["partitionResponses"][0]
    return not answer["errorCode"]


def test_what_is_around_the_records_counts_as_by_kafka(both: list[Client]) -> None:
    with ThreadPoolExecutor() as pool:
        real, ours = pool.map(throttled_small_records, both)
    assert ours[0] == real[0]
    assert ours[1][0] == real[1][0] == 0
    assert min(ours[1][1], real[1][1]) > TOLERANCE_MS
    assert abs(ours[1][1] - real[1][1]) < TOLERANCE_MS, (real, ours)


def throttled_writing(client: Client) -> list[int]:
    """For how long the answers to two Produces want the client silent, in ms."""
    client.topic(WRITTEN)
    while client.produce(WRITTEN, batch(b"x"))["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER:
        time.sleep(0.05)
    alteration = {"key": "producer_byte_rate", "value": 1600.0}
    assert alter(client, [part("client-id", "tester")], **alteration) == 0
    wait_for(client, entities=1)
    time.sleep(SETTLING_S)
    found = [
        client.call("PRODUCE", 9, produce_body(WRITTEN, batch(RECORD)))["throttleTimeMs"]
        for _ in range(2)
    ]
    began = time.monotonic()
    assert alter(client, [part("client-id", "tester")], **alteration, remove=True) == 0
    assert time.monotonic() - began >= found[-1] / 1000 * 0.9, "it is not heard until then"
    return found


def test_a_producer_that_is_too_fast_is_throttled_as_by_kafka(both: list[Client]) -> None:
    real, ours = (throttled_writing(client) for client in both)
    assert [ms > 0 for ms in ours] == [ms > 0 for ms in real] == [False, True]
    assert all(abs(a - b) < TOLERANCE_MS for a, b in zip(real, ours, strict=True)), (real, ours)


def silent_for_ms(client: Client) -> float:
    """For how long a client is not heard that has sent two Produces with acks 0 too fast."""
    client.topic(UNANSWERED)
    while client.produce(UNANSWERED, batch(b"x"))["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER:
        time.sleep(0.05)
    whose = [part("user", "ANONYMOUS")]  # nobody has counted what it wrote before
    alteration = {"key": "producer_byte_rate", "value": 1600.0}
    assert alter(client, whose, **alteration) == 0
    wait_for(client, entities=1)
    time.sleep(SETTLING_S)
    for _ in range(2):
        client.send("PRODUCE", 9, produce_body(UNANSWERED, batch(RECORD), acks=0))
    began = time.monotonic()
    assert alter(client, whose, **alteration, remove=True) == 0
    silent_ms = (time.monotonic() - began) * 1000
    wait_for(client, entities=0)
    return silent_ms


def test_who_writes_with_acks_0_too_fast_is_not_heard_as_by_kafka(both: list[Client]) -> None:
    real, ours = (silent_for_ms(client) for client in both)
    assert min(real, ours) > TOLERANCE_MS
    assert abs(real - ours) < TOLERANCE_MS, (real, ours)


def test_a_throttled_client_is_not_heard_for_a_while() -> None:
    with running_gateway() as gateway, gateway.client() as client:
        client.topic(TOPIC)
        client.produce(TOPIC, batch(RECORD))
        assert alter(client, [part("client-id", "tester")], value=RATE) == 0
        wanted = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100_000}
        body = {"sessionEpoch": -1, "topics": [{"topic": TOPIC, "partitions": [wanted]}]}
        throttle_ms = 0
        while not throttle_ms:
            began = time.monotonic()
            throttle_ms = client.call("FETCH", 12, body)["throttleTimeMs"]
        client.call("API_VERSIONS", 3)
        assert time.monotonic() - began >= throttle_ms / 1000 * 0.9


def throttled_creation(client: Client) -> list[tuple[int, list[int]]]:
    """Throttle times and errors of what creates, adds and deletes partitions too fast."""
    alteration = {"key": "controller_mutation_rate", "value": 5.0}
    assert alter(client, [part("client-id", "tester")], **alteration) == 0
    wait_for(client, entities=1)
    time.sleep(SETTLING_S)
    prefix = f"fast-{time.monotonic_ns()}"

    def made(*sizes: int) -> dict[str, Any]:
        topics = [
            {"name": f"{prefix}-{size}", "numPartitions": size, "replicationFactor": 1}
            for size in sizes
        ]
        return {"topics": topics, "timeoutMs": 5000, "validateOnly": True}

    grown = {"topics": [{"name": TOPIC, "count": 9}], "timeoutMs": 5000, "validateOnly": True}
    asked: list[tuple[str, int, dict[str, Any]]] = [
        ("CREATE_TOPICS", 7, made(50)),
        ("CREATE_TOPICS", 7, made(6, 3, 2)),
        ("CREATE_TOPICS", 6, made(1)),
        ("CREATE_PARTITIONS", 3, grown),
        ("CREATE_PARTITIONS", 2, grown),
        ("CREATE_TOPICS", 4, made(1)),
        ("DELETE_TOPICS", 5, {"topicNames": [WRITTEN], "timeoutMs": 5000}),
    ]
    found = []
    for api, version, body in asked:
        answer = client.call(api, version, body)
        results = answer.get("topics") or answer.get("results") or answer["responses"]
        codes = [each["errorCode"] for each in results]
        found.append((answer["throttleTimeMs"], codes))
    assert alter(client, [part("client-id", "tester")], **alteration, remove=True) == 0
    wait_for(client, entities=0)
    return found


def test_who_creates_partitions_too_fast_is_refused_as_by_kafka(both: list[Client]) -> None:
    for client in both:
        for name in (TOPIC, WRITTEN):
            known = {"name": name, "numPartitions": 1, "replicationFactor": 1}
            client.call("CREATE_TOPICS", 7, {"topics": [known], "timeoutMs": 5000})
    real, ours = (throttled_creation(client) for client in both)
    assert [codes for _, codes in ours] == [codes for _, codes in real]
    assert any(Error.THROTTLING_QUOTA_EXCEEDED in codes for _, codes in real)
    assert all(abs(a[0] - b[0]) < TOLERANCE_MS for a, b in zip(real, ours, strict=True))
    assert [ms > 0 for ms, _ in ours] == [ms > 0 for ms, _ in real], (real, ours)


LITTLE_PERCENT = 0.000001
"""Any request takes more: all are throttled for as long as one may be, a window."""


def throttled_asking(client: Client) -> list[tuple[int, bool]]:
    """For how long answers want a client silent whose requests take too long, and if it was."""
    client.topic(WRITTEN)
    while client.produce(WRITTEN, batch(b"x"))["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER:
        time.sleep(0.05)
    whose = [part("client-id", "tester")]
    alteration = {"key": "request_percentage", "value": LITTLE_PERCENT}
    assert alter(client, whose, **alteration) == 0
    wait_for(client, entities=1)
    time.sleep(SETTLING_S)
    wanted = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    found = []
    began = time.monotonic()
    for api, version, body in (
        ("FETCH", 12, {"sessionEpoch": -1, "topics": [{"topic": WRITTEN, "partitions": [wanted]}]}),
        ("PRODUCE", 9, produce_body(WRITTEN, batch(b"x"))),
        ("METADATA", 12, {"topics": []}),
    ):
        throttle_ms = client.call(api, version, body)["throttleTimeMs"]
        now = time.monotonic()
        was_silent = not found or now - began >= 0.9
        found.append((throttle_ms, was_silent))
        began = now
    assert alter(client, whose, **alteration, remove=True) == 0
    wait_for(client, entities=0)
    return found


def test_who_asks_for_more_time_than_its_quota_is_not_heard_as_by_kafka(both: list[Client]) -> None:
    with ThreadPoolExecutor() as pool:
        real, ours = pool.map(throttled_asking, both)
    assert ours == real == [(1000, True)] * 3


def held_for_s(address: Address) -> float:
    """For how long a new connection is held before it is closed; 0 where it is served."""
    began = time.monotonic()
    try:
        with Client(address) as client:
            client.call("API_VERSIONS", 3)
    except ConnectionError:
        return time.monotonic() - began
    return 0.0


def connecting(client: Client, address: Address) -> tuple[list[float], float]:
    """How long connections are held of which one is too many; others are served afterwards.

    And how long those took that came before that one.
    """
    alteration = {"key": "connection_creation_rate", "value": 2.0}
    entity = [part("ip", "127.0.0.1")]
    assert alter(client, entity, **alteration) == 0
    wait_for(client, entities=1)
    time.sleep(SETTLING_S)
    began = time.monotonic()
    found = [held_for_s(address) for _ in range(20)]
    took_s = time.monotonic() - began
    found.append(held_for_s(address))
    assert alter(client, entity, **alteration, remove=True) == 0
    wait_for(client, entities=0)
    time.sleep(SETTLING_S)
    return [*found, held_for_s(address)], took_s


def test_an_address_that_connects_too_fast_is_held_and_closed_as_by_kafka(kafka: str) -> None:
    host, _, port = kafka.rpartition(":")
    with running_gateway() as gateway:
        found = []
        for address in (Address(host, int(port)), gateway.addresses[1]):
            with Client(address) as client:
                found.append(connecting(client, address))
    (real, real_took_s), (ours, took_s) = found
    assert [held > 0 for held in ours] == [held > 0 for held in real]
    assert sum(held > 0 for held in real) == 1
    assert abs(max(real) - max(ours)) < TOLERANCE_MS / 1000
    for longest, before_s in ((max(real), real_took_s), (max(ours), took_s)):
        assert longest > 0.4 - before_s, "by Kafka's arithmetic half a second, less what went by"


def slow_ones(address: Address) -> list[float]:
    """How long connections wait for their turn that come faster than a broker takes them."""
    name = "max.connection.creation.rate"
    with Client(address) as client:
        change = {"name": name, "configOperation": 0, "value": "2"}
        wanted = {"resourceType": 4, "resourceName": "", "configs": [change]}
        body = {"resources": [wanted], "validateOnly": False}
        assert client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)["responses"][0]["errorCode"] == 0
        asked = {"resourceType": 4, "resourceName": "", "configurationKeys": [name]}

        def told() -> list[str]:
            (answer,) = client.call("DESCRIBE_CONFIGS", 4, {"resources": [asked]})["results"]
            return [each["value"] for each in answer["configs"]]

        wait_until(lambda: told() == ["2"], "it is there")
        time.sleep(SETTLING_S)
        waited: list[float] = []
        while sum(each > SETTLING_S for each in waited) < 3:
            assert len(waited) <= 23, "twenty in ten seconds, and three"
            began = time.monotonic()
            with Client(address) as other:
                other.call("API_VERSIONS", 3)
            waited.append(time.monotonic() - began)
        change["configOperation"] = 1
        assert client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)["responses"][0]["errorCode"] == 0
    return waited[-3:]


def test_connections_that_come_too_fast_have_their_turn_later_as_by_kafka(kafka: str) -> None:
    host, _, port = kafka.rpartition(":")
    with running_gateway() as gateway, ThreadPoolExecutor() as pool:
        real, ours = pool.map(slow_ones, (Address(host, int(port)), gateway.addresses[1]))
    assert min(*real, *ours) > SETTLING_S, "one after the other, and all are served"
    assert abs(sum(real) - sum(ours)) < 2 * TOLERANCE_MS / 1000
