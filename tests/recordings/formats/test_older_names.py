"""Field names of Kafka 2.8 to 3.x are read as those of Kafka 4."""

import json
from pathlib import Path
from typing import Any

import pytest

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.reading import read as read_audit
from brokertwin.recordings.formats.pipeline import Reading
from tests.support.requestlogs import read

PARTITION = {"partition": 1, "errorCode": 0, "highWatermark": 10, "recordSetSizeInBytes": 146}
IN_TRANSACTION = {
    "transactionalId": "payments",
    "producerId": 7,
    "producerEpoch": 2,
    "topics": [{"name": "scans", "partitions": [0]}],
}


def line(key: int, version: int, request: Any, response: Any) -> str:
    body = {
        "requestHeader": {"requestApiKey": key, "requestApiVersion": version, "correlationId": 1},
        "request": request,
        "response": response,
        "connection": "10.0.0.5:9092-10.0.0.9:40001-0",
        "totalTimeMs": 1.0,
    }
    return f"[2022-03-09 15:15:38,428] DEBUG Completed request:{json.dumps(body)} (x)\n"


def bodies(tmp_path: Path, text: str) -> tuple[Any, Any]:
    file = tmp_path / "broker-1.log"
    file.write_text(text, encoding="utf-8")
    [document] = read(file)[0]
    found = json.loads(document.encoded())
    return found["request"], found["response"]


def fetch(partitions: str, partition: dict[str, Any]) -> dict[str, Any]:
    return {"sessionId": 0, "responses": [{"topic": "scans", partitions: [partition]}]}


@pytest.mark.parametrize(
    ("key", "version", "old", "new"),
    [
        (
            1,
            12,
            ({}, fetch("partitionResponses", PARTITION)),
            (
                {},
                fetch(
                    "partitions",
                    {
                        "partitionIndex": 1,
                        "errorCode": 0,
                        "highWatermark": 10,
                        "recordsSizeInBytes": 146,
                    },
                ),
            ),
        ),
        (
            8,
            8,
            ({"groupId": "g", "generationId": 3, "memberId": "m"}, {}),
            ({"groupId": "g", "generationIdOrMemberEpoch": 3, "memberId": "m"}, {}),
        ),
        (
            24,
            3,
            (
                IN_TRANSACTION,
                {
                    "results": [
                        {"name": "scans", "results": [{"partitionIndex": 0, "errorCode": 51}]}
                    ]
                },
            ),
            (
                {
                    "v3AndBelowTransactionalId": "payments",
                    "v3AndBelowProducerId": 7,
                    "v3AndBelowProducerEpoch": 2,
                    "v3AndBelowTopics": [{"name": "scans", "partitions": [0]}],
                },
                {
                    "resultsByTopicV3AndBelow": [
                        {
                            "name": "scans",
                            "resultsByPartition": [{"partitionIndex": 0, "partitionErrorCode": 51}],
                        }
                    ]
                },
            ),
        ),
        (
            35,
            2,
            ({"topics": [{"topic": "scans", "partitionIndex": [0, 1]}]}, {}),
            ({"topics": [{"topic": "scans", "partitions": [0, 1]}]}, {}),
        ),
        (
            43,
            2,
            ({"topicPartitions": [{"topic": "scans", "partitionId": [0]}]}, {}),
            ({"topicPartitions": [{"topic": "scans", "partitions": [0]}]}, {}),
        ),
        (
            52,
            1,
            ({"topics": [{"partitions": [{"candidateId": 3, "candidateEpoch": 5}]}]}, {}),
            ({"topics": [{"partitions": [{"replicaId": 3, "replicaEpoch": 5}]}]}, {}),
        ),
    ],
)
def test_old_names_become_new_ones(
    tmp_path: Path, key: int, version: int, old: tuple[Any, Any], new: tuple[Any, Any]
) -> None:
    assert bodies(tmp_path, line(key, version, *old)) == new


def test_an_old_fetch_is_audited(tmp_path: Path) -> None:
    file = tmp_path / "broker-1.log"
    file.write_text(
        line(1, 12, {"topics": [], "sessionId": 0}, fetch("partitionResponses", PARTITION)),
        encoding="utf-8",
    )
    assert findings(read_audit([file], Reading()).history) == []
