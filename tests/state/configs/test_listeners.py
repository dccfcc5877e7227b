"""Changes of a running broker's listeners."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.configs import listeners
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.configs.dynamic_configs import layered
from tests.support.configs import BROKER, DELETE, SET, alter, describe
from tests.support.machine import Bench

GIVEN = {
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,THIRD:SSL",
}
SECOND = "PLAINTEXT://:9092,SECOND://localhost:9093"


def bench_with(values: dict[str, str]) -> Bench:
    return Bench(given=parse(values)[0].given)


def altered(bench: Bench, listed: str | None, **request: Any) -> tuple[int, str | None]:
    """Error and message of changing `listeners` of broker 1."""
    change = ("listeners", DELETE if listed is None else SET, listed)
    if request:
        resource = {"resourceType": BROKER, "resourceName": "1"}
        configs = [{"name": change[0], "configOperation": change[1], "value": change[2]}]
        body = {"resources": [resource | {"configs": configs}], **request}
        response = bench.request("INCREMENTAL_ALTER_CONFIGS", 1, body)
    else:
        response = alter(bench, "INCREMENTAL_ALTER_CONFIGS", 1, [(BROKER, "1", [change])])
    found = response["responses"][0]
    return found["errorCode"], found["errorMessage"]


def reachable(bench: Bench, listener: str) -> tuple[int, int, int]:
    brokers = bench.request("METADATA", 12, topics=[], listener=listener)["brokers"]
    cluster = bench.request("DESCRIBE_CLUSTER", 1, {}, listener=listener)
    assert len(cluster["brokers"]) == len(brokers)
    sought = {"keyType": 0, "coordinatorKeys": ["g"]}
    coordinator = bench.request("FIND_COORDINATOR", 6, sought, listener=listener)["coordinators"][0]
    return len(brokers), cluster["controllerId"], coordinator["errorCode"]


def test_added_listener_has_no_brokers() -> None:
    bench = bench_with(GIVEN)
    reachable(bench, "SECOND")  # this creates the coordinators' topic
    assert reachable(bench, "SECOND") == (1, 1, 0), "the listener is unknown"
    assert altered(bench, SECOND) == (0, None)
    unreached = (0, -1, Error.COORDINATOR_NOT_AVAILABLE)
    assert (reachable(bench, "SECOND"), reachable(bench, "PLAINTEXT")) == (unreached, (1, 1, 0))
    bench.reload()
    assert reachable(bench, "SECOND") == unreached
    assert altered(bench, None) == (0, None)


@pytest.mark.parametrize("is_advertised", [True, False])
def test_listener_can_be_removed_if_it_is_not_advertised(is_advertised: bool) -> None:
    """Without `advertised.listeners` all are advertised."""
    given = {n: t for n, t in GIVEN.items() if is_advertised or n != "advertised.listeners"}
    bench = bench_with(given)
    assert altered(bench, SECOND) == (0, None)
    error, message = altered(bench, None)
    assert (error, message is None) == (
        0 if is_advertised else Error.INVALID_REQUEST,
        is_advertised,
    )
    error, message = altered(bench, "SECOND://localhost:9093")
    assert error == Error.INVALID_REQUEST
    assert ("must be equal to or a subset" if is_advertised else "inter.broker") in (message or "")


def test_store_errors_of_the_edge_precede_those_of_running_listeners() -> None:
    bench = bench_with(GIVEN)
    wrong = "PLAINTEXT://:9092,THIRD://localhost:9092"
    for listed, words in ((wrong, "different port"), (SECOND, "the store is bad")):
        error, message = altered(bench, listed, edge={"storeFault": "the store is bad"})
        assert error == Error.INVALID_REQUEST
        assert words in (message or "")
    (shown,) = describe(bench, (BROKER, "1"), keys=["num.io.threads"])
    assert shown["configs"][0]["value"] == "8"


def test_opened_listeners_are_those_added_since_the_start() -> None:
    given, _ = parse({**GIVEN, "controller.listener.names": "THIRD"})
    assert listeners.opened(given) == []
    settings = layered(given, {}, {"listeners": f"{SECOND},third://a:1,SECOND://localhost:9093"})
    assert [tuple(each) for each in listeners.opened(settings)] == [("SECOND", "localhost", 9093)]
