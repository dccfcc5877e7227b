"""ListTransactions with a pattern, compared with a real broker."""

from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from tests.support.goldens import Connection, connection_to, tape
from tests.support.machine import Bench
from tests.support.patience import wait_until

NAMES = ("listed-a", "listed-a1", "listed-b")
PATTERNS: dict[str, list[str] | int] = {
    "listed": [],
    "listed-.*": ["listed-a", "listed-a1", "listed-b"],
    "listed-a": ["listed-a"],
    "listed-[ab]": ["listed-a", "listed-b"],
    "^listed-a$": ["listed-a"],
    "(?i)LISTED-A": ["listed-a"],
    r"(?P<name>listed)-a\d+": ["listed-a1"],
    "listed-a|b": ["listed-a"],
    "(": 128,
    "*": 128,
    "[": 128,
    "x**": 128,
    "(?=l)isted": 128,
    r".*\Ca": 128,
    "a{1001}": 128,
}
"""Patterns with a real broker's list or error."""

BEGIN = {"transactionTimeoutMs": 60_000, "producerId": -1, "producerEpoch": -1}


def listed(response: dict[str, Any]) -> list[str] | int:
    if response["errorCode"]:
        assert (response["unknownStateFilters"], response["transactionStates"]) == ([], [])
        return int(response["errorCode"])
    return sorted(each["transactionalId"] for each in response["transactionStates"])


def list_request(pattern: str | None) -> dict[str, Any]:
    filters = {"producerIdFilters": [], "durationFilter": -1, "transactionalIdPattern": pattern}
    return {"stateFilters": ["Nope"] if pattern == "(" else [], **filters}


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    for name in (NAMES[0], *NAMES):  # creates the topic
        bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=[name])
        for _ in range(2):
            bench.request("INIT_PRODUCER_ID", 4, BEGIN, transactionalId=name)
    return bench


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS.items())
def test_pattern_must_match_whole_names(
    bench: Bench, pattern: str, expected: list[str] | int
) -> None:
    assert listed(bench.request("LIST_TRANSACTIONS", 2, list_request(pattern))) == expected


@pytest.mark.parametrize("nothing", ["", None])
def test_missing_pattern_matches_all(bench: Bench, nothing: str | None) -> None:
    assert listed(bench.request("LIST_TRANSACTIONS", 2, list_request(nothing))) == sorted(NAMES)


@pytest.mark.compares
def test_kafka_matches_the_same_names(real_kafka: Address) -> None:
    with tape("transactions/listed") as recording:
        real = recording.connection(lambda: connection_to(real_kafka))
        for name in NAMES:
            wait_until(lambda name=name: has_begun(real, name))
        for pattern, expected in PATTERNS.items():
            assert listed(real.call("ListTransactions", 2, list_request(pattern))) == expected, (
                pattern
            )
        real.close()


def has_begun(real: Connection, name: str) -> bool:
    real.call("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [name]})
    begun = real.call("InitProducerId", 4, {"transactionalId": name, **BEGIN})
    return not begun["errorCode"]
