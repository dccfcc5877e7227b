"""States of a broker at the controller, from its heartbeats."""

import random

import pytest

from brokertwin.recordings.history.brokers import (
    APPLY_MS,
    REJOIN_MS,
    SILENT_MS,
    Absence,
    BrokerPresence,
    BrokerSpan,
    BrokerState,
    heartbeat,
)

ACTIVE, LEAVING, FENCED = BrokerState
END = 100_000.0


def presence(*heartbeats: tuple[BrokerState, float]) -> BrokerPresence:
    found = BrokerPresence()
    for state, time in heartbeats:
        found.add(BrokerSpan(state, time, time))
    return found


def test_regular_heartbeats_are_one_span() -> None:
    found = presence(*((ACTIVE, 2_000.0 * n) for n in range(50)))
    assert [(each.begin, each.end) for each in found.spans] == [(0, 98_000)]
    assert found.absence(0, 50_000, END) is Absence.NO


def test_broker_that_shuts_down_has_left_when_leaders_know() -> None:
    found = presence((ACTIVE, 0), (LEAVING, 1_000))
    assert found.absence(0, 999, END) is Absence.NO
    assert found.absence(0, 1_000, END) is Absence.DECIDED
    assert found.absence(0, 1_001 + APPLY_MS, END) is Absence.CERTAIN


def test_broker_that_returned_was_away_only_before() -> None:
    found = presence((LEAVING, 1_000), (FENCED, 9_000), (ACTIVE, 10_000), (ACTIVE, 11_000))
    assert found.absence(500, 11_000, END) is Absence.CERTAIN
    assert found.absence(10_500, 11_000, END) is Absence.NO


def test_silence_is_no_proof() -> None:
    found = presence((ACTIVE, 0), (ACTIVE, SILENT_MS + 1))
    assert found.absence(0, 1_000, END) is Absence.POSSIBLE
    assert found.absence(0, SILENT_MS + REJOIN_MS + 2, END) is Absence.POSSIBLE
    assert found.absence(SILENT_MS + 1, SILENT_MS + 2, SILENT_MS + 2) is Absence.NO


def test_silence_until_the_end_of_the_log_may_be_absence() -> None:
    found = presence((ACTIVE, 0))
    assert found.absence(0, 1_000, 1_500) is Absence.NO
    assert found.absence(0, 1_000, END) is Absence.POSSIBLE


def test_order_of_heartbeats_does_not_matter() -> None:
    reported = [(ACTIVE, 1_000.0 * n) for n in range(10)]
    reported += [(LEAVING, 10_000.0), (FENCED, 20_000.0), (ACTIVE, 21_000.0), (ACTIVE, 22_000.0)]
    expected = presence(*reported).spans
    for seed in range(20):
        random.Random(seed).shuffle(reported)
        assert presence(*reported).spans == expected


@pytest.mark.parametrize(
    ("api", "request_", "response", "state"),
    [
        ("BROKER_HEARTBEAT", {}, {"isFenced": False}, ACTIVE),
        ("BROKER_HEARTBEAT", {}, {"isFenced": True}, FENCED),
        ("BROKER_HEARTBEAT", {"wantShutDown": True}, {"isFenced": False}, LEAVING),
        ("BROKER_REGISTRATION", {}, {"brokerEpoch": 5}, FENCED),
    ],
)
def test_state_in_a_heartbeat(
    api: str, request_: dict[str, object], response: dict[str, object], state: BrokerState
) -> None:
    assert heartbeat(api, {"brokerId": 3} | request_, response) == (3, state)
    assert heartbeat(api, {"brokerId": 3} | request_, {"errorCode": 41}) is None
