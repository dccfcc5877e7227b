"""BrokerRegistration: compare errors and listeners with a real controller.

An invalid listener makes a controller of 4.3.1 resign and return, so there are few of them here;
one without a name would stop it.
"""

from pathlib import Path

import pytest

from tests.support.patience import wait_until
from tests.support.real_controllers import Body, at, real_controller
from tests.support.replicas import FEATURES

SHARE, METADATA = "share.version", "metadata.version"


def able(name: str, first: int, last: int) -> Body:
    return {"name": name, "minSupportedVersion": first, "maxSupportedVersion": last}


def without(name: str, *others: Body) -> Body:
    return {"features": [*(each for each in FEATURES if each["name"] != name), *others]}


LISTENERS: list[Body] = [
    {"listeners": each}
    for each in (
        [],
        [at("OTHER")],
        [at("OTHER"), at(host="two", port=2)],
        [at(host="first"), at(host="second", port=2)],
        [at(), at("client", "lower")],
        [at(port=65535, protocol=3)],
        [at("CONTROLLER")],
    )
]
REGISTRATIONS: list[tuple[int, Body]] = [
    *((4, each) for each in LISTENERS),
    (4, {"features": []}),
    (4, without(METADATA, able(SHARE, 0, 0))),
    *((4, without(each["name"])) for each in FEATURES),
    *((4, without(METADATA, able(METADATA, *each))) for each in ((1, 5), (7, 29), (30, 31))),
    *((4, without(SHARE, able(SHARE, *each))) for each in ((0, 0), (1, 1), (3, 1), (-1, 1))),
    (4, without(SHARE, able(SHARE, 0, 0), able(SHARE, 0, 1))),
    *((4, without("", able("foo", *each))) for each in ((1, 5), (0, 5), (5, 1), (-1, 1))),
    *((4, without("kraft.version", able("kraft.version", *each))) for each in ((0, 0), (1, 1))),
    (3, without(SHARE)),
    *((version, {}) for version in (0, 1, 2, 3)),
    (4, {"isMigratingZkBroker": True, "logDirs": []}),
    (4, {"clusterId": "x", **without(METADATA)}),
    (4, {"logDirs": [], **without(SHARE)}),
    (4, {"listeners": [at(protocol=4)], **without(SHARE)}),
    (4, {"listeners": [at(port=0)]}),
]
"""Version of a request, and its deviations from a valid one."""


@pytest.mark.compares
def test_registrations_return_the_responses_of_a_real_controller(tmp_path: Path) -> None:
    with real_controller(tmp_path / "broker", "controller/registrations") as both:
        epochs: dict[int, tuple[int, int]] = {}
        codes = set()
        for broker, (version, changed) in enumerate(REGISTRATIONS, 50):
            real, ours = both.registered(broker, version, changed)
            assert real["errorCode"] == ours["errorCode"], (version, changed)
            codes.add(real["errorCode"])
            if broker < 50 + len(LISTENERS):
                epochs[broker] = real["brokerEpoch"], ours["brokerEpoch"]
        assert codes == {0, 35, 102, 104, 119, -1}
        for broker, known in epochs.items():
            both.unfenced(broker, known)
        assignments = [{"partitionIndex": n, "brokerIds": [b, 1]} for n, b in enumerate(epochs)]
        topic = {"name": "t", "numPartitions": -1, "replicationFactor": -1, "configs": []}
        body = {"topics": [topic | {"assignments": assignments}], "timeoutMs": 5000}
        body["validateOnly"] = False
        assert both.real("CreateTopics", 7, body)["topics"][0]["errorCode"] == 0
        assert both.bench.request("CREATE_TOPICS", 7, body)["topics"][0]["errorCode"] == 0
        request: Body = {"topics": [{"name": "t"}], "includeTopicAuthorizedOperations": False}
        request |= {"allowAutoTopicCreation": False, "includeClusterAuthorizedOperations": False}
        wait_until(lambda: both.real("Metadata", 8, request)["topics"][0]["errorCode"] == 0)
        for version in (0, 1, 5, 6, 8):
            real, ours = both.reported("Metadata", "METADATA", version, request)
            assert real == ours, version
        described = {"includeClusterAuthorizedOperations": False, "endpointType": 1}
        for is_fenced in (False, True):
            described["includeFencedBrokers"] = is_fenced
            real, ours = both.reported("DescribeCluster", "DESCRIBE_CLUSTER", 2, described)
            assert real == ours, is_fenced
        listed = {"topics": [{"name": "t"}], "responsePartitionLimit": 100, "cursor": None}
        real, ours = both.reported(
            "DescribeTopicPartitions", "DESCRIBE_TOPIC_PARTITIONS", 0, listed
        )
        assert real == ours
