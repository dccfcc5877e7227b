"""Eligible leader replicas (KIP-966)."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster import topics
from brokertwin.state.replication.eligible import eligible_after, last_known_leader
from brokertwin.state.replication.isr_controller import RECOVERED, RECOVERING
from tests.support.machine import CLUSTER, Bench
from tests.support.replicas import BROKERS, FEATURES, Replicas

NOBODY = -1
UNCLEAN = 1
PAIR = (1, 2)
BROKER = 4
"""A resource type."""


def pair(**settings: Any) -> Replicas:
    """A topic on two brokers with min.insync.replicas=2, and two records."""
    replicas = Replicas(PAIR, Bench(BROKERS, **settings), min_insync_replicas="2")
    assert replicas.produce(count=2)["errorCode"] == 0
    return replicas


def kill(replicas: Replicas, *brokers: int) -> None:
    for broker in brokers:
        replicas.kill(broker)
        replicas.end_sessions()


def elect(replicas: Replicas, election_type: int) -> int:
    body = {"electionType": election_type, "topic": "orders", "partitions": [0], "timeoutMs": 1000}
    response = replicas.bench.request("ELECT_LEADERS", 2, body, broker=3)
    return int(response["replicaElectionResults"][0]["partitionResult"][0]["errorCode"])


@pytest.mark.parametrize(
    ("before", "left", "in_sync", "min_in_sync", "ended", "found"),
    [
        ([], [1, 2, 3], [1, 2], 2, None, []),
        ([], [1, 2], [1], 2, None, [2]),
        ([], [1, 2], [1], 1, None, []),
        ([2], [1], [], 2, None, [1, 2]),
        ([2, 3], [1], [1, 2], 3, None, [3]),
        ([2, 3], [1], [1, 2], 2, None, []),
        ([2, 3], [1], [1], 2, 3, [2]),
        ([], [1, 2], [1], 2, 2, []),
        ([17], [3, 2], [], 2, None, [17, 2, 3]),
    ],
)
def test_eligible_replicas_after_a_change(
    before: list[int],
    left: list[int],
    in_sync: list[int],
    min_in_sync: int,
    ended: int | None,
    found: list[int],
) -> None:
    """The last case is in the order of Java's 16 buckets."""
    assert eligible_after(before, left, in_sync, min_in_sync, ended) == found


def test_last_known_leader_counts_if_no_other_replica_may_lead() -> None:
    assert last_known_leader([], [], [2]) == 2
    assert last_known_leader([1], [], [2]) is None
    assert last_known_leader([], [1], [2]) is None
    assert last_known_leader([], [], []) is None


def test_stopped_replica_is_eligible_with_too_few_in_sync() -> None:
    replicas = Replicas(min_insync_replicas="2")
    replicas.stop(3)
    assert replicas.eligible() == (1, [1, 2], [], []), "two in-sync replicas are enough"
    replicas.stop(2)
    assert replicas.eligible() == (1, [1], [2], []), "a replica that left before may lack records"


def test_in_sync_replica_is_elected_before_an_eligible_one() -> None:
    """Broker 1 is eligible, alive, and first of the assignment, but may not lead yet."""
    replicas = Replicas(min_insync_replicas="3")
    replicas.isolate(1)
    replicas.stop(1)
    assert replicas.eligible() == (2, [2, 3], [1], [])
    replicas.start(1)
    assert replicas.eligible() == (2, [2, 3], [1], [])
    replicas.stop(2)
    assert replicas.eligible() == (3, [3], [1, 2], [])
    assert elect(replicas, 0) == Error.PREFERRED_LEADER_NOT_AVAILABLE


def test_lagging_replica_is_eligible() -> None:
    replicas = pair()
    replicas.leave_only_the_leader()
    assert replicas.eligible() == (1, [1], [2], [])
    assert replicas.watermarks_of(1) == (2, 3), "a record of the leader alone is not committed"


def test_returning_replica_is_in_sync_and_none_is_eligible() -> None:
    replicas = pair()
    replicas.stop(2)
    replicas.start(2)
    assert replicas.eligible() == (1, [1, 2], [], [])


def test_eligible_replica_leads_with_an_empty_in_sync_set() -> None:
    replicas = pair()
    replicas.stop(2)
    assert replicas.produce()["errorCode"] == Error.NOT_ENOUGH_REPLICAS
    assert replicas.produce(acks=1)["baseOffset"] == 2
    replicas.stop(1)
    assert replicas.eligible() == (NOBODY, [], [1, 2], [1])
    replicas.start(2)
    assert replicas.eligible() == (2, [2], [1], [])
    assert replicas.partition().leader_recovery_state == RECOVERED, "no committed record is lost"
    assert replicas.watermarks_of(2) == (2, 2)
    replicas.start(1)
    assert replicas.eligible() == (2, [1, 2], [], [])
    assert replicas.watermarks_of(1) == replicas.watermarks_of(2) == (2, 2)


def test_leader_alone_stops_and_leads_again() -> None:
    replicas = Replicas((1,))
    replicas.stop(1)
    assert replicas.eligible() == (NOBODY, [], [1], [1])
    replicas.start(1)
    assert replicas.eligible() == (1, [1], [], [])
    assert replicas.partition().leader_recovery_state == RECOVERED


def test_live_eligible_replica_is_elected_at_once() -> None:
    replicas = pair()
    replicas.leave_only_the_leader()
    replicas.stop(1)
    assert replicas.eligible() == (2, [2], [1], [])


def test_killed_replica_is_eligible_until_it_registers() -> None:
    """The controller learns of the unclean end from the registration."""
    replicas = pair()
    kill(replicas, 2)
    assert replicas.eligible() == (1, [1], [2], [])
    replicas.isolate(2)
    replicas.start(2)
    assert replicas.eligible() == (1, [1], [], [])
    replicas.stop(1)
    assert replicas.eligible() == (NOBODY, [], [1], [1]), "2 is alive, but may have lost records"


def test_killed_broker_may_shut_down_cleanly_later() -> None:
    replicas = pair()
    kill(replicas, 2)
    replicas.start(2)
    replicas.stop(2)
    replicas.stop(1)
    replicas.start(2)
    assert replicas.eligible() == (2, [2], [1], [])


def test_last_known_leader_leads_if_no_replica_is_eligible() -> None:
    replicas = pair()
    kill(replicas, 2, 1)
    assert replicas.eligible() == (NOBODY, [], [1, 2], [1])
    replicas.start(2)
    assert replicas.eligible() == (NOBODY, [], [1], [1]), "1 may still return with all records"
    replicas.isolate(1)
    replicas.start(1)
    assert replicas.eligible() == (1, [1], [], [])
    assert replicas.partition().leader_recovery_state == RECOVERING
    replicas.rejoin(1)
    assert replicas.eligible() == (1, [1, 2], [], [])
    assert replicas.partition().leader_recovery_state == RECOVERED


def test_last_known_leader_leads_as_soon_as_no_other_replica_may() -> None:
    replicas = pair()
    kill(replicas, 2, 1)
    replicas.start(1)
    assert replicas.eligible() == (NOBODY, [], [2], [1]), "2 may still return with all records"
    replicas.start(2)
    assert replicas.leader() == (1, 2)


def test_unclean_election_leaves_no_eligible_replica() -> None:
    replicas = pair()
    kill(replicas, 2, 1)
    assert elect(replicas, UNCLEAN) == Error.ELIGIBLE_LEADERS_NOT_AVAILABLE
    replicas.isolate(2)
    replicas.start(2)
    assert elect(replicas, 0) == Error.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(replicas, UNCLEAN) == Error.NONE
    assert replicas.eligible() == (2, [2], [], [])
    assert replicas.partition().leader_recovery_state == RECOVERING


def test_changed_min_insync_replicas_clears_eligible_replicas() -> None:
    replicas = pair()
    replicas.stop(2)
    replicas.produce(acks=1)
    epoch = replicas.partition().partition_epoch
    replicas.alter_config("retention.ms", "1000")
    assert replicas.eligible() == (1, [1], [2], [])
    replicas.alter_config("min.insync.replicas", "2")
    assert replicas.eligible() == (1, [1], [2], []), "the value is the same"
    replicas.alter_config("min.insync.replicas", "1")
    assert replicas.eligible() == (1, [1], [], [])
    assert replicas.partition().partition_epoch == epoch + 1
    assert replicas.watermarks_of(1) == (2, 3), "as in Kafka it moves with the next append"
    replicas.produce(acks=1)
    assert replicas.watermarks_of(1) == (4, 4)


def of_brokers(replicas: Replicas, broker: str, value: str | None) -> tuple[int, str | None]:
    """Response to a min.insync.replicas of a broker, or of all; None removes it."""
    change = {"name": "min.insync.replicas", "configOperation": int(value is None), "value": value}
    resource = {"resourceType": BROKER, "resourceName": broker, "configs": [change]}
    body = {"resources": [resource]}
    (response,) = replicas.bench.request("INCREMENTAL_ALTER_CONFIGS", 1, body)["responses"]
    return response["errorCode"], response["errorMessage"]


@pytest.mark.parametrize("value", ["1", "2"])
def test_changed_cluster_min_insync_replicas_clears_eligible_replicas(value: str) -> None:
    """Even if the value is the same, or the topic has its own: as in Kafka."""
    replicas = pair(min_insync_replicas=2)
    replicas.stop(2)
    assert replicas.eligible() == (1, [1], [2], [])
    assert of_brokers(replicas, "", value) == (Error.NONE, None)
    assert replicas.eligible() == (1, [1], [], [])


def test_cluster_min_insync_replicas_cannot_be_removed_with_elr() -> None:
    text = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    assert of_brokers(pair(), "1", "2") == (Error.INVALID_CONFIG, text)
    text = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    assert of_brokers(pair(), "", None) == (Error.INVALID_CONFIG, text)
    before = pair(brokertwin_eligible_leader_replicas_version=0)
    assert of_brokers(before, "1", "2") == (Error.NONE, None)
    assert of_brokers(before, "", None) == (Error.NONE, None)


def test_reassignment_to_an_eligible_replica_makes_it_in_sync() -> None:
    replicas = pair()
    replicas.leave_only_the_leader()
    event = {"id": "move", "cluster": "bench", "kind": "move-leader", "time": replicas.bench.now}
    move = {"topic": "orders", "partition": 0, "leader": 2}
    replicas.bench.handle({**event, "move": move})
    assert replicas.eligible() == (2, [2], [], [])


def test_replication_factor_is_that_of_the_first_partition() -> None:
    """As in Kafka: min.insync.replicas=3, the first partition has two replicas."""
    replicas = Replicas(PAIR, min_insync_replicas="3")
    added = {"name": "orders", "count": 2, "assignments": [{"brokerIds": [1, 2]}]}
    replicas.bench.request("CREATE_PARTITIONS", 3, {"topics": [added], "timeoutMs": 1000})
    partitions = [{"partitionIndex": 1, "replicas": [1, 2, 3]}]
    body = {"topics": [{"name": "orders", "partitions": partitions}], "timeoutMs": 1000}
    replicas.bench.request("ALTER_PARTITION_REASSIGNMENTS", 1, body)
    replicas.stop(3)
    body = {"topics": [{"name": "orders"}]}
    response = replicas.bench.request("DESCRIBE_TOPIC_PARTITIONS", 0, body)
    partition = response["topics"][0]["partitions"][1]
    assert (partition["isrNodes"], partition["eligibleLeaderReplicas"]) == ([1, 2], [])


def reassign(replicas: Replicas, wanted: list[int], broker: int = 1) -> int:
    body = {"timeoutMs": 1000, "name": "orders", "partitionIndex": 0, "replicas": wanted}
    response = replicas.bench.request("ALTER_PARTITION_REASSIGNMENTS", 1, body, broker=broker)
    return int(response["responses"][0]["partitions"][0]["errorCode"])


def test_former_replica_may_be_eligible_as_in_kafka() -> None:
    """Responses of 4.3.1; the next change uses the current replicas."""
    replicas = pair()
    assert reassign(replicas, [1]) == Error.NONE
    assert replicas.eligible() == (1, [1], [2], [])
    replicas.stop(1)
    assert replicas.eligible() == (NOBODY, [], [1, 2], [1])
    assert reassign(replicas, [1, 2], broker=3) == Error.UNKNOWN_SERVER_ERROR
    replicas.start(1)
    assert reassign(replicas, [1, 2]) == Error.NONE
    assert replicas.eligible() == (1, [1, 2], [], [])


def test_kafka_4_3_1_elects_an_eligible_replica_that_returns_with_an_empty_log() -> None:
    """Records acknowledged by three brokers are lost, as in a real cluster."""
    replicas = Replicas(min_insync_replicas="3")
    replicas.bench.is_checked = False
    assert replicas.produce()["errorCode"] == Error.NONE
    assert reassign(replicas, [1, 2]) == Error.NONE
    assert replicas.eligible() == (1, [1, 2], [3], [])
    replicas.stop(2)
    replicas.isolate(3)
    assert reassign(replicas, [1, 2, 3]) == Error.NONE
    replicas.stop(1)
    assert replicas.eligible() == (3, [3], [1, 2], [])
    assert replicas.watermarks_of(3) == (0, 0)


@pytest.mark.parametrize("version", [0, 1])
def test_without_the_feature_the_last_replica_stays_in_sync(version: int) -> None:
    replicas = pair(brokertwin_eligible_leader_replicas_version=version)
    kill(replicas, 2, 1)
    replicas.start(2)
    before = replicas.eligible()
    replicas.start(1)
    if version:
        assert before == (NOBODY, [], [1], [1])
        assert replicas.partition().leader_recovery_state == RECOVERED, "2 is in sync again"
    else:
        assert before == (NOBODY, [1], [], [])
        assert replicas.leader() == (1, 2)
    assert replicas.eligible() == (1, [1, 2], [], [])


@pytest.mark.parametrize(
    ("version", "previous", "is_eligible"),
    [(3, 0, True), (3, 7, False), (3, -1, False), (2, 0, False)],
)
def test_registration_shows_how_the_broker_ended(
    version: int, previous: int, is_eligible: bool
) -> None:
    """It has the epoch of the last clean shutdown; broker 2 was in epoch 0."""
    replicas = pair()
    replicas.stop(2)
    body = {
        "brokerId": 2,
        "clusterId": topics.derive_uuid("cluster", CLUSTER),
        "incarnationId": "incarnationincarnation",
        "features": FEATURES,
        "logDirs": ["dirdirdirdirdirdirdird"],
        "previousBrokerEpoch": previous,
    }
    assert replicas.bench.request("BROKER_REGISTRATION", version, body)["errorCode"] == 0
    assert replicas.eligible() == (1, [1], [2] if is_eligible else [], [])


@pytest.mark.parametrize("version", [0, 1])
def test_api_versions_has_the_feature(version: int) -> None:
    bench = Bench(brokertwin_eligible_leader_replicas_version=version)
    response = bench.request("API_VERSIONS", 4, clientSoftwareName="a", clientSoftwareVersion="1")
    levels = {each["name"]: each["maxVersionLevel"] for each in response["finalizedFeatures"]}
    assert levels.get("eligible.leader.replicas.version") == (version or None)
    supported = {each["name"]: each["maxVersion"] for each in response["supportedFeatures"]}
    assert supported["eligible.leader.replicas.version"] == 1
