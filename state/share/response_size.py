"""Size of a ShareFetch response, as Kafka counts it for quotas.

The size of the body without acknowledgement results and node endpoints, plus 4 bytes for the
length. Source: `ShareFetchResponse.sizeOf`, `ShareFetchContext.responseSize` and the schema of
ShareFetch in Kafka, versions 1 and 2.
"""

from collections.abc import Iterable

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.share_fetch import ShareFetchResponsePartitionData
from brokertwin.protocol.primitives import uvarint_size

TAGS, NULL = 1, 1
RESPONSE = 4 + 4 + 2 + NULL + 4 + 1 + TAGS
"""Length, throttle time, error and message, lock time, no endpoints."""
TOPIC = 16 + TAGS
PARTITION = 4 + 2 * (2 + NULL) + (4 + 4 + TAGS) + TAGS
"""Index, two errors with messages, leader."""
ACQUIRED = 8 + 8 + 2 + TAGS


def size_of(shown: Iterable[tuple[Uuid, ShareFetchResponsePartitionData]]) -> int:
    topics: dict[Uuid, int] = {}
    size = RESPONSE
    for topic_id, part in shown:
        topics[topic_id] = topics.get(topic_id, 0) + 1
        size += PARTITION + part.records_size_in_bytes + _length(part.records_size_in_bytes)
        size += ACQUIRED * len(part.acquired_records) + _length(len(part.acquired_records))
    size += sum(TOPIC + _length(count) for count in topics.values())
    return size + _length(len(topics))


def _length(count: int) -> int:
    return uvarint_size(count + 1)
