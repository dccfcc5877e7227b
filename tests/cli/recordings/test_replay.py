"""`brokertwin replay`: its output, its destinations, and its exit code."""

import gzip
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import brokertwin
from tests.support.sources import ROOT

CAPTURES = ROOT / "tests" / "captures"
PRODUCER = CAPTURES / "idempotent_producer_kp.jsonl.gz"
FETCHES = CAPTURES / "raw_fetch_errors.jsonl.gz"
BROKER = ("--broker-config", str(CAPTURES / "broker.properties"))


def replay(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return brokertwin("replay", *words, *BROKER, cwd=cwd)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def with_one_wrong_offset(file: Path, target: Path) -> tuple[int, int]:
    """A copy of a capture in which one base offset is too great; the number of its line, and it."""
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    number = max(n for n, line in enumerate(lines, 1) if '"PRODUCE"' in line)
    exchange = json.loads(lines[number - 1])
    partition = exchange["response"]["responses"][0]["partitionResponses"][0]
    partition["baseOffset"] += 1
    lines[number - 1] = json.dumps(exchange)
    target.write_text("\n".join(lines), encoding="utf-8")
    return number, partition["baseOffset"]


def test_a_history_that_agrees_ends_well(empty_directory: Path) -> None:
    done = replay(PRODUCER, "--compare", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "agree 95 of 95"
    assert ["PRODUCE", "82", "82"] in [line.split() for line in done.stdout.splitlines()]
    assert "schedule: in the order of arrival\n" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr, "plain text where it is no terminal"


def test_a_planted_wrong_response_is_found(empty_directory: Path) -> None:
    file = empty_directory / "wrong.jsonl"
    number, wrong_offset = with_one_wrong_offset(PRODUCER, file)
    done = replay(file, "--compare", "--out", "out.jsonl", cwd=empty_directory)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "agree 94 of 95"
    assert f"wrong.jsonl:{number} PRODUCE" in done.stdout
    assert f"baseOffset: expected {wrong_offset} got {wrong_offset - 1}" in done.stdout
    verdicts = {line["id"]: line for line in lines_of(empty_directory / "out.jsonl")}
    assert len(verdicts) == 95
    wrong = verdicts.pop(f"wrong.jsonl:{number}")
    assert wrong["verdict"] == "differ"
    assert [difference["expected"] for difference in wrong["differences"]] == [wrong_offset]
    responded = wrong["response"]["responses"][0]["partitionResponses"]
    assert wrong_offset - 1 in [partition["baseOffset"] for partition in responded]
    assert {line["verdict"] for line in verdicts.values()} == {"agree"}


def test_difference_shows_the_client_request_and_time(empty_directory: Path) -> None:
    file = empty_directory / "wrong.jsonl"
    number, line = with_one_wrong_error(PRODUCER, file)
    done = replay(file, "--compare", "--out", "out.jsonl", cwd=empty_directory)
    assert done.returncode == 1
    printed = done.stdout.splitlines()
    header = line["requestHeader"]
    at = printed.index(f"wrong.jsonl:{number} PRODUCE v{header['requestApiVersion']}")
    client = header["clientId"]
    seconds = datetime.fromtimestamp(line["time"] // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    assert printed[at + 1].startswith(f"  {seconds}.{line['time'] % 1000:03} UTC, client {client},")
    assert printed[at + 1].endswith(f", connection {line['connection']}")
    assert printed[at + 2].startswith('  request {"transactionalId": ')
    assert printed[at + 3].endswith("errorCode: expected 3 UNKNOWN_TOPIC_OR_PARTITION got 0 NONE")
    documents = {each["id"]: each for each in lines_of(empty_directory / "out.jsonl")}
    wrong = documents.pop(f"wrong.jsonl:{number}")
    assert (wrong["time"], wrong["clientId"]) == (line["time"], client)
    assert wrong["connection"] == line["connection"]
    assert wrong["request"] == line["request"]
    (difference,) = wrong["differences"]
    assert difference["expectedError"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert (difference["expected"], difference["gotError"]) == (3, "NONE")
    assert not any("request" in each for each in documents.values())


def with_one_wrong_error(file: Path, target: Path) -> tuple[int, dict[str, Any]]:
    """A copy of a capture in which one topic is unknown; the number of its line, and the line."""
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    number = max(n for n, line in enumerate(lines, 1) if '"PRODUCE"' in line)
    exchange: dict[str, Any] = json.loads(lines[number - 1])
    exchange["response"]["responses"][0]["partitionResponses"][0]["errorCode"] = 3
    lines[number - 1] = json.dumps(exchange)
    target.write_text("\n".join(lines), encoding="utf-8")
    return number, exchange


def test_json_is_one_document_and_nothing_else(empty_directory: Path) -> None:
    file = empty_directory / "wrong.jsonl"
    number, _ = with_one_wrong_offset(PRODUCER, file)
    done = replay(file, "--compare", "--json", "--out", "out.jsonl", cwd=empty_directory)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["agree"], document["of"]) == (94, 95)
    assert document["verdicts"]["differ"] == 1
    assert document["apis"]["PRODUCE"] == {"agree": 81, "differ": 1}
    lines = lines_of(empty_directory / "out.jsonl")
    assert document["exchanges"] == [line for line in lines if line["verdict"] != "agree"]
    assert [one["id"] for one in document["exchanges"]] == [f"wrong.jsonl:{number}"]
    assert document["takenOver"]["producer ids"] == 1
    assert document["notCompared"]["host"] == 6
    assert document["schedule"]["unexplained"] == [f"wrong.jsonl:{number}"]
    assert document["broken"] == []


def test_check_looks_at_the_state_after_each_event(empty_directory: Path) -> None:
    done = replay(PRODUCER, "--check", "--out", empty_directory / "a", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert "checked after each event: 0 violations" in done.stderr
    refused = replay(PRODUCER, "--check", "--engine", "spark", cwd=empty_directory)
    assert refused.returncode == 2
    assert "--engine local" in refused.stderr


def test_slow_broker_is_reported_and_can_be_allowed(empty_directory: Path) -> None:
    """A Fetch that had nothing to wait for took a while, and so did what never waits."""
    lines = gzip.decompress(FETCHES.read_bytes()).decode().splitlines()
    exchanges = [json.loads(line) for line in lines]
    newest = {one["requestHeader"]["requestApiKeyName"]: one for one in exchanges}
    newest["FETCH"]["responseTime"] += 250
    newest["API_VERSIONS"]["responseTime"] += 260
    file = empty_directory / "slow.jsonl"
    file.write_text("\n".join(map(json.dumps, exchanges)), encoding="utf-8")

    done = replay(file, "--compare", cwd=empty_directory)
    assert done.returncode == 1
    assert "responseTime: expected after 251 ms got after 0 ms" in done.stdout
    [output] = [line for line in done.stderr.splitlines() if "--time-tolerance" in line]
    assert output.startswith("responses without a wait took up to 262 ms;")

    done = replay(file, "--compare", *output.split()[-2:], cwd=empty_directory)
    assert done.returncode == 0, done.stdout
    assert "--time-tolerance" not in done.stderr


def test_json_without_compare_has_the_responses(empty_directory: Path) -> None:
    done = replay(PRODUCER, "--json", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["requests"] == len(document["responses"]) == 95
    assert document["responses"][0].keys() == {"id", "api", "version", "response"}


def test_masks_and_choices_are_printed_with_the_responses_they_touch(empty_directory: Path) -> None:
    done = replay(PRODUCER, "--compare", cwd=empty_directory)
    assert "not compared: host in 6 responses, port in 6 responses" in done.stdout
    assert "taken over: producer ids in 1 response" in done.stdout


def test_only_filters_comparisons_and_still_runs_every_request(empty_directory: Path) -> None:
    done = replay(FETCHES, "--compare", "--api", "Fetch,LIST_OFFSETS", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "agree 65 of 65"
    assert "PRODUCE" not in done.stdout


def test_an_unknown_api_names_the_nearest(empty_directory: Path) -> None:
    done = replay(PRODUCER, "--compare", "--api", "Fetsch", cwd=empty_directory)
    assert done.returncode == 2
    assert done.stderr.endswith("Fetsch.\nDid you mean FETCH or SHARE_FETCH or OFFSET_FETCH?\n")


def test_without_compare_the_responses_are_printed(empty_directory: Path) -> None:
    done = replay(PRODUCER, cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    responses = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(responses) == 95
    assert responses[0].keys() == {"id", "api", "version", "response"}
    assert done.stderr.splitlines()[-1] == "95 requests, 95 responses"


def test_unsupported_apis_count_as_compared(empty_directory: Path) -> None:
    header = {"requestApiKey": 38, "requestApiVersion": 3, "requestApiKeyName": "X"}
    line = {"time": 1, "requestHeader": header, "request": {}, "response": {}}
    (empty_directory / "a.jsonl").write_text(json.dumps(line) + "\n{\n", encoding="utf-8")
    done = replay("a.jsonl", "--compare", cwd=empty_directory)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "agree 0 of 1"
    assert "1 line could not be read:" in done.stderr
    assert "a.jsonl:2" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.jsonl",), "Cannot read missing.jsonl: No such file or directory."),
        ((PRODUCER, "--set", "x=1"), "Kafka 4.3 has no broker setting x."),
        ((PRODUCER, "--cluster", "a.b"), "is not 1 to 40 of the characters"),
        ((PRODUCER, "--json", "--out", "-"), "both write to standard output."),
        ((PRODUCER, "--at", "12"), "--at requires --keep, without --compare."),
        ((PRODUCER, "--at", "12", "--compare", "--keep", "x"), "--at requires --keep, without"),
        ((PRODUCER, "--from", "x"), "x has no state of a replay"),
        (
            (PRODUCER, "--keep", "x", "--engine", "spark"),
            "Cannot combine --keep with --eng",
        ),
        (
            (PRODUCER, "--from", "x", "--engine", "spark"),
            "Cannot combine --from with --eng",
        ),
        ((PRODUCER, "--out", "no/such/file"), "Cannot write to no/such/file"),
    ],
)
def test_user_errors_are_reported_without_a_traceback(
    empty_directory: Path, words: tuple[object, ...], message: str
) -> None:
    done = replay(*words, cwd=empty_directory)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.processes
def test_the_package_loads_neither_spark_nor_a_kafka_client() -> None:
    modules = [f"brokertwin.recordings.replay.{name}" for name in ("plan", "report", "walk")]
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    tops = {name.split(".")[0] for name in done.stdout.split()}
    assert tops.isdisjoint({"pyspark", "confluent_kafka", "kafka", "pandas", "pyarrow"})


GROUP = CAPTURES / "group_kp.jsonl.gz"


def test_it_shows_the_state_that_a_recording_leaves(empty_directory: Path) -> None:
    """The last offsets committed by the recorded group, without Kafka and without Spark."""
    done = replay("state", "offsets", GROUP, "--json", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    offsets = {
        (row["topic"], row["partition"]): row["committedOffset"] for row in json.loads(done.stdout)
    }
    committed = {}
    for line in gzip.decompress(GROUP.read_bytes()).decode().splitlines():
        exchange = json.loads(line)
        if exchange["requestHeader"]["requestApiKeyName"] == "OFFSET_COMMIT":
            for topic in exchange["request"]["topics"]:
                for partition in topic["partitions"]:
                    place = topic["name"], partition["partitionIndex"]
                    committed[place] = partition["committedOffset"]
    assert offsets == committed


def test_it_shows_the_state_as_it_was_at_a_moment(empty_directory: Path) -> None:
    def groups(*words: object) -> str:
        done = replay("state", "groups", GROUP, *words, cwd=empty_directory)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "Stable" in groups("--at", "group_kp.jsonl:120")
    assert groups("--at", "group_kp.jsonl:1") == "no groups at group_kp.jsonl:1\n"
    assert "Empty" in groups()
    assert "internal topics" not in groups()


def differing(kind: str, *moments: object, cwd: Path) -> list[dict[str, Any]]:
    done = replay("diff", *moments, GROUP, "--kind", kind, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    document: list[dict[str, Any]] = json.loads(done.stdout)
    return document


def test_it_shows_what_differs_between_two_moments(empty_directory: Path) -> None:
    (group,) = differing("groups", "group_kp.jsonl:120", "end", cwd=empty_directory)
    assert group["change"] == "changed"
    assert group["item"] == {"broker": 1, "groupId": "group_kp.5.group"}
    assert group["fields"]["state"] == {"before": "Stable", "after": "Empty"}
    assert group["fields"]["members"] == {"before": 1, "after": 0}
    assert "type" not in group["fields"]
    added = differing("groups", "beginning", "end", cwd=empty_directory)
    assert [each["change"] for each in added] == ["added"]
    done = replay("diff", "end", "end", GROUP, cwd=empty_directory)
    assert done.stdout == "no difference between end and end\n"


def test_it_shows_what_differs_between_two_recordings(empty_directory: Path) -> None:
    found = differing("topics", "end", CAPTURES / "txn_loop_ck.jsonl.gz", cwd=empty_directory)
    assert {(each["change"], each["item"]["topic"].partition(".")[0]) for each in found} == {
        ("removed", "group_kp"),
        ("added", "txn_loop_ck"),
    }


def test_a_replay_goes_on_from_a_state_that_was_kept(empty_directory: Path) -> None:
    """Later queries of the state use the directory alone, without a recording."""

    def run(*words: object) -> str:
        done = brokertwin(*words, cwd=empty_directory)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = gzip.decompress(GROUP.read_bytes()).decode().splitlines(keepends=True)
    for name, part in (("monday", lines[:601]), ("tuesday", lines[601:])):
        (empty_directory / f"{name}.jsonl").write_text("".join(part), encoding="utf-8")
    agree = run("replay", *BROKER, "monday.jsonl", "--compare", "--keep", "one")
    assert agree.splitlines()[-1] == "agree 601 of 601"
    went_on = run("replay", "tuesday.jsonl", "--from", "one", "--compare", "--keep", "two")
    assert went_on.splitlines()[-1] == "agree 621 of 621"
    both = run("replay", "diff", "end", "two", *BROKER, GROUP)
    assert both == "no difference between end and two\n"
    changed = run("replay", "diff", "one", "two", "--kind", "offsets", "--json")
    assert {each["change"] for each in json.loads(changed)} == {"changed"}
    shown = run("replay", "state", "groups", "--from", "two", "--json")
    (group,) = json.loads(shown)
    assert (group["state"], group["members"]) == ("Empty", 0)
    of_state = run("state", "groups", "--checkpoint", "two", "--json")
    assert json.loads(of_state) == group, "brokertwin state reads it, too"
    requested = run("query", "select groupId, generation from groups", "two", "--json")
    assert json.loads(requested) == {"groupId": group["groupId"], "generation": group["generation"]}
    assert group["groupId"] in run("explain", "group", group["groupId"], "--checkpoint", "two")
    early = run("replay", *BROKER, GROUP, "--at", "group_kp.jsonl:120", "--keep", "early")
    assert early == "", "--keep alone prints no responses"
    assert "Stable" in run("replay", "state", "groups", "--from", "early")


def test_offsets_in_zookeeper_are_a_tree_of_nodes(empty_directory: Path) -> None:
    """Seed 003: /consumers/GROUP/offsets/TOPIC/PARTITION. A group with members is listed once."""

    def run(*words: object) -> str:
        done = brokertwin(*words, cwd=empty_directory)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("replay", *BROKER, "--set", "brokertwin.offset.storage=zookeeper", GROUP, "--keep", "kept")
    assert run("state", "zookeeper", "--checkpoint", "kept").splitlines()[1:] == [
        "└── consumers",
        "    └── group_kp.5.group",
        "        └── offsets",
        "            └── group_kp.5.events",
        "                ├── 0: 94",
        "                ├── 1: 87",
        "                ├── 2: 96",
        "                └── 3: 115",
    ]
    (group,) = run("state", "groups", "--checkpoint", "kept", "--json").splitlines()
    assert (json.loads(group)["broker"], json.loads(group)["offsets"]) == (1, 4)
    queried = run("query", "select groupId, offsets from groups", "kept", "--json")
    assert json.loads(queried) == {"groupId": "group_kp.5.group", "offsets": 4}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("state", "people", GROUP), "Unknown kind of items: people"),
        (("state", "groups", GROUP, "--at", "noon"), "Invalid value of --at: 'noon' is neither an"),
        (("state", "groups"), "one source of recorded exchanges"),
        (
            ("diff", "noon", "end", GROUP),
            "Invalid value of BEFORE or AFTER: 'noon' is neither an exchange",
        ),
    ],
)
def test_a_state_that_does_not_exist(
    words: tuple[str, ...], message: str, empty_directory: Path
) -> None:
    done = replay(*words, cwd=empty_directory)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
