"""Features and the quorum beside a real broker: the same requests, the same answers and levels."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.conformance import wire
from tests.state.cluster.test_features import QUORUM, SAFE, UNSAFE, UPGRADE, VERSION, levels
from tests.support.machine import Bench
from tests.support.patience import PATIENCE_S

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
"""Each a request: features with a level and a type of upgrade."""

QUORUMS: list[Any] = [
    [],
    [{"topicName": "x", "partitions": [{"partitionIndex": 0}]}],
    [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 1}]}],
    [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": n} for n in (0, 1)]}],
]
VARYING = {"logEndOffset", "highWatermark", "lastFetchTimestamp", "lastCaughtUpTimestamp", "port"}
"""What two clusters have each of its own."""


@pytest.fixture
def real(tmp_path: Path) -> Iterator[wire.Conn]:
    broker = EmbeddedKafka(tmp_path / "broker", default_home())
    try:
        host, _, port = broker.start().rpartition(":")
        connection = wire.Conn(host, int(port))
        yield connection
        connection.close()
    finally:
        broker.stop()


@pytest.mark.kafka
def test_a_real_broker_takes_and_refuses_the_same_levels(real: Any) -> None:
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
        assert_soon_the_same(real, levels(bench))


def assert_soon_the_same(real: Any, expected: dict[str, int]) -> None:
    """The real broker hears a moment later of what its controller has decided."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := real_levels(real)) != expected:
        assert time.monotonic() < deadline, (found, expected)
        time.sleep(0.05)


def real_levels(real: Any) -> dict[str, int]:
    answer = real.call("ApiVersions", 4, {"clientSoftwareName": "x"} | VERSION)
    return {each["name"]: each["maxVersionLevel"] for each in answer["finalizedFeatures"]}


@pytest.mark.kafka
def test_a_real_controller_describes_itself_alike(real: Any) -> None:
    bench = Bench()
    for version in (0, 1, 2):
        for body in (QUORUM, *({"topics": topics} for topics in QUORUMS)):
            expected = real.call("DescribeQuorum", version, body)
            found = bench.request("DESCRIBE_QUORUM", version, body)
            assert without_varying(found) == without_varying(expected), (version, body)


def without_varying(found: Any) -> Any:
    """An answer without what two clusters have each of its own; a uuid of zeros in one form."""
    if isinstance(found, list):
        return [without_varying(each) for each in found]
    if not isinstance(found, dict):
        return found
    return {
        key: "" if key == "replicaDirectoryId" else without_varying(value)
        for key, value in found.items()
        if key not in VARYING
    }
