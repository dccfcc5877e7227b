"""Suites for a job's output in great-expectations' own form, as plain data.

A user's suite has the same form, as JSON or YAML: a name, and expectations with `type`, `kwargs`
and optionally `severity` (`critical`, `warning`, `info`). docs/checks.md describes the columns.
"""

from typing import Any

from brokertwin.tables.schemas import BY_NAME

Document = dict[str, Any]
"""A suite: `{"name": …, "expectations": [{"type": …, "kwargs": {…}, "severity": …}, …]}`."""

TOPIC_LENGTH_MAX = 249
NONE = -1
INT32_MAX = 2**31 - 1
OVERDUE_MS = 600_000
"""A request is overdue if a response to another one came this long after it.

No request is pending that long: Fetch and joins time out after at most five minutes by default.
"""
ROW_ID = r"^.+/\d+/\d+(?:\.\d+)?/\d+$"
"""Id of a row that a job wrote: cell, `Position.place` of the event, and a number."""

BATCHES_KEPT = 5
"""Remembered batches of a producer (`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`)."""


def expect(kind: str, severity: str = "critical", **kwargs: Any) -> Document:
    """Return an expectation; `kind` is its type without `expect_`."""
    return {"type": f"expect_{kind}", "kwargs": kwargs, "severity": severity}


def known(*names: str) -> list[Document]:
    return [expect("column_values_to_not_be_null", column=name) for name in names]


def between(
    column: str, least: int | None, most: int | None = None, severity: str = "critical"
) -> Document:
    """Expect that the non-null values of a column are in a range."""
    return expect(
        "column_values_to_be_between", severity, column=column, min_value=least, max_value=most
    )


def only(column: str, *values: Any, severity: str = "critical") -> Document:
    given = list(values)
    return expect("column_values_to_be_in_set", severity, column=column, value_set=given)


def unique(*names: str) -> Document:
    """Expect no two rows with the same values in these columns."""
    return expect("compound_columns_to_be_unique", column_list=list(names))


def at_most(lower: str, upper: str, severity: str = "critical") -> Document:
    """Expect that a column is at most another one in each row that has both."""
    return expect(
        "column_pair_values_a_to_be_greater_than_b",
        severity,
        column_A=upper,
        column_B=lower,
        or_equal=True,
        ignore_row_if="either_value_is_missing",
    )


def equal(one: str, other: str) -> Document:
    """Expect that two columns are equal in each row that has both."""
    return expect(
        "column_pair_values_to_be_equal",
        column_A=one,
        column_B=other,
        ignore_row_if="either_value_is_missing",
    )


def columns(*names: str) -> Document:
    return expect("table_columns_to_match_ordered_list", column_list=list(names))


def topic_length() -> Document:
    """Expect topic names with a length that Kafka allows."""
    return expect(
        "column_value_lengths_to_be_between",
        column="topic",
        min_value=1,
        max_value=TOPIC_LENGTH_MAX,
    )


TABLE_OF = {
    "sessions": "sessions",
    "producers": "producers",
    "groups": "groups",
    "committed-offsets": "offsets",
    "logs": "logs",
}
"""Kind of a state's items to its table (`brokertwin query` lists them)."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "requests": (
        *("id", "partition", "offset", "timestamp", "cell", "cluster", "broker", "kind"),
        *("apiKey", "apiVersion", "clientId", "responses", "pendingMs"),
    ),
    "responses": (
        *("id", "partition", "offset", "timestamp", "cluster", "broker"),
        *("apiKey", "clientId", "responseTime", "error", "requestTimestamp"),
    ),
    "records": (
        *("id", "partition", "offset", "cell", "machine", "time", "type"),
        *("topic", "logPartition", "producerId", "groupId"),
        *("baseOffset", "expectedOffset", "baseSequence", "expectedSequence"),
        *("committedOffset", "committedBefore", "highWatermark", "highWatermarkBefore"),
        "idGivenBefore",
    ),
    "offsets": (
        *("id", "partition", "offset", "cluster", "groupId", "topic", "topicPartition"),
        *("committedOffset", "leaderEpoch", "commitTimestamp", "isTombstone"),
    ),
    "violations": ("cell", "violation"),
    **{
        kind: tuple(column.name for column in BY_NAME[table].columns)
        for kind, table in TABLE_OF.items()
    },
}
"""Kind to the columns of its frame, in order; those of a snapshot are in `offsets_snapshot`."""

REQUESTS: Document = {
    "name": "requests",
    "expectations": [
        columns(*COLUMNS["requests"]),
        *known("id", "cell", "cluster"),
        expect("column_values_to_be_unique", column="id"),
        between("responses", 0, 1),
        between("pendingMs", None, OVERDUE_MS),
        between("timestamp", 0),
    ],
}
RESPONSES: Document = {
    "name": "responses",
    "expectations": [
        columns(*COLUMNS["responses"]),
        *known("id", "cluster", "broker", "requestTimestamp"),
        expect("column_values_to_be_unique", column="id"),
        between("responseTime", 0),
        expect("column_values_to_be_null", severity="warning", column="error"),
    ],
}
RECORDS: Document = {
    "name": "records",
    "expectations": [
        columns(*COLUMNS["records"]),
        *known("id", "cell", "machine", "type"),
        expect("column_values_to_be_unique", column="id"),
        between("time", 0),
        equal("baseOffset", "expectedOffset"),
        equal("baseSequence", "expectedSequence"),
        expect("column_values_to_be_null", column="idGivenBefore"),
        at_most("highWatermarkBefore", "highWatermark", severity="warning"),
        at_most("committedBefore", "committedOffset", severity="warning"),
    ],
}
OFFSETS: Document = {
    "name": "offsets",
    "expectations": [
        columns(*COLUMNS["offsets"]),
        *known("id", "cluster", "groupId", "topic", "topicPartition"),
        expect("column_values_to_be_unique", column="id"),
        expect("column_values_to_match_regex", column="id", regex=ROW_ID),
        between("topicPartition", 0),
        between("committedOffset", 0),
        between("leaderEpoch", NONE),
        between("commitTimestamp", 0),
        topic_length(),
    ],
}
SESSIONS: Document = {
    "name": "sessions",
    "expectations": [
        columns(*COLUMNS["sessions"]),
        unique("cell", "broker", "sessionId"),
        between("sessionId", 1),
        between("epoch", 1),
        between("partitions", 0),
        at_most("creationMs", "lastUsedMs"),
    ],
}
PRODUCERS: Document = {
    "name": "producers",
    "expectations": [
        columns(*COLUMNS["producers"]),
        unique("cell", "broker", "topic", "partition", "producerId"),
        between("producerId", 0),
        between("producerEpoch", NONE),
        between("batches", 0, BATCHES_KEPT),
        between("lastSequence", NONE, INT32_MAX),
        between("lastOffset", NONE),
    ],
}
GROUPS: Document = {
    "name": "groups",
    "expectations": [
        columns(*COLUMNS["groups"]),
        unique("cell", "broker", "groupId"),
        between("generation", 0),
        between("members", 0),
        between("offsets", 0),
    ],
}
COMMITTED_OFFSETS: Document = {
    "name": "committed-offsets",
    "expectations": [
        columns(*COLUMNS["committed-offsets"]),
        unique("cell", "groupId", "topic", "partition"),
        between("partition", 0),
        between("committedOffset", 0),
        between("leaderEpoch", NONE),
        between("commitTimestamp", 0),
        topic_length(),
        between("lag", 0, severity="warning"),
    ],
}
LOGS: Document = {
    "name": "logs",
    "expectations": [
        columns(*COLUMNS["logs"]),
        unique("cell", "broker", "topic", "partition"),
        between("logStartOffset", 0),
        at_most("logStartOffset", "highWatermark"),
        at_most("lastStableOffset", "highWatermark"),
        at_most("highWatermark", "logEndOffset"),
        between("batches", 0),
        between("sizeInBytes", 0),
    ],
}
VIOLATIONS: Document = {
    "name": "violations",
    "expectations": [
        columns(*COLUMNS["violations"]),
        expect("column_values_to_be_null", column="violation"),
    ],
}


def _of_live(kind: str, *expected: Document) -> Document:
    return {
        "name": f"live-{kind}",
        "expectations": [*known("cluster"), equal("key", "keyOfValues"), *expected],
    }


OF_TOPICS = {each["name"]: each for each in (REQUESTS, RESPONSES, RECORDS, OFFSETS)}
"""Kind of a topic's rows to its suite; that of a snapshot is in `checks`."""
OF_STATE = {
    each["name"]: each
    for each in (SESSIONS, PRODUCERS, GROUPS, COMMITTED_OFFSETS, LOGS, VIOLATIONS)
}
"""Kind of a state's items to its suite."""
OF_LIVE = {
    "sessions": _of_live("sessions", between("session_id", 1), between("epoch", 1)),
    "producers": _of_live(
        "producers",
        between("producer_id", 0),
        between("epoch", 0),
        between("batches", 1, BATCHES_KEPT),
        equal("last_of_batches", "last_sequence"),
        *(equal(f"sequence_after_{n}", f"first_sequence_{n + 1}") for n in range(1, BATCHES_KEPT)),
    ),
    "producer-ids": _of_live(
        "producer-ids", unique("cluster", "producer_id"), only("state", "open", "none")
    ),
    "groups": _of_live("groups", between("members", 0), between("offsets", 0)),
    "offsets": _of_live("offsets", between("offset", 0), between("partition", 0), topic_length()),
}
"""Kind of rows of a live audit to its suite; `streaming/checks/checked_live.py` has the columns."""
BY_KIND = {**OF_TOPICS, **OF_STATE}
"""Kind of rows to its suite."""
