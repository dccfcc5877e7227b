"""Markers of transactions: what a coordinator tells the leaders of partitions.

Source: KIP-98, KIP-890; `TransactionMarkerChannelManager`, `WriteTxnMarkersRequest` in Kafka. The
bodies of WriteTxnMarkers (`state/apis/write_txn_markers.py`) are here, because the coordinator
writes them and the leaders read them.
"""

from typing import Annotated

from brokerstream.state.schema import Body, Int8, Int16, Int32, Int64, since

KEY = 27


class MarkerTopic(Body):
    """The partitions of a topic that get a marker."""

    name: str
    partition_indexes: list[Int32]


class Marker(Body):
    """The end of one transaction: a commit where `transaction_result` is true, else an abort.

    `transaction_version` is 2 where the epoch was bumped for the end of the transaction (KIP-890).
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: bool
    topics: list[MarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, since(2)] = 0


class WriteTxnMarkersRequest(Body):
    """The markers for the partitions that one broker leads."""

    markers: list[Marker]


class MarkerPartitionResult(Body):
    """What became of a partition's marker."""

    partition_index: Int32
    error_code: Int16


class MarkerTopicResult(Body):
    """The results of a topic."""

    name: str
    partitions: list[MarkerPartitionResult]


class MarkerResult(Body):
    """The results of one producer's marker."""

    producer_id: Int64
    topics: list[MarkerTopicResult]


class WriteTxnMarkersResponse(Body):
    """The results by marker, topic and partition."""

    markers: list[MarkerResult]
