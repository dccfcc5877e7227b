"""A body of another shape makes its line a damaged one."""

import gzip
import random
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokertwin.page.incident import document
from brokertwin.protocol.schemas import MODELLED_NAMES, message
from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.one_pass import Passed, pass_over
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.formats import shapes
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from tests.fuzz.mutations import changed_shape
from tests.support.examples import ARE_NEW
from tests.support.requestlogs import REQUEST_LOGS
from tests.support.sources import ROOT

READING = FileReading(broker=1)
LOGS = [
    REQUEST_LOGS / "single" / "kafka-request.log.gz",
    ROOT / "examples" / "billing.kafka-request.log.gz",
    *(ROOT / "tests" / "recordings" / "reports").glob("*.log.gz"),
]


def passed(folder: Path, lines: list[bytes]) -> tuple[Passed, list[dict[str, Any]]]:
    file = folder / "broker-1.log"
    file.write_bytes(b"\n".join(lines))
    found = pass_over(partial(read_files, [file], READING))
    return found, [each.document(10_000) for each in findings(found.history)]


@pytest.mark.parametrize("log", LOGS, ids=[log.name.partition(".")[0] for log in LOGS])
def test_a_body_of_another_shape_is_a_damaged_line(tmp_path: Path, log: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32) if ARE_NEW else 7
    draw = random.Random(seed)
    lines = [
        changed_shape(line, draw)
        if draw.random() < 0.4 and b"Completed request:{" in line
        else line
        for line in gzip.decompress(log.read_bytes()).splitlines()
    ]

    found, of_all = passed(tmp_path, lines)
    whole = read([tmp_path / "broker-1.log"], READING)
    document(whole.history, findings(whole.history), [log.name])

    assert found.broken, seed
    assert {each.place for each in whole.broken} == {each.place for each in found.broken}
    for each in found.broken:
        lines[int(each.place.rpartition(":")[2]) - 1] = b""
    assert passed(tmp_path, lines)[1] == of_all, seed


def test_every_message_has_a_shape() -> None:
    for key, name in MODELLED_NAMES.items():
        for version in range(message(f"{name}Request").versions.last + 1):
            assert shapes._decoders(key, version)


FETCH = {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetchOffset": 5}]}]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topics": None}, "Expected `array`, got `null` - at `$.request.topics`"),
        ({"topics": {}}, "Expected `array`, got `object` - at `$.request.topics`"),
        (
            {"topics": [{"topic": "orders"}]},
            "Object missing required field `partitions` - at `$.request.topics[0]`",
        ),
    ],
)
def test_the_reason_names_the_field(tmp_path: Path, change: Any, reason: str) -> None:
    def line(body: Any) -> bytes:
        header = {"requestApiKey": 1, "requestApiVersion": 12, "correlationId": 1}
        document = {
            "requestHeader": header,
            "request": body,
            "response": {"throttleTimeMs": 0, "errorCode": 0, "sessionId": 0, "responses": []},
            "connection": "127.0.0.1:9092-127.0.0.1:1000-0-0",
            "totalTimeMs": 1.0,
        }
        shown = msgspec.json.encode(document)
        return (
            b"[2026-11-21 01:22:27,944] DEBUG Completed request:%s (kafka.request.logger)" % shown
        )

    found, _ = passed(tmp_path, [line(FETCH), line(FETCH | change), line(FETCH)])
    assert found.broken == [("broker-1.log:2", reason)]
