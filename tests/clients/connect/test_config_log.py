"""The config topic, as it is read and written, and the two connectors' configurations."""

import json
from typing import Any

import pytest

from brokertwin.clients.connect.config_log import ConfigLog, connector_record, task_records
from brokertwin.clients.connect.connect_protocol import Assignment, ConnectProtocol
from brokertwin.clients.connect.converters import (
    ConversionError,
    decode_value,
    encode_value,
    lines_of,
)
from brokertwin.clients.connect.file_stream import (
    ConnectorConfigError,
    ConnectorKind,
    file_stream,
    task_configs,
)
from brokertwin.clients.connect.herder import (
    Command,
    Fence,
    Herder,
    StartWork,
    StopWork,
    WriteConfigs,
)
from brokertwin.clients.connect.offsets import WorkStatus, offset_record, position_of, status_record
from brokertwin.clients.connect.submitted_records import SubmittedRecords
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.connect.worker_config import WorkerConfig, worker_config
from brokertwin.clients.connect.worker_coordinator import WorkerCoordinator
from brokertwin.clients.consumer_coordinator import ClientMemberState
from brokertwin.clients.subscription_state import SubscriptionState

STRING = "org.apache.kafka.connect.storage.StringConverter"
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


def test_example_15_tasks_apply_from_their_commit() -> None:
    made = [connector_record("copy", SINK), *task_records("copy", task_configs(SINK))]
    assert [key.decode() for key, _ in made] == [
        *("connector-copy", "task-copy-0", "task-copy-1", "commit-copy")
    ]
    assert json.loads(made[-1][1] or b"") == {"tasks": 2}
    before = read(*made[:-1])
    assert (before.known.task_counts, before.tasks) == ({"copy": 0}, {})
    log = read(*made)
    assert log.known.task_counts == {"copy": 2}
    assert log.known.offset == 4  # as Kafka's workers tell it
    assert log.tasks[ConnectTaskId("copy", 1)]["task.class"].endswith("FileStreamSinkTask")
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


def test_connectors_are_deleted_and_paused_and_invalid_records_skipped() -> None:
    made = [connector_record("copy", SINK), *task_records("copy", [SINK])]
    log = read(*made, (b"target-state-copy", b'{"state":"PAUSED"}'))
    assert not log.is_started("copy")
    log.take(8, b"session-key", b'{"key":"x"}')
    log.take(9, b"task-copy-0", b"no json")
    log.take(10, None, b"{}")
    log.take(11, b"commit-copy", b"{}")
    assert log.offset == 12
    log.take(12, *connector_record("copy", None))
    assert (log.connectors, log.tasks, log.known.task_counts) == ({}, {}, {})
    assert log.is_started("copy")


def test_a_source_has_one_task_and_a_sink_up_to_the_maximum() -> None:
    assert len(task_configs(SOURCE)) == 1
    assert len(task_configs(SINK)) == 2
    stream = file_stream(SINK, {"value.converter": STRING})
    assert (stream.kind, stream.topics, stream.converter) == (
        *(ConnectorKind.SINK, ("orders", "payments"), "string"),
    )
    assert stream.group_id == "connect-copy"
    assert file_stream(SOURCE).has_schemas


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "has no name"),
        ({"connector.class": "JdbcSource"}, "FileStreamSource and FileStreamSink are known"),
        ({"topics": " "}, "copy has no topics"),
        ({"file": ""}, "copy has no file"),
        ({"tasks.max": "none"}, "tasks.max is none"),
        ({"value.converter": "Avro"}, "value.converter is Avro"),
    ],
)
def test_invalid_configurations_are_reported(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConnectorConfigError, match=message):
        file_stream({**SINK, **changes})


def test_a_task_starts_with_its_configuration_and_restarts_on_change() -> None:
    log = read(connector_record("copy", SINK), *task_records("copy", [SINK]))
    coordinator = WorkerCoordinator(WorkerConfig(group_id="g"), "", SubscriptionState())
    herder, item = Herder(coordinator, log), ConnectTaskId("copy", 0)
    coordinator.assignment = Assignment(config_offset=4, assigned=(item,))
    assert herder.tick() == []
    changed = {**SINK, "file": "other.txt"}
    for offset, record in enumerate(task_records("copy", [changed]), 3):
        log.take(offset, *record)
    assert herder.tick() == [StartWork(item, changed)]
    for offset, record in enumerate(task_records("copy", [SINK]), 5):
        log.take(offset, *record)
    assert herder.tick() == [StopWork(item)]
    assert herder.tick() == []
    herder.stopped(item)
    assert herder.tick() == [StartWork(item, SINK)]


# Generations of source tasks (KIP-618)


def committed(log: ConfigLog, count: int) -> None:
    """Commit another generation of the source with `count` tasks."""
    for record in task_records("lines", [{**task_configs(SOURCE)[0], "n": str(count)}] * count):
        log.take(log.offset, *record)


def herder_of(log: ConfigLog, *, leads: bool) -> Herder:
    coordinator = WorkerCoordinator(WorkerConfig(group_id="g"), "", SubscriptionState())
    items = (ConnectTaskId("lines", 0), ConnectTaskId("lines", 1))
    coordinator.assignment = Assignment(config_offset=log.offset, assigned=items)
    coordinator.state, coordinator.is_leader = ClientMemberState.STABLE, leads
    return Herder(coordinator, log, is_exact=True)


def take_written(herder: Herder, commands: list[Command]) -> None:
    """The leader's word comes back in the config topic."""
    [write] = [each for each in commands if isinstance(each, WriteConfigs)]
    for record in write.records:
        herder.log.take(herder.log.offset, *record)


def test_example_21_the_leader_fences_a_generation_before_the_next_starts() -> None:
    log = read(connector_record("lines", SOURCE))
    committed(log, 2)
    leader, follower = herder_of(log, leads=True), herder_of(log, leads=False)
    assert follower.tick() == []
    [write] = leader.tick()  # none has run yet: nothing to fence
    assert leader.tick() == []
    take_written(leader, [write])
    items = [ConnectTaskId("lines", 0), ConnectTaskId("lines", 1)]
    assert [each.item for each in follower.tick() if isinstance(each, StartWork)] == items
    assert (log.fenced_counts, log.pending_fencing) == ({"lines": 2}, set())

    committed(log, 1)
    assert sorted(follower.tick()) == [StopWork(item) for item in items]
    for item in items:
        follower.stopped(item)
    assert follower.tick() == []
    assert leader.tick() == [Fence("lines", log.generations["lines"], items)]
    assert leader.tick() == []
    leader.not_fenced("lines")
    assert leader.tick() == [Fence("lines", log.generations["lines"], items)]
    leader.coordinator.state = ClientMemberState.PREPARING_REBALANCE
    assert leader.fenced("lines", log.generations["lines"]) == []
    leader.coordinator.state = ClientMemberState.STABLE
    assert leader.tick() == [Fence("lines", log.generations["lines"], items)]
    written = leader.fenced("lines", log.generations["lines"])
    leader.coordinator.state = ClientMemberState.PREPARING_REBALANCE
    assert leader.tick() == []
    leader.coordinator.state = ClientMemberState.STABLE
    assert leader.tick() == []  # # it has not read its own record yet
    take_written(leader, written)
    assert [each.item for each in follower.tick() if isinstance(each, StartWork)] == items[:1]


def test_a_fencing_record_applies_to_its_generation() -> None:
    """Its writer may not have read a newer generation yet."""
    log = read(connector_record("lines", SOURCE))
    committed(log, 2)
    leader = herder_of(log, leads=True)
    [late] = leader.tick()
    committed(log, 3)
    take_written(leader, [late])
    assert log.pending_fencing == {"lines"}
    assert leader.fenced("lines", log.generations["lines"] - 1) == []
    log.take(log.offset, b"tasks-fencing-lines", b'{"task-count":3}')  # as Kafka's leader
    assert (log.pending_fencing, log.fenced_counts) == (set(), {"lines": 3})


def test_tasks_restart_with_each_generation() -> None:
    log = read(connector_record("lines", SOURCE))
    committed(log, 1)
    leader = herder_of(log, leads=True)
    take_written(leader, leader.tick())
    item = ConnectTaskId("lines", 0)
    assert [type(each) for each in leader.tick()] == [StartWork]
    committed(log, 1)
    [write] = leader.fenced("lines", log.generations["lines"])
    take_written(leader, [write])
    assert leader.tick() == [StopWork(item)]
    leader.stopped(item)
    assert [type(each) for each in leader.tick()] == [StartWork]


def test_only_several_source_tasks_need_fencing() -> None:
    log = read(connector_record("lines", SOURCE), connector_record("copy", SINK))
    for record in task_records("copy", task_configs(SINK)):
        log.take(log.offset, *record)
    for _ in range(2):
        committed(log, 1)
        leader = herder_of(log, leads=True)
        take_written(leader, leader.tick())
    assert (log.fenced_counts, log.pending_fencing) == ({"lines": 1}, {"copy"})
    plain = Herder(leader.coordinator, log)
    committed(log, 2)
    assert {type(each) for each in plain.tick()} == {StartWork}


def test_example_17_an_offset_waits_for_earlier_records() -> None:
    submitted = SubmittedRecords()
    for record_id, position in ((1, 10), (2, 20), (3, 30)):
        submitted.submit(record_id, position)
    submitted.acked(2)
    assert submitted.committable() is None
    submitted.acked(1)
    assert (submitted.committable(), submitted.count) == (20, 1)
    assert submitted.committable() is None
    submitted.acked(3)
    assert submitted.committable() == 30


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\nc", [(b"a", 2), (b"b", 2)]),
        (b"a\r\nb\rc\n", [(b"a", 3), (b"b", 2), (b"c", 2)]),
        (b"a\r", []),
        (b"\n\n", [(b"", 1), (b"", 1)]),
        ("ä\n".encode(), [("ä".encode(), 3)]),
    ],
)
def test_lines_have_their_byte_length(data: bytes, expected: list[tuple[bytes, int]]) -> None:
    assert lines_of(data, 10) == expected
    assert lines_of(data, 1) == expected[:1]


def test_values_match_kafkas_converters() -> None:
    with_schema = file_stream(SOURCE)
    value = b'{"schema":{"type":"string","optional":false},"payload":"a line"}'
    assert encode_value(b"a line", with_schema) == value
    assert decode_value(value, with_schema) == "a line"
    assert decode_value(None, with_schema) == "null"
    plain = file_stream(SOURCE, {"value.converter.schemas.enable": "false"})
    assert encode_value(b"a line", plain) == b'"a line"'
    assert decode_value(b'{"n":[1,2]}', plain) == '{"n":[1,2]}'
    text = file_stream(SOURCE, {"value.converter": STRING})
    assert encode_value(b"caf\xff", text) == "caf\ufffd".encode()
    assert decode_value(b"a line", text) == "a line"
    for wrong, given in ((b"a line", "no JSON"), (b'"a line"', "no .schema. and .payload.")):
        with pytest.raises(ConversionError, match=given):
            decode_value(wrong, with_schema)


def test_positions_and_states_in_kafkas_own_json() -> None:
    stream = file_stream(SOURCE)
    assert offset_record(stream, 12) == (b'["lines",{"filename":"in.txt"}]', b'{"position":12}')
    assert (position_of(b'{"position":12}'), position_of(None)) == (12, 0)
    reported = status_record(
        ConnectTaskId("lines", 0), WorkStatus.RUNNING, worker_id="w:1", generation=3
    )
    body = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":3}'
    assert reported == (b"status-task-lines-0", body)
    assert status_record(ConnectTaskId("lines"), WorkStatus.FAILED, worker_id="w:1", generation=3)[
        0
    ] == (b"status-connector-lines")


def test_a_workers_settings_have_kafkas_names() -> None:
    known, unknown = worker_config(
        {
            "group.id": "g",
            "connect.protocol": "eager",
            "session.timeout.ms": "6000",
            "exactly.once.source.support": "enabled",
            "value.converter": STRING,
            "plugin.path": "/plugins",
            "surprise": "1",
        }
    )
    assert (known.group_id, known.session_timeout_ms, unknown) == ("g", 6_000, ["surprise"])
    assert known.connect_protocol is ConnectProtocol.EAGER
    assert known.of_connectors == {"value.converter": STRING}
    assert known.transactional_id(ConnectTaskId("lines", 0)) == "g-lines-0"
    for wrong in ({"session.timeout.ms": "long"}, {"heartbeat.interval.ms": "10000"}):
        with pytest.raises(ConnectorConfigError):
            worker_config(wrong)
