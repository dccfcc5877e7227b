"""The computed size of a Fetch response equals its encoded size."""

import pytest

from brokertwin.protocol.bodies import ZERO_UUID, render
from brokertwin.protocol.frames import encode_response
from brokertwin.protocol.generated.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponsePartitionData,
)
from brokertwin.protocol.generated.shared import LeaderIdAndEpoch
from brokertwin.state.apis.fetch import API
from brokertwin.state.fetch import response_size

FETCH, LENGTH_BYTES, CORRELATION_ID_BYTES = 1, 4, 4
SINCE_TAGS = 12

PARTS = [
    FetchResponsePartitionData(partition_index=0),
    FetchResponsePartitionData(partition_index=1, records_size_in_bytes=126),
    FetchResponsePartitionData(partition_index=2, records_size_in_bytes=127),
    FetchResponsePartitionData(partition_index=3, records_size_in_bytes=70_000),
    FetchResponsePartitionData(partition_index=4, aborted_transactions=[]),
    FetchResponsePartitionData(
        partition_index=5,
        aborted_transactions=[
            AbortedTransaction(producer_id=n, first_offset=n) for n in range(130)
        ],
    ),
    FetchResponsePartitionData(
        partition_index=6,
        error_code=74,
        diverging_epoch=FetchResponseEpochEndOffset(epoch=2, end_offset=7),
    ),
    FetchResponsePartitionData(
        partition_index=7,
        error_code=6,
        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=3),
    ),
]
TOPICS = [
    [],
    *(
        [FetchableTopicResponse(topic="orders", topic_id=ZERO_UUID, partitions=[each])]
        for each in PARTS
    ),
    [
        FetchableTopicResponse(topic="ä" * 90, topic_id=ZERO_UUID, partitions=PARTS),
        FetchableTopicResponse(topic="", topic_id=ZERO_UUID, partitions=PARTS * 20),
    ],
]


@pytest.mark.parametrize("version", range(API.versions[0], API.versions[1] + 1))
def test_size_equals_the_encoded_size(version: int) -> None:
    header = CORRELATION_ID_BYTES + (1 if version >= SINCE_TAGS else 0)
    for topics in TOPICS:
        body = render(FetchResponse(responses=topics), version)
        for topic in body["responses"]:
            for part in topic["partitions"]:
                part["records"] = bytes(part["recordsSizeInBytes"])
        written = encode_response(FETCH, version, 1, body)
        assert response_size.size_of(topics, version) == LENGTH_BYTES + len(written) - header
