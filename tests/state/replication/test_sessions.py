"""Sessions of brokers: killed, severed, or registered by a request without heartbeats."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cell import overview
from brokertwin.state.cluster import topics
from brokertwin.state.core import pending
from brokertwin.state.replication.copying import IN_SYNC_TIMER
from brokertwin.state.transactions.transactions import TransactionState
from tests.support.coordinators import TRANSACTIONS, Coordinators
from tests.support.machine import CLUSTER, RefusedError
from tests.support.replicas import BROKERS, FEATURES, TOPIC, Replicas

SESSION_MS = 9000
BEAT_MS = 2000
INCARNATION, DIRECTORY = "incarnationincarnation", "dirdirdirdirdirdirdird"


@pytest.fixture
def replicas() -> Replicas:
    """`orders` on brokers [1, 2, 3] with leader 1 and three records."""
    made = Replicas(min_insync_replicas="1")
    made.produce(count=3)
    return made


def states(replicas: Replicas) -> list[str]:
    rows = overview.brokers([replicas.bench.cell.tables], BROKERS)
    return [str(row["state"]) for row in rows]


def test_killed_leader_leads_until_its_session_ends(replicas: Replicas) -> None:
    replicas.kill(1)
    replicas.bench.tick(SESSION_MS)
    assert (replicas.leader(), replicas.isr()) == ((1, 0), [1, 2, 3])
    with pytest.raises(RefusedError, match="broker is stopped"):
        replicas.produce(broker=1)
    assert replicas.produce(broker=2)["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER
    replicas.bench.tick(1)
    assert (replicas.leader(), replicas.isr()) == ((2, 1), [2, 3])
    assert replicas.produce()["errorCode"] == Error.NONE


def check_time(replicas: Replicas, leader: int) -> int | None:
    """When a leader checks its in-sync set, in ms since 1970; None without a timer."""
    return pending.timer_of(replicas.bench.cell.tables.pending, f"{IN_SYNC_TIMER}/{leader}/")


def test_severed_leader_with_a_pending_change_has_no_timer(replicas: Replicas) -> None:
    replicas.sever(1)
    replicas.produce(acks=1, broker=1)
    assert check_time(replicas, 1) is not None
    replicas.bench.tick(46_000)
    assert check_time(replicas, 1) is None
    replicas.rejoin(1)
    assert set(replicas.isr()) == {1, 2, 3}


def test_leader_continues_to_check_for_lagging_replicas(replicas: Replicas) -> None:
    replicas.isolate(2)
    replicas.produce(acks=1)
    replicas.bench.tick(20_000)
    replicas.isolate(3)
    replicas.produce(acks=1)
    replicas.bench.tick(26_000)
    assert (replicas.isr(), check_time(replicas, 1) is None) == ([1, 3], False)
    replicas.bench.tick(20_000)
    assert (replicas.isr(), check_time(replicas, 1)) == ([1], None)


def test_session_timeout_is_configurable(replicas: Replicas) -> None:
    replicas.bench.settings.broker_settings.broker_session_timeout_ms = 20_000
    replicas.kill(1)
    replicas.bench.tick(20_000)
    assert replicas.leader() == (1, 0)
    replicas.bench.tick(1)
    assert replicas.leader() == (2, 1)


def test_early_start_registers_after_the_session(
    replicas: Replicas,
) -> None:
    replicas.kill(2)
    replicas.start(2)
    assert states(replicas) == ["running", "starting", "running"]
    replicas.bench.tick(SESSION_MS)
    with pytest.raises(RefusedError, match="broker is stopped"):
        replicas.produce(broker=2)
    rows = replicas.bench.tick(1)
    assert states(replicas) == ["running"] * 3
    assert (replicas.epoch(2), sorted(replicas.isr())) == (1, [1, 2, 3])
    altered = [entry["record"] for entry in replicas.bench.records_of(rows)]
    kinds = ("BrokerRegistrationChanged", "BrokerRegistered")
    found = [(each["type"], each["isFenced"]) for each in altered if each["type"] in kinds]
    assert list(dict.fromkeys(found)) == [(kinds[0], True), (kinds[1], False)]


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_starting_broker_can_be_stopped(replicas: Replicas, verb: str) -> None:
    replicas.kill(2)
    replicas.start(2)
    getattr(replicas, verb)(2)
    replicas.end_sessions()
    assert states(replicas)[1] == "stopped"


def test_clean_shutdown_has_no_session(replicas: Replicas) -> None:
    replicas.stop(1)
    assert replicas.leader() == (2, 1)
    assert replicas.bench.cell.tables.pending.keys("timer/session/") == []
    replicas.start(1)
    assert replicas.epoch(1) == 1


def test_severed_leader_continues_and_its_appends_are_truncated(replicas: Replicas) -> None:
    replicas.sever(1)
    replicas.end_sessions()
    assert (replicas.leader(), replicas.isr()) == ((2, 1), [2, 3])
    assert replicas.produce(1, count=2, broker=1, crc=7)["baseOffset"] == 3
    assert replicas.produce(count=1, crc=8)["baseOffset"] == 3
    assert replicas.watermarks() == {1: (3, 5), 2: (4, 4), 3: (4, 4)}
    replicas.rejoin(1)
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (4, 4))
    assert (replicas.leader(), sorted(replicas.isr())) == ((2, 1), [1, 2, 3])
    assert replicas.epoch(1) == 0, "it is the same process"
    refused = replicas.produce(1, broker=1)
    assert refused["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER


def test_rejoin_within_the_session_changes_nothing(replicas: Replicas) -> None:
    replicas.sever(1)
    replicas.bench.tick(SESSION_MS)
    replicas.rejoin(1)
    replicas.end_sessions()
    assert (replicas.leader(), replicas.isr()) == ((1, 0), [1, 2, 3])


def test_severed_broker_reads_missed_metadata_later(replicas: Replicas) -> None:
    replicas.sever(1)
    topic = {"name": "new", "numPartitions": 1, "replicationFactor": 1}
    topic["assignments"] = []
    replicas.bench.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=1000, broker=2)
    request = {"topics": [{"name": "new"}], "allowAutoTopicCreation": False}

    def error(broker: int) -> int:
        response = replicas.bench.request("METADATA", 12, request, broker=broker)
        return int(response["topics"][0]["errorCode"])

    assert [error(broker) for broker in BROKERS] == [3, 0, 0]
    replicas.rejoin(1)
    assert error(1) == 0


def test_requests_of_a_severed_leader_reach_the_controller_when_it_rejoins(
    replicas: Replicas,
) -> None:
    replicas.bench.settings.broker_settings.broker_session_timeout_ms = 100_000
    replicas.sever(1)
    replicas.isolate(3)
    assert replicas.produce(timeout_ms=80_000) is None
    replicas.bench.tick(60_000)
    assert replicas.partition().isr == [1, 2, 3], "its AlterPartition is waiting"
    replicas.rejoin(1)
    assert replicas.isr() == [1, 2]
    assert replicas.late_errors() == [Error.NONE]


def test_severed_broker_cannot_forward_requests(replicas: Replicas) -> None:
    replicas.sever(2)
    body = {"topics": [{"name": "new", "numPartitions": 1}], "timeoutMs": 1000}
    with pytest.raises(RefusedError, match="broker 2 does not reach the controller"):
        replicas.bench.request("CREATE_TOPICS", 7, body, broker=2)
    assert replicas.bench.request("CREATE_TOPICS", 7, body, broker=1)


def test_stopped_severed_broker_starts_after_it_rejoins(replicas: Replicas) -> None:
    replicas.sever(1)
    replicas.stop(1)
    assert replicas.leader() == (1, 0), "it could not notify the controller"
    replicas.end_sessions()
    assert replicas.leader() == (2, 1)
    replicas.start(1)
    assert states(replicas)[0] == "starting"
    replicas.rejoin(1)
    assert states(replicas)[0] == "running"
    assert (replicas.epoch(1), sorted(replicas.isr())) == (1, [1, 2, 3])


def test_severed_broker_does_not_know_that_it_was_elected(replicas: Replicas) -> None:
    replicas.sever(2)
    replicas.stop(1)
    assert replicas.leader() == (2, 1), "the controller assumes that it leads"
    assert replicas.produce(1, broker=2)["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER
    replicas.stop(3)
    replicas.start(3)
    replicas.end_sessions()
    replicas.rejoin(2)
    assert replicas.produce()["errorCode"] == Error.NONE


def test_markers_for_a_killed_leader_are_written_by_the_next_one() -> None:
    alone = {"transaction.state.log.replication.factor": "1"}
    brokers = Coordinators(given=alone)
    coordinator = brokers.coordinator(TRANSACTIONS)
    elect = brokers.replicas
    leader = next(each for each in BROKERS if each != coordinator)
    while elect.partition().leader != leader:
        elect.stop(elect.partition().leader)
        elect.start(*BROKERS)
    held = brokers.init()
    assert held is not None
    who = {"producerId": held["producerId"], "producerEpoch": held["producerEpoch"]}
    topic = {"name": TOPIC, "partitions": [0]}
    body = {
        "v3AndBelowTransactionalId": "t",
        "v3AndBelowProducerId": who["producerId"],
        "v3AndBelowProducerEpoch": who["producerEpoch"],
        "v3AndBelowTopics": [topic],
    }
    brokers.send("ADD_PARTITIONS_TO_TXN", 3, body, coordinator)
    elect.kill(leader)
    end = {"transactionalId": "t", **who, "committed": True}
    assert brokers.response(brokers.send("END_TXN", 4, end, coordinator))["errorCode"] == 0
    end_offset = elect.log(leader).log_end_offset
    elect.bench.tick(SESSION_MS)
    assert brokers.state() == TransactionState.PREPARE_COMMIT
    assert elect.log(leader).log_end_offset == end_offset == 0
    elect.bench.tick(3 * SESSION_MS)
    assert elect.leader()[0] != leader
    assert brokers.state() == TransactionState.COMPLETE_COMMIT


def beat(replicas: Replicas, broker: int) -> Any:
    body = {"brokerId": broker, "brokerEpoch": replicas.epoch(broker)}
    body["currentMetadataOffset"] = 1000
    return replicas.bench.request("BROKER_HEARTBEAT", 2, body)


@pytest.fixture
def registered(replicas: Replicas) -> Replicas:
    """Broker 3 has registered by a request, and sent its first heartbeat."""
    fence = {"brokerId": 3, "brokerEpoch": 0, "wantFence": True}
    replicas.bench.request("BROKER_HEARTBEAT", 2, fence)
    cluster_id = topics.derive_uuid("cluster", CLUSTER)
    body = {"brokerId": 3, "clusterId": cluster_id, "incarnationId": INCARNATION}
    body |= {"features": FEATURES}
    replicas.bench.request("BROKER_REGISTRATION", 4, {**body, "logDirs": [DIRECTORY]})
    assert beat(replicas, 3)["isFenced"] is False
    assert replicas.isr() == [1, 2, 3]
    return replicas


def test_broker_registered_by_a_request_is_fenced_without_heartbeats(
    registered: Replicas,
) -> None:
    for _ in range(6):
        registered.bench.tick(BEAT_MS)
        assert beat(registered, 3)["isFenced"] is False
    registered.bench.tick(SESSION_MS)
    assert registered.isr() == [1, 2, 3]
    registered.bench.tick(1)
    assert registered.isr() == [1, 2]
    response = beat(registered, 3)
    assert (response["errorCode"], response["isFenced"]) == (0, False), "in the same epoch"
    assert registered.isr() == [1, 2, 3]


@pytest.mark.parametrize("how", ["fence", "unregister", "stop and start", "register"])
def test_session_ends(registered: Replicas, how: str) -> None:
    bench = registered.bench
    if how == "fence":
        fence = {"brokerId": 3, "brokerEpoch": registered.epoch(3), "wantFence": True}
        bench.request("BROKER_HEARTBEAT", 2, fence)
    elif how == "unregister":
        bench.request("UNREGISTER_BROKER", 0, brokerId=3)
    elif how == "stop and start":
        registered.stop(3)
        registered.start(3)
    else:
        bench.request("UNREGISTER_BROKER", 0, brokerId=3)
        cluster_id = topics.derive_uuid("cluster", CLUSTER)
        body = {"brokerId": 3, "clusterId": cluster_id, "incarnationId": INCARNATION}
        body |= {"features": FEATURES}
        bench.request("BROKER_REGISTRATION", 4, {**body, "logDirs": [DIRECTORY]})
    assert bench.cell.tables.pending.keys("timer/session/") == []
    before = registered.isr()
    registered.end_sessions()
    assert registered.isr() == before


def test_idle_cluster_has_no_session_timers(replicas: Replicas) -> None:
    beat(replicas, 3)
    assert replicas.bench.cell.tables.pending.keys("timer/session/") == []
