"""`brokertwin ingest`: files and topics in, documents and events out."""

import gzip
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from brokertwin.kafka_io import placement
from brokertwin.kafka_io.topic_writer import NewRow, write_all
from brokertwin.kafka_io.topics import TopicSpec, admin_client, create
from brokertwin.streaming.job.job import placements
from tests.support.console import brokertwin, called
from tests.support.jobs import JobBench
from tests.support.requestlogs import DUMP, SINGLE, dumps_of, logs_of
from tests.support.sources import ROOT

CAPTURE = ROOT / "tests" / "captures" / "raw_fetch_errors.jsonl.gz"


def ingest(*words: object, cwd: Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return called("ingest", *words, cwd=cwd, given=text)


def documents(file: Path) -> list[dict[str, Any]]:
    content = file.read_bytes()
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    return [json.loads(line) for line in text.splitlines()]


def options(name: str, values: list[Path]) -> list[object]:
    return [word for value in values for word in (name, value)]


def test_logs_of_a_cluster_become_one_file_in_order(empty_directory: Path) -> None:
    batches = options("--batches", dumps_of("steady"))
    done = ingest(*logs_of("steady"), *batches, "--out", "out.jsonl.gz", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    written = documents(empty_directory / "out.jsonl.gz")
    assert len(written) == 3123
    assert [one["time"] for one in written] == sorted(one["time"] for one in written)
    assert Counter(one["broker"] for one in written) == {1: 1079, 2: 1060, 3: 339, 100: 645}
    out = done.stdout.decode()
    assert "read 3,123 lines" in out
    assert "added batch headers to 592 partitions of Produce requests" in out
    assert "wrote 3,123 documents" in out
    produced = [one for one in written if one["requestHeader"]["requestApiKey"] == 0]
    assert all(one["request"]["topicData"][0]["partitionData"][0]["batches"] for one in produced)


def test_report_counts_batches_missing_from_the_log(empty_directory: Path) -> None:
    done = ingest(*logs_of("follower_stop"), "--out", "out.jsonl", "--json", cwd=empty_directory)
    report = json.loads(done.stdout)
    assert report["batches"] == {
        "completed": 0,
        "missing": {"not looked up": 190, "refused by the broker": 49},
    }
    assert report["events"]["PRODUCE"] == 239
    assert report["written"] == report["lines"] == 1326
    assert report["sent"] == 0


def test_damaged_lines_are_counted_and_written_with_their_reasons(empty_directory: Path) -> None:
    lines = gzip.decompress(SINGLE.read_bytes()).splitlines(keepends=True)
    lines[30] = lines[30][:200] + b"\n"
    file = empty_directory / "broker-1.log"
    file.write_bytes(b"".join(lines))
    words = [file, "--out", "out.jsonl", "--dead-letters", "dead.jsonl"]
    done = ingest(*words, cwd=empty_directory)
    assert done.returncode == 1
    [letter] = documents(empty_directory / "dead.jsonl")
    assert (letter["line"], letter["reason"]) == ("broker-1.log:31", "cut")
    assert "broker-1.log:31" in done.stdout.decode()
    assert len(documents(empty_directory / "out.jsonl")) == len(lines) - 1


def test_standard_input_and_output(empty_directory: Path) -> None:
    content = gzip.decompress(SINGLE.read_bytes())
    done = ingest("-", "--out", "-", cwd=empty_directory, text=content)
    assert done.returncode == 0, done.stderr
    written = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(written) == len(content.splitlines())
    assert {one["broker"] for one in written} == {1}
    assert b"0 damaged lines, 172 batches without headers" in b" ".join(done.stderr.split())


@pytest.mark.parametrize("words", [["out.jsonl.gz"], [SINGLE, "--batches", DUMP]])
def test_what_ingest_wrote_and_the_log_itself_are_replayed_and_agree(
    empty_directory: Path, words: list[object]
) -> None:
    ingest(SINGLE, "--batches", DUMP, "--out", "out.jsonl.gz", cwd=empty_directory)
    done = brokertwin("replay", *words, "--compare", cwd=empty_directory)
    assert done.stdout.splitlines()[-1] == "agree 216 of 216"
    assert "lines left out: on listener CONTROLLER" in done.stderr


def test_existing_file_is_overwritten_only_with_force(empty_directory: Path) -> None:
    file = empty_directory / "out.jsonl"
    file.write_text("mine\n")
    refused = ingest(SINGLE, "--out", file, cwd=empty_directory)
    assert refused.returncode == 2
    assert b"already exists and is not empty" in refused.stderr
    assert file.read_text() == "mine\n"
    assert ingest(SINGLE, "--out", file, "--force", cwd=empty_directory).returncode == 0
    assert len(documents(file)) > 200


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "needs one source"),
        (["x.log", "--from-topic", "t"], "needs one source"),
        (["x.log", "--out", "o"], "Cannot read x.log: No such file"),
        ([SINGLE, "--out", "o", "--time-zone", "Mars/Olympus"], "Unknown time zone Mars"),
        ([SINGLE, "--bootstrap", "localhost:1"], "Kafka at localhost:1 did not respond"),
        ([SINGLE, "--no-send"], "--no-send without --out would discard all events."),
        ([SINGLE, "--out", "no/such/file"], "Cannot write to no/such/file"),
        (
            [SINGLE, "--out", "o", "--batches-config", "x"],
            "--batches-config has no effect without --batches-from",
        ),
        ([SINGLE, "--out", "o", "--batches", CAPTURE], "has no batch of a partition"),
        ([SINGLE, "--out", "-", "--json"], "both write to standard output"),
    ],
)
def test_invalid_arguments_are_refused_with_a_message(
    empty_directory: Path, words: list[object], message: str
) -> None:
    done = ingest(*words, cwd=empty_directory, text=gzip.decompress(SINGLE.read_bytes()))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.decode().split())
    assert b"Traceback" not in done.stderr


@pytest.fixture
def bench(kafka: str, tmp_path: Path) -> JobBench:
    bench = JobBench(kafka, tmp_path)
    placement.write(bench.client, bench.prefix, placements(bench.settings))
    return bench


def to_job(bench: JobBench) -> list[str]:
    return ["--bootstrap", str(bench.flags["bootstrap"]), "--prefix", bench.prefix]


def test_events_are_sent_to_a_job_in_order_and_others_are_reported(
    bench: JobBench, empty_directory: Path
) -> None:
    words = [SINGLE, "--batches", DUMP, *to_job(bench), "--afresh", "--json"]
    done = ingest(*words, cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    events = bench.documents("requests")
    assert report["sent"] == len(events) == 216
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    assert all(event["principalIsAsserted"] for event in events)
    assert {event["host"] for event in events} == {"127.0.0.1"}
    assert not [event for event in events if "response" in event]
    reasons = Counter[str]()
    for left in report["left"]:
        reasons[left["reason"]] += left["count"]
    assert reasons == {"request of the cluster itself": report["lines"] - 216}


def test_documents_of_a_topic_become_events(bench: JobBench, empty_directory: Path) -> None:
    topic = f"{bench.prefix}.captured"
    create(admin_client(bench.client), {topic: TopicSpec(topic)})
    captured = gzip.decompress(CAPTURE.read_bytes()).splitlines()
    damaged = [b"{", *captured]
    write_all(bench.client, topic, (NewRow("", value, 0) for value in damaged))
    words = [
        "--from-topic",
        topic,
        *to_job(bench),
        "--out",
        "copy.jsonl",
        "--send",
        "--afresh",
        "--json",
    ]
    done = ingest(*words, cwd=empty_directory)
    report = json.loads(done.stdout)
    assert done.returncode == 1, "one row is damaged"
    assert (report["lines"], report["written"]) == (len(damaged), len(captured))
    assert report["damaged"] == {"not JSON": 1}
    rows = bench.all_rows("requests")
    assert len(rows) == report["sent"] > 60
    assert {row.id.partition(":")[0] for row in rows} == {f"{topic}/0"}


def test_a_topic_that_is_not_there_is_the_users_error(
    bench: JobBench, empty_directory: Path
) -> None:
    done = ingest("--from-topic", "nothing", *to_job(bench), cwd=empty_directory)
    assert done.returncode == 2
    assert b"has no topic nothing" in done.stderr


def test_principals_and_internal_kinds_of_files_are_not_trusted(
    bench: JobBench, empty_directory: Path
) -> None:
    header = {"requestApiKey": 18, "requestApiVersion": 3}
    request = {"time": 5, "requestHeader": header, "request": {}, "principal": "User:root"}
    lines = [request, {**request, "kind": "tick"}, {**request, "choices": {"sessionId": 1}}]
    file = empty_directory / "x.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    done = ingest(file, *to_job(bench), "--json", cwd=empty_directory)
    report = json.loads(done.stdout)
    assert report["damaged"] == {"internal kind from outside": 1}
    assert [left["reason"] for left in report["left"]] == ["internal kind from outside"]
    [row] = bench.all_rows("requests")
    event = json.loads(row.value or b"")
    assert (event["principal"], event["principalIsAsserted"]) == ("User:root", True)
