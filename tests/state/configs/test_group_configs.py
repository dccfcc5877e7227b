"""Settings of groups, compared with a real broker, and their effects."""

import pytest

from brokertwin.state.access.authorizer import CLASS_NAME
from brokertwin.state.configs import group_configs
from brokertwin.state.core.settings import BrokerSettings
from tests.support.configs import GROUP, SET
from tests.support.consumer_groups import GROUP as NAME
from tests.support.consumer_groups import ConsumerBench
from tests.support.machine import Bench
from tests.support.recorded import exchanges, replay

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
GIVEN = 8
"""`configSource` of a group's own setting."""


def alter(bench: Bench, name: str, value: str | None, group: str = NAME, **event: str) -> int:
    """Set or remove a group's setting; return the error."""
    operation = 1 if value is None else SET
    setting = {"name": name, "configOperation": operation, "value": value}
    resource = {"resourceType": GROUP, "resourceName": group, "configs": [setting]}
    response = bench.request("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]}, **event)
    return int(response["responses"][0]["errorCode"])


def described(bench: Bench, **event: str) -> int:
    resource = {"resourceType": GROUP, "resourceName": NAME, "configurationKeys": None}
    response = bench.request("DESCRIBE_CONFIGS", 4, {"resources": [resource]}, **event)
    return int(response["results"][0]["errorCode"])


def test_group_settings_agree_with_the_recorded_broker() -> None:
    recorded = exchanges("group_configs")
    assert len(recorded) > 30
    assert replay(Bench(), recorded) == []


def test_session_timeout_of_a_group_applies_from_the_next_heartbeat() -> None:
    bench = ConsumerBench()
    bench.join("a")
    assert alter(bench, SESSION, "60000") == 0
    bench.tick(44_999)
    assert bench.beat("a", 2)["errorCode"] == 0
    bench.tick(59_999)
    assert "a" in bench.group().members
    bench.tick(1)
    assert bench.group().members == {}


def test_other_groups_keep_the_brokers_settings() -> None:
    bench = ConsumerBench()
    assert alter(bench, SESSION, "60000", group="other") == 0
    bench.join("a")
    bench.tick(45_000)
    assert bench.group().members == {}


def test_members_get_the_heartbeat_interval_of_their_group() -> None:
    bench = ConsumerBench()
    assert alter(bench, HEARTBEAT, "7000") == 0
    assert bench.join("a")["heartbeatIntervalMs"] == 7000
    assert alter(bench, HEARTBEAT, None) == 0
    assert bench.beat("a", 2)["heartbeatIntervalMs"] == 5000


def test_group_has_its_own_assignment_interval() -> None:
    bench = ConsumerBench()
    assert alter(bench, ASSIGNMENT, "0") == 0
    assert [bench.join(name)["memberEpoch"] for name in "abc"] == [2, 3, 4]


def test_client_without_permission_is_rejected() -> None:
    bench = ConsumerBench(authorizer_class_name=CLASS_NAME, super_users="User:ANONYMOUS")
    assert alter(bench, SESSION, "50000", principal="User:other") == 30
    assert described(bench, principal="User:other") == 30
    assert (alter(bench, SESSION, "50000"), described(bench)) == (0, 0)


@pytest.mark.parametrize(
    ("given", "holds"), [("50000", 50_000), ("46000", 48_000), ("60000", 55_000)]
)
def test_value_outside_of_the_brokers_bounds_counts_as_the_bound(given: str, holds: int) -> None:
    bounds = {
        "group.consumer.min.session.timeout.ms": "48000",
        "group.consumer.max.session.timeout.ms": "55000",
    }
    settings = BrokerSettings(given=bounds)
    assert group_configs.number(SESSION, {SESSION: given}, settings) == holds


RESET, LOCK = "share.auto.offset.reset", "share.delivery.count.limit"


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        (SESSION, "+45000", "45000"),
        (SESSION, "\t00045000\n", "45000"),
        (SESSION, "\u0664\u0665\u0660\u0660\u0660", "45000"),
        (SESSION, " 45000\u00a0", None),
        (LOCK, "5_0", None),
        ("share.renew.acknowledge.enable", " True ", "true"),
        ("share.isolation.level", " read_committed ", "read_committed"),
        (RESET, "latest ", "latest"),
        (RESET, " by_duration:PT1H ", "by_duration:PT1H"),
        (RESET, "by_duration:P1DT-5H", "by_duration:P1DT-5H"),
        (RESET, "by_duration:-PT0S", "by_duration:-PT0S"),
        (RESET, "by_duration:PT-1H", None),
        (RESET, "BY_DURATION:PT1H", None),
        (RESET, "LATEST", None),
    ],
)
def test_value_is_shown_as_parsed(name: str, given: str, shown: str | None) -> None:
    """Responses of a real broker; None: 40 INVALID_CONFIG."""
    bench = Bench()
    assert alter(bench, name, given) == (40 if shown is None else 0)
    resource = {"resourceType": GROUP, "resourceName": NAME, "configurationKeys": [name]}
    (response,) = bench.request("DESCRIBE_CONFIGS", 4, {"resources": [resource]})["results"]
    (config,) = response["configs"]
    assert (config["value"] == shown) == (config["configSource"] == GIVEN) == (shown is not None)


def test_session_timeout_must_exceed_the_heartbeat_interval() -> None:
    settings = {"group.consumer.min.session.timeout.ms": "1"}
    fault = group_configs.fault({SESSION: "5000"}, BrokerSettings(given=settings))
    assert fault == f"{SESSION} must be greater than {HEARTBEAT}"
