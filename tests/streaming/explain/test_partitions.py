"""The story of a partition: of three brokers that were stopped and killed, and of one alone."""

from functools import cache

import pytest

from brokertwin.errors import UserError
from brokertwin.state.core.errors import Error
from brokertwin.streaming.explain.partition_parts import errors_of, parts_of
from brokertwin.streaming.explain.partitions import Partitions
from brokertwin.streaming.explain.story import Entry
from brokertwin.streaming.ingest.pipeline import Reading, read_files
from brokertwin.streaming.observed.watching import Watched, watch
from tests.support.audits import RECORDINGS


@cache
def watched(name: str) -> Watched:
    return watch(lambda summary: read_files(RECORDINGS[name], Reading(), summary))


def notes(story: list[Entry], words: str) -> list[str]:
    return [note for entry in story for note in entry.notes if words in note]


def reasons(story: list[Entry], error: Error) -> list[str]:
    return [each.because for entry in story for each in entry.refused if each.code == error]


def test_a_leader_that_was_killed_and_came_back() -> None:
    story = Partitions(watched("leader_kill"), "lk-0").story()
    assert notes(story, "leads in epoch") == [
        "broker 1 leads in epoch 0",
        "broker 2 leads in epoch 1, before it broker 1",
        "broker 1 leads in epoch 2, before it broker 2",
    ]
    assert notes(story, "in sync are") == [
        "in sync are 1, 2, 3",
        "in sync are 2, 3: broker 1 left",
        "in sync are 1, 2, 3: broker 1 came",
    ]
    assert notes(story, "cut its log")[0] == "broker 1 has to cut its log: epoch 0 ends at 28"
    fenced = reasons(story, Error.FENCED_LEADER_EPOCH)
    assert fenced[0] == (
        "Broker 2 was asked for epoch 1; broker 1 leads in epoch 2, as"
        " broker-2.kafka-request.log:480 shows first (01:22:43.049)."
    )
    assert all(each.endswith("not heard of it yet.") for each in reasons(story, Error(75)))


def test_a_write_that_was_refused_is_told_who_was_in_sync() -> None:
    story = Partitions(watched("follower_stop"), "isr-0").story()
    told = set(reasons(story, Error.NOT_ENOUGH_REPLICAS))
    assert told == {"In sync were 1 since 01:21:59.878 (controller-100.kafka-request.log:262)."}
    wanted = notes(story, "wants broker")
    assert wanted[:2] == ["leader 1 wants broker 3 out", "leader 1 wants broker 3 in"]


def test_who_wrote_and_whose_batch_was_refused() -> None:
    found = Partitions(watched("txn_fencing_ck"), "txn_fencing_ck.14.events-0")
    story = found.story()
    assert notes(story, "first batch") == [
        "producer 13 writes its first batch here",
        "producer 14 writes its first batch here",
    ]
    (first, _) = reasons(story, Error.INVALID_PRODUCER_EPOCH)
    assert first.startswith("client second's INIT_PRODUCER_ID at 00:48:41.227")
    assert found.ending()[2] == (
        "producer 13 epoch 9 wrote last sequences 0 to 0 at offset 12, by client first at"
        " 00:48:44.210"
    )


@pytest.mark.parametrize("name", ["leader_kill", "follower_stop", "raw_fetch_errors"])
def test_every_partitions_story_ends_as_the_observer_does(name: str) -> None:
    observer = watched(name).observer
    for (topic, number), known in observer.partitions.items():
        found = Partitions(watched(name), f"{observer.names.get(topic, topic)}-{number}")
        found.story()
        assert f"in epoch {known.leader_epoch}" in found.ending()[0]
        assert f"high watermark {known.high_watermark}" in found.ending()[1]


def test_a_partition_that_is_not_there_is_told_which_are() -> None:
    with pytest.raises(UserError, match="has no partition orders-0") as told:
        Partitions(watched("leader_kill"), "orders-0")
    assert "lk-0" in str(told.value)


def test_what_is_of_another_partition_is_left_out() -> None:
    body = {
        "errorCode": 1,
        "responses": [
            {"topic": "a", "partitions": [{"partitionIndex": 0, "errorCode": 3}]},
            {"topicId": "id", "partitions": [{"partitionIndex": 0, "errorCode": 5}]},
            {"topic": "a", "errorCode": 7, "partitions": [{"partitionIndex": 1, "errorCode": 6}]},
        ],
    }
    assert list(errors_of(body, {"a"}, 0)) == [7, 3]
    assert list(errors_of(body, {"a", "id"}, 1)) == [7, 6]
    assert [part["errorCode"] for part in parts_of(body, {"id"}, 0)] == [5]
