"""Invariants of transactions: timers, producer ids, pending offsets."""

from collections.abc import Sequence

from brokertwin.state.cluster.coordinators import TRANSACTION_TOPIC, leads
from brokertwin.state.core import pending
from brokertwin.state.core.check import ALL, Touched, Violations, by_kind, machine_of
from brokertwin.state.core.tables import CellTables, MachineTables, escape
from brokertwin.state.logs.log import log_key
from brokertwin.state.transactions import transactional_ids
from brokertwin.state.transactions.producer_ids import ProducerIds
from brokertwin.state.transactions.transaction_verification import Verifications
from brokertwin.state.transactions.transactional_offsets import PendingOffsets, ProducerGroups
from brokertwin.state.transactions.transactions import PREPARED, TransactionState


def check(tables: CellTables, brokers: Sequence[int], touched: Touched = ALL) -> Violations:
    has_ids = touched.has("transactions") or touched.has("metadata", "topic", "producer-ids")
    if has_ids or touched.has_timer(transactional_ids.TIMER) or touched.has("cluster", "network"):
        for broker in brokers:
            yield from _ids(tables.of(broker))
            ids = tables.metadata.get(f"{broker}/producer-ids", ProducerIds)
            if ids is not None and not ids.current.first <= ids.next_id <= ids.current.end:
                yield f"next producer id {ids.next_id} of broker {broker} is not in {ids.current}"
    if touched.has("groups", "group", "pending", "pending-in"):
        yield from _pending(tables)
    is_gone = touched.is_gone("logs", tables.logs, "log")
    if is_gone or touched.has("in_flight", "verifications"):
        yield from _verifications(tables)


def _verifications(tables: CellTables) -> Violations:
    for key in by_kind(tables.in_flight).get("verifications", []):
        item = tables.in_flight.get(key, Verifications)
        _, _, topic_id, partition = key.split("/")
        broker = machine_of(key) or 0
        if item is None or not item.by_producer:
            yield f"{key} is empty"
        if log_key(broker, topic_id, int(partition)) not in tables.logs:
            yield f"{key} has no log"


def _ids(at: MachineTables) -> Violations:
    """Check ids and timers. A prepared id has no timer if its markers were fenced, as in Kafka."""
    prefix = f"{transactional_ids.TIMER}/{at.id}/"
    timers = set(pending.timers_of(at.tables.pending, prefix))
    for name, metadata in transactional_ids.all_ids(at):
        needs_check = metadata.state == TransactionState.ONGOING or metadata.state in PREPARED
        is_led = leads(at, TRANSACTION_TOPIC, name)
        if metadata.state == TransactionState.ONGOING and name not in timers and is_led:
            yield f"transactional id {name!r} is Ongoing without a scheduled check"
        if not needs_check and name in timers:
            yield f"transactional id {name!r} is {metadata.state} with a scheduled check"
        if metadata.state == TransactionState.EMPTY and metadata.partitions:
            yield f"transactional id {name!r} is Empty with {metadata.partitions}"
        if not metadata.producer_epoch >= -1 or metadata.producer_id < 0:
            yield f"transactional id {name!r} has producer {metadata.producer_id}"
        timers.discard(name)
    for name in sorted(timers):
        yield f"broker {at.id} has a timer of the unknown transactional id {name!r}"


def _pending(tables: CellTables) -> Violations:
    table, kinds = tables.groups, by_kind(tables.groups)
    pending: set[tuple[str, int, str]] = set()
    for key in kinds.get("pending", []):
        item = table.get(key, PendingOffsets)
        group_key = key.replace("/pending/", "/group/", 1)
        if item is None or not item.offsets:
            yield f"{key} is empty"
        elif group_key not in table:
            yield f"{key} has no group"
        broker, _, group = key.split("/", 2)
        pending |= {(broker, each.producer_id, group) for each in item.offsets} if item else set()
    indexed = set()
    for key in kinds.get("pending-in", []):
        index = table.get(key, ProducerGroups)
        broker, _, producer_id = key.split("/")
        if index is None or not index.group_ids:
            yield f"{key} is empty"
        else:
            indexed |= {(broker, int(producer_id), escape(group)) for group in index.group_ids}
    for _, producer, group in sorted(pending - indexed):
        yield f"pending offsets of producer {producer} in {group} are not indexed"
