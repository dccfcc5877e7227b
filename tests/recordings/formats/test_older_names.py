"""Field names of other releases are read as those of Kafka 4.3.1."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.reading import read as read_audit
from brokertwin.recordings.formats.documents import api_name, raw
from brokertwin.recordings.formats.older_names import renamed
from brokertwin.recordings.formats.pipeline import FileReading
from tests.support.message_schemas import RENAMED, Renamed
from tests.support.requestlogs import read

PARTITION = {"partition": 1, "errorCode": 0, "highWatermark": 10, "recordSetSizeInBytes": 146}


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


class Old(NamedTuple):
    """The renamed fields of one message of a release."""

    release: str
    key: int
    kind: str
    fields: list[Renamed]

    def body(self, version: int, is_new: bool) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for field in self.fields:
            first, last = field.versions
            if first <= version <= last:
                *around, name = field.new if is_new else field.old
                part = made
                for each in around:
                    part = part.setdefault(each, [{}])[0]
                part.setdefault(name, [{}] if self.has_fields(field, version) else field.old[-1])
        return made

    def has_fields(self, field: Renamed, version: int) -> bool:
        return any(
            each.old[:-1] == field.old and each.versions[0] <= version for each in self.fields
        )


def renamings() -> list[Old]:
    rows = [Renamed(*row) for row in json.loads(RENAMED.read_text(encoding="utf-8"))]
    return [
        Old(*message, list(fields)) for message, fields in groupby(rows, key=lambda row: row[:3])
    ]


@pytest.mark.parametrize("old", renamings(), ids=lambda old: f"{old.release}-{old.key}-{old.kind}")
def test_every_renamed_field_of_a_release_gets_its_name_of_4_3_1(old: Old) -> None:
    for version in range(old.fields[0].versions[0], old.fields[-1].versions[1] + 1):
        body, empty = raw(old.body(version, is_new=False)), raw({})
        given = (body, empty) if old.kind == "request" else (empty, body)
        found = renamed(old.key, *given)[old.kind == "response"]
        assert json.loads(bytes(found)) == old.body(version, is_new=True)


def test_old_names_in_a_log_become_new_ones(tmp_path: Path) -> None:
    old = {"groupId": "g", "generationId": 3, "memberId": "m"}
    new = {"groupId": "g", "generationIdOrMemberEpoch": 3, "memberId": "m"}
    assert bodies(tmp_path, line(8, 8, old, {})) == (new, {})


def test_fields_of_newer_requests_are_left_alone(tmp_path: Path) -> None:
    transaction = {"transactionalId": "t", "producerId": 7, "producerEpoch": 0, "topics": []}
    body = {"transactions": [transaction]}
    assert bodies(tmp_path, line(24, 5, body, {})) == (body, {})


def test_apis_with_zookeeper_are_named() -> None:
    assert api_name(6) == "UPDATE_METADATA"
    assert api_name(7) == "CONTROLLED_SHUTDOWN"
    assert api_name(999) == "999"


def test_an_old_fetch_is_audited(tmp_path: Path) -> None:
    file = tmp_path / "broker-1.log"
    file.write_text(
        line(1, 12, {"topics": [], "sessionId": 0}, fetch("partitionResponses", PARTITION)),
        encoding="utf-8",
    )
    assert findings(read_audit([file], FileReading()).history) == []
