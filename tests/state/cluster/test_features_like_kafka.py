"""Features and the quorum compared with a real broker."""

from collections.abc import Iterator
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.state.cluster.test_features import QUORUM, SAFE, UNSAFE, UPGRADE, VERSION, levels
from tests.support.goldens import Connection, Tape, TapedConnection, connection_to, started, tape
from tests.support.machine import Bench
from tests.support.patience import wait_until

GROUP, TRANSACTION, METADATA, KRAFT = (
    f"{name}.version" for name in ("group", "transaction", "metadata", "kraft")
)
SHARE, STREAMS, ELIGIBLE = "share.version", "streams.version", "eligible.leader.replicas.version"
Update = tuple[str, int, int]
STEPS: list[list[Update]] = [
    [],
    [("nope", 1, UPGRADE)],
    [("", 1, UPGRADE)],
    *([(GROUP, level, UPGRADE)] for level in (1, 2, -1, 0)),
    *([(GROUP, 1, kind)] for kind in (0, 7, SAFE, UNSAFE)),
    [(GROUP, -2, 9)],
    [(GROUP, 3, 9)],
    [(GROUP, 1, UPGRADE), (GROUP, 1, UPGRADE)],
    [(GROUP, 1, UPGRADE), ("nope", 1, UPGRADE)],
    [("nope", 1, UPGRADE), (GROUP, 0, UPGRADE)],
    [(GROUP, 0, UPGRADE), ("nope", 1, UPGRADE), (TRANSACTION, 9, UPGRADE)],
    [(TRANSACTION, 1, SAFE)],
    [(TRANSACTION, 2, SAFE)],
    [(TRANSACTION, 0, UNSAFE), (GROUP, 0, SAFE)],
    [(TRANSACTION, 2, UPGRADE), (GROUP, 1, UPGRADE)],
    *([(METADATA, 29, kind)] for kind in (UPGRADE, SAFE, UNSAFE)),
    *([(METADATA, level, SAFE)] for level in (31, 5, 0, 30, 20)),
    [(KRAFT, 2, UPGRADE)],
    [(KRAFT, 1, SAFE)],
    [(SHARE, 0, SAFE)],
    [(STREAMS, 0, UNSAFE), (ELIGIBLE, 0, SAFE)],
    [(SHARE, 1, UPGRADE), (STREAMS, 1, UPGRADE), (ELIGIBLE, 1, UPGRADE)],
    [(TRANSACTION, 0, SAFE), (TRANSACTION, 1, SAFE)],
    [(TRANSACTION, 2, UPGRADE)],
]
"""Requests: features with a level and an upgrade type."""

QUORUMS: list[Any] = [
    [],
    [{"topicName": "x", "partitions": [{"partitionIndex": 0}]}],
    [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 1}]}],
    [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": n} for n in (0, 1)]}],
]
VARYING = {"logEndOffset", "highWatermark", "lastFetchTimestamp", "lastCaughtUpTimestamp", "port"}
"""Fields that differ between two clusters."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tape, Address]]:
    """A broker for this file, because feature levels are those of the whole cluster."""
    broker = EmbeddedKafka(tmp_path_factory.mktemp("features") / "broker", default_home())
    with tape("cluster/features") as recording, started(broker) as address:
        yield recording, address


@pytest.fixture
def real(
    recorded: tuple[Tape, Address], request: pytest.FixtureRequest
) -> Iterator[TapedConnection]:
    recording, address = recorded
    connection = recording.track(request.node.name).connection(lambda: connection_to(address))
    yield connection
    connection.close()


@pytest.mark.compares
def test_kafka_describes_the_same_quorum(real: Connection) -> None:
    bench = Bench()
    for version in (0, 1, 2):
        for body in (QUORUM, *({"topics": topics} for topics in QUORUMS)):
            expected = real.call("DescribeQuorum", version, body)
            response = bench.request("DESCRIBE_QUORUM", version, body)
            assert without_varying(response) == without_varying(expected), (version, body)


@pytest.mark.compares
def test_kafka_updates_and_rejects_the_same_feature_levels(real: Connection) -> None:
    bench = Bench()
    for version in (0, 1, 2):
        for step in STEPS:
            for is_only_checked in (True, False):
                body = {
                    "timeoutMs": 10_000,
                    "validateOnly": is_only_checked,
                    "featureUpdates": [
                        {"feature": name, "maxVersionLevel": level, "upgradeType": kind}
                        for name, level, kind in step
                    ],
                }
                expected = real.call("UpdateFeatures", version, body)
                given = {**body} if version else {k: v for k, v in body.items() if k[0] != "v"}
                assert bench.request("UPDATE_FEATURES", version, given) == expected, (version, step)
        ours = levels(bench)
        wait_until(lambda ours=ours: real_levels(real) == ours, "the broker applies the levels")


def real_levels(real: Connection) -> dict[str, int]:
    response = real.call("ApiVersions", 4, {"clientSoftwareName": "x"} | VERSION)
    return {each["name"]: each["maxVersionLevel"] for each in response["finalizedFeatures"]}


def without_varying(found: Any) -> Any:
    """A response without fields that differ between clusters; zero uuids in one form."""
    if isinstance(found, list):
        return [without_varying(each) for each in found]
    if not isinstance(found, dict):
        return found
    return {
        key: "" if key == "replicaDirectoryId" else without_varying(value)
        for key, value in found.items()
        if key not in VARYING
    }
