"""A request log gives the same documents in any layout, wrapper, order and compression."""

import bz2
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable
from html import escape
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from brokertwin.errors import UserError
from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.formats.order import Sorter
from brokertwin.recordings.formats.pipeline import FileReading, sort
from brokertwin.recordings.formats.stamps import stamp_of
from brokertwin.recordings.formats.summary import Summary
from tests.support.examples import examples
from tests.support.log_layouts import LAYOUTS, Layout, Logged, pieces
from tests.support.requestlogs import logs_of, read

LINES = 60


def log() -> list[Logged]:
    """Lines of a real request log, the first with a response to Metadata."""
    texts = gzip.decompress(logs_of("steady")[0].read_bytes()).decode().splitlines()
    first = next(number for number, text in enumerate(texts) if '"METADATA"' in text)
    made = []
    for text in texts[first : first + LINES]:
        stamp = stamp_of(text[1:24])
        assert stamp is not None
        body = re.search(r"request:(\{.*\}) \(", text)
        assert body is not None
        made.append(Logged(stamp.local_ms, body[1]))
    return made


LOG = log()
PLAIN = "".join(f"{line.text}\n" for line in LOG).encode()


def in_order(documents: list[Document]) -> list[Any]:
    """Return the documents in command order, without positions."""
    with Sorter() as sorter:
        sort(documents, sorter, Summary())
        found = [json.loads(entry.document) for entry in sorter]
    for each in found:
        del each["id"]
    return found


def read_as(tmp_path: Path, content: bytes, name: str = "requests.log") -> list[Any]:
    file = tmp_path / name
    file.write_bytes(content)
    documents, summary = read(file)
    assert not summary.dead, summary.examples
    assert summary.events.total() == len(documents)
    assert len({each.place for each in documents}) == len(documents)
    return in_order(documents)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    found = read_as(tmp_path_factory.mktemp("plain"), PLAIN)
    assert len(found) == LINES
    assert {each["broker"] for each in found} == {1}
    return found


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_changes_nothing(tmp_path: Path, expected: list[Any], layout: Layout) -> None:
    found = read_as(tmp_path, layout(LOG))
    key = ("connection", "requestHeader")
    assert sorted(map(str, found)) == sorted(map(str, expected))
    by_connection = [[each[name] for name in key] for each in found]
    assert sorted(by_connection, key=lambda each: each[0]) == sorted(
        ([each[name] for name in key] for each in expected), key=lambda each: each[0]
    )


BETWEEN = (
    b"",
    b"[2026-11-21 01:20:27,135] INFO Elected (kafka.coordinator.group.GroupCoordinator)\n",
    b"java.io.IOException: broken pipe\n\tat a.b.C(D.java:1)\n\t... 3 more\n",
    b'{"@timestamp": "2026-11-21T01:20:27.135Z", "message": "started", "kind": "Event"}\n',
    b"advertised.listeners = {\n",
    b"[\n",
    b"timestamp,message\n",
)


@pytest.mark.parametrize("seed", range(examples(8)))
def test_any_mixture_of_layouts_changes_nothing(
    tmp_path: Path, expected: list[Any], seed: int
) -> None:
    """Lines in various layouts, in any order, some repeated, with other lines between."""
    random = Random(seed)
    order = random.sample(range(LINES), LINES) + random.sample(range(LINES), 9)
    content = b""
    for number in order:
        layout = random.choice(list(LAYOUTS.values()))
        content += random.choice(BETWEEN) + layout([LOG[number]]).rstrip() + b"\n"
    file = tmp_path / "requests.log"
    file.write_bytes(content)
    documents, summary = read(file, reading=FileReading(broker=1))
    found = in_order(documents)
    assert not summary.dead, summary.examples
    assert sorted(map(str, found)) == sorted(map(str, expected))
    turns: dict[str, list[int]] = {}
    for each in found:
        turns.setdefault(each["connection"], []).append(each["requestHeader"]["correlationId"])
    assert all(numbers == sorted(numbers) for numbers in turns.values())


def tarred(data: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("logs/broker-1.log")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def zipped(data: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("broker-1.log", data)
    return packed.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "two gzip members": lambda data: gzip.compress(data[:9000]) + gzip.compress(data[9000:]),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.compress,
    "zip": zipped,
    "tar": tarred,
    "UTF-16 with a mark": lambda data: data.decode().encode("utf-16"),
    "UTF-16, big end first": lambda data: data.decode().encode("utf-16-be"),
    "UTF-8 with a mark": lambda data: b"\xef\xbb\xbf" + data,
}


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_compression_is_recognised_without_a_suffix(
    tmp_path: Path, expected: list[Any], pack: Callable[[bytes], bytes]
) -> None:
    assert read_as(tmp_path, pack(PLAIN), "requests.log.1") == expected


def test_a_truncated_compressed_file_is_read_partially(tmp_path: Path) -> None:
    file = tmp_path / "requests.log.gz"
    file.write_bytes(gzip.compress(PLAIN)[:-2000])
    warnings: list[str] = []
    documents, summary = read(file, reading=FileReading(broker=1, warn=warnings.append))
    assert 0 < len(documents) < LINES
    assert not summary.dead
    [cut] = warnings
    assert "has no end" in cut


def test_frames_of_a_collector_are_decompressed(tmp_path: Path, expected: list[Any]) -> None:
    frames = [zstandard.compress(line) for line in PLAIN.splitlines()]
    sized = b"".join(len(frame).to_bytes(4) + frame for frame in frames)
    assert read_as(tmp_path, sized) == expected
    file = tmp_path / "requests.log"
    file.write_bytes(sized[:-5])
    documents, summary = read(file, reading=FileReading(broker=1))
    assert len(documents) == LINES - 1
    assert not summary.dead


@pytest.mark.parametrize(
    ("head", "name"), [(b"\x1f\x9d\x90", "compress"), (b"7z\xbc\xaf\x27\x1c", "7-Zip")]
)
def test_other_compressions_are_refused_by_name(tmp_path: Path, head: bytes, name: str) -> None:
    file = tmp_path / "requests.log"
    file.write_bytes(head + PLAIN)
    with pytest.raises(UserError, match=f"it is compressed with {name}. Decompress it first"):
        read(file)


def test_pieces_in_one_export_are_joined(tmp_path: Path, expected: list[Any]) -> None:
    """A collector that does not join what Docker has cut."""
    bodies = [piece for line in LOG for piece in pieces(line.text, 900)]
    records = [
        {"timeUnixNano": f"{LOG[0].time}000000", "body": {"stringValue": each}} for each in bodies
    ]
    batches = [
        json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records[at : at + 7]}]}]})
        for at in range(0, len(records), 7)
    ]
    assert read_as(tmp_path, "\n".join(batches).encode()) == expected


@pytest.mark.parametrize(
    "prefix",
    ["", "Nov 21 01:20:27 vm kafka: ", "<135>1 2026-11-21T01:20:27.1+00:00 vm kafka - - - "],
)
def test_cut_lines_are_counted_singly(tmp_path: Path, prefix: str) -> None:
    rows = [prefix + json.dumps({"@timestamp": each.iso, "message": each.message}) for each in LOG]
    for number in (5, 6, 7, 20):
        rows[number] = rows[number][: 200 + 50 * number]
    file = tmp_path / "requests.log"
    file.write_text("\n".join(rows), encoding="utf-8")
    documents, summary = read(file, reading=FileReading(broker=1))
    assert len(documents) == LINES - 4
    assert sum(summary.dead.values()) == 4


def test_a_cut_record_of_an_export_is_counted(tmp_path: Path) -> None:
    values = [[f"{line.time}000000", line.message] for line in LOG]
    values[3][1] = values[3][1][:300]
    export = {"data": {"result": [{"stream": {"pod": "kafka-1"}, "values": values}]}}
    file = tmp_path / "requests.log"
    file.write_text(json.dumps(export), encoding="utf-8")
    documents, summary = read(file, reading=FileReading(broker=1))
    assert len(documents) == LINES - 1
    assert sum(summary.dead.values()) == 1


def test_an_escaped_json_layout_is_read(tmp_path: Path, expected: list[Any]) -> None:
    rows = [escape(json.dumps({"@timestamp": each.iso, "message": each.message})) for each in LOG]
    assert read_as(tmp_path, "\n".join(rows).encode()) == expected
