"""A job's topics as a recording: equal to a file of its responses."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from brokertwin.kafka_io import placement, topics
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.formats.summary import Summary
from brokertwin.recordings.formats.topics import DEAD_LETTER, OTHER_KIND, REPEATED, of_job, of_topic
from brokertwin.recordings.replay import recording
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import outputs
from brokertwin.state.core.packs import packed
from brokertwin.streaming.job import job
from brokertwin.streaming.job.handover import prepare
from tests.support.audits import CAPTURES, lines
from tests.support.console import brokertwin
from tests.support.jobs import JobBench
from tests.support.patience import PATIENCE_S

FILE = "txn_fencing_ck"
NAME = f"{FILE}.14.txn-0"
(PATH,) = (each for each in CAPTURES if each.name.startswith(FILE))
HEADER = {"requestApiKey": 999, "requestApiVersion": 0}
UNBUILT = {"id": "u", "cluster": "a", "requestHeader": HEADER, "request": {}}


def completed(kafka: str, directory: Path, event_time: str = "recorded") -> JobBench:
    """Topics of a job that has answered a capture's requests: a cell's rows, some of them twice."""
    bench = JobBench(kafka, directory, event_time=event_time)
    (placed,) = job.placements(bench.settings)
    placement.write(bench.client, bench.prefix, [placed])
    sent = [row.value for row in prepare(recording.read([PATH]), placed).rows()]
    bench.produce([*sent[:20], sent[3], *sent[20:], json.dumps(UNBUILT).encode()], b"a")
    cell = Cell(bench.cell_settings("a"))
    producer = Producer(topics.writer_configuration(bench.client))
    topic = topics.full_name(bench.prefix, outputs.RESPONSES)
    for row in bench.all_rows(topics.REQUESTS):
        for made in cell.handle(row.value or b"", row.position):
            if made.topic == outputs.RESPONSES:
                for _ in range(1 + row.offset % 2):  # a micro-batch that ran again
                    headers = {"id": made.id.encode()}
                    producer.produce(topic, made.value, partition=0, headers=headers)
    assert producer.flush(PATIENCE_S) == 0
    return bench


@pytest.mark.kafka
def test_a_jobs_topics_are_a_recording(kafka: str, tmp_path: Path, empty_directory: Path) -> None:
    bench = completed(kafka, tmp_path)
    summary = Summary()
    source = of_job(bench.client, bench.prefix)
    found = recording.read_from(source)
    list(source(summary))
    left = {reason: count for (_, reason), count in summary.left.items()}
    assert left.pop(OTHER_KIND) > 0, "the tick at the end"
    assert left == {REPEATED: 1, DEAD_LETTER: 1}
    of_file = {each.id for each in recording.read([PATH]).exchanges}
    assert of_file <= {each.id for each in found.exchanges}, "and what the broker had before"
    assert all(each.is_recorded and each.time <= each.end for each in found.exchanges)
    where = ("--job", "--bootstrap", kafka, "--prefix", bench.prefix)
    done = brokertwin("explain", "producer", NAME, *where, "--errors", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert "bumped the epoch to" in done.stdout
    done = brokertwin("audit", *where, "--fail-on", "never", "--json", cwd=empty_directory)
    kinds = {json.loads(line)["kind"] for line in done.stdout.splitlines()}
    assert "producer-fenced" in kinds, done.stderr
    done = brokertwin("replay", *where, "--compare", "--json", cwd=empty_directory)
    output = json.loads(done.stdout)
    assert output["agree"] == output["of"] == len(found.exchanges), done.stdout


@pytest.mark.kafka
def test_a_job_that_clamps_times_is_a_recording_of_now(
    kafka: str, tmp_path: Path, empty_directory: Path
) -> None:
    """Events of a capture, two days old: the job takes them at about when they were written."""
    bench = completed(kafka, tmp_path, "append")
    taken = bench.all_rows(topics.REQUESTS)
    rows = {row.id: row.timestamp for row in taken}
    skew = bench.settings.event_time_max_skew_ms
    found = recording.read_from(of_job(bench.client, bench.prefix)).exchanges
    of_file = {each.id for each in recording.read([PATH]).exchanges}
    assert of_file <= {each.id for each in found}
    first, last = min(rows.values()), max(rows.values())
    assert all(first - skew <= each.time <= each.end for each in found)
    assert max(each.time for each in found) <= last + skew
    where = ("--job", "--bootstrap", kafka, "--prefix", bench.prefix)
    done = brokertwin("replay", *where, "--compare", "--json", cwd=empty_directory)
    output = json.loads(done.stdout)
    assert output["agree"] == output["of"] == len(found), done.stdout
    assert f"using the job's own order of {len(taken)} events" in done.stderr


@pytest.mark.kafka
def test_a_captures_topic_equals_its_file(kafka: str, tmp_path: Path) -> None:
    bench = JobBench(kafka, tmp_path)
    bench.produce(lines(PATH), b"a", 0)
    topic = topics.full_name(bench.prefix, topics.REQUESTS)
    found = recording.read_from(of_topic(bench.client, topic, FileReading())).exchanges
    of_file = recording.read([PATH]).exchanges
    assert [(e.time, e.api, e.response) for e in found] == [
        (e.time, e.api, e.response) for e in of_file
    ]


@pytest.mark.kafka
def test_a_damaged_event_of_a_pack_is_named_by_its_index(kafka: str, tmp_path: Path) -> None:
    bench = JobBench(kafka, tmp_path)
    placement.write(bench.client, bench.prefix, job.placements(bench.settings))
    bench.produce([packed([b"{", b"}"])], b"a", 0)
    summary = Summary()
    list(of_job(bench.client, bench.prefix)(summary))
    source = f"{bench.prefix}.requests/0"
    assert [place for place, _, _ in summary.examples] == [f"{source}:0", f"{source}:0.1"]
