"""OffsetFetch at other brokers than the coordinator (seed 003).

Today the broker returns 16 NOT_COORDINATOR and the client looks up the coordinator. With
`brokertwin.forward.offset.fetch` the broker forwards the request, as Kafka 0.8.1 intended. Clients
need no lookup, but each request has another hop, and an unavailable coordinator delays the
response.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.state.access.authorizer import CLASS_NAME, Operation, PatternType, ResourceType
from tests.support.examples import examples
from tests.support.machine import Bench
from tests.support.replicas import Replicas

BROKERS = (1, 2, 3)
GROUPS = ("g", "h", "k", "never seen")
ALICE, ADMIN = "User:alice", "User:ANONYMOUS"


class Committed(Bench):
    """Three brokers, topics `a` and `b`; all groups but the last have offsets."""

    def __init__(self, is_forwarded: bool = True, **settings: Any) -> None:
        super().__init__(
            BROKERS,
            brokertwin_forward_offset_fetch=is_forwarded,
            offsets_topic_num_partitions=8,
            **settings,
        )
        self.ids = {name: self.topic(name, 2) for name in ("a", "b")}
        self.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["g"])
        response = self.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=list(GROUPS))
        self.coordinators = {each["key"]: each["nodeId"] for each in response["coordinators"]}
        for number, group in enumerate(GROUPS[:-1]):
            self.commit(group, 10 * number)

    def commit(self, group: str, offset: int) -> None:
        """Commit `offset` for partition 0 of both topics."""
        partition = {"partitionIndex": 0, "committedOffset": offset}
        topics = [{"name": name, "partitions": [partition]} for name in self.ids]
        body = {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": topics}
        self.request("OFFSET_COMMIT", 9, body, broker=self.coordinators[group])

    def fetch(self, broker: int, version: int, groups: list[str], topics: Any, **more: Any) -> Any:
        """Return the groups in a broker's response; None while pending."""
        if topics is not None:
            named = "topicId" if version >= 10 else "name"
            place = (lambda name: self.ids.get(name, ZERO)) if version >= 10 else str
            topics = [{named: place(name), "partitionIndexes": [0, 1]} for name in topics]
        requests = [{"groupId": group, "topics": topics} for group in groups]
        body: dict[str, Any] = {"groups": requests} if version >= 8 else requests[0]
        is_stable = more.pop("is_stable", False)
        if version >= 7:
            body["requireStable"] = is_stable
        return self.request("OFFSET_FETCH", version, body, broker=broker, **more)


ZERO = "00000000-0000-0000-0000-0000000000ff"


def test_example_17_every_broker_returns_the_coordinators_response() -> None:
    reached = Counter[str]()
    cluster = Committed()
    assert len(set(cluster.coordinators.values())) > 1, "the groups have several coordinators"

    @given(
        st.integers(1, 10),
        st.sampled_from(BROKERS),
        st.lists(st.sampled_from(GROUPS), min_size=1, max_size=4),
        st.none() | st.lists(st.sampled_from(["a", "b", "nope"]), unique=True),
        st.booleans(),
    )
    @settings(max_examples=examples(100), deadline=None)
    def holds(
        version: int, broker: int, groups: list[str], topics: list[str] | None, is_stable: bool
    ) -> None:
        groups = groups if version >= 8 else groups[:1]
        topics = [] if topics is None and version < 2 else topics
        response = cluster.fetch(broker, version, groups, topics, is_stable=is_stable)
        alone = [
            cluster.fetch(cluster.coordinators[group], version, [group], topics) for group in groups
        ]
        if version >= 8:
            assert response["groups"] == [each["groups"][0] for each in alone]
        else:
            assert [response] == alone
        elsewhere = {cluster.coordinators[group] for group in groups} - {broker}
        reached[f"{len(elsewhere)} elsewhere"] += 1
        reached["all topics" if topics is None else "some topics"] += 1
        reached["before several" if version < 8 else "several"] += 1

    holds()
    wanted = {"0 elsewhere", "1 elsewhere", "2 elsewhere", "all topics", "some topics"}
    assert reached.keys() >= wanted | {"before several", "several"}, reached


def test_example_17_without_forwarding_the_client_finds_the_coordinator() -> None:
    cluster = Committed(is_forwarded=False)
    coordinator = cluster.coordinators["h"]
    for broker in BROKERS:
        (group,) = cluster.fetch(broker, 8, ["h"], ["a"])["groups"]
        assert group["errorCode"] == (0 if broker == coordinator else 16)


@pytest.mark.parametrize(
    ("version", "result"),
    [
        (8, {"groups": [{"groupId": "h", "topics": [], "errorCode": 15}], "throttleTimeMs": 0}),
        (2, {"topics": [], "errorCode": 15}),
    ],
)
def test_unreachable_coordinator_delays_the_response(version: int, result: dict[str, Any]) -> None:
    cluster = Committed(request_timeout_ms=5_000)
    away = cluster.coordinators["h"]
    broker = next(each for each in BROKERS if each != away)
    Replicas(bench=cluster).isolate(away)
    assert cluster.fetch(broker, version, ["h"], ["a"], id="asked") is None
    cluster.tick(4_999)
    assert "asked" not in cluster.responses
    cluster.tick(1)
    assert cluster.responses["asked"]["response"] == result


def test_requested_broker_checks_permissions() -> None:
    cluster = Committed(authorizer_class_name=CLASS_NAME, super_users=ADMIN)
    for kind, name in ((ResourceType.GROUP, "h"), (ResourceType.TOPIC, "a")):
        acl = {"resourceType": kind, "resourceName": name, "principal": ALICE, "host": "*"}
        acl |= {"resourcePatternType": PatternType.LITERAL, "operation": Operation.DESCRIBE}
        acl |= {"permissionType": 3}
        cluster.request("CREATE_ACLS", 3, creations=[acl], principal=ADMIN)
    for broker in BROKERS:
        for topics in (None, ["b", "a"]):
            denied, group = cluster.fetch(broker, 9, ["g", "h"], topics, principal=ALICE)["groups"]
            assert denied["errorCode"] == 30
            reported = {t["name"]: t["partitions"][0]["errorCode"] for t in group["topics"]}
            assert reported == ({"a": 0} if topics is None else {"a": 0, "b": 29})
