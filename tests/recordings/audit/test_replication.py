"""Findings about replicas, and errors that no other finder reports."""

import gzip
from collections.abc import Collection
from pathlib import Path

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit import refusals, replication
from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.clients import ORDINARY
from brokertwin.recordings.history.findings import Severity
from brokertwin.recordings.history.replica_findings import has_all
from brokertwin.recordings.history.replicas import PartitionReplicas
from tests.support.audits import CAPTURES, Unfolded, whole
from tests.support.requestlogs import logs_of
from tests.support.synthetic_recording import SyntheticRecording


def test_followers_that_were_stopped_in_turn() -> None:
    found = replication.shrunk(Unfolded(whole("follower_stop").history))
    shrunk = {each.subject: each for each in found}["partition isr-0"]
    assert (shrunk.kind, shrunk.severity) == ("isr-shrunk", Severity.WARNING)
    assert shrunk.what == "The in-sync set shrank: broker 2 left once, broker 3 left twice."


def test_a_leader_that_was_killed() -> None:
    led = replication.led(Unfolded(whole("leader_kill").history))
    found = {each.subject: each for each in led}["partition lk-0"]
    assert (found.severity, found.total) == (Severity.INFO, 2)
    assert found.evidence[-1].said == "broker 1 leads in epoch 2"


def test_writes_below_min_insync_replicas() -> None:
    found = list(refusals.too_few(Unfolded(whole("follower_stop").history)))
    assert [(each.subject, each.total, each.clients) for each in found] == [
        ("partition isr-0", 33, ["producer"]),
        ("partition isr-1", 11, ["producer"]),
    ]


@pytest.mark.parametrize("run", ["steady", "follower_stop", "leader_kill"])
def test_of_real_brokers_no_high_watermark_differs(run: str) -> None:
    kinds = {each.kind for each in whole(run).findings}
    assert kinds.isdisjoint({"hw-differs", "isr-against-rule"})


def test_high_watermark_against_the_rule_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def always_enough(
        known: PartitionReplicas, _: int, without: Collection[int] = ()
    ) -> int | None:
        return CANDIDATE(known, 0, without)

    monkeypatch.setattr(PartitionReplicas, "candidate", always_enough)
    history = read(logs_of("follower_stop"), FileReading()).history
    (found, *_) = replication.differing(history)
    assert (found.kind, found.severity) == ("hw-differs", Severity.ERROR)


CANDIDATE = PartitionReplicas.candidate


def test_captures_of_other_times_are_observed_all() -> None:
    """Only logs are brokers of one cluster, of which each has a part."""
    names = ("idempotent_retry_ck", "admin_kp")
    paths = [path for path in CAPTURES if path.name.startswith(names)]
    samples = read(paths, FileReading()).history.replication.samples
    assert {sample.place.partition(".")[0] for sample in samples} == {*names}


def test_a_log_that_begins_later_is_waited_for(tmp_path: Path) -> None:
    """Before, a part of the exchanges between brokers is missing."""
    paths = []
    for path in logs_of("steady"):
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        paths.append(tmp_path / path.name.removesuffix(".gz"))
        cut = len(lines) // 2 if "controller" in path.name else 0
        paths[-1].write_bytes(b"".join(lines[cut:]))
    whole_run, late = (
        whole("steady").history.replication,
        read(paths, FileReading()).history.replication,
    )
    assert whole_run.samples[0].time < late.samples[0].time
    assert late.samples[0].time > (whole_run.samples[0].time + whole_run.time) / 2 - 10_000


def test_no_verdict_after_a_log_has_ended() -> None:
    history = whole("steady").history
    last = history.replication.time
    assert has_all(last - 30_000, history.replication.known)
    assert not has_all(last, history.replication.known)


@pytest.mark.parametrize(
    ("error", "severity"),
    [
        (Error.KAFKA_STORAGE_ERROR, Severity.ERROR),
        (Error.MESSAGE_TOO_LARGE, Severity.WARNING),
        (Error.NOT_LEADER_OR_FOLLOWER, Severity.INFO),
    ],
)
def test_every_other_error_is_reported(error: Error, severity: Severity) -> None:
    recording = SyntheticRecording()
    recording.produce(0, -1, error=error)
    (found,) = recording.found(refusals.others)
    assert (found.subject, found.severity) == (f"PRODUCE {error.name}", severity)


@pytest.mark.parametrize("name", ["raw_group_errors", "raw_produce_errors", "raw_fetch_errors"])
def test_each_response_with_an_error_is_in_a_finding(name: str) -> None:
    audited = whole(name)
    reported = {line.place for each in audited.findings for line in each.evidence if each.code}
    reported |= {line.place for each in refusals.others(audited.history) for line in each.evidence}
    missing = [
        (each.line.place, code)
        for each in audited.history.recording.exchanges
        for code in bodies.errors(each.response)
        if each.line.place not in reported and code not in ORDINARY
    ]
    assert missing == []


def test_the_worst_comes_first() -> None:
    found = findings(whole("raw_produce_errors").history)
    assert [each.severity for each in found] == sorted((e.severity for e in found), reverse=True)
