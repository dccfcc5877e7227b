"""The story of a partition: of three brokers that were stopped and killed, and of one alone."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.recordings.explain.partitions import PartitionTimeline, errors_of, parts_of
from brokertwin.recordings.explain.story import TimelineEntry
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.observed.watching import Watched, watch
from tests.support.audits import RECORDINGS
from tests.support.machine import header
from tests.support.synthetic_recording import START


@cache
def watched(name: str) -> Watched:
    return watch(lambda summary: read_files(RECORDINGS[name], FileReading(), summary))


def notes(story: list[TimelineEntry], words: str) -> list[str]:
    return [note for entry in story for note in entry.notes if words in note]


def reasons(story: list[TimelineEntry], error: Error) -> list[str]:
    return [each.because for entry in story for each in entry.refused if each.code == error]


def test_a_leader_that_was_killed_and_came_back() -> None:
    story = PartitionTimeline(watched("leader_kill"), "lk-0").story()
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


def test_refused_write_has_the_in_sync_set() -> None:
    story = PartitionTimeline(watched("follower_stop"), "isr-0").story()
    reported = set(reasons(story, Error.NOT_ENOUGH_REPLICAS))
    assert reported == {"In sync were 1 since 01:21:59.878 (controller-100.kafka-request.log:262)."}
    wanted = notes(story, "wants broker")
    assert wanted[:2] == ["leader 1 wants broker 3 out", "leader 1 wants broker 3 in"]


def test_writers_and_refused_batches() -> None:
    found = PartitionTimeline(watched("txn_fencing_ck"), "txn_fencing_ck.14.events-0")
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
    for partition, observed in watched(name).replication.partitions.items():
        known = observed.known
        found = PartitionTimeline(watched(name), partition)
        found.story()
        shown = f"in epoch {known.leader_epoch}" if known.leader_epoch >= 0 else "does not show"
        assert shown in found.ending()[0]
        reported = known.high_watermark if known.high_watermark >= 0 else "not recorded"
        assert f"high watermark {reported}" in found.ending()[1]


def test_unknown_partition_lists_the_existing_ones() -> None:
    with pytest.raises(UserError, match="has no partition orders-0") as error:
        PartitionTimeline(watched("leader_kill"), "orders-0")
    assert "lk-0" in str(error.value)


def test_parts_of_other_partitions_are_left_out() -> None:
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


TOPIC_ID = "HJvoj4vGSsymIy-x2Fpz5A"


def lines(
    tmp_path: Path, *exchanges: tuple[str, dict[str, Any], dict[str, Any]]
) -> PartitionTimeline:
    """The story of `orders-0`, of exchanges a second apart."""
    documents = [
        {
            "time": START + 1000 * number,
            "requestHeader": {
                "requestApiKey": API_KEYS[api],
                "requestApiVersion": 12,
                "correlationId": number,
                "clientId": "a",
            },
            "request": requested,
            "response": response,
        }
        for number, (api, requested, response) in enumerate(exchanges)
    ]
    path = tmp_path / "told.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in documents))
    return PartitionTimeline(
        watch(lambda summary: read_files([path], FileReading(), summary)), "orders-0"
    )


def metadata(leader: int, epoch: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A Metadata response with the only replica at broker 1."""
    shown = {"partitionIndex": 0, "leaderId": leader, "leaderEpoch": epoch}
    shown |= {"replicaNodes": [1], "isrNodes": [1], "errorCode": 0}
    topic = {"errorCode": 0, "name": "orders", "topicId": TOPIC_ID, "partitions": [shown]}
    return "METADATA", {"topics": []}, {"topics": [topic]}


def fetch(
    requested_epoch: int, high_watermark: int, error: int = 0, offset: int = 0, start: int = -1
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A consumer's Fetch."""
    request = {"partition": 0, "currentLeaderEpoch": requested_epoch, "fetchOffset": offset}
    read = {"partitionIndex": 0, "errorCode": error, "highWatermark": high_watermark}
    read |= {"logStartOffset": start}
    body = {"replicaId": -1, "sessionId": 0, "sessionEpoch": -1}
    return (
        "FETCH",
        {**body, "topics": [{"topicId": TOPIC_ID, "partitions": [request]}]},
        {"errorCode": 0, "responses": [{"topicId": TOPIC_ID, "partitions": [read]}]},
    )


def produce(offset: int, count: int = 0) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A Produce; without batch headers if `count` is 0."""
    sent = {"index": 0} | ({"batches": [header(count, 7, 0, 0)]} if count else {})
    became = {"index": 0, "errorCode": 0, "baseOffset": offset}
    return (
        "PRODUCE",
        {"acks": -1, "topicData": [{"name": "orders", "partitionData": [sent]}]},
        {"responses": [{"name": "orders", "partitionResponses": [became]}]},
    )


def topics(api: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A creation or deletion of the topic."""
    named = [{"name": "orders", "topicId": TOPIC_ID, "errorCode": 0}]
    return api, {}, {"responses" if api == "DELETE_TOPICS" else "topics": named}


def test_markers_of_other_partitions_are_left_out(tmp_path: Path) -> None:
    def marker(producer: int, number: int, is_commit: bool) -> dict[str, Any]:
        of = {"producerId": producer, "producerEpoch": 0, "transactionResult": is_commit}
        return of | {"topics": [{"name": "orders", "partitionIndexes": [number]}]}

    markers = [marker(7, 0, True), marker(8, 1, True), marker(9, 0, False)]
    found = lines(tmp_path, metadata(1, 0), ("WRITE_TXN_MARKERS", {"markers": markers}, {}))
    assert notes(found.story(), "transaction") == [
        "the transaction of producer 7 is committed: marker",
        "the transaction of producer 9 is aborted: marker",
    ]


@pytest.mark.parametrize("error", [3, 100])
def test_a_topic_that_was_deleted_is_why_it_is_unknown(tmp_path: Path, error: int) -> None:
    unknown, deleted = fetch(0, -1, error=error), topics("DELETE_TOPICS")
    found = lines(
        tmp_path, metadata(1, 0), unknown, deleted, unknown, topics("CREATE_TOPICS"), unknown
    )
    assert reasons(found.story(), Error(error)) == [
        "",
        "The topic was deleted by client a's DELETE_TOPICS at 12:00:02.000 (told.jsonl:3).",
        "",
    ]


def test_a_deleted_topics_log_does_not_end_where_the_former_one_did(tmp_path: Path) -> None:
    begin = metadata(1, 0), produce(0, 6), fetch(0, 6), topics("DELETE_TOPICS")
    assert lines(tmp_path, *begin).ending() == [
        "the topic was deleted at 12:00:03.001; no leader or record of a new one is recorded"
    ]
    again = lines(tmp_path, *begin, topics("CREATE_TOPICS"), metadata(1, 0), produce(0, 2))
    assert again.ending()[1].startswith("log ends: broker 1 2")


@pytest.mark.parametrize("shown", [metadata(1, 0), produce(5, 3), fetch(0, 9)])
def test_a_topic_that_is_there_again_is_not_unknown_because_it_was_deleted(
    tmp_path: Path, shown: tuple[str, dict[str, Any], dict[str, Any]]
) -> None:
    unknown = fetch(0, -1, error=3)
    found = lines(tmp_path, metadata(1, 0), topics("DELETE_TOPICS"), shown, unknown)
    assert reasons(found.story(), Error.UNKNOWN_TOPIC_OR_PARTITION) == [""]


def deleted(start: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    part = {"partitionIndex": 0, "lowWatermark": start, "errorCode": 0}
    return "DELETE_RECORDS", {}, {"topics": [{"name": "orders", "partitions": [part]}]}


def test_offsets_out_of_range_have_the_start_or_the_end_of_the_log(tmp_path: Path) -> None:
    code = Error.OFFSET_OUT_OF_RANGE
    low, high = fetch(0, -1, error=code, offset=2), fetch(0, -1, error=code, offset=99)
    found = lines(tmp_path, metadata(1, 0), low, fetch(0, 10, offset=9), low, high, deleted(6), low)
    *unknown, beyond, below = reasons(found.story(), code)
    assert unknown == ["", ""]
    end = "the high watermark was 10 at 12:00:02.000 (told.jsonl:3)"
    assert beyond == f"Offset 99 was requested; {end}."
    by = "client a's DELETE_RECORDS at 12:00:05.000 (told.jsonl:6)"
    assert below == f"Offset 2 was requested; {by} deleted the records before 6."
    start = fetch(0, 10, offset=9, start=6)
    for told, place, unknown in (
        ((low, start), "told.jsonl:3 shows (12:00:02.000)", "; its end before is not recorded"),
        ((start, low), "told.jsonl:2 shows (12:00:01.000)", ""),
        ((fetch(0, 9), low, start), "told.jsonl:4 shows (12:00:03.000)", ""),
    ):
        found = lines(tmp_path, metadata(1, 0), *told)
        expected = f"Offset 2 was requested; the log begins at 6, as {place}{unknown}."
        assert reasons(found.story(), code) == [expected]


def test_a_later_start_of_the_log_is_no_reason_if_it_may_be_newer(tmp_path: Path) -> None:
    code = Error.OFFSET_OUT_OF_RANGE
    refused, grown = fetch(0, -1, error=code, offset=150), fetch(0, 500, offset=300, start=200)
    known, remade = fetch(0, 100, offset=90), (topics("DELETE_TOPICS"), topics("CREATE_TOPICS"))
    for told in (
        (known, refused, grown),
        (refused, fetch(0, 9, start=0), grown),
        (grown, *remade, refused),
    ):
        found = lines(tmp_path, metadata(1, 0), *told)
        assert reasons(found.story(), code) == [""]


def test_log_without_batch_headers_ends_at_the_high_watermark_or_later(tmp_path: Path) -> None:
    found = lines(tmp_path, metadata(1, 0), produce(0), fetch(0, 10))
    assert [entry.said for entry in found.story()][1:] == [
        "the log ends at 1 or later, high watermark 1 or later",
        "the log ends at 10 or later, high watermark 10",
    ]
    assert found.ending()[1].startswith("log ends: broker 1 10 or later; high watermark 10")


def test_high_watermark_of_a_response_is_exact(tmp_path: Path) -> None:
    found = lines(tmp_path, metadata(1, 0), fetch(0, 0))
    assert found.story()[1].said == "the log ends at 0 or later, high watermark 0"
    assert found.ending()[1].startswith("log ends: broker 1 0 or later; high watermark 0")
    assert "high watermark 0 or later" not in found.ending()[1]


def test_log_with_batch_headers_ends_where_the_last_batch_ends(tmp_path: Path) -> None:
    found = lines(tmp_path, metadata(1, 0), produce(0, count=10), fetch(0, 10))
    assert found.ending()[1] == "log ends: broker 1 10; high watermark 10"


def test_log_end_without_any_evidence_is_not_recorded(tmp_path: Path) -> None:
    found = lines(tmp_path, metadata(1, 0))
    assert found.ending()[1] == "log ends: not recorded; high watermark not recorded"


def test_only_replica_that_shuts_down_leaves_no_leader(tmp_path: Path) -> None:
    found = lines(
        tmp_path, metadata(1, 0), produce(0, count=10), metadata(-1, 1), fetch(0, -1, error=74)
    )
    story = found.story()
    assert notes(story, "leads") == [
        "broker 1 leads in epoch 0",
        "no broker leads in epoch 1, before it broker 1",
    ]
    (reason,) = reasons(story, Error.FENCED_LEADER_EPOCH)
    assert reason == (
        "Broker 1 was asked for epoch 0; no broker leads in epoch 1, as told.jsonl:3 shows first"
        " (12:00:02.000)."
    )
    assert found.ending()[:2] == [
        "orders-0 has no leader in epoch 1; broker 1 led it last; in sync are 1",
        "log ends: broker 1 10; high watermark 10",
    ]


def test_leader_that_comes_back_has_its_log(tmp_path: Path) -> None:
    found = lines(tmp_path, metadata(1, 0), produce(0, count=10), metadata(-1, 1), metadata(1, 2))
    assert notes(found.story(), "leads")[-1] == "broker 1 leads in epoch 2, before it no broker"
    assert found.ending()[1] == "log ends: broker 1 10; high watermark 10"


def test_newer_epoch_that_is_not_recorded_is_not_contradicted(tmp_path: Path) -> None:
    found = lines(tmp_path, metadata(1, 0), fetch(0, -1, error=74), fetch(5, -1, error=75))
    story = found.story()
    (fenced,) = reasons(story, Error.FENCED_LEADER_EPOCH)
    assert fenced == (
        "Broker 1 was asked for epoch 0, and is in a newer epoch that the recording does not show."
        " The epoch rises when a leader is elected, and when the only replica in sync shuts down."
    )
    (unknown,) = reasons(story, Error.UNKNOWN_LEADER_EPOCH)
    assert unknown == (
        "Broker 1 was asked for epoch 5, and had not heard of it yet; the recording does not show"
        " its leader."
    )


def test_transactional_ids_that_wrote_to_the_topic_are_read_too() -> None:
    """An EndTxn names no topic: it is found by the ids of the Produces."""
    subject = PartitionTimeline(watched("txn_isolation"), "txn_isolation.13.events-0")
    assert subject.transactional_ids == {f"txn_isolation.13.txn-{number}" for number in (0, 1)}
