"""List responses: entities of the history are compared, earlier ones are not."""

from typing import Any

import msgspec
import pytest

from brokertwin.recordings.replay import before
from brokertwin.recordings.replay.comparison import CompareVerdict, ComparisonOutcome
from brokertwin.recordings.replay.freedoms import Freedom
from brokertwin.recordings.replay.recording import Recording
from brokertwin.state.apis import list_groups
from brokertwin.state.cluster.machines import Machine
from tests.support.races import TOPIC, TimedRequest, create, recorded, replayed
from tests.support.synthetic_recording import exchange

GROUP = "ours"
OLDER = "older"
COMMITTED = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": None}
REQUESTED = [
    TimedRequest("find", "FIND_COORDINATOR", 3, {"key": GROUP, "keyType": 0}, 0, 1, "admin"),
    create(at=10),
    TimedRequest(
        "commit",
        "OFFSET_COMMIT",
        7,
        {"groupId": GROUP, "topics": [{"name": TOPIC, "partitions": [COMMITTED]}]},
        20,
    ),
    TimedRequest("topics", "METADATA", 9, {"topics": None}, 30, 1, "admin"),
    TimedRequest("groups", "LIST_GROUPS", 4, {}, 40, 1, "admin"),
]
LISTS = {"topics": "topics", "groups": "groups"}
"""Request to the list in its response."""


def history() -> Recording:
    recording = recorded(REQUESTED, [(one.name, one.at) for one in REQUESTED])
    listed = recording.exchanges[-1].response["groups"]
    assert [group["groupId"] for group in listed] == [GROUP]
    return recording


def with_older(recording: Recording) -> Recording:
    topics, groups = (msgspec.json.decode(msgspec.json.encode(e)) for e in entries(recording))
    topics.append({**topics[0], "name": OLDER, "topicId": "AAAAAAAAAAAAAAAAAAAAAw"})
    groups.append({**groups[0], "groupId": OLDER})
    changed = {"topics": topics, "groups": groups}
    return Recording(
        [
            msgspec.structs.replace(one, response={**one.response, LISTS[one.id]: changed[one.id]})
            if one.id in LISTS
            else one
            for one in recording.exchanges
        ],
        [],
    )


def entries(recording: Recording) -> list[Any]:
    return [one.response[LISTS[one.id]] for one in recording.exchanges if one.id in LISTS]


def outcomes_of(recording: Recording) -> dict[str, ComparisonOutcome]:
    return replayed(recording)[1]


def test_earlier_entities_are_omitted_and_counted() -> None:
    assert Freedom.BEFORE not in outcomes_of(history())["topics"].used
    outcomes = outcomes_of(with_older(history()))
    assert {outcome.verdict for outcome in outcomes.values()} == {CompareVerdict.AGREE}
    used = {name for name, outcome in outcomes.items() if Freedom.BEFORE in outcome.used}
    assert used == {"topics", "groups"}


def test_a_dropped_topic_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = with_older(history())
    all_topics = Machine.all_topics
    monkeypatch.setattr(
        Machine, "all_topics", lambda self: [t for t in all_topics(self) if t.name != TOPIC]
    )
    outcomes = outcomes_of(recording)
    assert outcomes["topics"].verdict is CompareVerdict.DIFFER
    assert [one.got for one in outcomes["topics"].differences] == ["(absent)"]


def test_a_dropped_group_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = with_older(history())
    monkeypatch.setattr(list_groups.groups, "all_groups", lambda *_: [])
    assert outcomes_of(recording)["groups"].verdict is CompareVerdict.DIFFER


@pytest.mark.parametrize("name", ["topics", "groups"])
def test_one_more_than_recorded_differs(name: str) -> None:
    recording = history()
    for one in recording.exchanges:
        if one.id == name:
            one.response[LISTS[name]] = []
    assert outcomes_of(recording)[name].verdict is CompareVerdict.DIFFER


def test_an_entry_that_both_have_is_compared() -> None:
    recording = with_older(history())
    listed = next(one for one in recording.exchanges if one.id == "groups")
    listed.response["groups"][0]["protocolType"] = "other"
    assert outcomes_of(recording)["groups"].verdict is CompareVerdict.DIFFER


@pytest.mark.parametrize(("version", "is_of_all"), [(0, True), (1, False)])
def test_no_topics_are_all_topics_in_version_0_alone(version: int, is_of_all: bool) -> None:
    """KIP-4: later ones ask for all with null."""
    listed = exchange(1, "a", "METADATA", {"topics": []}, {"topics": []})
    listed.header.request_api_version = version
    assert before._is_of_all(listed) is is_of_all


@pytest.mark.parametrize(
    ("body", "topic"),
    [
        ({"key": "g"}, "__consumer_offsets"),
        ({"key": "t", "keyType": 1}, "__transaction_state"),
    ],
)
def test_a_coordinator_that_is_asked_for_has_an_internal_topic(body: Any, topic: str) -> None:
    """Version 0 has no type of the key: it is of a group."""
    found = before.created(exchange(1, "a", "FIND_COORDINATOR", body, {}))
    assert list(found) == [(before.TOPIC, topic)]
