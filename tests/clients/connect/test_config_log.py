"""The config topic, as it is read and written, and the two connectors' configurations."""

import json
from typing import Any

import pytest

from brokerstream.clients.connect.config_log import ConfigLog, connector_record, task_records
from brokerstream.clients.connect.file_stream import ConfigError, Kind, file_stream, task_configs
from brokerstream.clients.connect.submitted_records import SubmittedRecords
from brokerstream.clients.connect.work import TaskId

SINK = {
    "name": "copy",
    "connector.class": "FileStreamSink",
    "tasks.max": "2",
    "file": "out.txt",
    "topics": "orders,payments",
}
SOURCE = {
    "name": "lines",
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "3",
    "file": "in.txt",
    "topic": "orders",
}


def read(*records: tuple[bytes, bytes | None]) -> ConfigLog:
    log = ConfigLog()
    for offset, (key, value) in enumerate(records):
        log.take(offset, key, value)
    return log


def test_example_15_tasks_count_from_their_commit_on() -> None:
    made = [connector_record("copy", SINK), *task_records("copy", task_configs(SINK))]
    assert [key.decode() for key, _ in made] == [
        *("connector-copy", "task-copy-0", "task-copy-1", "commit-copy")
    ]
    assert json.loads(made[-1][1] or b"") == {"tasks": 2}
    before = read(*made[:-1])
    assert (before.known.task_counts, before.tasks) == ({"copy": 0}, {})
    log = read(*made)
    assert log.known.task_counts == {"copy": 2}
    assert log.known.offset == 3
    assert log.tasks[TaskId("copy", 1)]["task.class"].endswith("FileStreamSinkTask")
    assert log.tasks_of("copy") == task_configs(SINK)


def test_example_16_a_commit_without_all_tasks_is_inconsistent() -> None:
    """As compaction leaves it: task 0 was written again, for a commit of one task."""
    made = [connector_record("copy", SINK), *task_records("copy", task_configs(SINK))]
    compacted = [made[0], made[2], made[3]]
    log = read(*compacted)
    assert log.inconsistent == {"copy"}
    assert log.known.task_counts == {"copy": 0}
    for offset, (key, value) in enumerate(task_records("copy", [SINK]), 9):
        log.take(offset, key, value)
    assert (log.inconsistent, log.tasks_of("copy")) == (set(), [SINK])


def test_a_connector_is_deleted_paused_and_what_is_no_record_is_passed_over() -> None:
    made = [connector_record("copy", SINK), *task_records("copy", [SINK])]
    log = read(*made, (b"target-state-copy", b'{"state":"PAUSED"}'))
    assert not log.is_started("copy")
    log.take(8, b"session-key", b'{"key":"x"}')
    log.take(9, b"task-copy-0", b"no json")
    log.take(10, None, b"{}")
    log.take(11, b"commit-copy", b"{}")
    assert (log.passed_over, log.offset) == (2, 11)
    log.take(12, *connector_record("copy", None))
    assert (log.connectors, log.tasks, log.known.task_counts) == ({}, {}, {})
    assert log.is_started("copy")


def test_a_source_has_one_task_and_a_sink_as_many_as_are_wanted() -> None:
    assert len(task_configs(SOURCE)) == 1
    assert len(task_configs(SINK)) == 2
    stream = file_stream(
        SINK, {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    )
    assert (stream.kind, stream.topics, stream.converter) == (
        *(Kind.SINK, ("orders", "payments"), "string"),
    )
    assert stream.group_id == "connect-copy"
    assert file_stream(SOURCE).has_schemas


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, "has no name"),
        ({"connector.class": "JdbcSource"}, "FileStreamSource and FileStreamSink are known"),
        ({"topics": " "}, "copy has no topics"),
        ({"file": ""}, "copy has no file"),
        ({"tasks.max": "none"}, "tasks.max is none"),
        ({"value.converter": "Avro"}, "value.converter is Avro"),
    ],
)
def test_what_can_not_be_run_is_said(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        file_stream({**SINK, **changes})


def test_example_17_an_offset_waits_for_the_records_before_it() -> None:
    submitted: SubmittedRecords[int] = SubmittedRecords()
    for record_id, position in ((1, 10), (2, 20), (3, 30)):
        submitted.submit(record_id, position)
    submitted.acked(2)
    assert submitted.committable() is None
    submitted.acked(1)
    assert (submitted.committable(), submitted.count) == (20, 1)
    assert submitted.committable() is None
    submitted.acked(3)
    assert submitted.committable() == 30
