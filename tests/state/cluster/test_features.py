"""Feature levels: changes, errors and effects."""

from typing import Any

import pytest

from brokertwin.protocol.bodies import ZERO_UUID
from tests.support.machine import Bench

UPGRADE, SAFE, UNSAFE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "


def update(bench: Bench, *wanted: tuple[str, int, int], version: int = 2, **options: Any) -> Any:
    updates = [
        {"feature": name, "maxVersionLevel": level, "upgradeType": kind}
        for name, level, kind in wanted
    ]
    body = {"timeoutMs": 1000, "featureUpdates": updates, **options}
    return bench.request("UPDATE_FEATURES", version, body)


def levels(bench: Bench) -> dict[str, int]:
    features = bench.request("API_VERSIONS", 4, {"clientSoftwareName": "x"} | VERSION)
    return {each["name"]: each["maxVersionLevel"] for each in features["finalizedFeatures"]}


VERSION = {"clientSoftwareVersion": "1"}
UNASKED = (
    "Can't downgrade the version of this feature without setting the upgrade type to either"
    " safe or unsafe downgrade."
)
AT_FIRST = {
    "group.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
    "share.version": 1,
    "metadata.version": 30,
}


def test_level_is_lowered_and_raised_again() -> None:
    bench = Bench()
    assert levels(bench) == AT_FIRST
    done = {"throttleTimeMs": 0, "errorCode": 0, "errorMessage": None}
    assert update(bench, ("transaction.version", 1, SAFE), ("share.version", 0, UNSAFE)) == done
    assert levels(bench) == {
        name: level - (name == "transaction.version")
        for name, level in AT_FIRST.items()
        if name != "share.version"
    }
    bench.reload()
    assert update(bench, ("transaction.version", 2, UPGRADE), ("share.version", 1, 1)) == done
    assert levels(bench) == AT_FIRST


def test_validate_only_changes_nothing() -> None:
    bench = Bench()
    change = ("transaction.version", 1, SAFE)
    assert update(bench, change, validateOnly=True)["errorCode"] == 0
    assert levels(bench) == AT_FIRST


@pytest.mark.parametrize(
    ("feature", "level", "kind", "why"),
    [
        ("nope", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("nope", 0, UNSAFE, "Feature nope not found."),
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("group.version", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("group.version", 3, 7, "The controller does not support the given upgrade type."),
        ("group.version", -1, 0, "The controller does not support the given upgrade type."),
        ("kraft.version", 1, SAFE, "Can't downgrade to a newer version."),
        (
            "group.version",
            0,
            UPGRADE,
            UNASKED,
        ),
    ],
)
def test_one_error_rejects_the_whole_request(feature: str, level: int, kind: int, why: str) -> None:
    bench = Bench()
    refused = update(bench, ("transaction.version", 1, SAFE), (feature, level, kind))
    text = f"{FAILED}Invalid update version {level} for feature {feature}. {why}"
    assert (refused["errorCode"], refused["errorMessage"]) == (95, text)
    assert levels(bench) == AT_FIRST


def test_consumer_groups_require_group_version_1() -> None:
    bench = Bench()
    update(bench, ("group.version", 0, SAFE))
    beat = {"groupId": "g", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 1000}
    beat |= {"subscribedTopicNames": ["t"], "topicPartitions": []}
    assert bench.request("CONSUMER_GROUP_HEARTBEAT", 1, beat)["errorCode"] == 35
    described = bench.request("CONSUMER_GROUP_DESCRIBE", 1, groupIds=["g"])
    assert [each["errorCode"] for each in described["groups"]] == [35]


@pytest.mark.parametrize(("level", "bumped"), [(2, 2), (1, 0)])
def test_transaction_version_decides_if_aborts_by_the_coordinator_bump_epochs(
    level: int, bumped: int
) -> None:
    """InitProducerId aborts an open transaction; at level 2 the epoch rises (KIP-890)."""
    bench = Bench()
    bench.topic("orders")
    update(bench, ("transaction.version", level, SAFE))
    begin = {"transactionalId": "t", "transactionTimeoutMs": 1000}
    for _ in range(2):  # first the topic is created, then there are producer ids
        bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=["t"])
        bench.request("INIT_PRODUCER_ID", 5, begin)
    producer_id = bench.request("INIT_PRODUCER_ID", 5, begin)["producerId"]
    add = {"v3AndBelowTransactionalId": "t", "v3AndBelowProducerId": producer_id}
    add |= {"v3AndBelowTopics": [{"name": "orders", "partitions": [0]}]}
    written = "TransactionMetadataWritten"
    epoch = [e["record"] for e in bench.records() if e["record"]["type"] == written][-1]
    add["v3AndBelowProducerEpoch"] = epoch["metadata"]["producerEpoch"]
    bench.request("ADD_PARTITIONS_TO_TXN", 3, add)
    bench.request("INIT_PRODUCER_ID", 5, begin)
    prepared = [
        entry["record"]["metadata"]
        for entry in bench.records_of(bench.last)
        if entry["record"]["type"] == written
    ]
    assert prepared[0].get("clientTransactionVersion", 0) == bumped


QUORUM = {"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]}


def quorum(bench: Bench) -> dict[str, Any]:
    (topic,) = bench.request("DESCRIBE_QUORUM", 2, QUORUM)["topics"]
    partition: dict[str, Any] = topic["partitions"][0]
    return partition


def test_metadata_log_counts_all_records() -> None:
    bench = Bench((1, 2, 3))
    bench.settings.may_intervene = True
    before = quorum(bench)
    assert [each["replicaId"] for each in before["currentVoters"]] == [1]
    assert [each["replicaId"] for each in before["observers"]] == [2, 3]
    directories = {each["replicaDirectoryId"] for each in before["observers"]}
    assert len(directories - {ZERO_UUID}) == 2
    bench.topic("orders")
    update(bench, ("share.version", 0, SAFE))
    assert quorum(bench)["highWatermark"] == before["highWatermark"] + 2
    bench.reload()
    update(bench, ("share.version", 0, SAFE))
    assert quorum(bench)["highWatermark"] == before["highWatermark"] + 2, "the level is the same"
    stop = {"id": "s", "cluster": "bench", "kind": "stop-broker", "broker": 2, "time": bench.now}
    bench.handle(stop)
    assert [each["replicaId"] for each in quorum(bench)["observers"]] == [3]
