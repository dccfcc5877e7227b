"""The judge: a run in which all promises are kept, and one for each broken promise."""

import base64
from typing import Any

import pytest

from brokertwin.clients.consumer_protocol import encode_assignment
from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error
from brokertwin.testing.auditor.judge import judge, unfinished
from brokertwin.testing.auditor.workload import (
    MEMBERS,
    PARTITIONS,
    PROCESSORS,
    PRODUCER,
    ZOMBIE,
    Log,
    RunEvidence,
    Statement,
    planned,
    statements,
)

TOPIC = "exam"
COUNT = 30
ROLES = [PRODUCER, ZOMBIE, MEMBERS[0], PROCESSORS[0]]
ABORTED = "zombie-2"


def place(partition: int) -> TopicPartition:
    return TopicPartition(TOPIC, partition)


def kept() -> RunEvidence:
    """A run in which the client wrote, aborted, committed and read everything as planned."""
    logs: dict[TopicPartition, Log] = {place(number): [] for number in range(PARTITIONS)}
    committed: dict[TopicPartition, Log] = {place(number): [] for number in range(PARTITIONS)}
    for each in planned(ROLES, COUNT):
        entry = (len(logs[place(each.partition)]), each.name)
        logs[place(each.partition)].append(entry)
        if each.transaction != ABORTED:
            committed[place(each.partition)].append(entry)
    read = [
        f"read {at.partition} {offset} {name}"
        for at, log in committed.items()
        for offset, name in log
    ]
    lines = {
        PRODUCER.name: [f"acked producer-{number}" for number in range(COUNT)],
        ZOMBIE.name: ["committed 0", "committed 1", "aborted 2"],
        MEMBERS[0].name: read,
        PROCESSORS[0].name: [f"copied {line.split()[-1]}" for line in read],
    }
    reported = {name: list(statements(each)) for name, each in lines.items()}
    return RunEvidence(
        topic=TOPIC,
        count=COUNT,
        roles=ROLES,
        statements=reported,
        exchanges=[commit_of_partition_0(len(logs[place(0)]))],
        logs=logs,
        committed=committed,
        output=[name for log in committed.values() for _, name in log],
    )


def commit_of_partition_0(offset: int) -> dict[str, Any]:
    def topics(**fields: int) -> list[dict[str, Any]]:
        return [{"name": TOPIC, "partitions": [{"partitionIndex": 0, **fields}]}]

    return {
        "time": 0,
        "requestHeader": {"requestApiKeyName": "OFFSET_COMMIT", "clientId": "member-1"},
        "request": {
            "groupId": "g",
            "memberId": "m",
            "generationIdOrMemberEpoch": 1,
            "topics": topics(committedOffset=offset),
        },
        "response": {"topics": topics(errorCode=0)},
    }


def test_a_client_that_keeps_all_promises_is_not_accused() -> None:
    assert judge(kept()) == []


def test_records_that_the_client_gave_up_may_be_in_the_log() -> None:
    run = kept()
    run.statements[PRODUCER.name] = []
    assert [each.promise for each in judge(run)] == ["progress"]


def lose_a_record(run: RunEvidence) -> None:
    del run.logs[place(0)][1], run.committed[place(0)][1]
    run.output.remove("producer-3")
    run.statements[MEMBERS[0].name].remove(Statement("read", ("0", "1", "producer-3")))


def repeat_a_record(run: RunEvidence) -> None:
    for log in (run.logs, run.committed):
        log[place(1)].append((99, "producer-1"))


def swap_two_records(run: RunEvidence) -> None:
    for log in (run.logs, run.committed):
        first, second = log[place(2)][:2]
        log[place(2)][:2] = [(first[0], second[1]), (second[0], first[1])]
    reported = run.statements[MEMBERS[0].name]
    run.statements[MEMBERS[0].name] = [each for each in reported if each.words[0] != "2"]


def hide_a_part_of_a_transaction(run: RunEvidence) -> None:
    run.committed[place(1)] = [e for e in run.committed[place(1)] if e[1] != "zombie-0-1"]
    run.output.remove("zombie-0-1")


def show_an_aborted_record(run: RunEvidence) -> None:
    run.statements[MEMBERS[0].name].append(Statement("read", ("2", "12", "zombie-2-0")))


def skip_a_record(run: RunEvidence) -> None:
    run.statements[MEMBERS[0].name].remove(Statement("read", ("0", "0", "producer-0")))


def let_a_share_group_read_in_place_of_a_member(run: RunEvidence) -> None:
    skip_a_record(run)
    run.statements["sharer"] = [Statement("received", ("0", "0", "producer-0"))]


def stop_reading(run: RunEvidence) -> None:
    reported = run.statements[MEMBERS[0].name]
    run.statements[MEMBERS[0].name] = [each for each in reported if each.words[0] != "1"]


def give_up(run: RunEvidence) -> None:
    run.statements[PRODUCER.name].remove(Statement("acked", ("producer-4",)))


def go_back(run: RunEvidence) -> None:
    run.exchanges.append({**commit_of_partition_0(3), "time": 10})


def assign_twice(run: RunEvidence) -> None:
    assignment = base64.b64encode(encode_assignment([place(0)])).decode()
    for member in ("m", "n"):
        run.exchanges.append(
            {
                "time": 0,
                "requestHeader": {"requestApiKeyName": "SYNC_GROUP"},
                "request": {"groupId": "g", "generationId": 1, "memberId": member},
                "response": {"errorCode": 0, "assignment": assignment},
            }
        )


def go_on_after_fencing(run: RunEvidence) -> None:
    for time in (0, 5_000, 10_000):
        run.exchanges.append(
            {
                "time": time,
                "requestHeader": {"requestApiKeyName": "END_TXN", "clientId": "zombie"},
                "request": {"transactionalId": "t", "producerId": 7, "producerEpoch": 0},
                "response": {"errorCode": Error.PRODUCER_FENCED},
            }
        )


def process_twice(run: RunEvidence) -> None:
    run.output.append("producer-6")


def process_an_aborted_record(run: RunEvidence) -> None:
    run.output.append("zombie-2-0")


def lose_a_copy(run: RunEvidence) -> None:
    run.output.remove("producer-6")


def leave_out_a_record(run: RunEvidence) -> None:
    lose_a_copy(run)
    run.statements[PROCESSORS[0].name].remove(Statement("copied", ("producer-6",)))


def fail(run: RunEvidence) -> None:
    run.gave_up[MEMBERS[0].name] = "KafkaError"


def commit_nothing(run: RunEvidence) -> None:
    run.exchanges[0]["response"]["topics"][0]["partitions"][0]["errorCode"] = 25


def send_no_commit(run: RunEvidence) -> None:
    run.exchanges.clear()


def read_an_unknown_record(run: RunEvidence) -> None:
    run.statements[MEMBERS[0].name].append(Statement("read", ("0", "50", "stranger")))


@pytest.mark.parametrize(
    ("breaks", "promise", "message"),
    [
        (lose_a_record, "records", "producer-3 was acknowledged, but is not in the log"),
        (repeat_a_record, "records", "producer-1 is in the logs 2 times"),
        (swap_two_records, "records", "producer-2 of producer is after producer-5"),
        (hide_a_part_of_a_transaction, "records", "transaction zombie-0 was committed"),
        (show_an_aborted_record, "records", "zombie-2-0 was read by read_committed"),
        (read_an_unknown_record, "records", "stranger was read, but no process sent it"),
        (skip_a_record, "commits", "(producer-0 at 0) of partition 0 were not read, but"),
        (
            let_a_share_group_read_in_place_of_a_member,
            "commits",
            "(producer-0 at 0) of partition 0 were not read, but",
        ),
        (
            commit_nothing,
            "commits",
            "no offset: 1 OFFSET_COMMIT sent, 1 refused, last with 25 UNKNOWN",
        ),
        (send_no_commit, "commits", "no offset: 0 OFFSET_COMMIT sent, 0 refused"),
        (go_back, "commits", "member-1 commits 3 of exam-0 after"),
        (assign_twice, "owners", "exam-0 is assigned to m and n in generation 1"),
        (go_on_after_fencing, "fencing", "zombie sends END_TXN 10000 ms after 90"),
        (process_twice, "processing", "(producer-6) are in the output more than once"),
        (
            process_an_aborted_record,
            "processing",
            "(zombie-2-0) are in the output, but not visible",
        ),
        (lose_a_copy, "processing", "(producer-6) were reported as copied, but are not"),
        (leave_out_a_record, "progress", "(producer-6) are visible, but were not processed"),
        (stop_reading, "progress", "are visible, but were not read"),
        (give_up, "progress", "1 record (producer-4) of a producer were not acknowledged"),
        (fail, "progress", "member-1 gave up: KafkaError"),
    ],
)
def test_a_broken_promise_is_reported(breaks: Any, promise: str, message: str) -> None:
    run = kept()
    breaks(run)
    found = judge(run)
    assert [each for each in found if each.promise == promise and message in each.text], found


@pytest.mark.parametrize("misses", [stop_reading, give_up, leave_out_a_record])
def test_a_run_that_did_not_finish_misses_no_record(misses: Any) -> None:
    run = kept()
    misses(run)
    run.late.append(MEMBERS[0].name)
    assert "progress" not in {each.promise for each in judge(run)}
    assert unfinished(run) == ["member-1 did not finish in time"]


def test_a_run_that_did_not_finish_shows_other_broken_promises() -> None:
    run = kept()
    run.late.append(MEMBERS[0].name)
    skip_a_record(run)
    fail(run)
    assert [each.promise for each in judge(run)] == ["commits", "progress"]


def test_a_zombie_may_end_with_an_error() -> None:
    run = kept()
    run.gave_up[ZOMBIE.name] = "ProducerFenced"
    assert judge(run) == []


def test_a_transaction_without_a_statement_must_still_be_atomic() -> None:
    run = kept()
    run.statements[ZOMBIE.name] = []
    assert judge(run) == []
    hide_a_part_of_a_transaction(run)
    assert any("of transaction zombie-0" in each.text for each in judge(run))
