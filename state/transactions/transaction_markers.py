"""Markers of transactions: what a coordinator tells the leaders of partitions.

Source: KIP-98, KIP-890; `TransactionMarkerChannelManager`,
`TransactionMarkerRequestCompletionHandler` in Kafka. The bodies of WriteTxnMarkers
(`state/apis/write_txn_markers.py`) are here, because the coordinator writes them and the leaders
read them.

    the leader's answer   the coordinator
    0, 35                 takes the partition off; after the last one the transaction is complete
    47, 52                sends no more markers of this transaction: someone newer owns it
    anything else         sends it again at the next check for time-outs

A partition whose topic is gone needs no marker.
"""

from typing import Annotated

from brokertwin.state.cluster.coordinators import TRANSACTION_TOPIC, partition_for
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.decision import Decision, Message
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import TransactionMarkersWritten, TransactionMetadata
from brokertwin.state.core.schema import Body, Int8, Int16, Int32, Int64, since
from brokertwin.state.transactions import transactional_ids, transactions
from brokertwin.state.transactions.transactions import PREPARED, Asked, Input, State

DONE = frozenset({Error.NONE, Error.UNSUPPORTED_VERSION})
FENCED = frozenset({Error.INVALID_PRODUCER_EPOCH, Error.TRANSACTION_COORDINATOR_FENCED})


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


def messages(broker: Broker, transactional_id: str, prepared: TransactionMetadata) -> list[Message]:
    """The markers of a transaction that ends, one message to each leader; none for gone topics.

    Where nobody leads the coordinator asks itself, and hears that it has to ask again.
    """
    by_leader: dict[int, list[MarkerTopic]] = {}
    for name, partitions in existing(broker, prepared.partitions).items():
        topic = broker.topic_by_name(name)
        assert topic is not None, name
        for partition in partitions:
            leader = topic.partitions[partition].leader
            topics = by_leader.setdefault(leader if leader >= 0 else broker.id, [])
            if not topics or topics[-1].name != name:
                topics.append(MarkerTopic(name=name, partition_indexes=[]))
            topics[-1].partition_indexes.append(partition)
    return [
        Message(
            broker.id,
            leader,
            kafka_apis.WRITE_TXN_MARKERS.key,
            WriteTxnMarkersRequest(markers=[_marker(broker, transactional_id, prepared, topics)]),
            context=transactional_id,
        )
        for leader, topics in sorted(by_leader.items())
    ]


def existing(broker: Broker, partitions: dict[str, list[int]]) -> dict[str, list[int]]:
    """Those of a transaction's partitions that the broker knows a leader of."""
    found = {}
    for name, indexes in partitions.items():
        topic = broker.topic_by_name(name)
        if topic is not None:
            found[name] = [index for index in indexes if index < len(topic.partitions)]
    return {name: indexes for name, indexes in found.items() if indexes}


def _marker(
    broker: Broker, transactional_id: str, prepared: TransactionMetadata, topics: list[MarkerTopic]
) -> Marker:
    log = broker.topic_by_name(TRANSACTION_TOPIC)
    assert log is not None, transactional_id
    place = partition_for(transactional_id, len(log.partitions))
    return Marker(
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        transaction_result=prepared.state == State.PREPARE_COMMIT,
        topics=topics,
        coordinator_epoch=log.partitions[place].leader_epoch,
        transaction_version=prepared.client_transaction_version,
    )


def on_reply(broker: Broker, message: Message, response: WriteTxnMarkersResponse) -> Decision:
    """The coordinator takes off what is written; after the last partition the end is complete."""
    transactional_id = message.context
    body = message.body
    assert isinstance(body, WriteTxnMarkersRequest), message
    (marker,), (result,) = body.markers, response.markers
    known = transactional_ids.metadata(broker.tables.transactions, broker.id, transactional_id)
    is_over = known is None or transactional_ids.is_busy(broker, transactional_id)
    if known is None or is_over or not _is_answer(known, marker):
        return Decision()
    errors = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in result.topics
        for partition in topic.partitions
    }
    if FENCED.intersection(errors.values()):
        transactional_ids.stop_checks(broker, transactional_id)
        return Decision()
    remaining = {
        name: [index for index in indexes if errors.get((name, index)) not in DONE]
        for name, indexes in existing(broker, known.partitions).items()
    }
    remaining = {name: indexes for name, indexes in remaining.items() if indexes}
    if remaining:
        return Decision(records=[TransactionMarkersWritten(transactional_id, remaining)])
    written = transactional_ids.written(broker, transactional_id, completed(broker, known))
    return Decision(records=[written])


def completed(broker: Broker, prepared: TransactionMetadata) -> TransactionMetadata:
    """A transaction whose markers are all written."""
    metadata = transactions.step(prepared, Input.MARKERS_WRITTEN, Asked(broker.now))
    assert isinstance(metadata, TransactionMetadata), metadata
    return metadata


def _is_answer(known: TransactionMetadata, marker: Marker) -> bool:
    """Whether a marker is that of the transaction which ends now, and no older one's."""
    is_same = (known.producer_id, known.producer_epoch) == (
        marker.producer_id,
        marker.producer_epoch,
    )
    return is_same and known.state in PREPARED
