"""Settings of brokers that are removed: there are none, but Kafka's tools ask for it."""

from typing import Any

import pytest

from brokerstream.state.access.authorizer import CLASS_NAME
from brokerstream.state.core.errors import Error
from tests.support.machine import Bench, RefusedError

SET, DELETE = 0, 1
RATE = "leader.replication.throttled.rate"


def alter(bench: Bench, operation: int, value: str | None, **event: Any) -> Any:
    change = {"name": RATE, "configOperation": operation, "value": value}
    resource = {"resourceType": 4, "resourceName": "1", "configs": [change]}
    body = {"resources": [resource]}
    return bench.request("INCREMENTAL_ALTER_CONFIGS", 1, body, **event)["responses"][0]


def test_a_setting_that_there_is_not_may_be_removed_and_none_be_set() -> None:
    bench = Bench()
    assert alter(bench, DELETE, None)["errorCode"] == 0
    with pytest.raises(RefusedError, match="changes of the settings of brokers"):
        alter(bench, SET, "1000")


def test_who_may_not_alter_the_cluster_may_not_remove_either() -> None:
    bench = Bench(authorizer_class_name=CLASS_NAME)
    refused = alter(bench, DELETE, None, principal="User:alice")
    assert refused["errorCode"] == Error.CLUSTER_AUTHORIZATION_FAILED
