"""What errors mean: each that a recorded broker gave to a producer or a member has its rule."""

import pytest

from brokerstream.state.core.errors import Error, error_name
from brokerstream.streaming.explain import groups, producers
from brokerstream.streaming.explain.bodies import errors
from brokerstream.streaming.explain.rules import RULES
from brokerstream.streaming.explain.story import Refused
from brokerstream.streaming.replay.recording import read
from tests.support.sources import ROOT

CAPTURES = sorted((ROOT / "tests" / "captures").glob("*.jsonl.gz"))
OF_REQUESTS = {
    *(Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID, Error.INVALID_REQUIRED_ACKS),
    *(Error.CORRUPT_MESSAGE, Error.INVALID_REQUEST, Error.INVALID_RECORD),
    *(Error.COORDINATOR_NOT_AVAILABLE, Error.UNSUPPORTED_VERSION),
    Error.GROUP_SUBSCRIBED_TO_TOPIC,
}
"""Errors that are not about a producer or a member."""


def test_every_error_of_the_captures_is_explained() -> None:
    given = {
        code
        for exchange in read(CAPTURES).exchanges
        if exchange.api in producers.APIS | groups.APIS
        for code in errors(exchange.response)
    }
    without = {error_name(code) for code in given - OF_REQUESTS if Refused(code).rule is None}
    assert without == set()
    assert len(given) > 10


@pytest.mark.parametrize("error", RULES, ids=lambda error: error.name)
def test_a_rule_says_why_where_from_and_what_to_do(error: Error) -> None:
    rule = RULES[error]
    assert all(part.strip() for part in rule)
    assert rule.why.endswith(".")
    assert rule.do.endswith(".")
