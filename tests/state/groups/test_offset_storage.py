"""Offset storage in Kafka or ZooKeeper, and the cost of each (seed 003).

Methods of the seed's interface and their counterparts: `getOffset` is OffsetFetch, `putOffset`
OffsetCommit, `triggerLoadOffsets` the log read by a new coordinator, and `cleanup` the state
dropped by the former one (`tests/state/replication/test_coordinators.py`). With ZooKeeper the last
two do nothing, because brokers store no offsets.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.apis import offset_commit
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import CONTROLLER, PendingRequest
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.groups import committed_offsets, groups
from tests.support.examples import examples
from tests.support.machine import START, Bench
from tests.support.replicas import Replicas

BROKERS = (1, 2, 3)
STORAGES = ("kafka", "zookeeper")


class Store(Bench):
    """Three brokers, topic `a` with two partitions, offsets in `storage`."""

    def __init__(self, storage: str, **more: Any) -> None:
        super().__init__(BROKERS, brokertwin_offset_storage=storage, **more)
        self.is_zookeeper = storage == "zookeeper"
        self.topic("a", 2)
        request = {"keyType": 0, "coordinatorKeys": ["g"]}
        self.request("FIND_COORDINATOR", 4, request)
        coordinator = self.request("FIND_COORDINATOR", 4, request)["coordinators"][0]
        self.coordinator = coordinator["nodeId"]
        self.other = next(each for each in BROKERS if each != self.coordinator)

    def commit(self, broker: int, offset: int, partition: int = 0, **more: Any) -> Any:
        """Return the partition's error of a commit; None while pending."""
        partitions = [{"partitionIndex": partition, "committedOffset": offset}]
        body = {"groupId": "g", "memberId": "", "generationIdOrMemberEpoch": -1}
        body |= {"topics": [{"name": "a", "partitions": partitions}], **more.pop("body", {})}
        response = self.request("OFFSET_COMMIT", 8, body, broker=broker, **more)
        return response and response["topics"][0]["partitions"][0]["errorCode"]

    def delete(self, partition: int, **more: Any) -> Any:
        """Return the error of an OffsetDelete of a partition; None while pending."""
        body = {"groupId": "g", "name": "a", "partitionIndex": partition}
        response = self.request("OFFSET_DELETE", 0, body, broker=self.coordinator, **more)
        if response is None or response["errorCode"]:
            return response and response["errorCode"]
        return response["topics"][0]["partitions"][0]["errorCode"]

    def delete_group(self, **more: Any) -> Any:
        """Return the error of a DeleteGroups; None while pending."""
        body = {"groupsNames": ["g"]}
        response = self.request("DELETE_GROUPS", 2, body, broker=self.coordinator, **more)
        return response and response["results"][0]["errorCode"]

    def delete_topic(self) -> None:
        """Delete topic `a` and create it again."""
        self.request("DELETE_TOPICS", 5, topicNames=["a"], timeoutMs=1000)
        self.topic("a", 2)

    def step(self, name: str, values: list[int]) -> Any:
        if name == "commit":
            return self.commit(self.coordinator, values[1], values[0])
        return getattr(self, name)(*values)

    def keeper(self) -> int:
        return CONTROLLER if self.is_zookeeper else self.coordinator

    def node(self) -> bool:
        return groups.find_stored(self.cell.tables.of(CONTROLLER), "g") is not None

    def offset(self, broker: int, partition: int = 0, **more: Any) -> Any:
        """Return a fetched offset, or the group's error below -1."""
        request = {"groupId": "g", "topics": [{"name": "a", "partitionIndexes": [partition]}]}
        response = self.request("OFFSET_FETCH", 8, {"groups": [request]}, broker=broker, **more)
        if response is None:
            return None
        (group,) = response["groups"]
        if group["errorCode"]:
            return -100 - group["errorCode"]
        return group["topics"][0]["partitions"][0]["committedOffset"]


def test_any_broker_reads_and_writes_offsets_in_zookeeper() -> None:
    kafka, zookeeper = (Store(storage) for storage in STORAGES)
    assert kafka.commit(kafka.other, 5) == 16
    assert kafka.offset(kafka.other) == -116
    assert zookeeper.commit(zookeeper.other, 5) == 0
    assert [zookeeper.offset(broker) for broker in BROKERS] == [5, 5, 5]
    kept = committed_offsets.offset(zookeeper.cell.tables.of(CONTROLLER), "g", "a", 0)
    assert kept is not None and kept.offset == 5
    for broker in BROKERS:
        assert committed_offsets.partitions_of(zookeeper.cell.tables.of(broker), "g") == []


@pytest.mark.parametrize(("storage", "error"), [("kafka", 22), ("zookeeper", 0)])
def test_zookeeper_accepts_a_zombies_commit(storage: str, error: int) -> None:
    """ZooKeeper does not check generations, so the offset decreases."""
    store = Store(storage)
    assert store.commit(store.coordinator, 10) == 0
    zombie = {"memberId": "gone", "generationIdOrMemberEpoch": 3}
    assert store.commit(store.coordinator, 4, body=zombie) in (error, 25)
    assert store.offset(store.coordinator) == (10 if error else 4)


@pytest.mark.parametrize(("storage", "error"), [("kafka", -114), ("zookeeper", 5)])
def test_offsets_in_zookeeper_need_no_loading(storage: str, error: int) -> None:
    """A new coordinator loads first: 14 COORDINATOR_LOAD_IN_PROGRESS."""
    store = Store(
        storage,
        offsets_topic_num_partitions=1,
        offsets_topic_replication_factor=3,
        brokertwin_coordinator_load_ms=1_000,
    )
    store.tick(1_000)
    replicas = Replicas(bench=store)
    assert store.commit(store.coordinator, 5, id="commit") in (0, None)
    store.tick(500)
    replicas.stop(store.coordinator)
    store.tick(1)
    response = store.request(
        "FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["g"], broker=store.other
    )
    new = response["coordinators"][0]["nodeId"]
    assert new not in (-1, store.coordinator)
    assert store.offset(new) == error
    store.tick(1_000)
    assert store.offset(new) == 5


@pytest.mark.parametrize("storage", STORAGES)
def test_offset_expires_by_its_age(storage: str) -> None:
    store = Store(storage, offsets_retention_minutes=1)
    store.commit(store.coordinator, 5)
    store.tick(3_600_000)
    store.tick(3_600_000)
    assert store.offset(store.coordinator) == -1
    assert not store.node()


@pytest.mark.parametrize("storage", STORAGES)
def test_null_commit_deletes_the_offset_if_the_option_is_on(storage: str) -> None:
    for is_on in (False, True):
        store = Store(storage, brokertwin_null_commit_deletes=is_on)
        assert [store.commit(store.coordinator, 5, partition) for partition in (0, 1)] == [0, 0]
        assert store.commit(store.coordinator, -1) == 0
        keeper = store.keeper()
        offset = committed_offsets.offset(store.cell.tables.of(keeper), "g", "a", 0)
        assert (offset is None) == is_on
        assert store.commit(store.coordinator, -1, 1) == 0
        assert (committed_offsets.partitions_of(store.cell.tables.of(keeper), "g") == []) == is_on


def test_offset_delete_removes_the_node_and_the_last_one_removes_the_group() -> None:
    store = Store("zookeeper")
    for partition in (0, 1):
        store.commit(store.other, 5, partition)
    assert store.delete(0) == 0
    assert (store.offset(store.other, 0), store.offset(store.other, 1)) == (-1, 5)
    assert store.node()
    assert store.delete(1) == 0
    assert not store.node()
    assert store.delete(1) == 69


def test_delete_groups_removes_the_nodes_of_a_group() -> None:
    store = Store("zookeeper")
    store.commit(store.other, 5)
    assert store.delete_group() == 0
    assert (store.offset(store.other), store.node()) == (-1, False)
    assert store.delete_group() == 69


def test_deleting_a_topic_removes_its_nodes() -> None:
    store = Store("zookeeper")
    store.commit(store.other, 5)
    store.delete_topic()
    assert not store.node()


def test_deletions_that_do_not_reach_zookeeper_time_out() -> None:
    store = Store("zookeeper", request_timeout_ms=3_000)
    store.commit(store.coordinator, 5)
    Replicas(bench=store).sever(store.coordinator)
    assert store.delete(0, id="offset") is None
    assert store.delete_group(id="group") is None
    store.tick(3_000)
    found = {name: store.responses[name]["response"] for name in ("offset", "group")}
    assert found["offset"]["errorCode"] == 15
    assert found["group"]["results"] == [{"groupId": "g", "errorCode": 15}]


STEPS = st.one_of(
    st.tuples(st.just("commit"), st.integers(0, 1), st.integers(0, 9)),
    st.tuples(st.just("commit"), st.integers(0, 1), st.just(-1)),
    st.tuples(st.just("delete"), st.integers(0, 1)),
    st.tuples(st.just("delete_group")),
    st.tuples(st.just("delete_topic")),
    st.tuples(st.just("tick"), st.sampled_from([30_000, 600_000])),
)


@pytest.mark.long
@given(st.lists(STEPS, max_size=14))
@settings(max_examples=examples(30), deadline=None)
def test_both_stores_have_the_same_offsets_in_any_history(steps: list[tuple[Any, ...]]) -> None:
    """Only in ZooKeeper, a group without offsets does not exist."""
    more: dict[str, Any] = {"offsets_retention_minutes": 5, "brokertwin_null_commit_deletes": True}
    stores = [Store(storage, **more) for storage in STORAGES]
    for store in stores:
        store.tick(600_000)
    for name, *values in steps:
        is_empty = not stores[1].node()
        errors = [store.step(name, values) for store in stores]
        if name != "tick":
            assert errors[0] == errors[1] or (is_empty and errors == [0, 69])
        for partition in (0, 1):
            assert len({store.offset(store.coordinator, partition) for store in stores}) == 1


def test_request_stays_pending_while_zookeeper_is_unreachable() -> None:
    store = Store("zookeeper", request_timeout_ms=3_000)
    Replicas(bench=store).sever(store.other)
    assert store.commit(store.other, 5, id="commit") is None
    assert store.offset(store.other, id="fetch") is None
    store.tick(5_000)
    found = {name: store.responses[name]["response"] for name in ("commit", "fetch")}
    assert found["commit"]["topics"][0]["partitions"][0]["errorCode"] == 15
    assert found["fetch"]["groups"][0]["errorCode"] == 15


def test_errors_of_the_broker_itself_come_first() -> None:
    store = Store("zookeeper")
    partitions = [{"partitionIndex": each, "committedOffset": 1} for each in (7, 0)]
    topics = [{"name": name, "partitions": partitions} for name in ("a", "nope")]
    body = {"groupId": "g", "memberId": "", "generationIdOrMemberEpoch": -1, "topics": topics}
    response = store.request("OFFSET_COMMIT", 8, body, broker=store.other)
    assert {
        topic["name"]: [(p["partitionIndex"], p["errorCode"]) for p in topic["partitions"]]
        for topic in response["topics"]
    } == {"a": [(7, 3), (0, 0)], "nope": [(7, 3), (0, 3)]}


@pytest.mark.parametrize(("version", "topic"), [(9, {"name": "a"}), (10, {"topicId": "x" * 22})])
def test_pending_request_of_an_old_checkpoint_gets_a_response(
    version: int, topic: dict[str, str]
) -> None:
    partitions = [{"partitionIndex": 0, "errorCode": 3}]
    refused = {"name": "", "topicId": ZERO_UUID, **topic, "partitions": partitions}
    state = msgspec.msgpack.encode({"refused": [refused], "asked": []})
    waiting = PendingRequest("e", 1, 8, 1, RequestHeader(8, version), "c", "User:a", 0, [], state)
    bench = Bench()
    decision = offset_commit.complete(Broker(1, bench.cell.tables, bench.settings, START), waiting)
    items = [{**topic, "partitions": partitions}]
    assert msgspec.to_builtins(decision.response) == {"throttleTimeMs": 0, "topics": items}


@pytest.mark.parametrize("version", [9, 10])
def test_response_names_topics_as_its_version_does(version: int) -> None:
    store = Store("kafka")
    topic, unknown = store.topic("b"), "x" * 22
    called = {"topicId": [topic, unknown]} if version >= 10 else {"name": ["b", "nope"]}
    ((field, values),) = called.items()
    partitions = [{"partitionIndex": 0, "committedOffset": 1}]
    topics = [{field: value, "partitions": partitions} for value in values]
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1, "topics": topics}
    response = store.request("OFFSET_COMMIT", version, body, broker=store.coordinator)
    error = 100 if version >= 10 else 3
    assert response["topics"] == [
        {field: values[1], "partitions": [{"partitionIndex": 0, "errorCode": error}]},
        {field: values[0], "partitions": [{"partitionIndex": 0, "errorCode": 0}]},
    ]
