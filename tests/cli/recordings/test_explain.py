"""`brokertwin explain`: its output for a recording."""

import gzip
import json
from pathlib import Path

import pytest

from brokertwin.recordings.rules import RULES
from tests.support.console import brokertwin
from tests.support.sources import ROOT

FENCING = ROOT / "tests" / "captures" / "txn_fencing_ck.jsonl.gz"
NAME = "txn_fencing_ck.14.txn-0"


def test_it_reports_who_fenced_whom_and_what_to_do(empty_directory: Path) -> None:
    done = brokertwin("explain", "producer", NAME, FENCING, "--errors", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    output = " ".join(done.stdout.split())
    assert "client first END_TXN v1 txn_fencing_ck.jsonl:31" in output
    assert (
        "refused: 47 INVALID_PRODUCER_EPOCH because client second's INIT_PRODUCER_ID at"
        " 00:48:40.170 (txn_fencing_ck.jsonl:30) bumped the epoch to 2; client first has 0. rule"
    ) in output
    assert output.count("Close this producer and create a new one") == 1, "a rule is said once"
    assert "producer 13 is in epoch 11 since client second's INIT_PRODUCER_ID" in output
    assert "PRODUCE" not in done.stdout.split("producer 13 is in")[0].replace("PRODUCER", "")


def test_explain_without_an_option_prints_the_whole_history(empty_directory: Path) -> None:
    done = brokertwin("explain", "producer", "13", FENCING, cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert "producer 13 epoch 0, sequences 0 to 0, offset 0" in done.stdout


def test_each_new_date_is_printed_if_there_are_several(empty_directory: Path) -> None:
    text = gzip.decompress((ROOT / "examples/billing.kafka-request.log.gz").read_bytes()).decode()
    for name, day in (("a.log", "2026-11-22"), ("b.log", "2026-11-23")):
        (empty_directory / name).write_text(text.replace("[2026-11-22 ", f"[{day} "))
    words = "explain", "transaction", "billing", "--broker", 1
    one = brokertwin(*words, "a.log", cwd=empty_directory)
    both = brokertwin(*words, "a.log", "b.log", cwd=empty_directory)
    assert (one.returncode, both.returncode) == (0, 0), both.stderr
    dates = [line for line in both.stdout.splitlines() if line.endswith("(UTC)")]
    assert dates == ["2026-11-22 (UTC)", "2026-11-23 (UTC)"]
    assert "(UTC)" not in one.stdout


def test_programs_get_lines_of_json(empty_directory: Path) -> None:
    done = brokertwin("explain", "producer", NAME, FENCING, "--json", cwd=empty_directory)
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    refused = [entry for entry in entries if entry["refused"]]
    assert {entry["client"] for entry in refused} == {"first", "second"}
    (error,) = refused[-1]["refused"]
    assert (error["code"], error["error"]) == (47, "INVALID_PRODUCER_EPOCH")
    assert error["because"].startswith("client second's INIT_PRODUCER_ID")
    assert error.keys() == {
        *("code", "error", "because", "why", "source", "do", "who", "file"),
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("payments", FENCING), "The recording has no producer payments.\nIt has txn_fencing"),
        ((NAME, "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_unknown_producers_are_reported(
    words: tuple[object, ...], message: str, empty_directory: Path
) -> None:
    done = brokertwin("explain", "producer", *words, cwd=empty_directory)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_groups_story_ends_with_its_offsets(empty_directory: Path) -> None:
    def last_line(name: str, group: str) -> str:
        file = ROOT / "tests" / "captures" / f"{name}.jsonl.gz"
        done = brokertwin("explain", "group", group, file, "--errors", cwd=empty_directory)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    offset = last_line("group_kp", "group_kp.5.group")
    assert offset.startswith("group_kp.5.events-3 at 115, by client kp-consumer's OFFSET_COMMIT at")
    deleted = last_line("admin_kp", "admin_kp.15.group")
    assert deleted.startswith(
        "group admin_kp.15.group is deleted, by client kp-admin's DELETE_GROU"
    )


def test_one_exchange_is_explained_from_all_before_it(empty_directory: Path) -> None:
    words = ("explain", "line", "txn_fencing_ck.jsonl.gz:31", FENCING)
    done = brokertwin(*words, cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("00:48:40.172  client first  END_TXN v1  txn_fencing_ck.jsonl:31")
    assert "because  client second's INIT_PRODUCER_ID at 00:48:40.170" in done.stdout
    assert done.stdout.count("txn_fencing_ck.jsonl:31") == 1


def test_an_exchange_has_the_state_before_and_after_it(empty_directory: Path) -> None:
    words = ("explain", "line", "txn_fencing_ck.jsonl:30", FENCING, "--state", "--json")
    done = brokertwin(*words, cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    entry, change = [json.loads(line) for line in done.stdout.splitlines()]
    sender, bumped = entry["notes"]
    assert (sender, bumped) == ("principal User:ANONYMOUS", "bumped epoch 0 of producer 13 to 2")
    assert change["item"] == {"broker": 1, "transactionalId": NAME}
    fields = {name: tuple(both.values()) for name, both in change["fields"].items()}
    assert fields["producerEpoch"] == (1, 2), "the attempt before had fenced with 1"
    assert fields["state"] == ("CompleteAbort", "Empty")
    output = brokertwin(*words[:-1], cwd=empty_directory).stdout
    assert "2026-11-21" in output, "people are told times"
    assert "CompleteAbort" in output
    refused = brokertwin(
        *("explain", "line", "txn_fencing_ck.jsonl:31", FENCING, "--state"), cwd=empty_directory
    )
    assert refused.stdout.splitlines()[-1] == "txn_fencing_ck.jsonl:31 did not change the state."


def test_one_client_alone(empty_directory: Path) -> None:
    words = ("explain", "producer", NAME, FENCING, "--client", "second", "--json")
    done = brokertwin(*words, cwd=empty_directory)
    assert {json.loads(line)["client"] for line in done.stdout.splitlines()} == {"second"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("txn_fencing_ck.jsonl:1", "00:48:39"),  # of no producer and no group
        ("txn_fencing_ck.jsonl:9999", "The recording has no exchange txn_fencing_ck.jsonl:9999."),
    ],
)
def test_explain_line_accepts_any_line(line: str, message: str, empty_directory: Path) -> None:
    done = brokertwin("explain", "line", line, FENCING, cwd=empty_directory)
    assert message in done.stdout + done.stderr
    assert done.returncode == (0 if done.stdout else 2)


def test_an_error_has_its_page(empty_directory: Path) -> None:
    by_name = brokertwin("explain", "error", "invalid_producer_epoch", cwd=empty_directory)
    by_code = brokertwin("explain", "error", 47, cwd=empty_directory)
    assert by_name.stdout == by_code.stdout
    assert by_name.stdout.startswith(
        "47 INVALID_PRODUCER_EPOCH\n\nThe request has an older producer epoch"
    )
    parts = ("Retriable: no", "Source: KIP-98", "Cause: ", "What to do: ", "In a recording: ")
    assert [part for part in parts if f"\n{part}" not in by_name.stdout] == []
    assert not set("`|#[]").intersection(by_name.stdout), "no Markdown on a terminal"
    words = "explain", "error", "Broker:", "Producer", "attempted", "an", "operation"
    assert brokertwin(*words, cwd=empty_directory).stdout.startswith("47 ")
    done = brokertwin("explain", "error", 47, "--json", cwd=empty_directory)
    assert json.loads(done.stdout)["retriable"] is False
    listed = brokertwin("explain", "error", cwd=empty_directory)
    codes = [int(line.split()[0]) for line in listed.stdout.splitlines()]
    assert codes == sorted(RULES), "a line for each, also in a pipe"
    assert "\n 45 OUT_OF_ORDER_SEQUENCE_NUMBER: A batch " in listed.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("PRODUCER_FENCE", "Did you mean PRODUCER_FENCED"),
        ("999", "List all errors with: brokertwin explain error"),
    ],
)
def test_unknown_error_is_reported(name: str, message: str, empty_directory: Path) -> None:
    done = brokertwin("explain", "error", name, cwd=empty_directory)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_text_of_a_client_is_explained_too(empty_directory: Path) -> None:
    line = "org.apache.kafka.common.errors.TimeoutException: Expiring 3 record(s) for a-0"
    done = brokertwin("explain", "error", line, cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert "bootstrap.servers" in done.stdout
    shown = brokertwin("explain", "error", line, "--json", cwd=empty_directory)
    assert "bootstrap.servers" in json.loads(shown.stdout)["do"]


TEXTS = ROOT / "tests" / "textlogs"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("group", "old-group", "server.log"), "the coordinator began 5 rebalances"),
        (("group", "old-group", "kafka-request.log"), "scans-0 at 12, by client reader-old2's"),
        (("group", "old-group", "KafkaApis.log"), "the log has no response"),
        (("client", "reader-a", "librdkafka.log"), "refused: 79 MEMBER_ID_REQUIRED"),
    ],
)
def test_logs_of_real_programs_are_explained(
    words: tuple[str, str, str], message: str, empty_directory: Path
) -> None:
    """Logs of Kafka 2.1.1 and librdkafka 2."""
    *what, file = words
    done = brokertwin("explain", *what, TEXTS / file, "--broker", "3", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert message in done.stdout


def test_a_clients_own_text_explains_a_log_without_requests(empty_directory: Path) -> None:
    log = empty_directory / "app.log"
    log.write_text(
        "2026-11-27 02:32:26,989 INFO [Consumer clientId=a, groupId=g] Setting newly assigned\n"
        "2026-11-27 02:32:27,100 WARN [Consumer clientId=a, groupId=g] consumer poll timeout has"
        " expired. This means the time between subsequent calls to poll() was longer than\n"
    )
    done = brokertwin("explain", "client", "a", log, cwd=empty_directory)
    assert done.returncode == 2
    assert "line 2 says: The consumer polls too rarely" in done.stderr
    log.write_text(f"{log.read_text()}{log.read_text().replace('clientId=a', 'clientId=bb')}")
    done = brokertwin("explain", "client", "b", log, cwd=empty_directory)
    assert "No exchange was read" in done.stderr, "bb is another client"
    refused = "[Consumer clientId=b, groupId=g] Offset commit failed on partition o-0 at offset 1"
    with log.open("a") as file:
        file.write(f"2026-11-27 02:32:28,100 ERROR {refused}: The request timed out.\n")
    done = brokertwin("explain", "client", "a", log, cwd=empty_directory)
    assert "line 2 says: The consumer polls too rarely" in done.stderr, "it has only b's refusal"
    with log.open("a") as file:
        file.write("%4|1796000000.5|MAXPOLL|c#consumer-1| [thrd:main]: maximum poll interval\n")
    done = brokertwin("explain", "client", "c", log, cwd=empty_directory)
    assert "line 6 says: The consumer polls too rarely" in done.stderr
    done = brokertwin("explain", "client", "nobody", FENCING, cwd=empty_directory)
    assert "has no client nobody" in done.stderr
