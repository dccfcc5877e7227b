"""Rules of replication, with synthetic exchanges of one partition."""

from typing import Any

import pytest

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.recordings.history.brokers import (
    APPLY_MS,
    BrokerPresence,
    BrokerSpan,
    BrokerState,
)
from brokertwin.recordings.history.exchange import (
    MIN_ISR,
    KnownFacts,
    RecordedExchange,
    RecordedRequest,
)
from brokertwin.recordings.history.findings import (
    DifferenceCause,
    IsrAgainstRule,
    JoinedBelow,
    LeftEarly,
    WatermarkDifference,
    WatermarkDiffersBriefly,
)
from brokertwin.recordings.history.partition_moments import BUSY_STALE_MS, RACE_MS, STALE_MS
from brokertwin.recordings.history.replica_findings import OpenDifference
from brokertwin.recordings.history.replicas import UNKNOWN, PartitionReplicas
from brokertwin.recordings.observed.watching import ObservedReplication

TOPIC = "AAAAAAAAAAAAAAAAAAAABw"
LEADER, CONSUMER, CONTROLLER = 1, -1, 100


class Cluster:
    """Exchanges of its brokers, one per second; each response is immediate."""

    def __init__(self) -> None:
        self.coarse_logs: dict[int, tuple[int, int]] = {}  # of whole seconds
        self._exchanges: list[RecordedExchange] = []
        self.time = 100_000.0

    @property
    def found(self) -> ObservedReplication:
        logs = {**self.coarse_logs}
        known = KnownFacts(takes_all=True, lag_time_max_ms=30_000, logs=logs)
        return ObservedReplication(self._exchanges, known)

    @property
    def known(self) -> PartitionReplicas:
        return self.found.partitions["orders-0"].known

    def exchange(
        self, api: str, request: Any, response: Any, broker: int = LEADER, **stages: Any
    ) -> None:
        self.time += stages.pop("after", 1000 + RACE_MS)
        line = RecordedRequest(
            place=f"log:{len(self._exchanges)}",
            time=int(self.time),
            end=int(self.time) + 1,
            broker=broker,
            client="c",
            host="",
            connection=stages.pop("connection", "c"),
            api=api,
            version=17,
        )
        times = {"taken": self.time, "made": self.time + 1, **stages}
        self._exchanges.append(RecordedExchange(line, request, response, **times))

    def heartbeat(self, broker: int, **fields: Any) -> None:
        self.exchange("BROKER_HEARTBEAT", {"brokerId": broker, **fields}, {}, CONTROLLER, after=1)

    def create_topic(self, min_isr: int) -> None:
        config = {"name": MIN_ISR, "value": str(min_isr)}
        topics = [{"name": "orders", "configs": [config]}]
        self.exchange("CREATE_TOPICS", {"topics": topics}, {}, CONTROLLER)

    def metadata(self, isr: list[int], **topic: Any) -> None:
        shown = {
            "partitionIndex": 0,
            "leaderId": LEADER,
            "leaderEpoch": 0,
            "replicaNodes": [1, 2, 3],
            "isrNodes": isr,
        }
        fields = {"topicId": TOPIC, "name": "orders", "partitions": [shown], **topic}
        self.exchange("METADATA", {}, {"topics": [fields]})

    def fetch(
        self,
        follower: int,
        offset: int,
        high_watermark: int,
        stages: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        partition = {"partition": 0, "fetchOffset": offset, "currentLeaderEpoch": 0}
        topics = [{"topicId": TOPIC, "partitions": [partition]}]
        stages = dict(stages or {})
        request = {
            "replicaState": {"replicaId": follower},
            "topics": topics,
            "maxWaitMs": stages.pop("max_wait_ms", 500),
        }
        read = {"partitionIndex": 0, "highWatermark": high_watermark, **fields}
        response = {"responses": [{"topicId": TOPIC, "partitions": [read]}]}
        self.exchange("FETCH", request, response, **stages)

    def altered(self, isr: list[int], partition_epoch: int, **more: Any) -> None:
        fields = {"partitionIndex": 0, "leaderId": LEADER, "leaderEpoch": 0, "isr": isr}
        fields |= {"partitionEpoch": partition_epoch, **more}
        response = {"topics": [{"topicId": TOPIC, "partitions": [fields]}]}
        self.exchange("ALTER_PARTITION", {"brokerId": LEADER}, response)


def replicated() -> Cluster:
    """Five records on all three replicas, and a reported high watermark."""
    cluster = Cluster()
    cluster.metadata([1, 2, 3])
    for follower in (2, 3):
        cluster.fetch(follower, 5, 5)
    assert (cluster.known.high_watermark, cluster.known.is_assumed) == (5, False)
    return cluster


def test_diverged_follower_is_not_credited_with_its_fetch_offset() -> None:
    cluster = replicated()
    diverging = {"epoch": 0, "endOffset": 4}
    cluster.fetch(2, 9, -1, divergingEpoch=diverging)
    assert cluster.known.ends[2] == 5
    cluster.fetch(2, 9, -1, errorCode=1)
    assert cluster.known.ends[2] == 5
    cluster.fetch(2, 9, 5)
    assert cluster.known.ends[2] == 9


def test_response_of_a_former_partition_epoch_does_not_change_the_in_sync_set() -> None:
    cluster = replicated()
    cluster.altered([1, 2], 7)
    assert cluster.known.isr == [1, 2]
    for late in (6, 7):
        cluster.altered([1, 2, 3], late)
    cluster.altered([1, 2, 3], 8, errorCode=6)
    assert (cluster.known.isr, cluster.known.partition_epoch) == ([1, 2], 7)
    cluster.altered([1, 2, 3], 8)
    assert (cluster.known.isr, cluster.known.partition_epoch) == ([1, 2, 3], 8)


def test_a_late_response_about_a_deleted_topic_does_not_change_its_successor() -> None:
    cluster = replicated()
    cluster.metadata([1, 2], topicId="AAAAAAAAAAAAAAAAAAAACA")
    cluster.time += STALE_MS
    cluster.metadata([1])
    assert cluster.known.isr == [1, 2]
    assert cluster.known.high_watermark == UNKNOWN


def test_difference_has_the_lagging_followers() -> None:
    cluster = replicated()
    cluster.heartbeat(LEADER)
    cluster.fetch(3, 7, 5)
    cluster.fetch(CONSUMER, 0, 7)
    (found,) = cluster.found.differences
    assert (found.reported, found.derived, found.behind) == (7, 5, {2: 5})


def test_lower_high_watermark_is_explained_by_missing_replicas_only() -> None:
    cluster = replicated()
    cluster.heartbeat(LEADER)
    cluster.fetch(CONSUMER, 0, 4)
    assert [each.reported for each in cluster.found.differences] == [4]
    cluster.altered([1, 2], 1)
    cluster.fetch(CONSUMER, 0, 4)
    assert len(cluster.found.differences) == 1
    assert cluster.known.high_watermark == 4


def test_topic_unknown_to_metadata_has_no_name() -> None:
    cluster = Cluster()
    cluster.metadata([1], topicId=ZERO_UUID)
    cluster.metadata([1], errorCode=29)
    assert not cluster.found.partitions


def test_shutdown_removes_a_broker_from_the_in_sync_set() -> None:
    cluster = replicated()
    cluster.heartbeat(3)
    cluster.heartbeat(3, wantShutDown=True)
    cluster.fetch(2, 7, 5)
    assert cluster.known.high_watermark == 5
    cluster.fetch(CONSUMER, 0, 7)
    assert cluster.known.isr == [1, 2]
    assert cluster.found.differences == []


def test_removal_counts_without_a_reported_high_watermark_after_a_time() -> None:
    cluster = replicated()
    cluster.heartbeat(3, wantShutDown=True)
    for offset in (6, 7, 8):
        cluster.fetch(2, offset, -1)
    assert (cluster.known.isr, cluster.known.high_watermark) == ([1, 2], 8)


def test_heartbeat_with_an_error_shows_nothing() -> None:
    cluster = replicated()
    cluster.heartbeat(LEADER)
    request = {"brokerId": 3, "wantShutDown": True}
    cluster.exchange("BROKER_HEARTBEAT", request, {"errorCode": 41}, CONTROLLER)
    for offset in (6, 7, 8):
        cluster.fetch(2, offset, -1)
    assert (cluster.known.isr, cluster.known.high_watermark) == ([1, 2, 3], 5)


def test_silent_broker_may_have_left() -> None:
    cluster = replicated()
    cluster.heartbeat(3)
    cluster.heartbeat(LEADER)
    for offset in (6, 7, 8):
        cluster.fetch(2, offset, 5)
    assert cluster.known.isr == [1, 2, 3]
    cluster.fetch(CONSUMER, 0, 8)
    cluster.fetch(2, 8, 8)
    cluster.heartbeat(3)
    assert (cluster.known.isr, cluster.known.high_watermark) == ([1, 2], 8)
    assert cluster.found.differences == []


def test_caught_up_follower_holds_the_high_watermark_before_it_joins() -> None:
    """`Partition.maybeIncrementLeaderHW`: `shouldWaitForReplicaToJoinIsr`."""
    cluster = replicated()
    cluster.heartbeat(LEADER)
    cluster.altered([1, 2], 1)
    cluster.fetch(2, 7, 5)
    cluster.fetch(3, 7, 7)
    cluster.fetch(2, 9, 7)
    assert (cluster.known.isr, cluster.known.high_watermark) == ([1, 2], 7)
    cluster.fetch(CONSUMER, 0, 7)
    assert cluster.found.differences == []


def test_silent_follower_that_has_caught_up_holds_the_high_watermark() -> None:
    cluster = replicated()
    cluster.create_topic(min_isr=1)
    cluster.heartbeat(3)
    cluster.altered([1, 2], 1)
    cluster.fetch(2, 7, 5)
    cluster.fetch(3, 7, 7)
    cluster.fetch(2, 9, 7)
    cluster.fetch(CONSUMER, 0, 7)
    cluster.heartbeat(3)
    assert (cluster.known.isr, cluster.known.high_watermark) == ([1, 2], 7)
    assert cluster.found.differences == []


def test_metadata_just_after_a_change_may_be_old() -> None:
    cluster = replicated()
    cluster.metadata([1, 2])
    cluster.metadata([1, 2, 3])
    assert cluster.known.isr == [1, 2]
    cluster.time += STALE_MS
    cluster.metadata([1, 2, 3])
    assert cluster.known.isr == [1, 2, 3]


def test_busy_broker_may_not_know_a_requested_change_for_longer() -> None:
    cluster = replicated()
    cluster.altered([1, 2], 1)
    cluster.time += STALE_MS
    cluster.metadata([1, 2, 3])
    assert cluster.known.isr == [1, 2]
    cluster.time += BUSY_STALE_MS
    cluster.metadata([1, 2, 3])
    assert cluster.known.isr == [1, 2, 3]


def test_controller_removes_a_silent_broker_without_a_request() -> None:
    cluster = replicated()
    cluster.heartbeat(3)
    cluster.altered([1, 2], 1)
    cluster.altered([1, 2, 3], 2)
    cluster.time += STALE_MS
    cluster.heartbeat(LEADER)
    cluster.metadata([1])
    assert cluster.known.isr == [1, 2, 3], "broker 2 was not silent"
    cluster.metadata([1, 2])
    assert cluster.known.isr == [1, 2]


def test_leader_may_learn_later_that_a_broker_has_left() -> None:
    cluster = replicated()
    cluster.create_topic(min_isr=1)
    cluster.heartbeat(LEADER)
    cluster.fetch(2, 7, 5)
    cluster.metadata([1, 2])
    cluster.fetch(CONSUMER, 0, 5)
    assert [each.why for each in cluster.found.differences] == [DifferenceCause.RACE]
    cluster.time += APPLY_MS
    cluster.fetch(CONSUMER, 0, 5)
    assert [each.why for each in cluster.found.differences] == [
        DifferenceCause.RACE,
        DifferenceCause.UNEXPLAINED,
    ]


def test_requested_change_ends_with_its_leader_epoch() -> None:
    cluster = replicated()
    cluster.altered([1, 2], 1)
    cluster.time += STALE_MS
    cluster.metadata([1, 2, 3], partitions=[shown(2, 1)])
    assert cluster.known.isr == [1, 2, 3]


def test_follower_may_leave_before_its_fetch_counts() -> None:
    def whys(busy_ms: float) -> list[object]:
        cluster = replicated()
        cluster.fetch(3, 5, 5, {"busy_ms": busy_ms})
        part = {"partitionIndex": 0, "leaderEpoch": 0, "newIsr": [1, 2]}
        request = {"brokerId": LEADER, "topics": [{"topicId": TOPIC, "partitions": [part]}]}
        stages = {"broker": CONTROLLER, "after": 20}
        cluster.exchange("ALTER_PARTITION", request, {"topics": []}, **stages)
        return [each.why for each in cluster.found.isr_changes]

    assert whys(1) == [LeftEarly(20)]
    assert whys(30) == [None]


def test_request_of_a_former_leader_adds_no_replica() -> None:
    cluster = replicated()
    cluster.altered([1, 2], 1)
    part = {"partitionIndex": 0, "leaderEpoch": -1, "newIsr": [1, 2, 3]}
    request = {"brokerId": 3, "topics": [{"topicId": TOPIC, "partitions": [part]}]}
    cluster.exchange("ALTER_PARTITION", request, {"topics": []}, CONTROLLER)
    assert cluster.known.joining == []


def test_fetch_whose_connection_ended_may_explain_a_high_watermark() -> None:
    cluster = replicated()
    cluster.heartbeat(LEADER)
    cluster.fetch(CONSUMER, 0, 6)
    cluster.fetch(2, 6, 5, {"connection": "d"})
    cluster.fetch(3, 6, 6, {"connection": "d"})
    assert [each.why for each in cluster.found.differences] == [DifferenceCause.CUT]
    cluster.fetch(2, 6, 6)
    cluster.fetch(3, 6, 6)
    assert [each.why for each in cluster.found.differences] == [DifferenceCause.UNEXPLAINED]


def test_busy_broker_explains_a_longer_race() -> None:
    def unexplained(busy_ms: float) -> list[str]:
        cluster = replicated()
        cluster.heartbeat(LEADER)
        cluster.fetch(CONSUMER, 0, 6, {"busy_ms": busy_ms})
        cluster.fetch(2, 6, 5, {"after": 20})
        cluster.fetch(3, 6, 6, {"after": 20})
        return [
            each.why
            for each in cluster.found.differences
            if each.why is DifferenceCause.UNEXPLAINED
        ]

    assert unexplained(1) == [DifferenceCause.UNEXPLAINED]
    assert unexplained(30) == []


@pytest.mark.parametrize(
    ("max_wait_ms", "is_explained"), [(500, False), (2_500, False), (5_000, True)]
)
def test_fetch_that_waits_explains_a_high_watermark_when_its_line_is_written(
    max_wait_ms: int, is_explained: bool
) -> None:
    """The line may come twice as long after it as replica.fetch.wait.max.ms of each fetch."""
    cluster = replicated()
    cluster.heartbeat(LEADER)
    cluster.fetch(CONSUMER, 0, 6)
    waits = {"taken": cluster.time + 2, "has_waited": True, "max_wait_ms": max_wait_ms}
    for _ in range(6):
        cluster.fetch(CONSUMER, 0, 6)
    for follower in (2, 3):
        cluster.fetch(follower, 6, 6, {**waits, "after": 1})
    whys = {each.why for each in cluster.found.differences}
    assert (DifferenceCause.UNEXPLAINED not in whys) == is_explained


@pytest.mark.parametrize("is_away", [False, True])
def test_follower_that_a_growing_log_shows_to_be_away_explains_a_high_watermark(
    is_away: bool,
) -> None:
    known = KnownFacts(takes_all=True)
    known.note_fetch("1 2", "c", 90_000)
    if is_away:
        spans = (BrokerState.ACTIVE, 0, 20_000), (BrokerState.FENCED, 80_000, 90_000)
        known.presences[2] = BrokerPresence([BrokerSpan(*each) for each in spans])
    found = WatermarkDifference(
        50_000, "orders", 0, 7, 5, DifferenceCause.UNEXPLAINED, "log:0", LEADER, {2: 5}
    )
    line = RecordedRequest("log:0", 50_000, 50_001, LEADER, "c", "", "c", "FETCH", 17)
    verdict = OpenDifference(line, found, RACE_MS, [], {}).verdict(known)
    assert isinstance(verdict, WatermarkDiffersBriefly) == is_away


@pytest.mark.parametrize("is_precise", [True, False])
@pytest.mark.parametrize(("after_ms", "is_against_rule"), [(5, False), (50, True)])
def test_follower_may_join_by_a_fetch_that_is_logged_late(
    after_ms: int, is_against_rule: bool, is_precise: bool
) -> None:
    cluster = replicated()
    cluster.coarse_logs = {} if is_precise else {9: (100_000, 200_000)}
    cluster.altered([1, 2], 1)
    cluster.fetch(2, 9, 9)
    part = {"partitionIndex": 0, "leaderEpoch": 0, "newIsr": [1, 2, 3]}
    request = {"brokerId": LEADER, "topics": [{"topicId": TOPIC, "partitions": [part]}]}
    cluster.exchange("ALTER_PARTITION", request, {"topics": []}, CONTROLLER)
    cluster.fetch(3, 9, 9, {"after": after_ms})
    joined = [each.why for each in cluster.found.isr_changes if each.is_added]
    assert joined == [JoinedBelow(5) if is_against_rule else None]
    assert len(cluster.found.found(IsrAgainstRule)) == (is_against_rule and is_precise)


def test_refused_request_adds_no_replica() -> None:
    cluster = replicated()
    cluster.altered([1, 2], 1)
    part = {"partitionIndex": 0, "leaderEpoch": 0, "newIsr": [1, 2, 3]}
    request = {"brokerId": LEADER, "topics": [{"topicId": TOPIC, "partitions": [part]}]}
    refused = {"partitionIndex": 0, "errorCode": Error.INELIGIBLE_REPLICA}
    response = {"topics": [{"topicId": TOPIC, "partitions": [refused]}]}
    cluster.exchange("ALTER_PARTITION", request, response, CONTROLLER)
    assert cluster.known.joining == []


def test_fetch_refused_for_a_new_leader_shows_the_followers_log_end() -> None:
    cluster = replicated()
    cluster.fetch(2, 9, -1, errorCode=Error.NOT_LEADER_OR_FOLLOWER)
    assert cluster.known.ends[2] == 9


def new_leader(leader_epoch: int, broker: int) -> Cluster:
    """Broker 2 leads five replicated records after another leader, whose log may be missing."""
    cluster = replicated()
    if broker != LEADER:
        cluster.metadata([1, 2, 3], partitions=[shown(broker, 1)])
    cluster.metadata([1, 2, 3], partitions=[shown(2, leader_epoch)])
    return cluster


def shown(leader: int, leader_epoch: int) -> dict[str, Any]:
    part = {"partitionIndex": 0, "leaderId": leader, "leaderEpoch": leader_epoch}
    return part | {"replicaNodes": [1, 2, 3], "isrNodes": [1, 2, 3]}


def test_new_leader_starts_with_the_high_watermark_it_was_sent() -> None:
    assert new_leader(1, LEADER).known.high_watermark == 5


def test_leader_without_a_log_leaves_the_next_high_watermark_unknown() -> None:
    assert new_leader(2, broker=3).known.high_watermark == UNKNOWN
    assert new_leader(2, LEADER).known.high_watermark == UNKNOWN, "broker 3 may have led"


def test_high_watermark_without_the_controllers_log_is_no_difference() -> None:
    cluster = replicated()
    cluster.fetch(CONSUMER, 0, 4)
    cluster.fetch(CONSUMER, 0, 6)
    assert cluster.found.differences == []


@pytest.mark.parametrize(("follower", "is_follower"), [(0, True), (2, True), (-1, False)])
def test_fetch_of_a_replica_is_a_fact_also_of_broker_0(follower: int, is_follower: bool) -> None:
    cluster, facts = Cluster(), KnownFacts()
    cluster.fetch(follower, 5, 5)
    facts.learn(cluster._exchanges[0])
    assert (facts.last_fetch(LEADER, follower, "c") == cluster.time) is is_follower
