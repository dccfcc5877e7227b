"""Permissions to join and describe streams groups and create topics."""

from brokertwin.state.access.authorizer import CLASS_NAME, CLUSTER_NAME, Operation, ResourceType
from tests.support.guarded import ADMIN, ALICE, Guarded
from tests.support.streams_groups import (
    CHANGELOG,
    COUNTING,
    GROUP,
    REPARTITION,
    StreamsBench,
    codes,
)

TOPIC_DENIED, GROUP_DENIED = 29, 30
TOPICS = ["foo", REPARTITION, CHANGELOG]


class GuardedStreams(Guarded, StreamsBench):
    """Alice has only the permissions granted by `let`."""

    def __init__(self) -> None:
        super().__init__(authorizer_class_name=CLASS_NAME, super_users=ADMIN)
        self.principal = ALICE

    def let_join(self) -> None:
        self.let(Operation.READ, ResourceType.GROUP, GROUP)
        for name in TOPICS:
            self.let(Operation.DESCRIBE, ResourceType.TOPIC, name)


def test_join_needs_permissions_for_the_group_and_each_topic() -> None:
    bench = GuardedStreams()
    assert bench.join("a", COUNTING)["errorCode"] == GROUP_DENIED
    bench.let(Operation.READ, ResourceType.GROUP, GROUP)
    for name in TOPICS:
        assert bench.join("a", COUNTING)["errorCode"] == TOPIC_DENIED, name
        bench.let(Operation.DESCRIBE, ResourceType.TOPIC, name)
    assert bench.join("a", COUNTING)["errorCode"] == 0


def test_no_internal_topic_is_created_without_permission_for_each() -> None:
    bench = GuardedStreams()
    bench.let_join()
    bench.let(Operation.CREATE, ResourceType.TOPIC, CHANGELOG)
    for epoch in (0, 2):
        response = bench.join("a", COUNTING) if not epoch else bench.beat("a", epoch)
        (status,) = response["status"]
        denied = f"; Unauthorized to CREATE on topics {REPARTITION}."
        assert status["statusDetail"].endswith(denied)
    bench.let(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    assert codes(bench.beat("a", 2)) == [3]
    assert codes(bench.later("a", 2)) == []


def test_describe_needs_permissions_for_the_group_and_each_topic() -> None:
    bench = GuardedStreams()
    bench.principal = ADMIN
    bench.join("a", COUNTING)
    bench.principal = ALICE
    assert bench.describe()["errorCode"] == GROUP_DENIED
    bench.let(Operation.DESCRIBE, ResourceType.GROUP, GROUP)
    refused = bench.describe()
    assert (refused["errorCode"], refused["topology"]) == (TOPIC_DENIED, None)
    for name in TOPICS:
        bench.let(Operation.DESCRIBE, ResourceType.TOPIC, name)
    assert bench.describe()["errorCode"] == 0
