"""First steps with a recording: capture a group, replay it, send it to a job."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from brokertwin.cli.options import checked_broker_settings
from brokertwin.kafka_io import placement
from brokertwin.kafka_io.topics import full_name
from brokertwin.recordings.replay import local, recording
from brokertwin.recordings.replay.settings_beside import settings_beside
from brokertwin.sinks.topic_writer import NewRow, write_all
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.job.handover import prepare
from brokertwin.streaming.job.job import placements
from tests.support.captures import capturing, consume_in_a_group, new_group
from tests.support.console import brokertwin
from tests.support.jobs import JobBench
from tests.support.running_jobs import RunningJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.kafka


class Recorded(NamedTuple):
    file: Path
    topic: str
    group: str
    printed: list[str]


@pytest.fixture(scope="module")
def recorded(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    file = tmp_path_factory.mktemp("recorded") / "group.jsonl.gz"
    group = new_group(kafka)
    with capturing(kafka, "--out", file) as (address, printed):
        topic = consume_in_a_group(address, group)
    return Recorded(file, topic, group, printed)


def exchanges(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def test_a_first_capture_agrees_without_any_option(recorded: Recorded, tmp_path: Path) -> None:
    """Only a broker that a busy machine holds up answers later than it would."""
    out = tmp_path / "verdicts.jsonl"
    done = brokertwin("replay", recorded.file, "--compare", "--out", out)
    verdicts = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(verdicts) == len(exchanges(recorded.file))
    differences = [one["path"] for verdict in verdicts for one in verdict["differences"]]
    assert set(differences) <= {"responseTime"}, done.stdout
    assert "group.initial.rebalance.delay.ms=" in done.stderr


def test_given_settings_go_before_those_beside_the_file(recorded: Recorded, tmp_path: Path) -> None:
    own = tmp_path / "own.properties"
    own.write_text("group.initial.rebalance.delay.ms=60000\n")
    done = brokertwin("replay", recorded.file, "--compare", "--broker-config", own)
    assert done.returncode == 1
    assert "beside the recording" not in done.stderr


def test_the_settings_have_no_secrets_and_nothing_of_the_machine(recorded: Recorded) -> None:
    actual = settings_beside([recorded.file])
    assert "offsets.topic.replication.factor" in actual
    words = ("password", "jaas", "listeners", "log.dir", "node.id", "ssl.", "sasl.")
    assert not [name for name in actual if any(word in name for word in words)]


def test_a_capture_reports_its_numbers_as_json(recorded: Recorded) -> None:
    lines = [json.loads(line) for line in recorded.printed]
    assert lines[0]["event"] == "listening"
    assert lines[-1]["event"] == "ended"
    assert lines[-1]["exchanges"] == lines[-1]["recorded"] == len(exchanges(recorded.file))
    assert lines[-1]["apis"]["OFFSET_COMMIT"]["exchanges"] >= 1
    assert lines[-1]["lost"] == {}


@pytest.fixture
def bench(kafka: str, tmp_path: Path, recorded: Recorded) -> JobBench:
    """The topics of a job that takes times as written, and of which nothing runs yet."""
    bench = JobBench(kafka, tmp_path, settings_of(recorded), event_time="recorded")
    placed = placements(bench.settings, bench.broker_settings)
    placement.write(bench.client, bench.prefix, placed)
    return bench


def settings_of(recorded: Recorded) -> BrokerSettings:
    return checked_broker_settings(settings_beside([recorded.file]))[0]


def to(bench: JobBench) -> tuple[str, ...]:
    return "--bootstrap", str(bench.flags["bootstrap"]), "--prefix", bench.prefix


def respond(bench: JobBench, change: bytes = b"", to_: bytes = b"") -> None:
    """Write a job's responses, computed by one cell in this process; replace `change` by `to_`."""
    rows = bench.replayed("a", bench.all_rows("requests"))
    responses = [
        NewRow("", row.value.replace(change, to_) if change else row.value, 0, row.id)
        for row in rows
        if row.topic == "responses" and row.value is not None
    ]
    write_all(bench.client, full_name(bench.prefix, "responses"), responses)


def test_requests_without_a_response_are_not_reported_as_equal(
    bench: JobBench, recorded: Recorded
) -> None:
    sent = brokertwin("send", recorded.file, *to(bench), "--no-wait")
    assert sent.returncode == 0, sent.stderr
    assert "not compared: --no-wait" in sent.stdout
    assert "differ" not in sent.stdout
    unanswered = brokertwin("send", "--check", recorded.file, *to(bench))
    assert unanswered.returncode == 1
    respond(bench)
    checked = brokertwin("send", "--check", recorded.file, *to(bench))
    count = len(exchanges(recorded.file))
    assert f"{count} responses compared, 0 differ" in checked.stdout
    assert checked.returncode == 0


def test_differing_responses_are_counted_and_fail_the_check(
    bench: JobBench, recorded: Recorded
) -> None:
    brokertwin("send", recorded.file, *to(bench), "--no-wait")
    respond(bench, b'"memberId":"kafka-python', b'"memberId":"cafca-python')
    checked = brokertwin("send", "--check", recorded.file, *to(bench), "--json")
    output = json.loads(checked.stdout)["recording"]
    assert output["differ"] > 0
    assert output["missing"] == 0
    assert checked.returncode == 1


def test_ingest_keeps_the_recorded_ids_too(
    bench: JobBench, recorded: Recorded, tmp_path: Path
) -> None:
    ingested = tmp_path / "ingested.jsonl.gz"
    done = brokertwin("ingest", recorded.file, "--out", ingested)
    assert done.returncode == 0, done.stderr
    done = brokertwin("send", ingested, *to(bench), "--no-wait")
    assert done.returncode == 0, done.stderr
    assert "not compared: --no-wait" in done.stdout
    respond(bench)
    checked = brokertwin("send", "--check", recorded.file, *to(bench))
    assert " 0 differ" in checked.stdout, checked.stdout


def test_send_creates_a_new_history_on_request(bench: JobBench, recorded: Recorded) -> None:
    done = brokertwin("send", recorded.file, *to(bench), "--afresh", "--json")
    assert "recording" not in json.loads(done.stdout)
    events = bench.documents("requests")
    assert len(events) == len(exchanges(recorded.file))
    assert not [event for event in events if "choices" in event]


def test_a_job_that_clamps_times_is_warned_of(
    kafka: str, tmp_path: Path, recorded: Recorded
) -> None:
    bench = JobBench(kafka, tmp_path)
    placement.write(bench.client, bench.prefix, placements(bench.settings))
    done = brokertwin("send", recorded.file, *to(bench), "--no-wait")
    output = " ".join(done.stderr.split())
    assert "`brokertwin run --event-time recorded`" in output
    assert "group.initial.rebalance.delay.ms=" in output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-"], "Cannot read a recording from standard input"),
        (["FILE", "--order", "time"], "Cannot use --order with a recording"),
        (["FILE", "--afresh", "--check"], "Cannot combine --afresh with --check"),
        (["FILE", "--cluster", "b"], "The job has no cluster b."),
    ],
)
def test_invalid_arguments_have_clear_error_messages(
    words: list[str], text: str, bench: JobBench, recorded: Recorded
) -> None:
    files = [str(recorded.file) if word == "FILE" else word for word in words]
    lines = gzip.decompress(recorded.file.read_bytes()).decode()
    done = brokertwin("send", *files, *to(bench), text=lines)
    assert done.returncode == 2
    assert text in " ".join(done.stderr.split())
    assert bench.all_rows("requests") == []


@pytest.fixture
def running(
    kafka: str, tmp_path: Path, spark: "SparkSession", recorded: Recorded
) -> Iterator[RunningJob]:
    job = RunningJob(kafka, tmp_path, spark, settings_of(recorded), event_time="recorded")
    job.start()
    yield job
    job.stop()


def test_a_captured_group_has_its_offsets_in_a_job(running: RunningJob, recorded: Recorded) -> None:
    bench = running.bench
    sent = brokertwin("send", recorded.file, *to(bench), BROKERTWIN_CHECKPOINT=bench.checkpoint)
    count = len(exchanges(recorded.file))
    assert f"{count} responses compared, 0 differ" in sent.stdout, sent.stdout
    assert sent.returncode == 0
    shown = brokertwin("state", "offsets", "--checkpoint", bench.checkpoint, "--json")
    assert recorded.group in shown.stdout, shown.stderr
    assert recorded.topic in shown.stdout


def test_job_and_local_engine_replay_a_recording_equally(
    recorded: Recorded, bench: JobBench
) -> None:
    history = recording.read([recorded.file])
    placed = placements(bench.settings, bench.broker_settings)[0]
    handed = prepare(history, placed)
    assert handed.refused == []
    assert handed.planned is not None
    responses = local.run(handed.planned.documents, bench.cell_settings("a"))
    assert handed.wanted() <= responses.keys()
    assert not [one for one in handed.compared(responses) if one.outcome.differences]
