"""Events of a producer."""

from typing import NamedTuple

from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error


class RecordAcked(NamedTuple):
    """A record in the log at `offset`, or -1 if the response has no offset."""

    record_id: int
    topic_partition: TopicPartition
    offset: int


class RecordFailed(NamedTuple):
    """A failed record; `may_be_written`: it may be in the log anyway."""

    record_id: int
    topic_partition: TopicPartition
    error: Error
    may_be_written: bool


class ConnectionStalled(NamedTuple):
    """A node exceeded `request.timeout.ms`: close its connection.

    The producer treats it as closed; discard what still arrives on it.
    """

    node: int


class MetadataWanted(NamedTuple):
    """Metadata of `topics` is needed; if empty, only of the nodes."""

    topics: list[str]


Event = RecordAcked | RecordFailed | ConnectionStalled | MetadataWanted
