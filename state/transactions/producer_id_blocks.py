"""Producer id blocks by a versioned conditional write: what brokers did before KIP-730.

Source: seed 002; KIP-98; `ProducerIdManager`, `ProducerIdBlockZNode`, `KafkaZkClient` in Kafka 2.0.
One document names the block that was taken last; whoever takes the next one writes it under the
version at which the document was read. The version guards the write, not the content.

    {"version":1,"broker":35,"block_start":"4000","block_end":"4999"}

    step     rule
    read     the document and its version
    propose  no document: 0 to 999; else the 1000 ids after block_end; none are left where
             block_end > 2^63-1 - 1000: ProducerIdsExhausted
    write    under the version that was read; another version by now: read again

Where the answer to a write is lost, the broker reads again and finds its own document: the block is
its own. A broker that has just started takes no document for its own: the ids of that block may
have been handed out before.

This is the option beside `producer_ids.py`, in which the controller gives the blocks: the broker
setting `brokertwin.zk.producer.id.blocks`. A broker that needs an id takes a block at once, where
it otherwise answers 14 and asks; it never asks ahead. Where no block is left the producer is told
-1 UNKNOWN_SERVER_ERROR, for good. The document is that of a machine of its own, the `store` (as
ZooKeeper is), which all brokers of a cell read and write. One event is handled after the other, so
that in a cell no write meets a version that another broker has changed since. Brokers of several
cells have no store in common: there the option is refused.
"""

from typing import NamedTuple

import msgspec

from brokertwin.state.core.records import ProducerIdBlockReceived, ProducerIdBlockWritten, Record
from brokertwin.state.core.tables import Table

PATH = "/latest_producer_id_block"
BLOCK_SIZE = 1000
DOCUMENT_VERSION = 1
INT64_MAX = 2**63 - 1


class ProducerIdsExhausted(Exception):
    """There is no further block; fatal for whoever wants one."""


class IdBlock(NamedTuple):
    """The ids `first` to `last`, both inclusive, and the broker that took them."""

    broker: int
    first: int
    last: int


class VersionedDocument(NamedTuple):
    """What lies at `PATH`: a document, or None before the first write, and its version."""

    document: str | None = None
    version: int = 0

    def write(self, document: str, version: int) -> "VersionedDocument | None":
        """The store after a write that holds for `version` only; None for a bad version."""
        if version != self.version:
            return None
        return VersionedDocument(document, version + 1)


class ConditionalWrite(NamedTuple):
    """A conditional write: the document, and the version that has to be there still."""

    document: str
    version: int


class _Document(msgspec.Struct):
    version: int
    broker: int
    block_start: str
    block_end: str


_decoder = msgspec.json.Decoder(_Document)


def encode(block: IdBlock) -> str:
    """The document of a block; its ids are strings."""
    document = _Document(DOCUMENT_VERSION, block.broker, str(block.first), str(block.last))
    return msgspec.json.encode(document).decode("ascii")


def decode(document: str) -> IdBlock:
    """The block that a document names. Raises ValueError where it is none that Kafka wrote."""
    try:
        found = _decoder.decode(document)
        block = IdBlock(found.broker, int(found.block_start), int(found.block_end))
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"no producer id block at {PATH}: {error}") from error
    if found.version != DOCUMENT_VERSION or not 0 <= block.first <= block.last <= INT64_MAX:
        raise ValueError(f"no producer id block of version {DOCUMENT_VERSION}: {document}")
    return block


def block_after(document: str | None, broker: int) -> IdBlock:
    """The block that follows. Raises ProducerIdsExhausted, and ValueError as `decode` does."""
    if document is None:
        return IdBlock(broker, 0, BLOCK_SIZE - 1)
    last = decode(document).last
    if last > INT64_MAX - BLOCK_SIZE:
        raise ProducerIdsExhausted(
            f"the last block of producer ids ends at {last}: another {BLOCK_SIZE} do not fit in"
            " an int64"
        )
    return IdBlock(broker, last + 1, last + BLOCK_SIZE)


class BlockTaker(msgspec.Struct):
    """A broker: its block, the next id of it, and the block that it is trying to take.

    `next_id` hands out ids; when it gives None, the broker reads the store, tells `read`, sends
    the write that this gives, and tells `written`. It may read again at any time.
    """

    broker: int
    block: IdBlock | None = None
    following: int = 0
    proposed: IdBlock | None = None

    def next_id(self) -> int | None:
        """The next id, which is thereby handed out; None while there is no block."""
        if self.block is None or self.following > self.block.last:
            return None
        self.following += 1
        return self.following - 1

    def read(self, stored: VersionedDocument) -> ConditionalWrite | None:
        """What to write after a read; None where an earlier write turns out to have succeeded.

        Raises ProducerIdsExhausted and ValueError as `block_after` does.
        """
        if self.proposed is not None and stored.document == encode(self.proposed):
            self._take(self.proposed)
            return None
        self.proposed = block_after(stored.document, self.broker)
        return ConditionalWrite(encode(self.proposed), stored.version)

    def written(self, write: ConditionalWrite) -> None:
        """The store has accepted `write`: the block is the broker's, unless it has read since.

        After a bad version there is nothing to tell: the broker reads again.
        """
        if self.proposed is not None and write.document == encode(self.proposed):
            self._take(self.proposed)

    def _take(self, block: IdBlock) -> None:
        self.block, self.following, self.proposed = block, block.first, None


class StoredDocument(msgspec.Struct):
    """Item of the table `metadata`: what lies at `PATH`, and its version."""

    document: str
    version: int


_KEY = f"store{PATH}"


def read_document(table: Table) -> VersionedDocument:
    """What the brokers of a cell read."""
    item = table.get(_KEY, StoredDocument)
    return VersionedDocument() if item is None else VersionedDocument(item.document, item.version)


def take_block(table: Table, broker: int) -> tuple[int, list[Record]]:
    """The first id of the block that a broker takes, and the records that take it.

    Raises ProducerIdsExhausted, and ValueError as `decode` does.
    """
    taker = BlockTaker(broker)
    write = taker.read(read_document(table))
    assert write is not None and taker.proposed is not None, "a new taker has proposed nothing"
    first = taker.proposed.first
    return first, [ProducerIdBlockWritten(*write), ProducerIdBlockReceived(first, BLOCK_SIZE)]


def apply_written(table: Table, record: ProducerIdBlockWritten) -> None:
    """The document after a conditional write. Raises ValueError for a bad version."""
    written = read_document(table).write(record.document, record.version)
    if written is None or written.document is None:
        raise ValueError(f"the document at {PATH} has another version than {record.version}")
    table.put(_KEY, StoredDocument(written.document, written.version))
