"""What `audit` and `explain` say of each recording is what they said before, word for word."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest

from brokertwin.errors import UserError
from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.explain.clients import ClientTimeline, groups_of, producers_of
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.explain.lso import LsoTimeline
from brokertwin.recordings.explain.partitions import PartitionTimeline
from brokertwin.recordings.explain.producers import ProducerTimeline
from brokertwin.recordings.explain.sessions import SessionTimeline
from brokertwin.recordings.explain.story import Subject
from brokertwin.recordings.explain.transactions import TransactionTimeline
from brokertwin.recordings.formats import dumps
from brokertwin.recordings.formats.documents import Texts
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.history.exchange import exchange_of
from brokertwin.recordings.history.recording import observed_recording
from brokertwin.recordings.history.sessions import session_of
from brokertwin.recordings.observed.watching import watched
from brokertwin.recordings.replay import recording
from brokertwin.recordings.replay.recording import Exchange
from tests.score.goldens import names
from tests.score.record import GOLDENS
from tests.support import audits
from tests.support.requestlogs import DUMP, REQUEST_LOGS, SINGLE
from tests.support.said import assert_said
from tests.support.sources import ROOT

EVIDENCE = 5
"""Number of lines of evidence that are kept of a finding."""

SESSIONS = 12
"""Number of fetch sessions that are explained."""

FOLDERS = {each.name: each for each in REQUEST_LOGS.iterdir() if each.is_dir()}
FOLDERS |= {f"accident-{name}": GOLDENS / name for name in names() if name != "clean"}
LOGS = {
    name: sorted([*folder.glob("*request.log.gz"), *folder.glob("*.jsonl.gz")])
    for name, folder in FOLDERS.items()
}
LOGS |= {f"text-{each.name}": [each] for each in (ROOT / "tests/textlogs").iterdir()}
READING = audits.READING | {"text-kafka-request.log": FileReading(broker=1)}
RECORDINGS = {each: files for each, files in (LOGS | audits.RECORDINGS).items() if files}


def _reading(name: str) -> FileReading:
    return READING.get(name, FileReading())


def _said_by(subject: Callable[[], Subject]) -> list[str]:
    try:
        made, explained = subject(), set[int]()
        story = [line.text for each in made.story() for line in each.lines(explained)]
        return [*story, *made.ending()]
    except UserError as refused:
        return [refused.message, refused.hint]


def _explained(name: str) -> Iterator[tuple[str, list[str]]]:
    files, reading = RECORDINGS[name], _reading(name)._replace(texts=Texts.ALL)
    whole = recording.read_from(
        lambda summary: read_files(files, reading, summary), with_logged=True, with_own=True
    )
    seen, of_all = whole.exchanges, observed_recording(whole.exchanges)
    cluster = watched(whole)
    clients = sorted({each.header.client_id or "" for each in seen} - {""})
    groups = sorted({group for each in seen for group in groups_of(each)})
    producers = sorted({name for each in seen for name in producers_of(each)})
    partitions = cluster.replication.partitions
    kinds: list[tuple[str, Iterable[object], Callable[[str], Subject]]] = [
        ("client", clients, lambda key: ClientTimeline(seen, key, whole.own, whole.undecoded)),
        ("group", groups, lambda key: GroupTimeline(seen, key, whole.logged)),
        ("producer", producers, lambda key: ProducerTimeline(seen, key)),
        ("transaction", producers, lambda key: TransactionTimeline(seen, key)),
        ("partition", partitions, lambda key: PartitionTimeline(cluster, key)),
        ("lso", partitions, lambda key: LsoTimeline(of_all, key)),
        ("session", _sessions(seen), lambda key: SessionTimeline(seen, key)),
    ]
    for kind, keys, subject in kinds:
        for key in keys:
            yield f"explain {kind} {key}", _said_by(partial(subject, str(key)))


def _sessions(exchanges: list[Exchange]) -> list[int]:
    fetches = [each for each in map(exchange_of, exchanges) if each.line.api == "FETCH"]
    return sorted({session_of(each.request)[0] for each in fetches} - {0})[:SESSIONS]


def test_the_same_is_said_with_batch_headers() -> None:
    found = findings(read([SINGLE], FileReading(), dumps.read([DUMP])).history)
    audit = [json.dumps(each.document(EVIDENCE), ensure_ascii=False) for each in found]
    assert_said("single-batches", {"audit --batches": audit})


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_the_same_is_said_of_a_recording(name: str) -> None:
    try:
        found = findings(read(RECORDINGS[name], _reading(name)).history)
        audit = [json.dumps(each.document(EVIDENCE), ensure_ascii=False) for each in found]
    except UserError as refused:
        audit = [refused.message, refused.hint]
    assert_said(name, {"audit": audit, **dict(_explained(name))})
