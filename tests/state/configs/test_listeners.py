"""Listeners of a broker that change while it runs, without a real one beside it."""

from typing import Any

import pytest

from brokertwin.state.configs import listeners
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.configs.dynamic_configs import layered
from brokertwin.state.core.errors import Error
from tests.support.configs import BROKER, DELETE, SET, alter, describe
from tests.support.machine import Bench

GIVEN = {
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,THIRD:SSL",
}
SECOND = "PLAINTEXT://:9092,SECOND://localhost:9093"


def bench_with(given: dict[str, str]) -> Bench:
    return Bench(given=parse(given)[0].given)


def altered(bench: Bench, listed: str | None, **request: Any) -> tuple[int, str | None]:
    """What becomes of `listeners` of broker 1."""
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


def told(bench: Bench, listener: str) -> tuple[int, int, int]:
    """How many brokers a client is told of by a listener; the controller; a coordinator's error."""
    brokers = bench.request("METADATA", 12, {"topics": []}, listener=listener)["brokers"]
    cluster = bench.request("DESCRIBE_CLUSTER", 1, {}, listener=listener)
    assert len(cluster["brokers"]) == len(brokers)
    sought = {"keyType": 0, "coordinatorKeys": ["g"]}
    found = bench.request("FIND_COORDINATOR", 6, sought, listener=listener)["coordinators"][0]
    return len(brokers), cluster["controllerId"], found["errorCode"]


def test_by_a_listener_that_was_added_no_broker_is_reached() -> None:
    bench = bench_with(GIVEN)
    told(bench, "SECOND")  # the coordinators' topic comes
    assert told(bench, "SECOND") == (1, 1, 0), "nobody knows of such a listener"
    assert altered(bench, SECOND) == (0, None)
    unreached = (0, -1, Error.COORDINATOR_NOT_AVAILABLE)
    assert (told(bench, "SECOND"), told(bench, "PLAINTEXT")) == (unreached, (1, 1, 0))
    bench.reload()
    assert told(bench, "SECOND") == unreached
    assert altered(bench, None) == (0, None)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_listener_goes_where_it_is_not_advertised(is_told: bool) -> None:
    """Without `advertised.listeners` all are, and none goes."""
    given = {n: t for n, t in GIVEN.items() if is_told or n != "advertised.listeners"}
    bench = bench_with(given)
    assert altered(bench, SECOND) == (0, None)
    error, said = altered(bench, None)
    assert (error, said is None) == (0 if is_told else Error.INVALID_REQUEST, is_told)
    error, said = altered(bench, "SECOND://localhost:9093")
    assert error == Error.INVALID_REQUEST
    assert ("must be equal to or a subset" if is_told else "inter.broker") in (said or "")


def test_what_the_edge_has_against_stores_comes_before_what_runs_has() -> None:
    bench = bench_with(GIVEN)
    wrong = "PLAINTEXT://:9092,THIRD://localhost:9092"
    for listed, words in ((wrong, "different port"), (SECOND, "the store is bad")):
        error, said = altered(bench, listed, edge={"storeFault": "the store is bad"})
        assert error == Error.INVALID_REQUEST
        assert words in (said or "")
    (shown,) = describe(bench, (BROKER, "1"), keys=["num.io.threads"])
    assert shown["configs"][0]["value"] == "8"


def test_listeners_that_were_added_are_those_beside_the_ones_of_the_start() -> None:
    given, _ = parse({**GIVEN, "controller.listener.names": "THIRD"})
    assert listeners.opened(given) == []
    found = layered(given, {}, {"listeners": f"{SECOND},third://a:1,SECOND://localhost:9093"})
    assert [tuple(each) for each in listeners.opened(found)] == [("SECOND", "localhost", 9093)]
