"""Settings of internal topics."""

import pytest

from brokertwin.state.cluster import image
from brokertwin.state.cluster.config_changes import is_broker_id
from tests.support.machine import Bench

GROUPS = {
    "cleanup.policy": "compact",
    "segment.bytes": "104857600",
    "compression.type": "producer",
}
TRANSACTIONS = {
    "unclean.leader.election.enable": "false",
    "compression.type": "uncompressed",
    "cleanup.policy": "compact",
    "min.insync.replicas": "2",
    "segment.bytes": "104857600",
}


@pytest.mark.parametrize(
    ("key_type", "name", "configs"),
    [(0, "__consumer_offsets", GROUPS), (1, "__transaction_state", TRANSACTIONS)],
)
def test_internal_topic_has_the_settings_of_its_coordinator(
    key_type: int, name: str, configs: dict[str, str]
) -> None:
    bench = Bench()
    bench.request("FIND_COORDINATOR", 4, keyType=key_type, coordinatorKeys=["x"])
    topic = image.topic_by_name(bench.cell.tables.of(1), name)
    assert topic is not None
    assert topic.configs == configs


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(("1", True), ("-1", True), ("2147483647", True), ("-2147483648", True)),
        *(("", False), ("x", False), (" 1", False), ("2147483648", False), ("-2147483649", False)),
    ],
)
def test_broker_id_is_an_integer_for_java(name: str, is_one: bool) -> None:
    assert is_broker_id(name) is is_one
