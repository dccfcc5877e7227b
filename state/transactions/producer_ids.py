"""Blocks of producer ids on the controller and the brokers.

Source: seed 002; KIP-730; `ProducerIdControlManager`, `RPCProducerIdManager`, `ProducerIdsBlock` in
Kafka. The controller keeps the first unallocated id. A broker keeps its current block and, after 90
% of it, the next one.

    state of the broker       result of InitProducerId
    ids left in its block     the next id; at 90 % another block is requested
    block used up, next one   the first id of the next block
    no ids                    14 COORDINATOR_LOAD_IN_PROGRESS; a block is requested

There is at most one request in flight, and after an error a backoff of `BACKOFF_MS`. Both are
volatile.

Kafka ends a request only when the block is used; here a stored next block prevents another request.
In Kafka a block may start at the last id of the current block, which would be issued twice; here it
must start after it.
"""

import msgspec

from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import (
    ProducerIdBlockAllocated,
    ProducerIdBlockReceived,
    ProducerIdIssued,
)
from brokertwin.state.core.tables import MachineTables

BLOCK_SIZE = 1000
"""Ids in a block (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`)."""

PREFETCH_THRESHOLD = 0.90
BACKOFF_MS = 50
INT64_MAX = 2**63 - 1
NO_BROKER = -1
NO_DEADLINE = -1


class Block(msgspec.Struct, array_like=True):
    """`size` producer ids, starting with `first`."""

    first: int
    size: int

    @property
    def end(self) -> int:
        return self.first + self.size


class NextBlock(msgspec.Struct):
    """Item of the controller: first unallocated id, last receiver."""

    first: int = 0
    broker_id: int = NO_BROKER


class ProducerIds(msgspec.Struct):
    """Item of a broker: current block, next id, and next block."""

    current: Block
    next_id: int = 0
    following: Block | None = None


class BlockRequest(msgspec.Struct):
    """Volatile item of a broker: a request in flight, or the end of a backoff.

    The deadline is in ms since 1970. With blocks in ZooKeeper, it is known if none is left.
    """

    is_in_flight: bool = False
    backoff_deadline: int = NO_DEADLINE
    is_exhausted: bool = False


def _key(at: MachineTables) -> str:
    return f"{at.prefix}/producer-ids"


def _request_key(at: MachineTables) -> str:
    return f"{at.id}/producer-id-request"


def next_block(at: MachineTables) -> Block | None:
    """Return the next block of the controller; None if ids are exhausted."""
    item = at.tables.metadata.get(_key(at), NextBlock) or NextBlock()
    if item.first > INT64_MAX - BLOCK_SIZE:
        return None
    return Block(item.first, BLOCK_SIZE)


@applies(ProducerIdBlockAllocated)
def apply_allocated(at: MachineTables, record: ProducerIdBlockAllocated) -> None:
    """Store an allocation. Raises ValueError if the next id would decrease."""
    key = _key(at)
    item = at.tables.metadata.get(key, NextBlock)
    if item is not None and record.next_producer_id <= item.first:
        raise ValueError(
            f"the next producer id is {item.first}; a record sets it to"
            f" {record.next_producer_id}, which is not above it"
        )
    at.tables.metadata.put(key, NextBlock(record.next_producer_id, record.broker_id))


@applies(ProducerIdBlockReceived)
def apply_received(at: MachineTables, record: ProducerIdBlockReceived) -> None:
    """Store the next block of a broker."""
    key = _key(at)
    if key not in at.tables.metadata:
        at.tables.metadata.put(key, ProducerIds(Block(0, 0)))
    at.tables.metadata.change(key, ProducerIds).following = Block(record.first, record.size)


@applies(ProducerIdIssued)
def apply_issued(at: MachineTables, record: ProducerIdIssued) -> None:
    """Store an issued id; switch to the next block if necessary.

    A recorded id within the block moves the next id after it, so it is not issued again. A recorded
    id outside the block replaces the next id.
    """
    ids = at.tables.metadata.change(_key(at), ProducerIds)
    if ids.next_id >= ids.current.end and ids.following is not None:
        ids.current, ids.next_id, ids.following = ids.following, ids.following.first, None
    is_in_block = ids.next_id <= record.producer_id < ids.current.end
    ids.next_id = (record.producer_id if is_in_block else ids.next_id) + 1


def next_id(at: MachineTables) -> int | None:
    """Return the next id of a broker; None without a block."""
    ids = at.tables.metadata.get(_key(at), ProducerIds)
    if ids is None:
        return None
    if ids.next_id < ids.current.end:
        return ids.next_id
    return ids.following.first if ids.following is not None else None


def reaches_prefetch(at: MachineTables, producer_id: int) -> bool:
    """True if issuing `producer_id` reaches the mark to request a block."""
    ids = at.tables.metadata.get(_key(at), ProducerIds)
    if ids is None:
        return False
    block, before = ids.current, ids.next_id
    if before >= block.end and ids.following is not None:
        block, before = ids.following, ids.following.first
    claimed = producer_id if before <= producer_id < block.end else before
    return before <= block.first + int(block.size * PREFETCH_THRESHOLD) <= claimed


def may_request(at: MachineTables, now: int) -> bool:
    """True if the broker may request a block at `now` (ms since 1970)."""
    ids = at.tables.metadata.get(_key(at), ProducerIds)
    if ids is not None and ids.following is not None and ids.next_id < ids.current.end:
        return False
    request = at.tables.in_flight.get(_request_key(at), BlockRequest)
    if request is None:
        return True
    return not request.is_in_flight and now >= request.backoff_deadline


def is_acceptable(at: MachineTables, first: int, size: int) -> bool:
    """True if a block may follow: no overlap, and within int64."""
    ids = at.tables.metadata.get(_key(at), ProducerIds)
    end = ids.current.end if ids is not None else 0
    return first >= max(end, 0) and size >= 0 and first <= INT64_MAX - size


def request_sent(at: MachineTables) -> None:
    at.tables.in_flight.put(_request_key(at), BlockRequest(is_in_flight=True))


def request_completed(at: MachineTables) -> None:
    at.tables.in_flight.drop(_request_key(at))


def request_failed(at: MachineTables, now: int) -> None:
    """Start the backoff at `now`."""
    at.tables.in_flight.put(_request_key(at), BlockRequest(backoff_deadline=now + BACKOFF_MS))


def is_in_flight(at: MachineTables) -> bool:
    request = at.tables.in_flight.get(_request_key(at), BlockRequest)
    return request is not None and request.is_in_flight


def ids_exhausted(at: MachineTables) -> None:
    at.tables.in_flight.put(_request_key(at), BlockRequest(is_exhausted=True))


def is_exhausted(at: MachineTables) -> bool:
    request = at.tables.in_flight.get(_request_key(at), BlockRequest)
    return request is not None and request.is_exhausted


def watch_key(at: MachineTables) -> str:
    return _key(at)
