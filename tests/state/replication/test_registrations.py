"""Brokers at the controller: registration, fencing, controlled shutdown, removal."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster import topics
from brokertwin.state.replication.registrations import BrokerControlState, next_state
from tests.support.machine import CLUSTER, Bench
from tests.support.replicas import FEATURES, Replicas

INCARNATION, ANOTHER = "incarnationincarnation", "anotheranotheranothera"
DIRECTORY = "dirdirdirdirdirdirdird"
LISTENER = {"name": "CLIENT", "host": "h", "port": 1, "securityProtocol": 3}
UNKNOWN = {"name": "unknown", "minSupportedVersion": 0, "maxSupportedVersion": 5}


@pytest.fixture
def replicas() -> Replicas:
    """`orders` on brokers [1, 2, 3] with leader 1."""
    made = Replicas(min_insync_replicas="1")
    made.produce(count=3)
    return made


def beat(replicas: Replicas, broker: int, **fields: Any) -> Any:
    body = {"brokerId": broker, "brokerEpoch": replicas.epoch(broker), **fields}
    body.setdefault("currentMetadataOffset", 1000)
    alive = next(each for each in (1, 2, 3) if not replicas.is_stopped(each))
    return replicas.bench.request("BROKER_HEARTBEAT", 2, body, broker=alive)


def register(replicas: Replicas, broker: int, incarnation: str, **other: Any) -> tuple[int, int]:
    body = {
        "brokerId": broker,
        "clusterId": topics.derive_uuid("cluster", CLUSTER),
        "incarnationId": incarnation,
        "features": FEATURES,
        "logDirs": [DIRECTORY],
        **other,
    }
    response = replicas.bench.request("BROKER_REGISTRATION", 4, body)
    return response["errorCode"], response["brokerEpoch"]


def state(fenced: bool, shuts_down: bool = False, caught_up: bool = True) -> dict[str, Any]:
    response = {"throttleTimeMs": 0, "errorCode": 0, "isCaughtUp": caught_up}
    return {**response, "isFenced": fenced, "shouldShutDown": shuts_down}


def known(replicas: Replicas, fenced: bool = True) -> list[tuple[int, bool]]:
    response = replicas.bench.request("DESCRIBE_CLUSTER", 2, includeFencedBrokers=fenced)
    return [(each["brokerId"], each["isFenced"]) for each in response["brokers"]]


def test_controlled_shutdown_moves_leaders_first(replicas: Replicas) -> None:
    assert beat(replicas, 1) == state(False)
    assert beat(replicas, 1, wantShutDown=True) == state(False)
    assert (replicas.leader(), replicas.isr()) == ((2, 1), [2, 3])
    assert known(replicas) == [(1, False), (2, False), (3, False)]
    assert replicas.produce(count=2)["baseOffset"] == 3
    assert beat(replicas, 1, wantShutDown=True) == state(True, True)
    assert known(replicas) == [(1, True), (2, False), (3, False)]
    assert known(replicas, fenced=False) == [(2, False), (3, False)]
    assert beat(replicas, 1, wantShutDown=True) == state(True, True)


def test_broker_in_shutdown_cannot_join_and_gets_no_new_partitions(replicas: Replicas) -> None:
    beat(replicas, 1, wantShutDown=True)
    replicas.produce(count=2)
    assert replicas.isr() == [2, 3], "it follows, and has all records"
    assert replicas.watermarks_of(1) == (5, 5)
    topic = {"name": "new", "numPartitions": 4, "replicationFactor": 2}
    replicas.bench.request("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 1000})
    response = replicas.bench.request("METADATA", 12, name="new")
    assert all(1 not in each["replicaNodes"] for each in response["topics"][0]["partitions"])


def test_shutdown_of_the_only_leader_leaves_no_leader() -> None:
    replicas = Replicas((2,), min_insync_replicas="1")
    assert beat(replicas, 2, wantShutDown=True) == state(False)
    assert (replicas.leader(), replicas.partition().isr) == ((-1, 1), [])
    assert beat(replicas, 2, wantShutDown=True) == state(True, True)
    assert beat(replicas, 2) == state(False)
    assert replicas.leader() == (2, 2)


def test_unfenced_broker_joins_the_in_sync_set(replicas: Replicas) -> None:
    assert beat(replicas, 3, wantFence=True) == state(True)
    assert replicas.isr() == [1, 2]
    assert beat(replicas, 3, wantFence=True) == state(True)
    assert beat(replicas, 3) == state(False)
    assert replicas.isr() == [1, 2, 3], "its fetch was pending at the leader"


def test_unfenced_broker_joins_in_an_empty_partition() -> None:
    replicas = Replicas(min_insync_replicas="1")
    beat(replicas, 3, wantFence=True)
    assert replicas.isr() == [1, 2]
    beat(replicas, 3)
    assert replicas.isr() == [1, 2, 3]


def test_heartbeat_of_another_epoch_is_stale(replicas: Replicas) -> None:
    for body in ({"brokerEpoch": 7}, {"brokerEpoch": -1}, {"brokerId": 9, "brokerEpoch": 0}):
        response = beat(replicas, 1, **body)
        assert response["errorCode"] == Error.STALE_BROKER_EPOCH
        assert response["isFenced"] is True
    replicas.stop(3)
    assert beat(replicas, 3)["errorCode"] == Error.STALE_BROKER_EPOCH, "not registered"


def test_registered_incarnation_is_fenced_until_it_has_read_its_registration(
    replicas: Replicas,
) -> None:
    assert register(replicas, 3, INCARNATION) == (Error.DUPLICATE_BROKER_REGISTRATION, -1)
    beat(replicas, 3, wantFence=True)
    assert register(replicas, 3, INCARNATION) == (0, 1)
    assert register(replicas, 3, INCARNATION) == (0, 1), "the same incarnation keeps its epoch"
    assert beat(replicas, 3, currentMetadataOffset=0) == state(True, caught_up=False)
    assert beat(replicas, 3) == state(False)
    assert register(replicas, 3, ANOTHER) == (Error.DUPLICATE_BROKER_REGISTRATION, -1)
    beat(replicas, 3, wantFence=True, wantShutDown=True)
    assert register(replicas, 3, ANOTHER) == (0, 2)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"clusterId": "another"}, Error.INCONSISTENT_CLUSTER_ID),
        ({"logDirs": []}, Error.INVALID_REGISTRATION),
        ({"logDirs": [DIRECTORY, DIRECTORY]}, Error.INVALID_REGISTRATION),
        ({"logDirs": ["AAAAAAAAAAAAAAAAAAAAAA"]}, Error.INVALID_REGISTRATION),
        ({"logDirs": ["taken1taken1taken1take"]}, Error.INVALID_REGISTRATION),
        ({"isMigratingZkBroker": True}, Error.BROKER_ID_NOT_REGISTERED),
        ({"listeners": [{**LISTENER, "host": ""}]}, Error.UNKNOWN_SERVER_ERROR),
        ({"listeners": [{**LISTENER, "name": ""}]}, Error.UNKNOWN_SERVER_ERROR),
        ({"listeners": [LISTENER, {**LISTENER, "port": 0}]}, Error.UNKNOWN_SERVER_ERROR),
        ({"listeners": [{**LISTENER, "securityProtocol": 4}]}, Error.UNKNOWN_SERVER_ERROR),
        ({"features": FEATURES[1:]}, Error.UNSUPPORTED_VERSION),
        ({"features": [*FEATURES, {**UNKNOWN, "minSupportedVersion": 1}]}, 35),
        ({"features": []}, Error.INVALID_REGISTRATION),
    ],
)
def test_rejected_registration(replicas: Replicas, other: dict[str, Any], error: Error) -> None:
    beat(replicas, 2, wantFence=True)
    assert register(replicas, 2, ANOTHER, logDirs=["taken1taken1taken1take"]) == (0, 1)
    beat(replicas, 3, wantFence=True)
    assert register(replicas, 3, INCARNATION, **other) == (error, -1)


def test_registration_with_all_fields(replicas: Replicas) -> None:
    other = {"listeners": [LISTENER, LISTENER], "features": [*FEATURES, UNKNOWN]}
    assert register(replicas, 9, INCARNATION, **other) == (0, 1)


def test_features_are_compared_with_finalized_levels(replicas: Replicas) -> None:
    without_share = [each for each in FEATURES if each["name"] != "share.version"]
    update = {"feature": "share.version", "maxVersionLevel": 0, "upgradeType": 2}
    assert register(replicas, 9, INCARNATION, features=without_share) == (35, -1)
    replicas.bench.request("UPDATE_FEATURES", 2, {"featureUpdates": [update]})
    assert register(replicas, 9, INCARNATION, features=without_share) == (0, 1)


def test_restarted_broker_is_another_incarnation(replicas: Replicas) -> None:
    replicas.stop(2)
    replicas.start(2)
    assert replicas.epoch(2) == 1
    assert replicas.isr() == [1, 2, 3]
    send = {"brokerId": 2, "brokerEpoch": 0}
    response = replicas.bench.request("ALLOCATE_PRODUCER_IDS", 0, send)
    assert response["errorCode"] == Error.STALE_BROKER_EPOCH
    send = {"transactionalId": None, "transactionTimeoutMs": 1}
    replicas.bench.request("INIT_PRODUCER_ID", 4, send, broker=2)
    response = replicas.bench.request("INIT_PRODUCER_ID", 4, send, broker=2)
    assert response["errorCode"] == 0, "it requests ids in its new epoch"


def test_unregistered_broker_is_unknown_until_it_registers(replicas: Replicas) -> None:
    bench = replicas.bench
    text = "Broker ID 9 is not currently registered"
    refused = {"throttleTimeMs": 0, "errorCode": 102, "errorMessage": text}
    assert bench.request("UNREGISTER_BROKER", 0, brokerId=9) == refused
    done = {"throttleTimeMs": 0, "errorCode": 0, "errorMessage": ""}
    assert bench.request("UNREGISTER_BROKER", 0, brokerId=1) == done
    assert known(replicas) == [(2, False), (3, False)]
    assert (replicas.leader(), replicas.isr()) == ((2, 1), [2, 3])
    assert bench.request("UNREGISTER_BROKER", 0, brokerId=1)["errorCode"] == 102
    assert beat(replicas, 1)["errorCode"] == Error.STALE_BROKER_EPOCH
    assert register(replicas, 1, INCARNATION) == (0, 1)
    assert beat(replicas, 1) == state(False)
    assert replicas.isr() == [1, 2, 3]


def test_all_brokers_unregistered() -> None:
    bench = Bench()
    assert bench.request("UNREGISTER_BROKER", 0, brokerId=1)["errorCode"] == 0
    response = bench.request("DESCRIBE_CLUSTER", 2, {})
    assert (response["controllerId"], response["brokers"]) == (-1, [])
    assert bench.request("METADATA", 12, {})["controllerId"] == -1


def grow(replicas: Replicas, count: int) -> tuple[int, str | None]:
    body = {"topics": [{"name": "orders", "count": count}], "timeoutMs": 1000}
    alive = next(each for each in (1, 2, 3) if not replicas.is_stopped(each))
    (result,) = replicas.bench.request("CREATE_PARTITIONS", 3, body, broker=alive)["results"]
    return result["errorCode"], result["errorMessage"]


def test_fenced_brokers_get_partitions_if_there_are_too_few_others(replicas: Replicas) -> None:
    """As with a real controller of 4.3.1; brokers in shutdown get none."""
    replicas.stop(3)
    assert grow(replicas, 2) == (0, None)
    response = replicas.bench.request("METADATA", 12, name="orders")
    added = response["topics"][0]["partitions"][1]
    assert (added["replicaNodes"][2], sorted(added["isrNodes"])) == (3, [1, 2])
    assert added["offlineReplicas"] == [3]
    beat(replicas, 1, wantShutDown=True)
    text = (
        "The target replication factor of 3 cannot be reached because only 2 broker(s)"
        " are registered or some brokers have all their log directories cordoned."
    )
    assert grow(replicas, 3) == (Error.INVALID_REPLICATION_FACTOR, text)
    beat(replicas, 2, wantFence=True)
    text = "All brokers are currently fenced, or have all their log directories cordoned."
    assert grow(replicas, 3) == (Error.INVALID_REPLICATION_FACTOR, text)


S = BrokerControlState


@pytest.mark.parametrize(
    ("now", "fence", "shutdown", "caught_up", "leads", "then"),
    [
        (S.FENCED, True, False, True, False, S.FENCED),
        (S.FENCED, False, False, False, False, S.FENCED),
        (S.FENCED, False, False, True, False, S.UNFENCED),
        (S.FENCED, True, True, False, False, S.SHUTDOWN_NOW),
        (S.UNFENCED, False, False, True, True, S.UNFENCED),
        (S.UNFENCED, True, False, True, True, S.FENCED),
        (S.UNFENCED, True, True, True, True, S.SHUTDOWN_NOW),
        (S.UNFENCED, False, True, True, True, S.CONTROLLED_SHUTDOWN),
        (S.UNFENCED, False, True, True, False, S.SHUTDOWN_NOW),
        (S.CONTROLLED_SHUTDOWN, False, False, True, True, S.CONTROLLED_SHUTDOWN),
        (S.CONTROLLED_SHUTDOWN, True, False, True, False, S.SHUTDOWN_NOW),
    ],
)
def test_next_state_of_a_broker(
    now: BrokerControlState,
    fence: bool,
    shutdown: bool,
    caught_up: bool,
    leads: bool,
    then: BrokerControlState,
) -> None:
    assert next_state(now, fence, shutdown, caught_up, leads) is then
