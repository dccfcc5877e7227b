"""A recording that begins in the middle of a broker's life."""

from pathlib import Path

import pytest

from brokertwin.recordings.replay import local, recording, report
from brokertwin.recordings.replay.plan import ReplayPlan, plan
from brokertwin.state.core.settings import BrokerSettings
from tests.support.sources import ROOT

CAPTURES = ROOT / "tests" / "captures"


def planned(name: str) -> tuple[recording.Recording, ReplayPlan]:
    history = recording.read([Path(CAPTURES / f"{name}.jsonl.gz")])
    settings = BrokerSettings(auto_create_topics_enable=False, offsets_topic_num_partitions=10)
    return history, plan(history, "recorded", settings, is_compared=True)


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("idempotent_producer_kp", []),
        ("idempotent_producer_ck", ["producer ids of broker 1"]),
        ("compression_acks", []),
        ("offset_reset", ["producer ids of broker 1", "topic __consumer_offsets"]),
        ("txn_fencing_ck", ["producer ids of broker 1", "topic __transaction_state"]),
        (
            "raw_produce_errors",
            [
                "producer ids of broker 1",
                "topic __transaction_state",
                "topic __consumer_offsets",
            ],
        ),
    ],
)
def test_first_responses_show_earlier_entities(name: str, about: list[str]) -> None:
    _, plan_made = planned(name)
    assert [request.about for request in plan_made.earlier] == about


def test_recorder_requests_are_not_counted() -> None:
    history, plan_made = planned("idempotent_producer_ck")
    responses = local.run(plan_made.documents, plan_made.settings)
    compared = report.compare_all(history.exchanges, plan_made.schedule, responses, frozenset())
    assert len(compared) == len(history.exchanges) == 534
    assert report.agreeing(compared) == 534
