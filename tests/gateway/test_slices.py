"""A large request is decided in slices, with the response of the whole."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.gateway import slices
from brokertwin.protocol.frames import RequestFrame, encode_request
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.protocol.primitives import MalformedError
from tests.support.commits import commit
from tests.support.examples import examples
from tests.support.gateways import Running, running_gateway

MIB = 1 << 20


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    """Yield a gateway with topics, groups and committed offsets."""
    with running_gateway() as running:
        with running.client() as client:
            for name in ("a", "b"):
                client.topic(name, partitions=3)
            for name in ("a", "b"):
                commit(running.bootstrap, "g", name, 2)
        yield running


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)
NUMBERS = st.lists(st.integers(0, 5), unique=True, max_size=6)


def request(api: str, version: int, body: dict[str, Any]) -> RequestFrame:
    header = {
        "requestApiKey": API_KEYS[api],
        "requestApiVersion": version,
        "correlationId": 1,
        "clientId": "tester",
    }
    return RequestFrame(header, body)


@st.composite
def nested(draw: st.DrawFn) -> RequestFrame:
    topics = {name: draw(NUMBERS) for name in draw(NAMES)}
    by_number = [{"name": n, "partitionIndexes": numbers} for n, numbers in topics.items()]
    listed = {
        n: [{"partitionIndex": p, "currentLeaderEpoch": -1, "timestamp": -1} for p in numbers]
        for n, numbers in topics.items()
    }
    epochs = {
        n: [{"partition": p, "currentLeaderEpoch": -1, "leaderEpoch": 0} for p in numbers]
        for n, numbers in topics.items()
    }
    groups = [
        {"groupId": g, "memberId": None, "memberEpoch": -1, "topics": chosen}
        for g, chosen in zip(("g", "h"), (by_number, None), strict=True)
    ]
    resources = [
        {"resourceType": kind, "resourceName": name, "configurationKeys": ["retention.ms"]}
        for kind in (2, 4)
        for name in topics
    ]
    metadata = {"allowAutoTopicCreation": False, "topics": [{"name": name} for name in topics]}
    bodies: dict[str, tuple[int, dict[str, Any]]] = {
        "LIST_OFFSETS": (
            5,
            {
                "replicaId": -1,
                "topics": [{"name": n, "partitions": p} for n, p in listed.items()],
            },
        ),
        "OFFSET_FOR_LEADER_EPOCH": (
            3,
            {
                "replicaId": -1,
                "topics": [{"topic": n, "partitions": p} for n, p in epochs.items()],
            },
        ),
        "METADATA": (9, metadata),
        "DESCRIBE_CONFIGS": (2, {"resources": resources}),
        "DESCRIBE_GROUPS": (5, {"groups": ["g", *topics]}),
        "FIND_COORDINATOR": (4, {"keyType": 0, "coordinatorKeys": [*topics]}),
        "DESCRIBE_PRODUCERS": (0, {"topics": by_number}),
    }
    if draw(st.booleans()):
        bodies["OFFSET_FETCH"] = (7, {"groupId": "g", "topics": by_number})
    else:
        bodies["OFFSET_FETCH"] = (9, {"groups": groups})
    api = draw(st.sampled_from(sorted(bodies)))
    return request(api, *bodies[api])


def ordered(value: Any) -> Any:
    """Return a body with sorted lists, because slices may have another order."""
    if isinstance(value, dict):
        return {name: ordered(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(map(ordered, value), key=json.dumps)
    return value


@settings(max_examples=examples(60), deadline=None)
@given(asked=nested(), items=st.integers(1, 4))
def test_slices_give_the_response_of_the_whole(
    gateway: Running, asked: RequestFrame, items: int
) -> None:
    name = next(name for name, key in API_KEYS.items() if key == asked.api_key)
    with gateway.client() as client, pytest.MonkeyPatch.context() as patched:
        whole = client.call(name, asked.version, asked.body)
        patched.setattr(slices, "SLICED_BYTES", 0)
        patched.setattr(slices, "ITEMS", items)
        assert all(slices.sliced(asked))
        assert ordered(client.call(name, asked.version, asked.body)) == ordered(whole)


def large(count: int) -> RequestFrame:
    partitions = [
        {"partitionIndex": n, "currentLeaderEpoch": -1, "timestamp": -1} for n in range(count)
    ]
    body = {"replicaId": -1, "topics": [{"name": "a", "partitions": partitions}]}
    return request("LIST_OFFSETS", 5, body)


def test_other_work_of_the_gateway_goes_on_between_slices(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, is_over, at_slices = 0, False, list[int]()
    submit = gateway.engine.submit

    def noted(asked: Any) -> Any:
        at_slices.append(turns)
        return submit(asked)

    async def work() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.run_coroutine_threadsafe(work(), gateway.loop)
    monkeypatch.setattr(gateway.engine, "submit", noted)
    asked = large(12_000)
    with gateway.client(timeout_s=600) as client:
        response = client.call("LIST_OFFSETS", asked.version, asked.body)
    is_over = True
    task.result(600)
    assert len(response["topics"][0]["partitions"]) == 12_000
    assert len(at_slices) == 12_000 / slices.ITEMS
    assert at_slices == sorted(set(at_slices)), "a turn of the loop before each"


def test_a_large_request_that_names_something_twice_is_refused(gateway: Running) -> None:
    asked = large(10_000)
    asked.body["topics"][0]["partitions"][1]["partitionIndex"] = 0
    with pytest.raises(MalformedError, match="some of them twice"):
        slices.sliced(asked)
    with gateway.client() as client:
        client.send_frame(encode_request(asked))
        assert client.is_closed()


@pytest.mark.parametrize("api", ["LIST_OFFSETS", "METADATA", "CREATE_TOPICS", "OFFSET_COMMIT"])
def test_a_request_without_records_above_the_limit_ends_before_it_is_received(
    api: str, gateway: Running
) -> None:
    with gateway.client() as client:
        head = (slices.bytes_max(API_KEYS[api], 2**30) + 1).to_bytes(4, "big") + API_KEYS[
            api
        ].to_bytes(2, "big")
        client.send_bytes(head)
        assert client.is_closed()


def test_topics_are_created_in_slices_unless_a_rule_is_about_all_of_them() -> None:
    def creation(count: int, **more: Any) -> RequestFrame:
        topic = {"numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
        topics = [{**topic, "name": f"t{number}", **more} for number in range(count)]
        return request("CREATE_TOPICS", 7, {"topics": topics, "timeoutMs": 1000})

    assert len(slices.sliced(creation(5000))) == 5000 / slices.ITEMS
    assert len(slices.sliced(creation(5001))) == 1, "more than 10,000 records are refused"
    assert len(slices.sliced(creation(1000, numPartitions=-1))) == 1, "as many as the broker says"
    assert len(slices.sliced(creation(1000, name="t"))) == 1, "each gets an error"


def test_members_may_send_more(gateway: Running) -> None:
    protocols = [{"name": "p", "metadata": bytes(2 * MIB)}]
    body = {"groupId": "large", "sessionTimeoutMs": 10_000, "protocolType": "consumer"}
    body |= {"rebalanceTimeoutMs": 10_000, "memberId": "", "protocols": protocols}
    with gateway.client() as client:
        assert client.call("JOIN_GROUP", 3, body)["errorCode"] == 0
