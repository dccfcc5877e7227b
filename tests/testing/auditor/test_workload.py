"""Work of the processes: variables, planned records, and parsed lines."""

from brokertwin.testing.auditor.workload import (
    MEMBERS,
    PROCESSORS,
    PRODUCER,
    ZOMBIE,
    GroupKind,
    PlannedRecord,
    RunNames,
    Statement,
    environment,
    planned,
    statements,
)

NAMES = RunNames("topic", "output", "group", "id")


def test_a_process_learns_its_work_from_variables() -> None:
    assert environment(ZOMBIE, NAMES, "localhost:1", 100) == {
        "EXAM_BOOTSTRAP": "localhost:1",
        "EXAM_WORK": "transact",
        "EXAM_NAME": "zombie",
        "EXAM_TOPIC": "topic",
        "EXAM_PARTITIONS": "3",
        "EXAM_OUTPUT": "output",
        "EXAM_GROUP": "group",
        "EXAM_GROUP_PROTOCOL": "classic",
        "EXAM_GROUP_INSTANCE": "",
        "EXAM_TRANSACTIONAL_ID": "id",
        "EXAM_COUNT": "10",
    }
    reported = environment(PROCESSORS[1], NAMES, "localhost:1", 100)
    assert (reported["EXAM_GROUP"], reported["EXAM_TRANSACTIONAL_ID"]) == (
        "group-process",
        "id-processor-2",
    )


def test_the_third_member_has_the_instance_of_the_first_one() -> None:
    static = GroupKind("consumer", is_static=True)
    found = [environment(role, NAMES, "localhost:1", 100, static) for role in MEMBERS]
    assert [each["EXAM_GROUP_INSTANCE"] for each in found] == ["static-1", "static-2", "static-1"]
    assert {each["EXAM_GROUP_PROTOCOL"] for each in found} == {"consumer"}
    assert environment(PRODUCER, NAMES, "localhost:1", 100, static)["EXAM_GROUP_INSTANCE"] == ""


def test_planned_records_are_those_of_writers_in_their_order() -> None:
    found = list(planned([PRODUCER, ZOMBIE, *MEMBERS], 10))
    assert found[:2] == [
        PlannedRecord("producer-0", "producer", "", 0),
        PlannedRecord("producer-1", "producer", "", 1),
    ]
    assert found[10:] == [
        PlannedRecord("zombie-0-0", "zombie", "zombie-0", 0),
        PlannedRecord("zombie-0-1", "zombie", "zombie-0", 1),
        PlannedRecord("zombie-0-2", "zombie", "zombie-0", 2),
    ]


def test_lines_of_other_forms_are_ignored() -> None:
    lines = ["acked a-1\n", "", "warning: slow", "acked", "read 0 5 a-1\n", "read 0 5"]
    assert list(statements(lines)) == [
        Statement("acked", ("a-1",)),
        Statement("read", ("0", "5", "a-1")),
    ]
