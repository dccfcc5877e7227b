"""What a recording lacks for a comparison."""

import gzip
import json
import re
from pathlib import Path

import pytest

from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.replay.lacks import lacks
from brokertwin.recordings.replay.recording import read
from tests.support.requestlogs import SINGLE, logs_of

ASSIGNED = re.compile(rb'"assignments":\[\{"partitionIndex".*?\}\]')


def sentences(*files: Path, broker: int | None = None) -> list[str]:
    return list(lacks(read(files, FileReading(broker)).exchanges))


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
    lines = [
        json.dumps(
            {
                "time": 1795934820000 + number,
                "requestHeader": {"requestApiKey": key, "requestApiVersion": 1, "clientId": "a"}
                | {"correlationId": number},
                "request": request,
                "response": response,
            }
        )
        for number, (key, request, response) in enumerate(requests)
    ]
    file = tmp_path / "capture.jsonl"
    file.write_text("\n".join(lines))
    assert sentences(file) == []
    file.write_text("\n".join(lines[1:]))
    (sentence,) = sentences(file)
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
def test_several_brokers_are_supported_only_with_assigned_replicas(
    tmp_path: Path, is_assigned: bool
) -> None:
    files = []
    for log in logs_of("busy_start"):
        text = gzip.decompress(log.read_bytes())
        if not is_assigned:
            text = ASSIGNED.sub(b'"assignments":[]', text)
        files.append(tmp_path / log.name.removesuffix(".gz"))
        files[-1].write_bytes(text)
    found = [each for each in sentences(*files) if "is not supported" in each]
    assert len(found) == (not is_assigned)
