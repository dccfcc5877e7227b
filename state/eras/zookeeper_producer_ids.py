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

The broker setting `brokertwin.zk.producer.id.blocks` enables this. The controller's machine stores
the document. A read is an AllocateProducerIds request without a write, so brokers of different
cells can conflict. A broker allocates a block when it needs an id, without prefetch, and its
InitProducerId requests wait. If ids are exhausted, InitProducerId fails: -1 UNKNOWN_SERVER_ERROR.

If the response to a write is lost, the broker allocates another block. A restarted broker does not
reuse its block, because ids may have been issued.
"""

from typing import NamedTuple

import msgspec

from brokertwin.protocol.additions import ConditionalWrite, VersionedDocument
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.allocate_producer_ids import AllocateProducerIdsResponse
from brokertwin.state.cluster.machines import Machine
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.records import ProducerIdBlockWritten
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
    """Return the next block. Raises ProducerIdsExhausted, and ValueError like `decode`."""
    if document is None:
        return IdBlock(broker, 0, BLOCK_SIZE - 1)
    last = decode(document).last
    if last > INT64_MAX - BLOCK_SIZE:
        raise ProducerIdsExhausted(
            f"the last block of producer ids ends at {last}: another {BLOCK_SIZE} do not fit in"
            " an int64"
        )
    return IdBlock(broker, last + 1, last + BLOCK_SIZE)


# Broker


def is_enabled(machine: Machine) -> bool:
    return machine.settings.brokertwin_zk_producer_id_blocks


def after_read(stored: VersionedDocument, broker: int) -> ConditionalWrite:
    """Return the write after a read. Raises like `block_after`."""
    return ConditionalWrite(encode(block_after(stored.document, broker)), stored.version)


# ZooKeeper


class StoredDocument(msgspec.Struct):
    """Item of the table `metadata`: the document at `PATH` and its version."""

    document: str
    version: int


KEY = f"store{PATH}"


def read_document(table: Table) -> VersionedDocument:
    item = table.get(KEY, StoredDocument)
    return VersionedDocument() if item is None else VersionedDocument(item.document, item.version)


def handle(table: Table, write: ConditionalWrite | None) -> Decision:
    """Read the document, or write it if its version is the one that was read."""
    stored = read_document(table)
    if write is None:
        return Decision(response=AllocateProducerIdsResponse(stored=stored))
    if write.version != stored.version:
        error = Error.INVALID_UPDATE_VERSION
        return Decision(response=AllocateProducerIdsResponse(error_code=error))
    return Decision(
        records=[ProducerIdBlockWritten(write.document, write.version)],
        response=AllocateProducerIdsResponse(),
    )


def apply_written(table: Table, record: ProducerIdBlockWritten) -> None:
    """Store a document. Raises ValueError after a version conflict."""
    if read_document(table).version != record.version:
        raise ValueError(f"the document at {PATH} has another version than {record.version}")
    table.put(KEY, StoredDocument(record.document, record.version + 1))
