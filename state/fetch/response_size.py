"""Size of a Fetch response in bytes, as Kafka counts it for quotas.

The body and its length field, without the header and `nodeEndpoints`. Source:
`FetchResponse.sizeOf` and the schema of Fetch in Kafka, from version 4 on.
"""

from collections.abc import Iterable

from msgspec import UNSET

from brokertwin.protocol.generated.fetch import FetchableTopicResponse, FetchResponsePartitionData
from brokertwin.protocol.primitives import uvarint_size
from brokertwin.state.fetch.fetch_session import TOPIC_ID_VERSION

FLEXIBLE_SINCE = 12
LENGTH, THROTTLE_TIME, ERROR_AND_SESSION = 4, 4, 2 + 4
TOPIC_ID = 16
ABORTED_TRANSACTION = 8 + 8
TAG_COUNT = 1
DIVERGING_EPOCH = 2 + 4 + 8 + TAG_COUNT
CURRENT_LEADER = 2 + 4 + 4 + TAG_COUNT
"""Including the tag number and the length of the field."""


def size_of(topics: Iterable[FetchableTopicResponse], version: int) -> int:
    size = LENGTH + THROTTLE_TIME
    size += ERROR_AND_SESSION if version >= 7 else 0
    count = 0
    for topic in topics:
        count += 1
        size += _topic(topic, version)
    return size + _length(count, version) + _tags(version)


def _topic(topic: FetchableTopicResponse, version: int) -> int:
    size = TOPIC_ID
    if version < TOPIC_ID_VERSION:
        name = len(topic.topic.encode())
        size = name + (2 if version < FLEXIBLE_SINCE else _length(name, version))
    size += sum(_partition(each, version) for each in topic.partitions)
    return size + _length(len(topic.partitions), version) + _tags(version)


def _partition(part: FetchResponsePartitionData, version: int) -> int:
    size = 4 + 2 + 8 + 8  # its index, the error, high watermark and last stable offset
    size += 8 if version >= 5 else 0  # log start offset
    size += 4 if version >= 11 else 0  # preferred read replica
    if part.aborted_transactions is None:
        size += 4 if version < FLEXIBLE_SINCE else 1
    else:
        count = len(part.aborted_transactions)
        size += count * (ABORTED_TRANSACTION + _tags(version)) + _length(count, version)
    size += part.records_size_in_bytes + _length(part.records_size_in_bytes, version)
    if version >= FLEXIBLE_SINCE and part.diverging_epoch is not UNSET:
        size += DIVERGING_EPOCH
    if version >= 16 and part.current_leader is not UNSET:
        size += CURRENT_LEADER
    return size + _tags(version)


def _length(count: int, version: int) -> int:
    return 4 if version < FLEXIBLE_SINCE else uvarint_size(count + 1)


def _tags(version: int) -> int:
    return TAG_COUNT if version >= FLEXIBLE_SINCE else 0
