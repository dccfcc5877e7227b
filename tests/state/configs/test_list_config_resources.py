"""ListConfigResources, compared with a real broker."""

from brokertwin.state.access.authorizer import CLASS_NAME
from tests.support.machine import Bench
from tests.support.recorded import exchanges, replay


def listed(bench: Bench, *types: int, **event: str) -> dict[str, object]:
    """Response to a request of version 1."""
    response: dict[str, object] = bench.request(
        "LIST_CONFIG_RESOURCES", 1, resourceTypes=list(types), **event
    )
    return response


def test_resources_agree_with_the_recorded_broker() -> None:
    recorded = exchanges("list_config_resources")
    assert sum(each["api"] == "LIST_CONFIG_RESOURCES" for each in recorded) > 18
    assert replay(Bench(), recorded) == []


def test_only_live_brokers_are_listed() -> None:
    bench = Bench(brokers=(1, 2, 3))
    names = [each["resourceName"] for each in listed(bench, 4)["configResources"]]
    assert names == ["1", "2", "3"]
    bench.request("UNREGISTER_BROKER", 0, brokerId=2)
    names = [each["resourceName"] for each in listed(bench, 4, 8)["configResources"]]
    assert names == ["1", "3", "1", "3"]


def test_client_without_permission_sees_nothing() -> None:
    bench = Bench(authorizer_class_name=CLASS_NAME, super_users="User:root")
    resource = {"resourceType": 32, "resourceName": "g", "configs": []}
    resource["configs"] = [{"name": "consumer.session.timeout.ms", "value": "50000"}]
    bench.request("INCREMENTAL_ALTER_CONFIGS", 1, resources=[resource], principal="User:root")
    assert listed(bench, 32) == {"throttleTimeMs": 0, "errorCode": 31, "configResources": []}
    seen = listed(bench, 32, principal="User:root")["configResources"]
    assert seen == [{"resourceName": "g", "resourceType": 32}]
