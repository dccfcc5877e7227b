"""Client metrics subscriptions, compared with a real broker."""

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.state.access.authorizer import CLASS_NAME
from brokertwin.state.configs.client_metrics import MetricsSubscription
from tests.support.configs import (
    APPEND,
    DELETE,
    METRICS,
    SET,
    SUBTRACT,
    Change,
    Recorded,
    Wanted,
    alter,
    assert_same,
    assert_soon_same,
    describe,
)
from tests.support.goldens import tape
from tests.support.machine import Bench
from tests.support.patience import wait_until

LISTED = {"resourceTypes": [METRICS]}


def one(*changes: Change, name: str = "told") -> list[Wanted]:
    return [(METRICS, name, list(changes))]


INCREMENTS: list[list[Wanted]] = [
    one(("interval.ms", SET, "10000"), ("metrics", SET, "x.,y.")),
    one(("interval.ms", SET, " 0200 ")),
    *(one((name, APPEND, "z.")) for name in ("metrics", "match", "interval.ms", "nope")),
    one(("metrics", SUBTRACT, "y.")),
    *(one(("interval.ms", SET, text)) for text in ("99", "100", "3600000", "3600001", "abc", "")),
    one(("interval.ms", SET, "99999999999")),
    *(one(("match", SET, text)) for text in ("x=y", "client_id", "client_id=[", "client_id=a=b")),
    *(one(("match", SET, text)) for text in ("client_id=", "client_id=a=", "=a", "client_id==a")),
    *(one(("match", SET, text)) for text in ("", ",", "client_id=a,client_id=b", "client_id=a.*")),
    one(("match", SET, "client_software_name= a ,client_software_version=1")),
    one(("match", SET, " client_source_address = 1.*,client_source_port=9,client_instance_id=q")),
    *(one(("metrics", SET, text)) for text in ("*", "", "a.,,b")),
    one(("zz", SET, "1"), ("nope", SET, "1"), ("interval.ms", SET, "1")),
    one(("interval.ms", SET, "1"), ("match", SET, "x")),
    one(("interval.ms", DELETE, None)),
    one(("interval.ms", SET, None)),
    one(("interval.ms", SET, "1000"), name=""),
    one(name="empty"),
]


def forget(real: Recorded) -> None:
    """Delete all subscriptions, including those of other tests."""

    def listed() -> list[str]:
        response = real.request("LIST_CONFIG_RESOURCES", 1, LISTED)
        return [each["resourceName"] for each in response["configResources"]]

    gone: list[Change] = [(key, DELETE, None) for key in ("metrics", "interval.ms", "match")]
    there: list[Wanted] = [(METRICS, name, gone) for name in listed()]
    alter(real, "INCREMENTAL_ALTER_CONFIGS", 1, there)
    wait_until(lambda: not listed())


@pytest.mark.compares
def test_kafka_alters_and_describes_subscriptions_alike(real_kafka: Address) -> None:
    with tape("configs/client_metrics") as recording:
        compare(Recorded(real_kafka, recording), Bench())


def compare(real: Recorded, bench: Bench) -> None:
    both = real, bench
    forget(real)
    for wanted in INCREMENTS:
        found = [alter(each, "INCREMENTAL_ALTER_CONFIGS", 1, wanted) for each in both]
        assert found[1] == found[0], wanted
        assert_soon_same(both, (METRICS, "told"))
    for wanted in (one(("match", SET, "client_id=q")), one(("nope", SET, "1")), one()):
        found = [alter(each, "ALTER_CONFIGS", 2, wanted) for each in both]
        assert found[1] == found[0], wanted
        assert_soon_same(both, (METRICS, "told"))
    assert_same(both, (METRICS, ""), (METRICS, "nobody"), keys=["match", "nope"])
    listed = [each.request("LIST_CONFIG_RESOURCES", 1, LISTED) for each in (real, bench)]
    assert listed[1] == listed[0]


def test_subscription_is_listed_until_it_is_deleted() -> None:
    bench = Bench()
    for name in ("b", "a"):
        alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, one(("metrics", SET, "*"), name=name))
    listed = bench.request("LIST_CONFIG_RESOURCES", 0, {})["configResources"]
    assert listed == [{"resourceName": "a"}, {"resourceName": "b"}]
    alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, one(("metrics", DELETE, None), name="a"))
    bench.reload()
    listed = bench.request("LIST_CONFIG_RESOURCES", 1, LISTED)["configResources"]
    assert [each["resourceName"] for each in listed] == ["b"]


def test_invalid_change_has_no_effect() -> None:
    bench = Bench()
    alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, one(("interval.ms", SET, "100")))
    wrong = one(("metrics", SET, "a."), ("interval.ms", SET, "99"))
    response = alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, wrong)
    assert response["responses"][0]["errorCode"] == 42
    (shown,) = describe(bench, (METRICS, "told"))
    assert [each["value"] for each in shown["configs"]] == ["100", "", ""]


def test_client_without_permission_is_rejected() -> None:
    bench = Bench(authorizer_class_name=CLASS_NAME, super_users="User:admin")
    response = alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, one(("metrics", SET, "a.")))
    assert response["responses"][0]["errorCode"] == 31
    (refused,) = describe(bench, (METRICS, "told"))
    assert refused["errorCode"] == 31


def test_matching_time_is_linear_in_the_length_of_a_name() -> None:
    subscription = MetricsSubscription([], 1000, {"client_id": "(a+)+b"})
    assert subscription.matches({"client_id": "a" * 50 + "b"})
    assert not subscription.matches({"client_id": "a" * 50})
    assert MetricsSubscription([], 1000, {"client_id": "(?=a).*"}).matches({"client_id": "ab"}), (
        "like Java"
    )
