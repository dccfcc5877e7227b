"""Markers that a coordinator sends to partition leaders.

Source: KIP-98, KIP-890; `TransactionMarkerChannelManager`,
`TransactionMarkerRequestCompletionHandler` in Kafka. The bodies of WriteTxnMarkers
(`state/apis/write_txn_markers.py`) are here for coordinator and leaders.

    error of a partition                  coordinator
    0 NONE, 35 UNSUPPORTED_VERSION        removes it; after the last one the transaction is complete
    47 INVALID_PRODUCER_EPOCH,            stops: a newer coordinator or producer owns the
    52 TRANSACTION_COORDINATOR_FENCED     transaction
    others                                repeats the marker at the next check

Deleted topics need no marker.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from brokertwin.state.cluster.coordinators import TRANSACTION_TOPIC, partition_for
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision, Message
from brokertwin.state.core.records import TransactionMarkersWritten, TransactionMetadata
from brokertwin.state.transactions import transactional_ids, transactions
from brokertwin.state.transactions.transactions import (
    PREPARED,
    EventData,
    TransactionEvent,
    TransactionState,
)

DONE = frozenset({Error.NONE, Error.UNSUPPORTED_VERSION})
FENCED = frozenset({Error.INVALID_PRODUCER_EPOCH, Error.TRANSACTION_COORDINATOR_FENCED})


def marker_requests(
    broker: Broker, transactional_id: str, prepared: TransactionMetadata
) -> list[Message]:
    """Return the requests with a transaction's markers, one for each leader.

    For partitions without a leader, the coordinator sends one to itself, which fails and is
    repeated.
    """
    by_leader: dict[int, list[WritableTxnMarkerTopic]] = {}
    for name, partitions in existing_partitions(broker, prepared.partitions).items():
        topic = broker.topic_by_name(name)
        assert topic is not None, name
        for partition in partitions:
            leader = topic.partitions[partition].leader
            topics = by_leader.setdefault(leader if leader >= 0 else broker.id, [])
            if not topics or topics[-1].name != name:
                topics.append(WritableTxnMarkerTopic(name=name, partition_indexes=[]))
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


def existing_partitions(broker: Broker, partitions: dict[str, list[int]]) -> dict[str, list[int]]:
    by_topic = {}
    for name, indexes in partitions.items():
        topic = broker.topic_by_name(name)
        if topic is not None:
            by_topic[name] = [index for index in indexes if index < len(topic.partitions)]
    return {name: indexes for name, indexes in by_topic.items() if indexes}


def _marker(
    broker: Broker,
    transactional_id: str,
    prepared: TransactionMetadata,
    topics: list[WritableTxnMarkerTopic],
) -> WritableTxnMarker:
    log = broker.topic_by_name(TRANSACTION_TOPIC)
    assert log is not None, transactional_id
    partition = partition_for(transactional_id, len(log.partitions))
    return WritableTxnMarker(
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        transaction_result=prepared.state == TransactionState.PREPARE_COMMIT,
        topics=topics,
        coordinator_epoch=log.partitions[partition].leader_epoch,
        transaction_version=prepared.client_transaction_version,
    )


def on_response(broker: Broker, message: Message, response: WriteTxnMarkersResponse) -> Decision:
    """Remove partitions with written markers; complete after the last one."""
    transactional_id = message.context
    body = message.body
    assert isinstance(body, WriteTxnMarkersRequest), message
    (marker,), (result,) = body.markers, response.markers
    current = transactional_ids.metadata(broker, transactional_id)
    is_unavailable = current is None or transactional_ids.is_busy(broker, transactional_id)
    if current is None or is_unavailable or not _is_current(current, marker):
        return Decision()
    errors = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in result.topics
        for partition in topic.partitions
    }
    if FENCED.intersection(errors.values()):
        transactional_ids.cancel_check(broker, transactional_id)
        return Decision()
    remaining = {
        name: [index for index in indexes if errors.get((name, index)) not in DONE]
        for name, indexes in existing_partitions(broker, current.partitions).items()
    }
    remaining = {name: indexes for name, indexes in remaining.items() if indexes}
    if remaining:
        return Decision(records=[TransactionMarkersWritten(transactional_id, remaining)])
    written = transactional_ids.metadata_record(
        broker, transactional_id, completed(broker, current)
    )
    return Decision(records=[written])


def completed(broker: Broker, prepared: TransactionMetadata) -> TransactionMetadata:
    metadata = transactions.step(prepared, TransactionEvent.MARKERS_WRITTEN, EventData(broker.now))
    assert isinstance(metadata, TransactionMetadata), metadata
    return metadata


def _is_current(current: TransactionMetadata, marker: WritableTxnMarker) -> bool:
    is_same = (current.producer_id, current.producer_epoch) == (
        marker.producer_id,
        marker.producer_epoch,
    )
    return is_same and current.state in PREPARED
