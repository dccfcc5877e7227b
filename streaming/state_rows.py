"""The items of a cell's state as rows for people and programs: one row for each item.

Times are ms since 1970; -1 stands for none, as in Kafka.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from brokerstream.state.cluster.image import INTERNAL_TOPICS, Topic, machine_prefix
from brokerstream.state.core import waiting
from brokerstream.state.core.decision import CONTROLLER
from brokerstream.state.core.kafka_apis import KAFKA_APIS
from brokerstream.state.core.records import TransactionMetadata
from brokerstream.state.core.tables import Table, Tables
from brokerstream.state.fetch.fetch_session import Session
from brokerstream.state.fetch.fetch_session_counts import Evictions
from brokerstream.state.groups import committed_offsets, groups
from brokerstream.state.groups.assignments import UNIFORM
from brokerstream.state.groups.consumer_group import ConsumerGroup
from brokerstream.state.groups.groups import WRITTEN
from brokerstream.state.groups.kinds import kind_of
from brokerstream.state.logs.log import Log
from brokerstream.state.logs.producer import Producer
from brokerstream.state.transactions import transactional_ids

Row = dict[str, Any]
Columns = Mapping[str, bytes]
Item = TypeVar("Item", bound=msgspec.Struct)


class Kind(StrEnum):
    """Kinds of items."""

    TOPICS = "topics"
    LOGS = "logs"
    PRODUCERS = "producers"
    SESSIONS = "sessions"
    CLIENTS = "clients"
    GROUPS = "groups"
    OFFSETS = "offsets"
    TRANSACTIONAL_IDS = "transactional-ids"
    WAITING = "waiting"


def rows(kind: Kind, cells: Mapping[str, Columns]) -> list[Row]:
    """The items of a kind in all cells, in order; each row begins with its cell.

    Names go by the alphabet, partitions and ids as numbers.
    """
    order = IDENTITY[kind] if kind in _SORTED else ()
    return [
        {"cell": cell, **row}
        for cell in sorted(cells)
        for row in sorted(_ROWS_OF[kind](cells[cell]), key=lambda row: [row[by] for by in order])
    ]


def is_internal(row: Row) -> bool:
    """Whether an item belongs to one of Kafka's internal topics."""
    return row.get("topic") in INTERNAL_TOPICS


def counts(cells: Mapping[str, Columns]) -> list[Row]:
    """For each cell how many items of each kind it has, and the bytes of its state."""
    return [
        {
            "cell": cell,
            **{kind.value: sum(1 for _ in _ROWS_OF[kind](cells[cell])) for kind in Kind},
            "bytes": sum(map(len, cells[cell].values())),
        }
        for cell in sorted(cells)
    ]


def _items(columns: Columns, table: str, part: str, kind: type[Item]) -> Iterator[tuple[str, Item]]:
    """Key and item of each key `<machine>/<part>/...` of a table."""
    items = Table(columns.get(table, b""))
    for key in items.keys(""):
        item = items.get(key, kind) if key.split("/", 2)[1:2] == [part] else None
        if item is not None:
            yield key, item


def _topics(columns: Columns) -> Iterator[Row]:
    controller = machine_prefix(CONTROLLER)
    for key, topic in _items(columns, "metadata", "topic", Topic):
        if key.startswith(f"{controller}/"):
            yield {
                "topic": topic.name,
                "topicId": topic.topic_id,
                "partitions": len(topic.partitions),
                "configs": topic.configs,
            }


def _logs(columns: Columns) -> Iterator[Row]:
    for key, log in _items(columns, "logs", "log", Log):
        yield {
            "broker": _broker_of(key),
            "topic": log.topic,
            "partition": log.partition,
            "leaderEpoch": log.leader_epoch,
            "logStartOffset": log.log_start_offset,
            "highWatermark": log.high_watermark,
            "lastStableOffset": log.last_stable_offset,
            "logEndOffset": log.log_end_offset,
            "batches": log.batch_count,
            "sizeInBytes": log.size_in_bytes,
            "topicId": log.topic_id,
        }


def _producers(columns: Columns) -> Iterator[Row]:
    names = {log["topicId"]: log["topic"] for log in _logs(columns)}
    for key, producer in _items(columns, "producers", "producer", Producer):
        broker, _, topic_id, partition, producer_id = key.split("/")
        last = producer.batches[-1] if producer.batches else None
        yield {
            "broker": int(broker),
            "producerId": int(producer_id),
            "producerEpoch": producer.producer_epoch,
            "topic": names.get(topic_id, topic_id),
            "partition": int(partition),
            "lastSequence": last.last_sequence if last else -1,
            "lastOffset": last.last_offset if last else -1,
            "batches": len(producer.batches),
            "lastTimestamp": producer.last_timestamp,
            "coordinatorEpoch": producer.coordinator_epoch,
            "currentTxnFirstOffset": producer.current_txn_first_offset,
        }


def _sessions(columns: Columns) -> Iterator[Row]:
    for key, session in _items(columns, "sessions", "session", Session):
        yield {
            "broker": _broker_of(key),
            "sessionId": session.session_id,
            "epoch": session.epoch,
            "partitions": session.cached_size,
            "clientId": session.client_id,
            "isPrivileged": session.is_privileged,
            "creationMs": session.creation_ms,
            "lastUsedMs": session.last_used_ms,
        }


def _clients(columns: Columns) -> Iterator[Row]:
    """Fetch sessions by client: those cached, and those that evictions concerned."""
    cached: dict[tuple[int, str], list[int]] = {}
    for key, session in _items(columns, "sessions", "session", Session):
        sizes = cached.setdefault((_broker_of(key), session.client_id), [])
        sizes.append(session.cached_size)
    evictions = {
        _broker_of(key): found for key, found in _items(columns, "sessions", "evictions", Evictions)
    }
    counted = {
        (broker, client)
        for broker, found in evictions.items()
        for client in (*found.evicted, *found.evicting)
    }
    for broker, client in sorted(cached.keys() | counted):
        sizes = cached.get((broker, client), [])
        found = evictions.get(broker, Evictions({}, {}))
        yield {
            "broker": broker,
            "clientId": client,
            "sessions": len(sizes),
            "partitionsCached": sum(sizes),
            "evicted": found.evicted.get(client, 0),
            "evicting": found.evicting.get(client, 0),
        }


def _groups(columns: Columns) -> Iterator[Row]:
    offsets = Counter(row.group for row in committed_offsets.rows(columns.get("groups", b"")))
    tables = Tables(columns)
    for key, written in _items(columns, "groups", "group", WRITTEN):
        broker, group_id = _broker_of(key), written.group_id
        group = groups.known(tables, broker, group_id)
        assert group is not None, key
        yield {
            "broker": broker,
            "group": group_id,
            "type": kind_of(group).name,
            "state": group.state.value,
            "protocolType": group.protocol_type or "",
            **_epochs(group),
            "members": len(group.members),
            "offsets": offsets[group_id],
        }


def _epochs(group: groups.Group) -> Row:
    """How far a group is, and who decides: generation and leader, or group epoch and assignor."""
    if isinstance(group, ConsumerGroup):
        assignor = group.assignor(UNIFORM)
        return {"generation": group.group_epoch, "protocol": assignor, "leader": ""}
    return {
        "generation": group.generation_id,
        "protocol": group.protocol_name or "",
        "leader": group.leader_id or "",
    }


def _offsets(columns: Columns) -> Iterator[Row]:
    for offset in committed_offsets.rows(columns.get("groups", b"")):
        yield {
            "group": offset.group,
            "topic": offset.topic,
            "partition": offset.partition,
            "offset": offset.offset,
            "leaderEpoch": offset.leader_epoch,
            "metadata": offset.metadata,
            "commitTimestamp": offset.commit_timestamp,
            "expireTimestamp": offset.expire_timestamp,
        }


def _transactional_ids(columns: Columns) -> Iterator[Row]:
    for key, known in _items(columns, "transactions", "id", TransactionMetadata):
        places = [
            f"{topic}-{partition}"
            for topic, partitions in known.partitions.items()
            for partition in partitions
        ]
        yield {
            "broker": _broker_of(key),
            "transactionalId": transactional_ids.transactional_id_of(key),
            "producerId": known.producer_id,
            "producerEpoch": known.producer_epoch,
            "state": known.state,
            "partitions": places,
            "transactionStartTimestamp": known.transaction_start_timestamp,
            "transactionTimeoutMs": known.transaction_timeout_ms,
            "lastUpdateTimestamp": known.last_update_timestamp,
        }


def _waiting(columns: Columns) -> Iterator[Row]:
    for waited in waiting.all_waiting(Table(columns.get("waiting", b""))):
        yield {
            "id": waited.event_id,
            "broker": waited.broker,
            "api": KAFKA_APIS[waited.api_key].name,
            "deadline": waited.deadline,
            "logs": len(waited.logs),
            "clientId": waited.header.client_id,
            "connection": waited.connection,
        }


def _broker_of(key: str) -> int:
    return int(key.partition("/")[0])


IDENTITY: Mapping[Kind, tuple[str, ...]] = {
    Kind.TOPICS: ("topic",),
    Kind.LOGS: ("broker", "topic", "partition"),
    Kind.PRODUCERS: ("broker", "topic", "partition", "producerId"),
    Kind.SESSIONS: ("broker", "sessionId"),
    Kind.CLIENTS: ("broker", "clientId"),
    Kind.GROUPS: ("broker", "group"),
    Kind.OFFSETS: ("group", "topic", "partition"),
    Kind.TRANSACTIONAL_IDS: ("broker", "transactionalId"),
    Kind.WAITING: ("broker", "id"),
}
"""What names an item of a kind in its cell."""

_SORTED = (Kind.TOPICS, Kind.LOGS, Kind.PRODUCERS, Kind.SESSIONS)
"""Kinds whose rows are sorted by what names them; of others the keys of the state are in order."""

_ROWS_OF = {
    Kind.TOPICS: _topics,
    Kind.LOGS: _logs,
    Kind.PRODUCERS: _producers,
    Kind.SESSIONS: _sessions,
    Kind.CLIENTS: _clients,
    Kind.GROUPS: _groups,
    Kind.OFFSETS: _offsets,
    Kind.TRANSACTIONAL_IDS: _transactional_ids,
    Kind.WAITING: _waiting,
}
