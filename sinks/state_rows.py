"""The items of a cell's state as rows for people and programs: one row for each item.

Times are ms since 1970; -1 stands for none, as in Kafka.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from brokertwin.sinks import replica_rows
from brokertwin.state.cluster.image import INTERNAL_TOPICS, Topic, machine_prefix
from brokertwin.state.core import pending
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.kafka_apis import KAFKA_APIS
from brokertwin.state.core.records import TransactionMetadata
from brokertwin.state.core.tables import Table, Tables
from brokertwin.state.fetch.fetch_session_counts import Evictions
from brokertwin.state.fetch.session_items import CachedFetchPartition, FetchSession
from brokertwin.state.groups import committed_offsets, groups, sticky_assignor
from brokertwin.state.groups.assignments import UNIFORM
from brokertwin.state.groups.classic_group import Member
from brokertwin.state.groups.consumer_group import NO_EPOCH, ConsumerGroup, ConsumerMember
from brokertwin.state.groups.groups import WRITTEN
from brokertwin.state.groups.kinds import kind_of
from brokertwin.state.groups.share_group import ShareGroup, ShareMember
from brokertwin.state.groups.simple_assignor import SIMPLE
from brokertwin.state.groups.streams_group import StreamsGroup, StreamsMember
from brokertwin.state.logs.log import Log
from brokertwin.state.logs.producer import Producer
from brokertwin.state.transactions import transactional_ids

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
    PARTITIONS = "partitions"
    MEMBERS = "members"
    PRODUCER_BATCHES = "producer-batches"
    SESSION_PARTITIONS = "session-partitions"
    REPLICAS = "replicas"
    FETCHERS = "fetchers"


PARTS = {
    Kind.PARTITIONS: Kind.TOPICS,
    Kind.MEMBERS: Kind.GROUPS,
    Kind.PRODUCER_BATCHES: Kind.PRODUCERS,
    Kind.SESSION_PARTITIONS: Kind.SESSIONS,
}
"""Kinds that are parts of items, to the kind of the whole."""

COMPUTED = (Kind.REPLICAS, Kind.FETCHERS)
"""Kinds whose rows are computed from items of other kinds."""

WHOLE = [kind for kind in Kind if kind not in PARTS and kind not in COMPUTED]


def parts_of(whole: Kind) -> list[Kind]:
    """The kinds whose items are parts of a kind's."""
    return [part for part, of in PARTS.items() if of is whole]


def rows(kind: Kind, cells: Mapping[str, Columns]) -> list[Row]:
    """The items of a kind in all cells, in order; each row begins with its cell.

    Names go by the alphabet, numbers as numbers.
    """
    order = IDENTITY[kind]
    found = [
        {"cell": cell, **row}
        for cell in sorted(cells, key=_natural)
        for row in sorted(_ROWS_OF[kind](cells[cell]), key=lambda row: [row[by] for by in order])
    ]
    if kind is Kind.OFFSETS:
        replica_rows.add_lags(found, cells)
    elif kind is Kind.GROUPS:
        replica_rows.add_group_lags(found, rows(Kind.OFFSETS, cells))
    return found


def _natural(name: str) -> list[str | int]:
    """A name's parts, by which `c/10` comes behind `c/9`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def named(kind: Kind, row: Row, key: str) -> bool:
    """Whether a key is one of what names an item: its topic, group, producer id, and so on."""
    return any(str(row[name]) == key for name in IDENTITY[kind] if name != "broker")


def is_internal(row: Row) -> bool:
    """Whether an item belongs to one of Kafka's internal topics."""
    return row.get("topic") in INTERNAL_TOPICS


def counts(cells: Mapping[str, Columns]) -> list[Row]:
    """For each cell how many items of each kind it has, and the bytes of its state."""
    return [
        {
            "cell": cell,
            **{kind.value: sum(1 for _ in _ROWS_OF[kind](cells[cell])) for kind in WHOLE},
            "bytes": sum(map(len, cells[cell].values())),
        }
        for cell in sorted(cells, key=_natural)
    ]


def _items(columns: Columns, table: str, part: str, kind: type[Item]) -> Iterator[tuple[str, Item]]:
    """Key and item of each key `<machine>/<part>/...` of a table."""
    items = Table(columns.get(table, b""))
    for key in items.keys(""):
        item = items.get(key, kind) if key.split("/", 2)[1:2] == [part] else None
        if item is not None:
            yield key, item


def _topics(columns: Columns) -> Iterator[Row]:
    for topic in _controllers_topics(columns):
        yield {
            "topic": topic.name,
            "topicId": topic.topic_id,
            "partitions": len(topic.partitions),
            "configs": topic.configs,
        }


def _controllers_topics(columns: Columns) -> Iterator[Topic]:
    controller = machine_prefix(CONTROLLER)
    for key, topic in _items(columns, "metadata", "topic", Topic):
        if key.startswith(f"{controller}/"):
            yield topic


def _partitions(columns: Columns) -> Iterator[Row]:
    for topic in _controllers_topics(columns):
        for number, partition in enumerate(topic.partitions):
            yield {
                "topic": topic.name,
                "partition": number,
                "leader": partition.leader,
                "leaderEpoch": partition.leader_epoch,
                "partitionEpoch": partition.partition_epoch,
                "replicas": partition.replicas,
                "isr": partition.isr,
                "eligibleLeaderReplicas": partition.eligible_leader_replicas,
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


def _producer_batches(columns: Columns) -> Iterator[Row]:
    """The last batches of each producer, by which duplicates are known: five at most."""
    names = {log["topicId"]: log["topic"] for log in _logs(columns)}
    for key, producer in _items(columns, "producers", "producer", Producer):
        broker, _, topic_id, partition, producer_id = key.split("/")
        for batch in producer.batches:
            yield {
                "broker": int(broker),
                "producerId": int(producer_id),
                "producerEpoch": producer.producer_epoch,
                "topic": names.get(topic_id, topic_id),
                "partition": int(partition),
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "firstOffset": batch.first_offset,
                "lastOffset": batch.last_offset,
                "timestamp": batch.timestamp,
            }


def _session_partitions(columns: Columns) -> Iterator[Row]:
    names = {topic.topic_id: topic.name for topic in _controllers_topics(columns)}
    for key, cached in _items(columns, "sessions", "cached", CachedFetchPartition):
        asked = cached.requested
        yield {
            "broker": _broker_of(key),
            "sessionId": int(key.split("/")[2]),
            "topic": asked.topic or names.get(asked.topic_id, asked.topic_id),
            "partition": asked.partition,
            "fetchOffset": asked.fetch_offset,
            "highWatermark": cached.high_watermark,
            "logStartOffset": cached.log_start_offset,
            "currentLeaderEpoch": asked.current_leader_epoch,
            "partitionMaxBytes": asked.max_bytes,
        }


def _sessions(columns: Columns) -> Iterator[Row]:
    for key, session in _items(columns, "sessions", "session", FetchSession):
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
    for key, session in _items(columns, "sessions", "session", FetchSession):
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
            "groupId": group_id,
            "type": kind_of(group).name,
            "state": group.state.value,
            "protocolType": group.protocol_type or "",
            **_epochs(group),
            "members": len(group.members),
            "offsets": offsets[group_id],
        }


def _members(columns: Columns) -> Iterator[Row]:
    tables = Tables(columns)
    for key, written in _items(columns, "groups", "group", WRITTEN):
        broker = _broker_of(key)
        group = groups.known(tables, broker, written.group_id)
        assert group is not None, key
        for member_id, member in group.members.items():
            instance, epoch, rebalance_timeout_ms = _epoch_of(member)
            yield {
                "broker": broker,
                "groupId": written.group_id,
                "memberId": member_id,
                "groupInstanceId": instance,
                "memberEpoch": epoch,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeoutMs": rebalance_timeout_ms,
            }


_NO_TIMEOUT = -1


def _epoch_of(
    member: Member | ConsumerMember | ShareMember | StreamsMember,
) -> tuple[str | None, int, int]:
    """A member's instance id, epoch and rebalance time-out, as far as its kind has them."""
    if isinstance(member, ShareMember):
        return None, member.member_epoch, _NO_TIMEOUT
    if isinstance(member, ConsumerMember | StreamsMember):
        return member.instance_id, member.member_epoch, member.rebalance_timeout_ms
    return member.group_instance_id, NO_EPOCH, member.rebalance_timeout_ms


def _epochs(group: groups.Group) -> Row:
    """How far a group is, and who decides: generation and leader, or group epoch and assignor."""
    if isinstance(group, ConsumerGroup):
        assignor = group.assignor(UNIFORM)
        return {"generation": group.group_epoch, "protocol": assignor, "leader": ""}
    if isinstance(group, ShareGroup):
        return {"generation": group.group_epoch, "protocol": SIMPLE, "leader": ""}
    if isinstance(group, StreamsGroup):
        return {"generation": group.group_epoch, "protocol": sticky_assignor.NAME, "leader": ""}
    return {
        "generation": group.generation_id,
        "protocol": group.protocol_name or "",
        "leader": group.leader_id or "",
    }


def _offsets(columns: Columns) -> Iterator[Row]:
    for offset in committed_offsets.rows(columns.get("groups", b"")):
        yield {
            "groupId": offset.group,
            "topic": offset.topic,
            "partition": offset.partition,
            "committedOffset": offset.offset,
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
    for waited in pending.requests(Table(columns.get("waiting", b""))):
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
    Kind.GROUPS: ("broker", "groupId"),
    Kind.OFFSETS: ("groupId", "topic", "partition"),
    Kind.TRANSACTIONAL_IDS: ("broker", "transactionalId"),
    Kind.WAITING: ("broker", "id"),
    Kind.PARTITIONS: ("topic", "partition"),
    Kind.MEMBERS: ("broker", "groupId", "memberId"),
    Kind.PRODUCER_BATCHES: ("broker", "topic", "partition", "producerId", "lastOffset"),
    Kind.SESSION_PARTITIONS: ("broker", "sessionId", "topic", "partition"),
    Kind.REPLICAS: ("broker", "topic", "partition", "replica"),
    Kind.FETCHERS: ("broker", "thread", "topic", "partition"),
}
"""What names an item of a kind in its cell."""

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
    Kind.PARTITIONS: _partitions,
    Kind.MEMBERS: _members,
    Kind.PRODUCER_BATCHES: _producer_batches,
    Kind.SESSION_PARTITIONS: _session_partitions,
    Kind.REPLICAS: replica_rows.replicas,
    Kind.FETCHERS: replica_rows.fetched,
}
