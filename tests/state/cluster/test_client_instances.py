"""Clients that ask which metrics are wanted of them, and push some: one by one, by virtual time."""

from typing import Any

import pytest

from brokertwin.state.cell import check
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster import client_instances
from brokertwin.state.cluster.client_instances import Counts, Instance
from brokertwin.state.core.schema import ZERO_UUID
from tests.support.configs import DELETE, METRICS, SET, Change, alter
from tests.support.machine import Bench
from tests.support.recorded import exchanges, replay

FIRST, SECOND, THIRD, FOURTH = ("A" * 20 + letter + "A" for letter in "BCDE")
MINUTE_MS = 60_000
DEFAULT_MS = 300_000
OK, THROTTLED, INVALID, UNKNOWN_ID, NO_CODEC, TOO_LARGE, UNREADABLE = 0, 89, 42, 117, 76, 118, 87


def subscribe(bench: Bench, name: str = "told", *changes: Change) -> None:
    answer = alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, [(METRICS, name, list(changes))])
    assert answer["responses"][0]["errorCode"] == 0, answer


def get(bench: Bench, instance_id: str = FIRST, **event: Any) -> dict[str, Any]:
    return bench.request(
        "GET_TELEMETRY_SUBSCRIPTIONS", 0, {"clientInstanceId": instance_id}, **event
    )


def push(bench: Bench, told: dict[str, Any], **fields: Any) -> int:
    body = {name: told[name] for name in ("clientInstanceId", "subscriptionId")} | fields
    return int(bench.request("PUSH_TELEMETRY", 0, body)["errorCode"])


def test_a_recorded_client_is_answered_as_by_a_real_broker() -> None:
    """Ids, codecs, sizes, subscriptions that come and match; all within one push interval."""
    recorded = exchanges("client_metrics")
    assert {each["api"] for each in recorded} > {"GET_TELEMETRY_SUBSCRIPTIONS", "PUSH_TELEMETRY"}
    assert replay(Bench(), recorded) == []


def test_a_client_without_an_id_is_given_one_by_the_nonce_or_the_choice() -> None:
    bench = Bench()
    drawn = [get(bench, ZERO_UUID)["clientInstanceId"] for _ in range(2)]
    assert len({*drawn, ZERO_UUID}) == 3
    chosen = get(bench, ZERO_UUID, choices={"clientInstanceId": THIRD})
    assert chosen["clientInstanceId"] == THIRD


def test_a_push_may_follow_a_get_at_once_and_then_comes_once_in_an_interval() -> None:
    bench = Bench()
    told = get(bench)
    assert (push(bench, told), push(bench, told)) == (OK, THROTTLED)
    bench.now += DEFAULT_MS - 1
    assert (push(bench, told), get(bench)["errorCode"]) == (THROTTLED, THROTTLED)
    bench.now += 1
    assert (push(bench, told), get(bench)["errorCode"]) == (OK, THROTTLED)


@pytest.mark.parametrize(
    ("fields", "error", "may_ask_again"),
    [
        ({}, OK, False),
        ({"subscriptionId": 1, "compressionType": 9}, UNKNOWN_ID, True),
        ({"compressionType": 9, "metricsSizeInBytes": 101}, NO_CODEC, True),
        ({"compressionType": 5}, NO_CODEC, True),
        ({"compressionType": 4, "metricsSizeInBytes": 101}, TOO_LARGE, False),
        ({"metricsSizeInBytes": 101}, TOO_LARGE, False),
        ({"metricsSizeInBytes": 100, "decompressedSizeInBytes": -1}, OK, False),
        (
            {"compressionType": 4, "metricsSizeInBytes": 9, "decompressedSizeInBytes": 100},
            OK,
            False,
        ),
        (
            {"compressionType": 4, "metricsSizeInBytes": 9, "decompressedSizeInBytes": 101},
            UNREADABLE,
            False,
        ),
        (
            {"compressionType": 1, "metricsSizeInBytes": 9, "decompressedSizeInBytes": -1},
            UNREADABLE,
            False,
        ),
    ],
)
def test_what_refuses_a_push_in_this_order(
    fields: dict[str, Any], error: int, may_ask_again: bool
) -> None:
    bench = Bench(telemetry_max_bytes=100)
    told = get(bench)
    assert told["telemetryMaxBytes"] == 100
    assert push(bench, told, **fields) == error
    assert get(bench)["errorCode"] == (OK if may_ask_again else THROTTLED)


def test_who_says_that_it_ends_is_not_throttled_and_is_refused_once_if_it_goes_on() -> None:
    bench = Bench()
    told = get(bench)
    found = [
        push(bench, told, terminating=ends)
        for ends in (False, False, True, True, False, False, True, False)
    ]
    assert found == [OK, THROTTLED, OK, INVALID, INVALID, THROTTLED, OK, INVALID]


@pytest.mark.parametrize("instance_id", [ZERO_UUID, "A" * 21 + "Q"])
def test_reserved_ids_push_nothing(instance_id: str) -> None:
    told = {"clientInstanceId": instance_id, "subscriptionId": 0}
    assert push(Bench(), told) == INVALID


def test_a_subscription_is_of_those_who_match_all_of_its_patterns() -> None:
    bench = Bench()
    port = {"clientSoftwareName": "java", "clientSourcePort": 7}
    for name, match in {
        "all": "client_id=a.*,client_source_address=10\\..*,client_source_port=7",
        "one not": "client_id=a.*,client_software_name=jav",
        "not known": "client_software_version=1",
        "of everybody": "",
    }.items():
        subscribe(bench, name, ("metrics", SET, f"{name}."), ("match", SET, match))

    def wanted(instance_id: str, body: dict[str, Any], client_id: str | None) -> list[str]:
        body = {"clientInstanceId": instance_id, **body}
        head = {"requestApiKey": 71, "requestApiVersion": 0, "clientId": client_id}
        event = {"host": "10.0.0.1", "requestHeader": head}
        told = bench.request("GET_TELEMETRY_SUBSCRIPTIONS", 0, body, **event)
        return sorted(told["requestedMetrics"])

    assert wanted(FIRST, port, "app") == ["all.", "of everybody."]
    assert wanted(SECOND, port, None) == ["of everybody."]
    assert wanted(THIRD, {}, "app") == ["of everybody."]


def test_metrics_of_all_subscriptions_are_wanted_as_often_as_the_most_frequent_asks() -> None:
    bench = Bench()
    subscribe(bench, "a", ("metrics", SET, "z.,b."), ("interval.ms", SET, "400000"))
    subscribe(bench, "b", ("metrics", SET, "b.,c."), ("interval.ms", SET, "500"))
    told = get(bench)
    assert (sorted(told["requestedMetrics"]), told["pushIntervalMs"]) == (["b.", "c.", "z."], 500)
    subscribe(bench, "c", ("metrics", SET, "q.,*"))
    again = get(bench)
    assert again["requestedMetrics"] == ["*"]
    assert again["subscriptionId"] != told["subscriptionId"]


def test_a_change_of_any_subscription_lets_everybody_begin_anew() -> None:
    bench = Bench()
    told = get(bench, connection="c1")
    push(bench, told, terminating=True)
    subscribe(bench, "of others", ("match", SET, "client_id=nobody"))
    assert push(bench, told) == OK
    assert get(bench)["errorCode"] == THROTTLED
    subscribe(bench, "of others", ("match", DELETE, None))
    assert get(bench)["errorCode"] == OK


def test_who_is_silent_for_three_intervals_or_a_minute_is_forgotten() -> None:
    bench = Bench()
    subscribe(bench, "told", ("interval.ms", SET, "100"))
    told = get(bench)
    assert push(bench, told, terminating=True) == OK
    bench.now += MINUTE_MS - 1
    assert push(bench, told, terminating=True) == INVALID
    bench.now += MINUTE_MS
    assert push(bench, told) == OK


def end(bench: Bench, connection: str, broker: int = 1) -> None:
    told = {"id": f"end-{bench.now}-{connection}", "cluster": "bench", "kind": "disconnect"}
    bench.handle({**told, "broker": broker, "connection": connection, "time": bench.now})


def test_an_instance_ends_with_the_connection_that_had_it_matched() -> None:
    bench = Bench()
    for instance_id, connection in ((FIRST, "c1"), (SECOND, "c1"), (THIRD, "c2")):
        assert get(bench, instance_id, connection=connection)["errorCode"] == OK
    get(bench, SECOND, connection="c3")
    bench.reload()
    for connection in ("c3", "c1", "c1"):
        end(bench, connection)
    asked = [get(bench, each, connection="c4")["errorCode"] for each in (FIRST, SECOND, THIRD)]
    assert asked == [THROTTLED, OK, THROTTLED]
    end(bench, "c2")
    assert get(bench, THIRD)["errorCode"] == OK


def test_a_broker_that_stops_knows_nobody() -> None:
    bench = Bench(brokers=(1, 2))
    bench.settings.may_intervene = True
    for instance_id in (FIRST, SECOND):
        get(bench, instance_id, broker=2, connection="c1")
    for kind in ("stop-broker", "start-broker"):
        bench.handle({"id": kind, "cluster": "bench", "kind": kind, "broker": 2, "time": bench.now})
    end(bench, "c1", broker=2)
    assert get(bench, FIRST, broker=2)["errorCode"] == OK
    assert bench.dead_letters() == []


def test_of_too_many_the_one_that_was_silent_for_longest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_instances, "INSTANCES_MAX", 3)
    bench = Bench()
    for instance_id in (FIRST, SECOND, THIRD):
        get(bench, instance_id)
    get(bench, FIRST)
    bench.reload()
    get(bench, FOURTH)
    keys = bench.cell.tables.client_instances.keys("1/client-instance/")
    assert keys == [f"1/client-instance/{each}" for each in (FIRST, THIRD, FOURTH)]


def broken(bench: Bench, key: str, name: str, value: Any) -> list[str]:
    table = bench.cell.tables.client_instances
    kind = Counts if key.endswith("instances") else Instance
    setattr(table.change(key, kind), name, value)
    return check.check(Cell(bench.settings, bench.cell.columns()))


@pytest.mark.parametrize(
    ("key", "name", "value", "words"),
    [
        ("1/client-instances", "requests", 1, "is ahead of"),
        (f"1/client-instance/{FIRST}", "as_of", 1, "is ahead of"),
        (f"1/client-instance/{FIRST}", "connections", ["c1"], "and so does another"),
    ],
)
def test_what_is_wrong_with_instances_is_found(key: str, name: str, value: Any, words: str) -> None:
    bench = Bench()
    for instance_id in (FIRST, SECOND):
        get(bench, instance_id)
    assert check.check(bench.cell) == []
    assert words in " ".join(broken(bench, key, name, value))
