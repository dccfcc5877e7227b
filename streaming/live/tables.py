"""Tables of entity rows: the same columns in Spark's state, in the topics, and in snapshots.

Times are in ms since 1970. Spark's state cannot have arrays or maps that its reader understands, so
the last five batches of a producer are five structs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.recordings.history.batches import (
    BATCHES_KEPT,
    AcknowledgedBatch,
    ProducerInPartition,
)
from brokertwin.recordings.history.clients import ObservedClient
from brokertwin.recordings.history.entity import EntityKey, ObservedEntity
from brokertwin.recordings.history.groups import ObservedGroup
from brokertwin.recordings.history.producers import ObservedProducer
from brokertwin.recordings.history.sessions import ObservedSessionCache
from brokertwin.streaming.live.kinds import OFFSET, SESSION, ObservedOffset

Values = dict[str, Any]
BATCH = (
    "STRUCT<epoch: INT, first_sequence: INT, last_sequence: INT, offset: BIGINT, client: STRING>"
)
"""A batch that a broker keeps of a producer."""


class EntityTable(NamedTuple):
    """A table of entity rows.

    Attributes:
        name: name of the topic and of the snapshot.
        column: name of the struct in Spark's state.
        columns: column name to Spark type.
        keys: the columns that identify a row in its cluster.
        has_topic: whether its rows are written to a topic and to snapshots.
        added: columns that Spark's state does not have, because there are checkpoints without
            them. A query goes on only with the same columns.
    """

    name: str
    column: str
    columns: Mapping[str, str]
    keys: tuple[str, ...]
    has_topic: bool = True
    added: frozenset[str] = frozenset()

    @property
    def struct(self) -> str:
        return _struct(self.columns)

    def in_state(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns or a row without `added` columns."""
        return {name: each for name, each in values.items() if name not in self.added}


def _struct(columns: Mapping[str, str]) -> str:
    return f"STRUCT<{', '.join(f'{name}: {kind}' for name, kind in columns.items())}>"


SESSIONS = EntityTable(
    "sessions",
    "session",
    {
        "broker": "INT",
        "session_id": "INT",
        "epoch": "INT",
        "partitions": "INT",
        "client": "STRING",
        "host": "STRING",
        "last_used_ms": "BIGINT",
    },
    ("broker", "session_id"),
)
PRODUCERS = EntityTable(
    "producers",
    "producer",
    {
        "producer_id": "BIGINT",
        "topic": "STRING",
        "partition": "INT",
        "epoch": "INT",
        "last_sequence": "INT",
        "last_offset": "BIGINT",
        "last_used_ms": "BIGINT",
        **{f"batch_{number}": BATCH for number in range(1, BATCHES_KEPT + 1)},
    },
    ("producer_id", "topic", "partition"),
)
TRANSACTIONS = EntityTable(
    "transactions",
    "transaction",
    {
        "transactional_id": "STRING",
        "producer_id": "BIGINT",
        "epoch": "INT",
        "state": "STRING",
        "transactions": "INT",
        "since_ms": "BIGINT",
        "partitions": "INT",
        "groups": "INT",
        "timeout_ms": "INT",
        "client": "STRING",
        "last_used_ms": "BIGINT",
    },
    ("transactional_id",),
)
GROUPS = EntityTable(
    "groups",
    "group",
    {
        "group_id": "STRING",
        "generation": "INT",
        "members": "INT",
        "silent": "INT",
        "leader": "STRING",
        "offsets": "INT",
        "last_used_ms": "BIGINT",
    },
    ("group_id",),
    added=frozenset({"silent"}),
)
OFFSETS = EntityTable(
    "offsets",
    "offset",
    {
        "group_id": "STRING",
        "topic": "STRING",
        "partition": "INT",
        "offset": "BIGINT",
        "metadata": "STRING",
        "member": "STRING",
        "client": "STRING",
        "committed_ms": "BIGINT",
    },
    ("group_id", "topic", "partition"),
)
CLIENTS = EntityTable(
    "clients",
    "client",
    {"client": "STRING", "requests": "BIGINT", "refused": "BIGINT", "connections": "INT"},
    ("client",),
    has_topic=False,
)
TABLES = (SESSIONS, PRODUCERS, TRANSACTIONS, GROUPS, OFFSETS, CLIENTS)
BY_NAME = {each.name: each for each in TABLES}


class Row(NamedTuple):
    table: EntityTable
    values: Values


def row_of(key: EntityKey, machine: ObservedEntity) -> Row | None:
    """The row of an entity; None if it has none, or none any more."""
    make = _ROWS.get(key.kind)
    return make(key, machine) if make is not None else None


def _session(key: EntityKey, cache: Any) -> Row | None:
    assert isinstance(cache, ObservedSessionCache)
    number, _, broker = key.id.partition(" ")
    session = cache.sessions.get(int(number))
    if session is None or session.used is None:
        return None
    values = {
        "broker": int(broker),
        "session_id": int(number),
        "epoch": session.epoch,
        "partitions": session.partitions,
        "client": session.client,
        "host": session.used.host,
        "last_used_ms": session.used.end,
    }
    return Row(SESSIONS, values)


def _producer(_: EntityKey, producer: Any) -> Row | None:
    assert isinstance(producer, ProducerInPartition)
    last = producer.last
    if last is None or not producer.topic:
        return None
    kept: list[Values | None] = [_batch(each) for each in producer.newest_batches]
    kept += [None] * (BATCHES_KEPT - len(kept))
    values = {
        "producer_id": int(producer.producer),
        "topic": producer.topic,
        "partition": producer.partition,
        "epoch": last.batch.epoch,
        "last_sequence": last.batch.last,
        "last_offset": last.batch.offset,
        "last_used_ms": producer.kept[-1].line.end,
        **{f"batch_{number}": each for number, each in enumerate(kept, 1)},
    }
    return Row(PRODUCERS, values)


def _batch(kept: AcknowledgedBatch) -> Values:
    batch = kept.batch
    return {
        "epoch": batch.epoch,
        "first_sequence": batch.first,
        "last_sequence": batch.last,
        "offset": batch.offset,
        "client": kept.line.client,
    }


def _transaction(_: EntityKey, producer: Any) -> Row | None:
    assert isinstance(producer, ObservedProducer)
    given = producer.given[-1] if producer.given else None
    used = producer.uses[-1] if producer.uses else None
    newest = given or used
    if newest is None:
        return None
    is_open = producer.transaction
    values = {
        "transactional_id": producer.name,
        "producer_id": newest.producer_id,
        "epoch": newest.epoch,
        "state": "open" if is_open is not None else "none",
        "transactions": producer.transactions,
        "since_ms": is_open.began.time if is_open is not None else None,
        "partitions": len(is_open.places) if is_open is not None else 0,
        "groups": len(is_open.groups) if is_open is not None else 0,
        "timeout_ms": producer.timeouts[-1][1] if producer.timeouts else None,
        "client": newest.line.client,
        "last_used_ms": producer.newest,
    }
    return Row(TRANSACTIONS, values)


def _group(_: EntityKey, group: Any) -> Row | None:
    assert isinstance(group, ObservedGroup)
    membership = group.membership
    values = {
        "group_id": membership.group,
        "generation": membership.number,
        "members": len(membership.members) if membership.alive is None else membership.alive,
        "silent": membership.silent,
        "leader": membership.leader or None,
        "offsets": len(group.offsets.offsets),
        "last_used_ms": group.newest,
    }
    return Row(GROUPS, values)


def _offset(_: EntityKey, offset: Any) -> Row | None:
    assert isinstance(offset, ObservedOffset)
    for each in offset.offsets.offsets.values():
        values = {
            "group_id": offset.offsets.group,
            "topic": each.topic,
            "partition": each.partition,
            "offset": each.offset,
            "metadata": each.metadata,
            "member": each.member,
            "client": each.line.client,
            "committed_ms": each.line.end,
        }
        return Row(OFFSETS, values)
    return None


def _client(_: EntityKey, client: Any) -> Row | None:
    assert isinstance(client, ObservedClient)
    values = {
        "client": client.name,
        "requests": client.requests,
        "refused": client.refused,
        "connections": len(client.connections),
    }
    return Row(CLIENTS, values)


_ROWS: dict[str, Callable[[EntityKey, Any], Row | None]] = {
    SESSION: _session,
    "producer-in-partition": _producer,
    "producer": _transaction,
    "group": _group,
    OFFSET: _offset,
    "client": _client,
}
KIND_OF: Mapping[str, str] = {
    SESSIONS.name: SESSION,
    PRODUCERS.name: "producer-in-partition",
    TRANSACTIONS.name: "producer",
    GROUPS.name: "group",
    OFFSETS.name: OFFSET,
    CLIENTS.name: "client",
}
"""Table to the kind of entity in its rows."""

_encoder = msgspec.json.Encoder(order="deterministic")


class EntityTopicRow(NamedTuple):
    """A row of a table's topic; a value of None deletes the key (a tombstone)."""

    table: str
    key: bytes
    value: bytes | None


def changes(cluster: str, before: Row | None, after: Row | None) -> Iterator[EntityTopicRow]:
    """The topic row of an entity's change; none if its row is the same."""
    shown = after or before
    if shown is not None and before != after and shown.table.has_topic:
        key = {"cluster": cluster, **{name: shown.values[name] for name in shown.table.keys}}
        value = _encoder.encode({"cluster": cluster, **after.values}) if after else None
        yield EntityTopicRow(shown.table.name, _encoder.encode(key), value)


STATE_SCHEMA = ", ".join(
    [
        "entity BINARY",
        *(f"{each.column} {_struct(each.in_state(each.columns))}" for each in TABLES),
    ]
)
"""Spark's state of an entity: the machine, and one struct that is not null."""


def state_of(entity: bytes, row: Row | None) -> tuple[Any, ...]:
    structs = [
        _as_tuple(each.in_state(row.values)) if row is not None and row.table is each else None
        for each in TABLES
    ]
    return (entity, *structs)


def _as_tuple(values: Values) -> tuple[Any, ...]:
    return tuple(_as_tuple(each) if isinstance(each, dict) else each for each in values.values())
