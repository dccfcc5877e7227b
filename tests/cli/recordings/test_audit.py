"""`brokertwin audit`: its output for a recording, and its exit code."""

import base64
import gzip
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.console import brokertwin
from tests.support.requestlogs import logs_of
from tests.support.sources import ROOT

CAPTURES = ROOT / "tests" / "captures"
ERRORS = CAPTURES / "txn_fencing_ck.jsonl.gz"
WARNINGS = CAPTURES / "admin_kp.jsonl.gz"
INFO = CAPTURES / "group_kp.jsonl.gz"


def test_a_table_of_80_columns_by_severity(empty_directory: Path) -> None:
    file = CAPTURES / "raw_produce_errors.jsonl.gz"
    done = brokertwin("audit", file, cwd=empty_directory, COLUMNS="80")
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    shown = [line.split()[0] for line in lines[2:] if line[0] != " "]
    assert shown == sorted(shown, key=["error", "warning", "info"].index)
    output = " ".join(done.stdout.split())
    assert "error 6 sequence-gap producer 18 in raw_produce_errors.16.events-0" in output
    assert "raw_produce_errors.jsonl:39, raw_produce_errors.jsonl:40" in output
    assert done.stderr == "error: 4, warning: 8, info: 6\n"


def test_each_advice_is_given_once_and_none_for_information(empty_directory: Path) -> None:
    logs = (*logs_of("follower_stop"), "--fail-on", "never")
    table = brokertwin("audit", *logs, cwd=empty_directory, COLUMNS="1000").stdout
    lines = brokertwin("audit", *logs, "--json", cwd=empty_directory).stdout.splitlines()
    documents = [json.loads(line) for line in lines]
    advice = [each["do"] for each in documents if each["severity"] != "info"]
    assert len(advice) > len(set(advice)) > 0
    given = re.findall(r"^ *do: (.*?) *$", table, re.MULTILINE)
    assert given == list(dict.fromkeys(advice))


@pytest.mark.parametrize(
    ("file", "words", "code"),
    [
        (ERRORS, (), 3),
        (ERRORS, ("--fail-on", "never"), 0),
        (WARNINGS, (), 1),
        (WARNINGS, ("--fail-on", "error"), 0),
        (INFO, (), 0),
        (INFO, ("--fail-on", "info"), 1),
        (Path("nowhere.jsonl"), (), 2),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_the_exit_code_is_that_of_the_worst(
    file: Path, words: tuple[str, ...], code: int, empty_directory: Path
) -> None:
    assert brokertwin("audit", file, *words, cwd=empty_directory).returncode == code


def test_programs_get_a_line_for_each_finding(empty_directory: Path) -> None:
    done = brokertwin("audit", ERRORS, "--json", cwd=empty_directory)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["severity"] for each in documents] == ["error", "error", "info"]
    first = documents[0]
    assert (first["kind"], first["count"], first["error"]) == (
        "producer-fenced",
        4,
        "INVALID_PRODUCER_EPOCH",
    )
    assert (first["clients"], first["by"]) == (["first"], ["second"])
    assert first["evidence"][0]["place"] == "txn_fencing_ck.jsonl:31"
    assert first["do"].startswith("Another producer with the same transactional.id has begun")
    assert first["from"] <= first["to"]


def test_a_page_is_written(empty_directory: Path) -> None:
    words = ("audit", *logs_of("leader_kill"), "--html", "audit.html")
    done = brokertwin(*words, cwd=empty_directory)
    assert done.returncode == 1, done.stderr  # a warning: a broker was gone
    html = (empty_directory / "audit.html").read_text()
    (packed,) = re.findall(r'id="document">([^<]*)<', html)
    page = json.loads(gzip.decompress(base64.b64decode(packed)))
    (gone,) = (each for each in page["findings"] if each["kind"] == "broker-gone")
    assert "leader-changed" in {each["kind"] for each in gone["consequences"]}
    assert "lk-0" in {each["name"] for each in page["lanes"] if each["kind"] == "partition"}
    assert "wrote audit.html" in done.stderr


def test_unreadable_lines_are_reported(empty_directory: Path) -> None:
    (empty_directory / "mixed.jsonl").write_text('{"broken\n')
    done = brokertwin("audit", INFO, "mixed.jsonl", cwd=empty_directory)
    assert done.returncode == 0
    assert "Could not read 1 line" in done.stderr
    assert "mixed.jsonl:1" in done.stderr


def test_requests_that_a_capture_could_not_decode_are_counted(empty_directory: Path) -> None:
    request = {"requestHeader": {"requestApiKey": 0, "requestApiVersion": 2}, "request": None}
    line = json.dumps({"time": 1, "reason": "request: PRODUCE version 2", **request})
    (empty_directory / "old.jsonl").write_text(line + "\n")
    done = brokertwin("audit", INFO, "old.jsonl", cwd=empty_directory)
    assert "1 request could not be decoded: PRODUCE v2 (1)." in done.stderr
    assert "Kafka 4 refuses: PRODUCE v2 (1)" in done.stdout


def test_follow_reports_new_findings_in_a_growing_file(empty_directory: Path) -> None:
    file = empty_directory / "growing.jsonl"
    lines = gzip.decompress(ERRORS.read_bytes()).splitlines(keepends=True)
    file.write_bytes(b"")
    command = [sys.executable, "-m", "brokertwin", "audit", str(file), "--follow", "--json"]
    with subprocess.Popen(
        [*command, "--interval", "0.1", "--fail-on", "never"], stdout=subprocess.PIPE, text=True
    ) as audit:
        assert audit.stdout is not None
        file.write_bytes(b"".join(lines[:40]))
        first = json.loads(audit.stdout.readline())
        with file.open("ab") as grown:
            grown.write(b"".join(lines[40:]))
        later = [json.loads(audit.stdout.readline())]
        while (later[-1]["kind"], later[-1]["subject"]) != (first["kind"], first["subject"]):
            later.append(json.loads(audit.stdout.readline()))
        audit.send_signal(signal.SIGINT)
        assert audit.wait(60) == 0
    assert first["kind"] == "producer-fenced"
    assert later[-1]["count"] > first["count"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--job",), "--follow is for files that grow."),
        ((ERRORS, "--html", "x.html"), "Cannot combine --follow with --html."),
        (("gone.log",), "gone.log cannot be read: No such file"),
    ],
)
def test_follow_refuses_unsuitable_input(
    words: tuple[object, ...], message: str, empty_directory: Path
) -> None:
    done = brokertwin("audit", *words, "--follow", cwd=empty_directory)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
