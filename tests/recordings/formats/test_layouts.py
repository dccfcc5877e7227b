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
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.formats.order import Sorter
from brokertwin.recordings.formats.pipeline import Reading, sort
from brokertwin.recordings.formats.stamps import stamp_of
from brokertwin.recordings.formats.summary import Summary
from tests.support.examples import examples
from tests.support.log_layouts import LAYOUTS, Layout, Logged
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
    """What the documents say, in the order that commands use, without their places."""
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
    """Each line in a layout of its own, in any order, some twice, with other lines between."""
    random = Random(seed)
    order = random.sample(range(LINES), LINES) + random.sample(range(LINES), 9)
    content = b""
    for number in order:
        layout = random.choice(list(LAYOUTS.values()))
        content += random.choice(BETWEEN) + layout([LOG[number]]).rstrip() + b"\n"
    file = tmp_path / "requests.log"
    file.write_bytes(content)
    documents, summary = read(file, reading=Reading(broker=1))
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


def test_a_compressed_file_without_its_end_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "requests.log.gz"
    file.write_bytes(gzip.compress(PLAIN)[:-2000])
    documents, summary = read(file, reading=Reading(broker=1))
    assert 0 < len(documents) < LINES
    assert not summary.dead
    [cut] = [reason for _, reason in summary.left]
    assert "has no end" in cut
