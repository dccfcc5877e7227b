"""Skipped lines cannot change what `explain` prints: the same as of a reading of all lines."""

import gzip
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.logs import write
from brokertwin.cli.recordings import explain
from brokertwin.cli.recordings.sources import Where
from brokertwin.errors import UserError
from brokertwin.recordings.explain.clients import groups_of, producers_of
from brokertwin.recordings.formats import prefilter
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.formats.prefilter import DisorderedError, NeededLines, Prefilter
from brokertwin.recordings.formats.summary import Summary
from brokertwin.recordings.history.exchange import KnownFacts
from brokertwin.recordings.observed.watching import watch
from brokertwin.recordings.replay.recording import read as read_history
from tests.support.requestlogs import RUNS, STOPS, logs_of

OF_CLUSTERS = (*RUNS, STOPS, "busy_start", "busy_fencing")
SUBJECTS: dict[str, Callable[[Where, str], Any]] = {
    "group": explain._groups,
    "client": explain._clients,
    "producer": explain._producers,
    "transaction": explain._transactions,
    "partition": explain._partitions,
}
LINES = 120
"""Maximum number of lines of a file."""


def printed(subject: str, files: list[Path], key: str) -> tuple[list[Any], list[str]] | str:
    try:
        found = SUBJECTS[subject](Where(files=files), key)
    except UserError as error:
        return f"{error.message} {error.hint}"
    return [each.document() for each in found.story()], found.ending()


@contextmanager
def all_lines() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(NeededLines, "of", lambda *_: None)
        yield


@contextmanager
def counted() -> Iterator[list[SourceLine]]:
    skipped: list[SourceLine] = []
    original = Prefilter._skips

    def skips(self: Prefilter, line: SourceLine, reader: prefilter.Reader) -> bool:
        is_skipped = original(self, line, reader)
        if is_skipped:
            skipped.append(line)
        return is_skipped

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Prefilter, "_skips", skips)
        yield skipped


@cache
def texts(run: str) -> dict[str, list[bytes]]:
    """The lines of the files of a recorded cluster."""
    return {
        path.name.removesuffix(".gz"): gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        for path in logs_of(run)
    }


def keys_in(files: list[Path]) -> dict[str, list[str]]:
    """The subjects in a recording."""
    exchanges = read_history(files).exchanges
    topics = {
        topic["name"]
        for each in exchanges
        if each.api == "METADATA"
        for topic in each.response["topics"]
        if topic.get("name")
    }
    producers = sorted({name for each in exchanges for name in producers_of(each)})
    return {
        "group": sorted({name for each in exchanges for name in groups_of(each)}),
        "client": sorted({each.header.client_id or "" for each in exchanges}),
        "producer": producers,
        "transaction": producers,
        "partition": sorted(f"{topic}-{number}" for topic in topics for number in (0, 1)),
    }


def write_files(directory: Path, lines: dict[str, list[bytes]]) -> list[Path]:
    paths = []
    for name, own in lines.items():
        paths.append(directory / name)
        paths[-1].write_bytes(b"".join(own))
    return paths


@st.composite
def logs(draw: st.DrawFn) -> dict[str, list[bytes]]:
    """Parts of the logs of a real cluster, some of them damaged as logs are."""
    found = {}
    for name, lines in texts(draw(st.sampled_from(OF_CLUSTERS))).items():
        begin = draw(st.integers(0, max(0, len(lines) - LINES)))
        own = lines[begin : begin + LINES]
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(own) - 1))
            other = draw(st.integers(0, len(own) - 1))
            what = draw(st.sampled_from(["swap", "double", "cut", "wrap", "stranger", "join"]))
            if what == "swap":
                own[at], own[other] = own[other], own[at]
            elif what == "double":
                own.insert(other, own[at])
            elif what == "cut":
                own[at] = own[at][: len(own[at]) // 2] + b"\n"
            elif what == "wrap":
                half = len(own[at]) // 2
                own[at] = own[at][:half] + b"\n" + own[at][half:]
            elif what == "join":
                own[at] = own[at].rstrip(b"\n") + own[other]
            else:
                own.insert(at, b"[2026-11-27 14:04:57,914] INFO another line (kafka.Log)\n")
        found[name] = own
    return found


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(lines=logs(), data=st.data())
def test_skipped_lines_do_not_change_what_is_printed(
    lines: dict[str, list[bytes]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        files = write_files(Path(directory), lines)
        for subject, keys in keys_in(files).items():
            for key in data.draw(st.permutations([*keys, "nobody"]))[:2]:
                with all_lines():
                    full = printed(subject, files, key)
                assert printed(subject, files, key) == full, (subject, key)


@pytest.mark.parametrize("run", OF_CLUSTERS)
def test_what_skipped_lines_show_of_the_cluster_is_kept(tmp_path: Path, run: str) -> None:
    """The spans of logs, the fetches of followers and busy brokers: facts of no entity."""
    files = write_files(tmp_path, {name: own[:400] for name, own in texts(run).items()})
    needed = NeededLines.of(["nobody"], prefilter.OF_MEMBERS)

    def known(of: NeededLines | None) -> KnownFacts:
        reading = FileReading(needed=of)
        return watch(lambda summary: read_files(files, reading, summary)).replication.known

    with counted() as skipped:
        assert msgspec.to_builtins(known(needed)) == msgspec.to_builtins(known(None))
    assert len(skipped) > 100


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_busy_log_is_read_once_and_most_lines_are_skipped(tmp_path: Path, subject: str) -> None:
    files = write(tmp_path, 2_000_000)
    count = sum(len(file.read_bytes().splitlines()) for file in files)
    key = {"group": "group-7", "client": "reader-7-0", "partition": "topic-7-3"}
    with counted() as skipped:
        narrow = printed(subject, files, key.get(subject, "txn-7"))
    with all_lines():
        assert printed(subject, files, key.get(subject, "txn-7")) == narrow
    assert len(skipped) > 0.7 * count
    assert len({line.place for line in skipped}) == len(skipped)


def test_names_that_json_may_write_in_another_way_are_not_looked_for() -> None:
    assert NeededLines.of(["größe"], ()) is None
    assert NeededLines.of(['a"b'], ()) is None
    assert NeededLines.of(["a", ""], ()) is None
    needed = NeededLines.of(["a-1.b"], ())
    assert needed is not None
    assert needed.names == (b'"a-1.b"',)


def logged(api: int, number: int, request: str, response: str = "{}") -> str:
    return (
        f"[2026-11-28 12:00:00,{number % 1000:03d}] DEBUG Completed request:"
        '{"isForwarded":false,"requestHeader":'
        f'{{"requestApiKey":{api},"requestApiVersion":9,"correlationId":{number},"clientId":"c",'
        f'"requestApiKeyName":"X"}},"request":{request},"response":{response},'
        '"connection":"b:9092-10.0.0.9:4000-0-1","totalTimeMs":1.0,"requestQueueTimeMs":0.1,'
        '"localTimeMs":0.1,"remoteTimeMs":0.1,"throttleTimeMs":0,"responseQueueTimeMs":0.1,'
        '"sendTimeMs":0.1,"principal":"User:a","listener":"L"} (kafka.request.logger)\n'
    )


BEAT = '{"groupId":"other","generationId":1,"memberId":"m"}'
OWN = '{"groupId":"own","generationId":1,"memberId":"m"}'
METADATA = '{"topics":[{"errorCode":0,"name":"t","topicId":"topicIdOfTwentyTwoChar"}]}'


def read_narrowly(tmp_path: Path, *lines: str) -> tuple[list[str], list[str]]:
    file = tmp_path / "broker-1.log"
    file.write_text("".join(lines))
    needed = NeededLines.of(["own"], prefilter.OF_MEMBERS)
    with counted() as skipped:
        found = list(read_files([file], FileReading(needed=needed), Summary()))
    return [each.place for each in found], [line.place for line in skipped]


@pytest.mark.parametrize(
    ("lines", "skipped"),
    [
        ([logged(12, 1, BEAT), logged(12, 2, BEAT), logged(12, 3, BEAT)], [2, 3]),
        ([logged(12, 1, BEAT), logged(12, 2, OWN), logged(12, 3, BEAT)], [3]),
        ([logged(12, 1, BEAT), logged(3, 2, "{}", METADATA), logged(12, 3, BEAT)], [3]),
        ([logged(12, 4, BEAT), logged(12, 3, BEAT), logged(12, 5, BEAT)], [3]),
        ([logged(12, 1, BEAT), logged(12, 2, BEAT).rstrip() + logged(3, 3, "{}", METADATA)], []),
        ([logged(12, 1, BEAT), logged(12, 2, OWN)[:200] + "\n", logged(12, 3, BEAT)], []),
        ([logged(12, 1, BEAT), "==> other.log <==\n", logged(12, 3, BEAT)], []),
        ([logged(12, 1, BEAT), logged(12, 2, BEAT).replace(" (kafka", " x (kafka")], []),
        ([logged(1, 1, "{}"), logged(1, 2, '{"topics":[{"topic":"__cluster_metadata"}]}')], []),
    ],
    ids=[
        *("all others", "named", "another API", "out of order"),
        *("two in a line", "after a cut line", "under a heading", "another layout", "controllers"),
    ],
)
def test_a_line_is_skipped_only_if_it_cannot_matter(
    tmp_path: Path, lines: list[str], skipped: list[int]
) -> None:
    found = read_narrowly(tmp_path, *lines)[1]
    assert found == [f"broker-1.log:{number}" for number in skipped]


def test_a_request_after_a_skipped_one_with_a_higher_number_needs_all_lines(
    tmp_path: Path,
) -> None:
    lines = [logged(12, 1, BEAT), logged(12, 5, BEAT), logged(12, 3, OWN)]
    with pytest.raises(DisorderedError):
        read_narrowly(tmp_path, *lines)
