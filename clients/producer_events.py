"""What a producer tells its caller."""

from typing import NamedTuple

from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.core.errors import Error


class RecordAcked(NamedTuple):
    """A record is in the log, at `offset`; -1 where the answer did not say where."""

    record_id: int
    topic_partition: TopicPartition
    offset: int


class RecordFailed(NamedTuple):
    """A record was given up. `may_be_written`: it may be in the log all the same, or come there."""

    record_id: int
    topic_partition: TopicPartition
    error: Error
    may_be_written: bool


class ConnectionStalled(NamedTuple):
    """A node has not answered within `request.timeout.ms`: the caller closes its connection.

    For the producer it is closed already; what still comes over it is handed over to nobody.
    """

    node: int


class MetadataWanted(NamedTuple):
    """The caller asks for the metadata of `topics` (of none: of the nodes alone)."""

    topics: list[str]


Event = RecordAcked | RecordFailed | ConnectionStalled | MetadataWanted
