"""Suites for a job's output in great-expectations' own form, as plain data.

A user's suite has the same form, as JSON or YAML: a name, and expectations with `type`, `kwargs`
and optionally `severity` (`critical`, `warning`, `info`). docs/checks.md describes the columns.
"""

from typing import Any

Document = dict[str, Any]
"""A suite: `{"name": …, "expectations": [{"type": …, "kwargs": {…}, "severity": …}, …]}`."""

TOPIC_LENGTH_MAX = 249
NONE = -1


def expect(kind: str, severity: str = "critical", **kwargs: Any) -> Document:
    """Return an expectation; `kind` is its type without `expect_`."""
    return {"type": f"expect_{kind}", "kwargs": kwargs, "severity": severity}


def known(*names: str) -> list[Document]:
    """Expect no NULL in these columns."""
    return [expect("column_values_to_not_be_null", column=name) for name in names]


def between(column: str, least: int | None, most: int | None = None) -> Document:
    """Expect that the non-null values of a column are in a range."""
    return expect("column_values_to_be_between", column=column, min_value=least, max_value=most)


def only(column: str, *values: Any) -> Document:
    """Expect only these values in a column."""
    return expect("column_values_to_be_in_set", column=column, value_set=list(values))


def columns(*names: str) -> Document:
    """Expect exactly these columns, in order."""
    return expect("table_columns_to_match_ordered_list", column_list=list(names))


def topic_length() -> Document:
    """Expect topic names with a length that Kafka allows."""
    return expect(
        "column_value_lengths_to_be_between",
        column="topic",
        min_value=1,
        max_value=TOPIC_LENGTH_MAX,
    )


COLUMNS: dict[str, tuple[str, ...]] = {
    "requests": (
        *("id", "partition", "offset", "timestamp", "cell", "cluster", "broker", "kind"),
        *("apiKey", "apiVersion", "clientId", "answers", "isOverdue"),
    ),
    "responses": (
        *("id", "partition", "offset", "timestamp", "cluster", "broker"),
        *("apiKey", "clientId", "responseTime", "error", "requests"),
    ),
    "records": (
        *("id", "partition", "offset", "cell", "machine", "time", "type"),
        *("topic", "logPartition", "producerId", "groupId"),
        *("offsetGap", "sequenceGap", "committedBack"),
    ),
    "offsets": (
        *("id", "partition", "offset", "cluster", "groupId", "topic", "topicPartition"),
        *("committedOffset", "leaderEpoch", "commitTimestamp", "isTombstone"),
    ),
}
"""Kind to the columns of its frame, in order; those of a snapshot are in `offsets_snapshot`."""

REQUESTS: Document = {
    "name": "requests",
    "expectations": [
        columns(*COLUMNS["requests"]),
        *known("id", "cell", "cluster"),
        expect("column_values_to_be_unique", column="id"),
        between("answers", 0, 1),
        only("isOverdue", False),
        between("timestamp", 0),
    ],
}
RESPONSES: Document = {
    "name": "responses",
    "expectations": [
        columns(*COLUMNS["responses"]),
        *known("id", "cluster", "broker"),
        expect("column_values_to_be_unique", column="id"),
        between("responseTime", 0),
        only("requests", 1),
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
        only("offsetGap", 0),
        only("sequenceGap", 0),
        expect(
            "column_values_to_be_in_set", severity="warning", column="committedBack", value_set=[0]
        ),
    ],
}
OFFSETS: Document = {
    "name": "offsets",
    "expectations": [
        columns(*COLUMNS["offsets"]),
        *known("id", "cluster", "groupId", "topic", "topicPartition"),
        expect("column_values_to_be_unique", column="id"),
        between("topicPartition", 0),
        between("committedOffset", 0),
        between("leaderEpoch", NONE),
        between("commitTimestamp", 0),
        topic_length(),
    ],
}
OF_TOPICS = {each["name"]: each for each in (REQUESTS, RESPONSES, RECORDS, OFFSETS)}
"""Kind to its suite; that of a snapshot is in `checks`."""
