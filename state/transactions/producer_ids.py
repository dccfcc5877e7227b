"""Producer ids: the controller's blocks of 1000, and the block that a broker hands out.

Source: seed 002; KIP-730; `ProducerIdControlManager`, `RPCProducerIdManager`, `ProducerIdsBlock` in
Kafka. The controller keeps the first id that no broker has; a broker keeps the block it hands out
and, from 90 % of it on, the next one.

    broker has                          InitProducerId gets
    ids left in its block               the next id; at the 90 % mark another block is asked for
    an empty block and a next one       the first id of the next block
    neither                             14 COORDINATOR_LOAD_IN_PROGRESS; a block is asked for

A block is asked for once at a time, and after a failed answer not before `BACKOFF_MS`. Whether one
is asked for is no record: a broker forgets it when it restarts.

Kafka marks its request as answered only when the block is *taken*; here the waiting next block says
the same, because no request goes out while there is one. Kafka lets a block begin at the last id of
the broker's own, which would give that id twice; here it begins behind it.
"""

import msgspec

from brokertwin.state.cluster.image import machine_prefix
from brokertwin.state.core.records import (
    ProducerIdBlockAllocated,
    ProducerIdBlockReceived,
    ProducerIdIssued,
)
from brokertwin.state.core.tables import Table

BLOCK_SIZE = 1000
"""Ids in a block (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`)."""

PREFETCH_THRESHOLD = 0.90
BACKOFF_MS = 50
INT64_MAX = 2**63 - 1
NO_BROKER = -1
NO_DEADLINE = -1


class Block(msgspec.Struct, array_like=True):
    """`size` producer ids from `first` on."""

    first: int
    size: int

    @property
    def end(self) -> int:
        """The first id after the block."""
        return self.first + self.size


class NextBlock(msgspec.Struct):
    """Item of the controller: the first id that no broker has, and who got the last block."""

    first: int = 0
    broker_id: int = NO_BROKER


class ProducerIds(msgspec.Struct):
    """Item of a broker: its block, the next id of it to hand out, and the block after it."""

    current: Block
    next_id: int = 0
    following: Block | None = None


class BlockRequest(msgspec.Struct):
    """Item of a broker, not durable: a request for a block under way, or when to try again (ms)."""

    is_in_flight: bool = False
    backoff_deadline: int = NO_DEADLINE


def _key(machine: int) -> str:
    return f"{machine_prefix(machine)}/producer-ids"


def _request_key(broker: int) -> str:
    return f"{broker}/producer-id-request"


def next_block(table: Table, controller: int) -> Block | None:
    """The block that the controller gives next; None when the ids are used up."""
    item = table.get(_key(controller), NextBlock) or NextBlock()
    if item.first > INT64_MAX - BLOCK_SIZE:
        return None
    return Block(item.first, BLOCK_SIZE)


def apply_allocated(table: Table, machine: int, record: ProducerIdBlockAllocated) -> None:
    """A block was given away. Raises ValueError where the next id would go back."""
    key = _key(machine)
    item = table.get(key, NextBlock)
    if item is not None and record.next_producer_id <= item.first:
        raise ValueError(
            f"the next producer id is {item.first}; a record sets it to"
            f" {record.next_producer_id}, which is not above it"
        )
    table.put(key, NextBlock(record.next_producer_id, record.broker_id))


def apply_received(table: Table, machine: int, record: ProducerIdBlockReceived) -> None:
    """A broker has a block to take when its own is used up."""
    key = _key(machine)
    if key not in table:
        table.put(key, ProducerIds(Block(0, 0)))
    table.change(key, ProducerIds).following = Block(record.first, record.size)


def apply_issued(table: Table, machine: int, record: ProducerIdIssued) -> None:
    """An id was handed out, of the next block where the broker's own was used up.

    An id that a recording chose and that lies in the block moves the block's next id behind it, so
    that nobody else gets it; one from elsewhere takes the place of the next id.
    """
    ids = table.change(_key(machine), ProducerIds)
    if ids.next_id >= ids.current.end and ids.following is not None:
        ids.current, ids.next_id, ids.following = ids.following, ids.following.first, None
    is_ours = ids.next_id <= record.producer_id < ids.current.end
    ids.next_id = (record.producer_id if is_ours else ids.next_id) + 1


def next_id(table: Table, broker: int) -> int | None:
    """The id that the broker hands out next; None while it has no block."""
    ids = table.get(_key(broker), ProducerIds)
    if ids is None:
        return None
    if ids.next_id < ids.current.end:
        return ids.next_id
    return ids.following.first if ids.following is not None else None


def reaches_prefetch(table: Table, broker: int, producer_id: int) -> bool:
    """Whether handing out `producer_id` comes to the mark at which the next block is asked for."""
    ids = table.get(_key(broker), ProducerIds)
    if ids is None:
        return False
    block, before = ids.current, ids.next_id
    if before >= block.end and ids.following is not None:
        block, before = ids.following, ids.following.first
    claimed = producer_id if before <= producer_id < block.end else before
    return before <= block.first + int(block.size * PREFETCH_THRESHOLD) <= claimed


def may_request(table: Table, waiting: Table, broker: int, now: int) -> bool:
    """Whether the broker may ask for a block at `now` (ms since 1970)."""
    ids = table.get(_key(broker), ProducerIds)
    if ids is not None and ids.following is not None and ids.next_id < ids.current.end:
        return False
    request = waiting.get(_request_key(broker), BlockRequest)
    if request is None:
        return True
    return not request.is_in_flight and now >= request.backoff_deadline


def is_acceptable(table: Table, broker: int, first: int, size: int) -> bool:
    """Whether a block may follow the broker's own: it does not overlap it and stays an int64."""
    ids = table.get(_key(broker), ProducerIds)
    end = ids.current.end if ids is not None else 0
    return first >= max(end, 0) and size >= 0 and first <= INT64_MAX - size


def request_sent(waiting: Table, broker: int) -> None:
    """A request for a block is under way."""
    waiting.put(_request_key(broker), BlockRequest(is_in_flight=True))


def request_completed(waiting: Table, broker: int) -> None:
    """The block has come."""
    waiting.drop(_request_key(broker))


def request_failed(waiting: Table, broker: int, now: int) -> None:
    """No block: the next request goes out at the earliest `BACKOFF_MS` after `now`."""
    waiting.put(_request_key(broker), BlockRequest(backoff_deadline=now + BACKOFF_MS))


def request_timed_out(waiting: Table, broker: int) -> None:
    """No answer: the next request may go out at once."""
    waiting.drop(_request_key(broker))
