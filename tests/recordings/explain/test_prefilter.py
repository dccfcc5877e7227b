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
from brokertwin.recordings.formats.prefilter import NeededLines, Prefilter
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
    """What a command prints."""
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
    """The lines that are skipped."""
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
def test_most_lines_of_a_busy_log_are_skipped(tmp_path: Path, subject: str) -> None:
    files = write(tmp_path, 2_000_000)
    count = sum(len(file.read_bytes().splitlines()) for file in files)
    key = {"group": "group-7", "client": "reader-7-0", "partition": "topic-7-3"}
    with counted() as skipped:
        narrow = printed(subject, files, key.get(subject, "txn-7"))
    with all_lines():
        assert printed(subject, files, key.get(subject, "txn-7")) == narrow
    assert len({line.place for line in skipped}) > 0.7 * count


def test_names_that_json_may_write_in_another_way_are_not_looked_for() -> None:
    assert NeededLines.of(["größe"], ()) is None
    assert NeededLines.of(['a"b'], ()) is None
    assert NeededLines.of(["a", ""], ()) is None
    needed = NeededLines.of(["a-1.b"], ())
    assert needed is not None
    assert needed.names == (b'"a-1.b"',)
