"""Producer id blocks in ZooKeeper: conditional writes, before KIP-730.

Source: seed 002; KIP-98; `ProducerIdManager`, `ProducerIdBlockZNode`, `KafkaZkClient` in Kafka 2.0.
A document names the last allocated block. A broker allocates the next one by a write that is
conditional on the version it has read.

    {"version":1,"broker":35,"block_start":"4000","block_end":"4999"}

    step     rule
    read     the document and its version
    propose  without a document 0 to 999, else the 1000 ids after block_end;
             ProducerIdsExhausted if block_end > 2^63-1 - 1000
    write    with the version read; after a version conflict, read again

If the response to a write is lost, the broker reads its own document and has the block. A restarted
broker does not reuse its block, because ids may have been issued.

The broker setting `brokertwin.zk.producer.id.blocks` enables this instead of `producer_ids.py`. A
broker then allocates a block when it needs an id. There is no prefetch and no 14
COORDINATOR_LOAD_IN_PROGRESS. If ids are exhausted, InitProducerId fails: -1 UNKNOWN_SERVER_ERROR.
The document belongs to a separate machine, the `store`, shared by the brokers of a cell. Events are
handled one after the other, so version conflicts cannot occur in a cell. Several cells have no
common store, so the setting is rejected there.
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
    """No block is left."""


class IdBlock(NamedTuple):
    """Ids `first` to `last` (inclusive), and the broker that allocated them."""

    broker: int
    first: int
    last: int


class VersionedDocument(NamedTuple):
    """The document at `PATH` (None before the first write) and its version."""

    document: str | None = None
    version: int = 0

    def write(self, document: str, version: int) -> "VersionedDocument | None":
        """Return the document after a write; None after a version conflict."""
        if version != self.version:
            return None
        return VersionedDocument(document, version + 1)


class ConditionalWrite(NamedTuple):
    """A document and the version that it replaces."""

    document: str
    version: int


class _Document(msgspec.Struct):
    version: int
    broker: int
    block_start: str
    block_end: str


_decoder = msgspec.json.Decoder(_Document)


def encode(block: IdBlock) -> str:
    """Encode the document of a block; ids are strings."""
    document = _Document(DOCUMENT_VERSION, block.broker, str(block.first), str(block.last))
    return msgspec.json.encode(document).decode("ascii")


def decode(document: str) -> IdBlock:
    """Decode a document. Raises ValueError if Kafka would not write it."""
    try:
        found = _decoder.decode(document)
        block = IdBlock(found.broker, int(found.block_start), int(found.block_end))
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"no producer id block at {PATH}: {error}") from error
    if found.version != DOCUMENT_VERSION or not 0 <= block.first <= block.last <= INT64_MAX:
        raise ValueError(f"no producer id block of version {DOCUMENT_VERSION}: {document}")
    return block


def block_after(document: str | None, broker: int) -> IdBlock:
    """Return the next block.

    Raises ProducerIdsExhausted, and ValueError like `decode`.
    """
    if document is None:
        return IdBlock(broker, 0, BLOCK_SIZE - 1)
    last = decode(document).last
    if last > INT64_MAX - BLOCK_SIZE:
        raise ProducerIdsExhausted(
            f"the last block of producer ids ends at {last}: another {BLOCK_SIZE} do not fit in"
            " an int64"
        )
    return IdBlock(broker, last + 1, last + BLOCK_SIZE)


class BlockAllocator(msgspec.Struct):
    """A broker that allocates blocks.

    If `next_id` returns None, the broker reads the store, calls `read`, sends the returned write,
    and calls `written`. It may read again at any time.
    """

    broker: int
    block: IdBlock | None = None
    following: int = 0
    proposed: IdBlock | None = None

    def next_id(self) -> int | None:
        """Issue the next id; None without a block."""
        if self.block is None or self.following > self.block.last:
            return None
        self.following += 1
        return self.following - 1

    def read(self, stored: VersionedDocument) -> ConditionalWrite | None:
        """Return the write after a read; None if an earlier write has succeeded.

        Raises ProducerIdsExhausted and ValueError like `block_after`.
        """
        if self.proposed is not None and stored.document == encode(self.proposed):
            self._use(self.proposed)
            return None
        self.proposed = block_after(stored.document, self.broker)
        return ConditionalWrite(encode(self.proposed), stored.version)

    def written(self, write: ConditionalWrite) -> None:
        """Use the proposed block after a successful write.

        No-op if the broker has read again since. After a version conflict, it reads again.
        """
        if self.proposed is not None and write.document == encode(self.proposed):
            self._use(self.proposed)

    def _use(self, block: IdBlock) -> None:
        self.block, self.following, self.proposed = block, block.first, None


class StoredDocument(msgspec.Struct):
    """Item of the table `metadata`: the document at `PATH` and its version."""

    document: str
    version: int


_KEY = f"store{PATH}"


def read_document(table: Table) -> VersionedDocument:
    """Return the document of the cell's store."""
    item = table.get(_KEY, StoredDocument)
    return VersionedDocument() if item is None else VersionedDocument(item.document, item.version)


def allocate_block(table: Table, broker: int) -> tuple[int, list[Record]]:
    """Return the first id of a newly allocated block, and its records.

    Raises ProducerIdsExhausted, and ValueError like `decode`.
    """
    allocator = BlockAllocator(broker)
    write = allocator.read(read_document(table))
    assert write is not None and allocator.proposed is not None, "a new taker has proposed nothing"
    first = allocator.proposed.first
    return first, [ProducerIdBlockWritten(*write), ProducerIdBlockReceived(first, BLOCK_SIZE)]


def apply_written(table: Table, record: ProducerIdBlockWritten) -> None:
    """Store a document. Raises ValueError after a version conflict."""
    written = read_document(table).write(record.document, record.version)
    if written is None or written.document is None:
        raise ValueError(f"the document at {PATH} has another version than {record.version}")
    table.put(_KEY, StoredDocument(written.document, written.version))
