"""Ids that the machine would have picked are held against the broker's; choices replace them.

Each fault is planted into the machine; a choice hides it in every response.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokertwin.kafka_io import properties
from brokertwin.recordings.replay import local, report
from brokertwin.recordings.replay.comparison import CompareVerdict
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import Recording, read
from brokertwin.state.apis import join_group
from brokertwin.state.cluster import topics
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.fetch import fetch_session
from brokertwin.state.fetch.shards import ShardLayout
from brokertwin.state.transactions import producer_ids
from tests.support.races import (
    SETTINGS,
    TimedRequest,
    create,
    fetch,
    produce,
    recorded,
    replayed,
)
from tests.support.sources import ROOT

CAPTURES = ROOT / "tests" / "captures"
BODY = {"transactionalId": None, "transactionTimeoutMs": 60000}


def differing(capture: str) -> list[report.Compared]:
    settings, _ = parse(properties.read(Path(CAPTURES / "broker.properties")))
    recording = read([CAPTURES / f"{capture}.jsonl.gz"])
    planned = plan(recording, "recorded", settings, is_compared=True)
    responses = local.run(planned.documents, planned.settings)
    compared = report.compare_all(recording.exchanges, planned.schedule, responses, frozenset())
    return [one for one in compared if one.outcome.verdict is CompareVerdict.DIFFER]


NEXT_ID = producer_ids.next_id


def one_producer_id(*of: Any) -> int | None:
    return None if NEXT_ID(*of) is None else 7


def one_member_id(join: Any) -> str:
    return str(join._request.choices.member_id or "member-1")


def one_session_id(cache: Any, new: fetch_session.NewSession, number: int) -> int:
    return new.chosen_id or number * ShardLayout(0).id_range + 1


def one_topic_id(
    name: str, chosen: str | None, seeds: tuple[str, ...], is_taken: Callable[[str], bool]
) -> str:
    return chosen or topics.derive_uuid("topic")


@pytest.mark.parametrize(
    ("capture", "target", "name", "fault", "path"),
    [
        ("raw_produce_errors", producer_ids, "next_id", one_producer_id, "producerId"),
        ("raw_group_errors", join_group._Join, "_new_id", one_member_id, "memberId"),
        ("raw_fetch_errors", fetch_session.SessionCache, "_new_id", one_session_id, "sessionId"),
        ("admin_kp", topics, "new_topic_id", one_topic_id, "topicId"),
    ],
    ids=["one producer id for ever", "one member id", "one session id", "one topic id"],
)
def test_the_same_id_for_all_is_a_difference(
    capture: str, target: Any, name: str, fault: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [one for one in differing(capture) if is_about(one, path)]
    monkeypatch.setattr(target, name, fault)
    found = [one for one in differing(capture) if is_about(one, path)]
    assert found
    assert "an unused id" in found[0].outcome.differences[0].expected


def is_about(one: report.Compared, path: str) -> bool:
    return path in {difference.path for difference in one.outcome.differences}


def test_a_repeated_broker_id_must_be_repeated() -> None:
    """Two producers of no transactional id that the recording gives one id."""
    requests = [
        TimedRequest(name, "INIT_PRODUCER_ID", 4, BODY, at, 1, name)
        for at, name in enumerate(("refused", "first", "second"))
    ]
    recording = recorded(requests, [(one.name, one.at) for one in requests])
    given, again = recording.exchanges[1:]
    again.response["producerId"] = given.response["producerId"]
    _, outcomes = replayed(Recording(recording.exchanges, []))
    assert outcomes["first"].verdict is CompareVerdict.AGREE
    assert outcomes["second"].verdict is CompareVerdict.DIFFER
    assert outcomes["second"].differences[0].expected.endswith("again, without a choice")


def test_held_waits_require_a_second_run_for_responses() -> None:
    """A search holds a wait when it finds that it has to: others may have been answered before."""
    requests = [
        create(),
        fetch("poll", 10, 30, "reader", max_wait=500),
        produce("a", 20, 3, "p1"),
        produce("b", 22, 3, "p2"),
    ]
    recording = recorded(requests, [("create", 0), ("a", 20), ("b", 22), ("poll", 23)])
    plan_with_responses, spared = (
        plan(recording, "c", SETTINGS, is_compared=True, has_responses=looked)
        for looked in (True, False)
    )
    assert plan_with_responses.schedule.held == {"poll"}
    assert plan_with_responses.schedule.responses == local.run(
        plan_with_responses.documents, plan_with_responses.settings
    )
    assert (spared.schedule.responses, spared.ends) == (None, None)
    assert spared.documents == plan_with_responses.documents
