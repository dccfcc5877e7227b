"""Who may be in a streams group, see one, and have its internal topics created."""

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
    """Alice may do what `let` lets her."""

    def __init__(self) -> None:
        super().__init__(authorizer_class_name=CLASS_NAME, super_users=ADMIN)
        self.principal = ALICE

    def let_join(self) -> None:
        """Alice may join, and describe what the topology names."""
        self.let(Operation.READ, ResourceType.GROUP, GROUP)
        for name in TOPICS:
            self.let(Operation.DESCRIBE, ResourceType.TOPIC, name)


def test_who_joins_needs_the_group_and_each_topic_of_the_topology() -> None:
    bench = GuardedStreams()
    assert bench.join("a", COUNTING)["errorCode"] == GROUP_DENIED
    bench.let(Operation.READ, ResourceType.GROUP, GROUP)
    for name in TOPICS:
        assert bench.join("a", COUNTING)["errorCode"] == TOPIC_DENIED, name
        bench.let(Operation.DESCRIBE, ResourceType.TOPIC, name)
    assert bench.join("a", COUNTING)["errorCode"] == 0


def test_without_the_right_to_create_each_internal_topic_none_is_created() -> None:
    bench = GuardedStreams()
    bench.let_join()
    bench.let(Operation.CREATE, ResourceType.TOPIC, CHANGELOG)
    for epoch in (0, 2):
        told = bench.join("a", COUNTING) if not epoch else bench.beat("a", epoch)
        (status,) = told["status"]
        denied = f"; Unauthorized to CREATE on topics {REPARTITION}."
        assert status["statusDetail"].endswith(denied)
    bench.let(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    assert codes(bench.beat("a", 2)) == [3]
    assert codes(bench.later("a", 2)) == []


def test_a_group_is_seen_with_the_group_and_each_of_its_topics() -> None:
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
