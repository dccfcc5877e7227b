"""`brokertwin ingest`: files and topics in, documents and events out."""

import gzip
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from brokertwin.kafka_io.topics import TopicSpec, admin_client, create
from brokertwin.sinks.topic_writer import NewRow, write_all
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
    done = ingest("-", cwd=empty_directory, text=content)
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
    assert b" exists." in refused.stderr
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
        (
            ["--from-topic", "t", "--bootstrap", "localhost:1"],
            "Kafka at localhost:1 did not respond",
        ),
        ([SINGLE, "--out", "no/such/file"], "Cannot write to no/such/file"),
        (
            [SINGLE, "--out", "o", "--batches-config", "x"],
            "--batches-config has no effect without --batches-from",
        ),
        ([SINGLE, "--out", "o", "--batches", CAPTURE], "has no batch of a partition"),
        ([SINGLE, "--json"], "both write to standard output"),
    ],
)
def test_invalid_arguments_are_refused_with_a_message(
    empty_directory: Path, words: list[object], message: str
) -> None:
    done = ingest(*words, cwd=empty_directory, text=gzip.decompress(SINGLE.read_bytes()))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.decode().split())
    assert b"Traceback" not in done.stderr


def test_topic_of_a_capture_is_read(kafka: str, tmp_path: Path, empty_directory: Path) -> None:
    bench = JobBench(kafka, tmp_path)
    topic = f"{bench.prefix}.captured"
    create(admin_client(bench.client), {topic: TopicSpec(topic)})
    captured = gzip.decompress(CAPTURE.read_bytes()).splitlines()
    write_all(bench.client, topic, (NewRow("", value, 0) for value in [b"{", *captured]))
    words = ["--from-topic", topic, "--bootstrap", kafka, "--out", "copy.jsonl", "--json"]
    done = ingest(*words, cwd=empty_directory)
    report = json.loads(done.stdout)
    assert done.returncode == 1, "one row is damaged"
    assert (report["lines"], report["written"]) == (len(captured) + 1, len(captured))
    assert report["damaged"] == {"not JSON": 1}


def test_missing_topic_is_refused(kafka: str, empty_directory: Path) -> None:
    done = ingest("--from-topic", "nothing", "--bootstrap", kafka, cwd=empty_directory)
    assert done.returncode == 2
    assert b"has no topic nothing" in done.stderr


def test_internal_kinds_of_files_are_not_trusted(empty_directory: Path) -> None:
    header = {"requestApiKey": 18, "requestApiVersion": 3}
    request = {"time": 5, "requestHeader": header, "request": {}, "principal": "User:root"}
    lines = [request, {**request, "kind": "tick"}]
    file = empty_directory / "x.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    done = ingest(file, "--out", "out.jsonl", "--json", cwd=empty_directory)
    assert json.loads(done.stdout)["damaged"] == {"internal kind from outside": 1}
    [written] = documents(empty_directory / "out.jsonl")
    assert written["principal"] == "User:root"
