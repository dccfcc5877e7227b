"""Items of a cell's state as rows, one for each item.

Times are ms since 1970; -1 means none, as in Kafka.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.state.cluster.image import INTERNAL_TOPICS, Topic
from brokertwin.state.core import pending
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.records import TransactionMetadata
from brokertwin.state.core.tables import CellTables, Table, machine_prefix
from brokertwin.state.eras import zookeeper_offsets, zookeeper_producer_ids
from brokertwin.state.fetch.fetch_session_counts import Evictions
from brokertwin.state.fetch.session_items import CachedFetchPartition, FetchSession
from brokertwin.state.groups import committed_offsets, groups, sticky_assignor
from brokertwin.state.groups.assignments import UNIFORM
from brokertwin.state.groups.classic_group import ClassicMember
from brokertwin.state.groups.consumer_group import NO_EPOCH, ConsumerGroup, ConsumerMember
from brokertwin.state.groups.groups import STORED_GROUP
from brokertwin.state.groups.kinds import kind_of
from brokertwin.state.groups.share_group import ShareGroup, ShareGroupMember
from brokertwin.state.groups.simple_assignor import SIMPLE
from brokertwin.state.groups.streams_group import StreamsGroup, StreamsMember
from brokertwin.state.logs.log import Log
from brokertwin.state.logs.producer import ProducerStateEntry
from brokertwin.state.transactions import transactional_ids
from brokertwin.tables import replica_rows

Row = dict[str, Any]
Columns = Mapping[str, bytes]
Item = TypeVar("Item", bound=msgspec.Struct)


class ItemKind(StrEnum):
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
    ZOOKEEPER = "zookeeper"


PARTS = {
    ItemKind.PARTITIONS: ItemKind.TOPICS,
    ItemKind.MEMBERS: ItemKind.GROUPS,
    ItemKind.PRODUCER_BATCHES: ItemKind.PRODUCERS,
    ItemKind.SESSION_PARTITIONS: ItemKind.SESSIONS,
}
"""Kinds of parts, to the kind of their item."""

UNCOUNTED = (ItemKind.REPLICAS, ItemKind.FETCHERS, ItemKind.ZOOKEEPER)
"""Kinds that are not counted: computed from items of other kinds, or of a former Kafka."""

WHOLE = [kind for kind in ItemKind if kind not in PARTS and kind not in UNCOUNTED]


def parts_of(whole: ItemKind) -> list[ItemKind]:
    return [part for part, of in PARTS.items() if of is whole]


def rows(
    kind: ItemKind, cells: Mapping[str, Columns], without_ends: Collection[str] = ()
) -> list[Row]:
    """Return the items of a kind in all cells, sorted, with their cell.

    Names are sorted alphabetically, numbers numerically. `without_ends` are names or ids of topics
    whose log ends are not known.
    """
    order = IDENTITY[kind]
    result = [
        {"cell": cell, **row}
        for cell in sorted(cells, key=_natural)
        for row in sorted(_ROWS_OF[kind](cells[cell]), key=lambda row: [row[by] for by in order])
    ]
    if kind is ItemKind.OFFSETS:
        replica_rows.add_lags(result, cells, without_ends)
    elif kind is ItemKind.GROUPS:
        replica_rows.add_group_lags(result, rows(ItemKind.OFFSETS, cells, without_ends))
    return result


def _natural(name: str) -> list[str | int]:
    """Return a sort key of a name by which `c/10` follows `c/9`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def named(kind: ItemKind, row: Row, key: str) -> bool:
    """True if a key identifies an item: its topic, group, producer id, and so on."""
    return any(str(row[name]) == key for name in IDENTITY[kind] if name != "broker")


def is_internal(row: Row) -> bool:
    """True if an item belongs to one of Kafka's internal topics."""
    return row.get("topic") in INTERNAL_TOPICS


def counts(cells: Mapping[str, Columns]) -> list[Row]:
    """Return the number of items of each kind, and the state size, for each cell."""
    return [
        {
            "cell": cell,
            **{kind.value: sum(1 for _ in _ROWS_OF[kind](cells[cell])) for kind in WHOLE},
            "bytes": sum(map(len, cells[cell].values())),
        }
        for cell in sorted(cells, key=_natural)
    ]


def _items(columns: Columns, table: str, part: str, kind: type[Item]) -> Iterator[tuple[str, Item]]:
    """Yield key and item of the keys `<machine>/<part>/...` of a table."""
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
    for common, producer in _producer_entries(columns):
        last = producer.batches[-1] if producer.batches else None
        yield {
            **common,
            "lastSequence": last.last_sequence if last else -1,
            "lastOffset": last.last_offset if last else -1,
            "batches": len(producer.batches),
            "lastTimestamp": producer.last_timestamp,
            "coordinatorEpoch": producer.coordinator_epoch,
            "currentTxnFirstOffset": producer.current_txn_first_offset,
        }


def _producer_batches(columns: Columns) -> Iterator[Row]:
    """Yield the remembered batches of each producer, at most five, for duplicates."""
    for common, producer in _producer_entries(columns):
        for batch in producer.batches:
            yield {
                **common,
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "firstOffset": batch.first_offset,
                "lastOffset": batch.last_offset,
                "timestamp": batch.timestamp,
            }


def _producer_entries(columns: Columns) -> Iterator[tuple[Row, ProducerStateEntry]]:
    """Yield the common columns of a producer in a partition, and its entry."""
    names = {log["topicId"]: log["topic"] for log in _logs(columns)}
    for key, producer in _items(columns, "producers", "producer", ProducerStateEntry):
        broker, _, topic_id, partition, producer_id = key.split("/")
        common = {
            "broker": int(broker),
            "producerId": int(producer_id),
            "producerEpoch": producer.producer_epoch,
            "topic": names.get(topic_id, topic_id),
            "partition": int(partition),
        }
        yield common, producer


def _session_partitions(columns: Columns) -> Iterator[Row]:
    names = {topic.topic_id: topic.name for topic in _controllers_topics(columns)}
    sent = replica_rows.sent_high_watermarks(columns)
    for key, cached in _items(columns, "sessions", "cached", CachedFetchPartition):
        requested = cached.requested
        broker, session_id = _broker_of(key), int(key.split("/")[2])
        place = (broker, session_id, requested.topic_id, requested.partition)
        yield {
            "broker": broker,
            "sessionId": session_id,
            "topic": requested.topic or names.get(requested.topic_id, requested.topic_id),
            "partition": requested.partition,
            "fetchOffset": requested.fetch_offset,
            "highWatermark": sent.get(place, cached.high_watermark),
            "logStartOffset": cached.log_start_offset,
            "fetcherLogStartOffset": requested.log_start_offset,
            "currentLeaderEpoch": requested.current_leader_epoch,
            "partitionMaxBytes": requested.max_bytes,
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
    """Yield clients with fetch sessions or evictions."""
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
    for broker, group_id, group in _current_groups(columns):
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
    for broker, group_id, group in _current_groups(columns):
        for member_id, member in group.members.items():
            instance, epoch, rebalance_timeout_ms = _epoch_of(member)
            yield {
                "broker": broker,
                "groupId": group_id,
                "memberId": member_id,
                "groupInstanceId": instance,
                "memberEpoch": epoch,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeoutMs": rebalance_timeout_ms,
            }


def _current_groups(columns: Columns) -> Iterator[tuple[int, str, groups.Group]]:
    """Yield broker, group id and group; -1 if only ZooKeeper has the group."""
    tables = CellTables(columns)
    places = {
        (_broker_of(key), written.group_id)
        for key, written in _items(columns, "groups", "group", STORED_GROUP)
    }
    coordinated = {group_id for broker, group_id in places if broker != CONTROLLER}
    for broker, group_id in places:
        if broker == CONTROLLER and group_id in coordinated:
            continue
        group = groups.find(tables.of(broker), group_id)
        assert group is not None, group_id
        yield broker, group_id, group


_NO_TIMEOUT = -1


def _epoch_of(
    member: ClassicMember | ConsumerMember | ShareGroupMember | StreamsMember,
) -> tuple[str | None, int, int]:
    """Return a member's instance id, epoch and rebalance timeout, if its type has them."""
    if isinstance(member, ShareGroupMember):
        return None, member.member_epoch, _NO_TIMEOUT
    if isinstance(member, ConsumerMember | StreamsMember):
        return member.instance_id, member.member_epoch, member.rebalance_timeout_ms
    return member.group_instance_id, NO_EPOCH, member.rebalance_timeout_ms


def _epochs(group: groups.Group) -> Row:
    """Return generation and leader, or group epoch and assignor."""
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
    for key, metadata in _items(columns, "transactions", "id", TransactionMetadata):
        places = [
            f"{topic}-{partition}"
            for topic, partitions in metadata.partitions.items()
            for partition in partitions
        ]
        yield {
            "broker": _broker_of(key),
            "transactionalId": transactional_ids.transactional_id_of(key),
            "producerId": metadata.producer_id,
            "producerEpoch": metadata.producer_epoch,
            "state": metadata.state,
            "partitions": places,
            "transactionStartTimestamp": metadata.transaction_start_timestamp,
            "transactionTimeoutMs": metadata.transaction_timeout_ms,
            "lastUpdateTimestamp": metadata.last_update_timestamp,
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


def _zookeeper(columns: Columns) -> Iterator[Row]:
    """Yield the nodes with data. Versions of the offsets' nodes are unknown."""
    for stored in committed_offsets.rows(columns.get("groups", b""), CONTROLLER):
        path = zookeeper_offsets.path(stored.group, stored.topic, stored.partition)
        yield {"path": path, "data": str(stored.offset), "version": None}
    block = zookeeper_producer_ids.read_document(Table(columns.get("metadata", b"")))
    if block.document is not None:
        path = zookeeper_producer_ids.PATH
        yield {"path": path, "data": block.document, "version": block.version}


def _broker_of(key: str) -> int:
    """Return the broker with an item; -1 for items of ZooKeeper."""
    machine = key.partition("/")[0]
    return CONTROLLER if machine == machine_prefix(CONTROLLER) else int(machine)


IDENTITY: Mapping[ItemKind, tuple[str, ...]] = {
    ItemKind.TOPICS: ("topic",),
    ItemKind.LOGS: ("broker", "topic", "partition"),
    ItemKind.PRODUCERS: ("broker", "topic", "partition", "producerId"),
    ItemKind.SESSIONS: ("broker", "sessionId"),
    ItemKind.CLIENTS: ("broker", "clientId"),
    ItemKind.GROUPS: ("broker", "groupId"),
    ItemKind.OFFSETS: ("groupId", "topic", "partition"),
    ItemKind.TRANSACTIONAL_IDS: ("broker", "transactionalId"),
    ItemKind.WAITING: ("broker", "id"),
    ItemKind.PARTITIONS: ("topic", "partition"),
    ItemKind.MEMBERS: ("broker", "groupId", "memberId"),
    ItemKind.PRODUCER_BATCHES: ("broker", "topic", "partition", "producerId", "lastOffset"),
    ItemKind.SESSION_PARTITIONS: ("broker", "sessionId", "topic", "partition"),
    ItemKind.REPLICAS: ("broker", "topic", "partition", "replica"),
    ItemKind.FETCHERS: ("broker", "thread", "topic", "partition"),
    ItemKind.ZOOKEEPER: ("path",),
}
"""Fields that identify an item of a kind in its cell."""

_ROWS_OF = {
    ItemKind.TOPICS: _topics,
    ItemKind.LOGS: _logs,
    ItemKind.PRODUCERS: _producers,
    ItemKind.SESSIONS: _sessions,
    ItemKind.CLIENTS: _clients,
    ItemKind.GROUPS: _groups,
    ItemKind.OFFSETS: _offsets,
    ItemKind.TRANSACTIONAL_IDS: _transactional_ids,
    ItemKind.WAITING: _waiting,
    ItemKind.PARTITIONS: _partitions,
    ItemKind.MEMBERS: _members,
    ItemKind.PRODUCER_BATCHES: _producer_batches,
    ItemKind.SESSION_PARTITIONS: _session_partitions,
    ItemKind.REPLICAS: replica_rows.replicas,
    ItemKind.FETCHERS: replica_rows.fetched,
    ItemKind.ZOOKEEPER: _zookeeper,
}
