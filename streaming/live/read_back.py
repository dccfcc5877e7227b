"""Reads the topics of a live audit: findings, and the rows of a subject."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import consumer, end_offsets, read_all
from brokertwin.kafka_io.topics import admin_client, existing, full_name
from brokertwin.streaming.live.operator import FINDINGS

SUBJECTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "producer": {
        "transactions": ("transactional_id", "producer_id"),
        "producers": ("producer_id",),
    },
    "transaction": {"transactions": ("transactional_id", "producer_id")},
    "group": {"groups": ("group_id",), "offsets": ("group_id",)},
    "session": {"sessions": ("session_id",)},
    "client": {"sessions": ("client",), "transactions": ("client",)},
}
"""Subject to the tables with rows about it, and the columns that may have its name."""

WORDS = {"transaction": "producer"}
"""Subject to the word for it in findings, where that is another one."""

Row = dict[str, Any]


class LiveSubject(NamedTuple):
    """A subject in the topics of a live audit.

    Attributes:
        rows: its current rows, by table.
        findings: those that were not withdrawn, in the order of their last evidence.
    """

    rows: dict[str, list[Row]]
    findings: list[Row]


def newest_findings(client: ClientProperties, prefix: str, count: int) -> list[bytes]:
    """Read about the last `count` rows of the topic of findings.

    Raises:
        UserError: the topic does not exist, or Kafka does not respond.
    """
    topic = full_name(prefix, FINDINGS)
    with closing(consumer(client)) as reader:
        ends = end_offsets(reader, topic, 1)
    first = {number: max(end - count, 0) for number, end in ends.items()}
    return [row.value for row in read_all(client, topic, first) if row.value is not None]


def subject(client: ClientProperties, prefix: str, kind: str, key: str) -> LiveSubject:
    """Read the rows and findings of a subject, in all clusters.

    Args:
        client: the connection to Kafka.
        prefix: of the topics.
        kind: one of `SUBJECTS`.
        key: its name, as for a timeline of a recording.

    Raises:
        UserError: a topic does not exist, or Kafka does not respond.
    """
    tables = SUBJECTS[kind]
    there = existing(admin_client(client), client)
    for topic in (full_name(prefix, name) for name in (*tables, FINDINGS)):
        if topic not in there:
            raise UserError(
                f"Kafka at {client.bootstrap} has no topic {topic}.",
                "Check the prefix; `brokertwin live` creates the topics.",
            )
    rows: dict[str, list[Row]] = {}
    names = {key}
    for table, columns in tables.items():
        rows[table] = [
            row
            for row in _newest(client, full_name(prefix, table))
            if names & {str(row[column]) for column in columns}
        ]
        if kind == "producer" and table == "transactions":
            names |= {str(row[column]) for row in rows[table] for column in columns}
    found = [
        each
        for each in _newest(client, full_name(prefix, FINDINGS))
        if not each["withdrawn"] and any(_is_about(each, kind, name) for name in names)
    ]
    return LiveSubject(rows, sorted(found, key=lambda each: (each["to"], each["id"])))


def _newest(client: ClientProperties, topic: str) -> Iterator[Row]:
    """The last row of each key, without deleted ones."""
    newest = {row.key: row.value for row in read_all(client, topic)}
    yield from (msgspec.json.decode(value) for value in newest.values() if value is not None)


def _is_about(finding: Row, kind: str, name: str) -> bool:
    """Whether a finding is about a subject, or was caused by the client."""
    text = f"{WORDS.get(kind, kind)} {name}"
    of_client = kind == "client" and name in (*finding["clients"], *finding["by"])
    return of_client or finding["subject"] == text or finding["subject"].startswith(f"{text} in ")
