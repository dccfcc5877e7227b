"""What a recording lacks for a comparison."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.replay.lacks import lacks
from brokertwin.recordings.replay.recording import read
from tests.support.requestlogs import SINGLE, logs_of

BY_TOPIC_ID = 13
ASSIGNED = re.compile(rb'"assignments":\[\{"partitionIndex".*?\}\]')


def sentences(*files: Path, broker: int | None = None) -> list[str]:
    return list(lacks(read(files, FileReading(broker)).exchanges))


def capture_of(directory: Path, *requests: tuple[int, dict[str, Any], dict[str, Any]]) -> Path:
    lines = [
        json.dumps(
            {
                "time": 1795934820000 + number,
                "requestHeader": {"requestApiKey": key, "clientId": "a", "correlationId": number}
                | {"requestApiVersion": BY_TOPIC_ID if key == 0 else 1},
                "request": request,
                "response": response,
            }
        )
        for number, (key, request, response) in enumerate(requests)
    ]
    file = directory / "capture.jsonl"
    file.write_text("\n".join(lines))
    return file


def test_a_whole_log_of_one_broker_lacks_batch_headers_only() -> None:
    (sentence,) = sentences(SINGLE, broker=1)
    assert "Produce requests have no batch headers" in sentence


def test_members_of_kip_848_begin_with_a_heartbeat(tmp_path: Path) -> None:
    beat = {"groupId": "g", "memberId": "m"}
    commit = {"groupId": "g", "memberId": "m", "generationIdOrMemberEpoch": 1, "topics": []}
    requests = (
        (68, beat | {"memberEpoch": 0}, {"errorCode": 0, "memberId": "m", "memberEpoch": 1}),
        (68, beat | {"memberEpoch": 1}, {"errorCode": 0, "memberId": "m", "memberEpoch": 1}),
        (8, commit, {"topics": []}),
    )
    file = capture_of(tmp_path, *requests)
    assert sentences(file) == []
    (sentence,) = sentences(capture_of(tmp_path, *requests[1:]))
    assert "1 group began before" in sentence


def test_a_transactional_id_is_older_if_its_first_epoch_is_above_0(tmp_path: Path) -> None:
    init = {"transactionalId": "t", "transactionTimeoutMs": 60_000}
    waits = (22, init, {"errorCode": 51, "producerId": -1, "producerEpoch": -1})
    first, second = (
        (22, init, {"errorCode": 0, "producerId": 0, "producerEpoch": epoch}) for epoch in (0, 1)
    )
    assert sentences(capture_of(tmp_path, first, waits, second)) == []
    (sentence,) = sentences(capture_of(tmp_path, waits, second))
    assert "1 transactional id began before" in sentence


def test_a_topic_that_no_request_created_is_older_even_if_it_was_empty(tmp_path: Path) -> None:
    topic = {"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}
    creates = (19, {"topics": [topic]}, {"topics": [topic | {"errorCode": 0}]})
    told = (3, {"topics": [topic]}, {"topics": [topic | {"errorCode": 0, "partitions": []}]})
    produced = (
        0,
        {"acks": 1, "topicData": []},
        {
            "responses": [
                {
                    "topicId": topic["topicId"],
                    "partitionResponses": [{"index": 0, "errorCode": 0, "baseOffset": 0}],
                }
            ]
        },
    )
    assert sentences(capture_of(tmp_path, creates, told, produced)) == []
    (sentence,) = sentences(capture_of(tmp_path, told, produced))
    assert "1 topic began before" in sentence


def test_refused_requests_say_nothing_of_the_beginning(tmp_path: Path) -> None:
    part = {"partitionIndex": 0, "errorCode": 25}
    assert not sentences(
        capture_of(
            tmp_path,
            (1, {"sessionId": 9, "sessionEpoch": 1}, {"errorCode": 70, "sessionId": 0}),
            (
                8,
                {"groupId": "g", "memberId": "m", "generationIdOrMemberEpoch": 1, "topics": []},
                {"topics": [{"name": "t", "partitions": [part]}]},
            ),
        )
    )


def test_a_member_that_joined_is_not_older(tmp_path: Path) -> None:
    joined = (11, {"groupId": "g", "memberId": ""}, {"errorCode": 0, "memberId": "m"})
    beat = (12, {"groupId": "g", "memberId": "m", "generationId": 1}, {"errorCode": 0})
    assert sentences(capture_of(tmp_path, joined, beat)) == []
    (sentence,) = sentences(capture_of(tmp_path, beat))
    assert "1 group began before" in sentence


def test_a_log_without_its_beginning_says_what_is_older(tmp_path: Path) -> None:
    lines = gzip.decompress(logs_of("steady")[0].read_bytes()).splitlines(keepends=True)
    file = tmp_path / "broker-1.log"
    file.write_bytes(b"".join(lines[len(lines) // 2 :]))
    sentence, _ = sentences(file)
    assert "does not have its beginning" in sentence
    assert "fetch session" in sentence
    assert "topic" in sentence


@pytest.mark.parametrize("is_assigned", [True, False])
@pytest.mark.parametrize("brokers", [2, 3])
def test_several_brokers_are_supported_only_with_assigned_replicas(
    tmp_path: Path, is_assigned: bool, brokers: int
) -> None:
    files = []
    for log in logs_of("busy_start")[:brokers]:
        text = gzip.decompress(log.read_bytes())
        if not is_assigned:
            text = ASSIGNED.sub(b'"assignments":[]', text)
        files.append(tmp_path / log.name.removesuffix(".gz"))
        files[-1].write_bytes(text)
    found = [each for each in sentences(*files) if "is not supported" in each]
    assert len(found) == (not is_assigned)
