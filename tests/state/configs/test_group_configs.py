"""Settings of single groups: told and taken as by a real broker, and what they do."""

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
"""`configSource` of what a group was given."""


def alter(bench: Bench, name: str, value: str | None, group: str = NAME, **event: str) -> int:
    """Gives a group a setting, or takes it away; the error."""
    operation = 1 if value is None else SET
    setting = {"name": name, "configOperation": operation, "value": value}
    resource = {"resourceType": GROUP, "resourceName": group, "configs": [setting]}
    response = bench.request("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]}, **event)
    return int(response["responses"][0]["errorCode"])


def described(bench: Bench, **event: str) -> int:
    """The error of a description of the group's settings."""
    resource = {"resourceType": GROUP, "resourceName": NAME, "configurationKeys": None}
    response = bench.request("DESCRIBE_CONFIGS", 4, {"resources": [resource]}, **event)
    return int(response["results"][0]["errorCode"])


def test_settings_of_groups_as_a_real_broker_tells_and_takes_them() -> None:
    recorded = exchanges("group_configs")
    assert len(recorded) > 30
    assert replay(Bench(), recorded) == []


def test_a_groups_own_session_time_out_counts_from_its_members_next_heartbeat() -> None:
    bench = ConsumerBench()
    bench.join("a")
    assert alter(bench, SESSION, "60000") == 0
    bench.tick(44_999)
    assert bench.beat("a", 2)["errorCode"] == 0
    bench.tick(59_999)
    assert "a" in bench.group().members
    bench.tick(1)
    assert bench.group().members == {}


def test_another_group_keeps_the_brokers_settings() -> None:
    bench = ConsumerBench()
    assert alter(bench, SESSION, "60000", group="other") == 0
    bench.join("a")
    bench.tick(45_000)
    assert bench.group().members == {}


def test_members_are_told_the_groups_own_heartbeat_interval() -> None:
    bench = ConsumerBench()
    assert alter(bench, HEARTBEAT, "7000") == 0
    assert bench.join("a")["heartbeatIntervalMs"] == 7000
    assert alter(bench, HEARTBEAT, None) == 0
    assert bench.beat("a", 2)["heartbeatIntervalMs"] == 5000


def test_a_group_has_its_own_time_between_two_targets() -> None:
    bench = ConsumerBench()
    assert alter(bench, ASSIGNMENT, "0") == 0
    assert [bench.join(name)["memberEpoch"] for name in "abc"] == [2, 3, 4]


def test_who_may_not_alter_or_describe_is_refused() -> None:
    bench = ConsumerBench(authorizer_class_name=CLASS_NAME, super_users="User:ANONYMOUS")
    assert alter(bench, SESSION, "50000", principal="User:other") == 30
    assert described(bench, principal="User:other") == 30
    assert (alter(bench, SESSION, "50000"), described(bench)) == (0, 0)


@pytest.mark.parametrize(
    ("given", "holds"), [("50000", 50_000), ("46000", 48_000), ("60000", 55_000)]
)
def test_what_the_broker_would_not_take_any_more_counts_as_the_nearest(
    given: str, holds: int
) -> None:
    bounds = {
        "group.consumer.min.session.timeout.ms": "48000",
        "group.consumer.max.session.timeout.ms": "55000",
    }
    settings = BrokerSettings(given=bounds)
    assert group_configs.number(SESSION, {SESSION: given}, settings) == holds


RESET, LOCK = "share.auto.offset.reset", "share.delivery.count.limit"


@pytest.mark.parametrize(
    ("name", "given", "told"),
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
def test_a_value_is_told_as_it_is_read(name: str, given: str, told: str | None) -> None:
    """What a real broker said of each; None: 40 INVALID_CONFIG."""
    bench = Bench()
    assert alter(bench, name, given) == (40 if told is None else 0)
    resource = {"resourceType": GROUP, "resourceName": NAME, "configurationKeys": [name]}
    (response,) = bench.request("DESCRIBE_CONFIGS", 4, {"resources": [resource]})["results"]
    (config,) = response["configs"]
    assert (config["value"] == told) == (config["configSource"] == GIVEN) == (told is not None)


def test_a_session_is_longer_than_the_time_between_two_heartbeats() -> None:
    given = {"group.consumer.min.session.timeout.ms": "1"}
    fault = group_configs.fault({SESSION: "5000"}, BrokerSettings(given=given))
    assert fault == f"{SESSION} must be greater than {HEARTBEAT}"
