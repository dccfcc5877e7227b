"""Client instances: GetTelemetrySubscriptions and PushTelemetry, in virtual time."""

from typing import Any

import pytest

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.cell import check
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster import client_instances
from brokertwin.state.cluster.client_instances import ClientInstance, InstanceCounts
from tests.support.configs import DELETE, METRICS, SET, Change, alter
from tests.support.machine import Bench
from tests.support.recorded import exchanges, replay

FIRST, SECOND, THIRD, FOURTH = ("A" * 20 + letter + "A" for letter in "BCDE")
MINUTE_MS = 60_000
DEFAULT_MS = 300_000
OK, THROTTLED, INVALID, UNKNOWN_ID, NO_CODEC, TOO_LARGE, UNREADABLE = 0, 89, 42, 117, 76, 118, 87


def subscribe(bench: Bench, name: str = "told", *changes: Change) -> None:
    response = alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, [(METRICS, name, list(changes))])
    assert response["responses"][0]["errorCode"] == 0, response


def get(bench: Bench, instance_id: str = FIRST, **event: Any) -> dict[str, Any]:
    return bench.request("GET_TELEMETRY_SUBSCRIPTIONS", 0, clientInstanceId=instance_id, **event)


def push(bench: Bench, response: dict[str, Any], **fields: Any) -> int:
    body = {name: response[name] for name in ("clientInstanceId", "subscriptionId")} | fields
    return int(bench.request("PUSH_TELEMETRY", 0, body)["errorCode"])


def test_recorded_client_gets_the_responses_of_a_real_broker() -> None:
    """Ids, codecs, sizes, subscriptions that are added and match; within one push interval."""
    recorded = exchanges("client_metrics")
    assert {each["api"] for each in recorded} > {"GET_TELEMETRY_SUBSCRIPTIONS", "PUSH_TELEMETRY"}
    assert replay(Bench(), recorded) == []


def test_client_without_an_id_gets_one_from_nonce_or_choice() -> None:
    bench = Bench()
    drawn = [get(bench, ZERO_UUID)["clientInstanceId"] for _ in range(2)]
    assert len({*drawn, ZERO_UUID}) == 3
    chosen = get(bench, ZERO_UUID, choices={"clientInstanceId": THIRD})
    assert chosen["clientInstanceId"] == THIRD


def test_push_is_accepted_after_a_get_and_then_once_in_an_interval() -> None:
    bench = Bench()
    response = get(bench)
    assert (push(bench, response), push(bench, response)) == (OK, THROTTLED)
    bench.now += DEFAULT_MS - 1
    assert (push(bench, response), get(bench)["errorCode"]) == (THROTTLED, THROTTLED)
    bench.now += 1
    assert (push(bench, response), get(bench)["errorCode"]) == (OK, THROTTLED)


@pytest.mark.parametrize(
    ("fields", "error", "may_request_again"),
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
def test_errors_of_a_push_in_their_order(
    fields: dict[str, Any], error: int, may_request_again: bool
) -> None:
    bench = Bench(telemetry_max_bytes=100)
    response = get(bench)
    assert response["telemetryMaxBytes"] == 100
    assert push(bench, response, **fields) == error
    assert get(bench)["errorCode"] == (OK if may_request_again else THROTTLED)


def test_terminating_push_is_not_throttled_and_later_ones_fail_once() -> None:
    bench = Bench()
    response = get(bench)
    actual = [
        push(bench, response, terminating=ends)
        for ends in (False, False, True, True, False, False, True, False)
    ]
    assert actual == [OK, THROTTLED, OK, INVALID, INVALID, THROTTLED, OK, INVALID]


@pytest.mark.parametrize("instance_id", [ZERO_UUID, "A" * 21 + "Q"])
def test_reserved_ids_cannot_push(instance_id: str) -> None:
    response = {"clientInstanceId": instance_id, "subscriptionId": 0}
    assert push(Bench(), response) == INVALID


def test_subscription_matches_clients_by_all_of_its_patterns() -> None:
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
        response = bench.request("GET_TELEMETRY_SUBSCRIPTIONS", 0, body, **event)
        return sorted(response["requestedMetrics"])

    assert wanted(FIRST, port, "app") == ["all.", "of everybody."]
    assert wanted(SECOND, port, None) == ["of everybody."]
    assert wanted(THIRD, {}, "app") == ["of everybody."]


def test_matching_subscriptions_are_combined_with_the_shortest_interval() -> None:
    bench = Bench()
    subscribe(bench, "a", ("metrics", SET, "z.,b."), ("interval.ms", SET, "400000"))
    subscribe(bench, "b", ("metrics", SET, "b.,c."), ("interval.ms", SET, "500"))
    response = get(bench)
    assert (sorted(response["requestedMetrics"]), response["pushIntervalMs"]) == (
        ["b.", "c.", "z."],
        500,
    )
    subscribe(bench, "c", ("metrics", SET, "q.,*"))
    again = get(bench)
    assert again["requestedMetrics"] == ["*"]
    assert again["subscriptionId"] != response["subscriptionId"]


def test_changed_subscription_resets_all_instances() -> None:
    bench = Bench()
    response = get(bench, connection="c1")
    push(bench, response, terminating=True)
    subscribe(bench, "of others", ("match", SET, "client_id=nobody"))
    assert push(bench, response) == OK
    assert get(bench)["errorCode"] == THROTTLED
    subscribe(bench, "of others", ("match", DELETE, None))
    assert get(bench)["errorCode"] == OK


def test_instance_expires_after_three_intervals_or_a_minute() -> None:
    bench = Bench()
    subscribe(bench, "told", ("interval.ms", SET, "100"))
    response = get(bench)
    assert push(bench, response, terminating=True) == OK
    bench.now += MINUTE_MS - 1
    assert push(bench, response, terminating=True) == INVALID
    bench.now += MINUTE_MS
    assert push(bench, response) == OK


def end(bench: Bench, connection: str, broker: int = 1) -> None:
    response = {"id": f"end-{bench.now}-{connection}", "cluster": "bench", "kind": "disconnect"}
    bench.handle({**response, "broker": broker, "connection": connection, "time": bench.now})


def test_instance_is_dropped_with_the_connection_that_matched_it() -> None:
    bench = Bench()
    for instance_id, connection in ((FIRST, "c1"), (SECOND, "c1"), (THIRD, "c2")):
        assert get(bench, instance_id, connection=connection)["errorCode"] == OK
    get(bench, SECOND, connection="c3")
    bench.reload()
    for connection in ("c3", "c1", "c1"):
        end(bench, connection)
    errors = [get(bench, each, connection="c4")["errorCode"] for each in (FIRST, SECOND, THIRD)]
    assert errors == [THROTTLED, OK, THROTTLED]
    end(bench, "c2")
    assert get(bench, THIRD)["errorCode"] == OK


def test_stopped_broker_drops_all_instances() -> None:
    bench = Bench(brokers=(1, 2))
    bench.settings.may_intervene = True
    for instance_id in (FIRST, SECOND):
        get(bench, instance_id, broker=2, connection="c1")
    for kind in ("stop-broker", "start-broker"):
        bench.handle({"id": kind, "cluster": "bench", "kind": kind, "broker": 2, "time": bench.now})
    end(bench, "c1", broker=2)
    assert get(bench, FIRST, broker=2)["errorCode"] == OK
    assert bench.dead_letters() == []


def test_instance_idle_for_longest_is_dropped_beyond_the_limit(
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
    kind = InstanceCounts if key.endswith("instances") else ClientInstance
    setattr(table.change(key, kind), name, value)
    return check.check(Cell(bench.settings, bench.cell.columns()))


@pytest.mark.parametrize(
    ("key", "name", "value", "words"),
    [
        ("1/client-instances", "requests", 1, "is ahead of"),
        (f"1/client-instance/{FIRST}", "as_of", 1, "is ahead of"),
        (f"1/client-instance/{FIRST}", "connections", ["c1"], "with another instance"),
    ],
)
def test_check_finds_broken_instances(key: str, name: str, value: Any, words: str) -> None:
    bench = Bench()
    for instance_id in (FIRST, SECOND):
        get(bench, instance_id)
    assert check.check(bench.cell) == []
    assert words in " ".join(broken(bench, key, name, value))
