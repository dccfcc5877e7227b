"""WriteTxnMarkers (key 27, versions 1 to 2): end transactions.

Source: KIP-98, KIP-890, KIP-1228; `KafkaApis.handleWriteTxnMarkersRequest` in Kafka. A transaction
coordinator sends it. Each marker becomes a control batch (`protocol/control_batches.py`) at the
end of each partition that it names.

    neither ALTER nor CLUSTER_ACTION on the cluster    31 CLUSTER_AUTHORIZATION_FAILED
    no such partition on this broker                   3 UNKNOWN_TOPIC_OR_PARTITION
    this broker does not lead the partition            6 NOT_LEADER_OR_FOLLOWER
    fewer replicas in sync than min.insync.replicas    19 NOT_ENOUGH_REPLICAS
    old producer epoch (`producer.check_marker`)       47 INVALID_PRODUCER_EPOCH
    old coordinator epoch (`producer.check_marker`)    52 TRANSACTION_COORDINATOR_FENCED

In a partition of `__consumer_offsets` the group coordinator ends the transaction; a single replica
may have no log. Markers have no sequence and are not verified. The response groups the results by
producer. If a partition has followers, the response waits for them (`state/cell/committing.py`).
"""

import msgspec

from brokertwin.protocol import control_batches, kafka_apis
from brokertwin.protocol.batch_headers import Batch, EndMarker
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis import uncommitted
from brokertwin.state.cluster.coordinators import GROUP_TOPIC
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import BatchAppended, ProducerNoted, Record
from brokertwin.state.logs import producer as producers
from brokertwin.state.logs.log import Log
from brokertwin.state.logs.producer import ProducerStateEntry
from brokertwin.state.replication import copying
from brokertwin.state.transactions import transaction_verification as verifications
from brokertwin.state.transactions import transactional_offsets
from brokertwin.state.transactions.transaction_markers import on_response


def handle(broker: Broker, request: Request) -> Decision:
    body: WriteTxnMarkersRequest = request.body
    is_allowed = broker.allows_cluster(request, Operation.ALTER) or broker.allows_cluster(
        request, Operation.CLUSTER_ACTION
    )
    writer = _Writer(broker)
    results: dict[int, dict[str, dict[int, Error]]] = {}
    for marker in body.markers:
        by_topic = results.setdefault(marker.producer_id, {})
        for named in marker.topics:
            by_partition = by_topic.setdefault(named.name, {})
            for index in named.partition_indexes:
                error = Error.CLUSTER_AUTHORIZATION_FAILED
                if is_allowed:
                    error = writer.write(marker, named.name, index)
                by_partition[index] = error
    markers = [_result(producer_id, by_topic) for producer_id, by_topic in results.items()]
    return Decision(records=writer.records, response=WriteTxnMarkersResponse(markers=markers))


def _result(producer_id: int, by_topic: dict[str, dict[int, Error]]) -> WritableTxnMarkerResult:
    topics = [
        WritableTxnMarkerTopicResult(
            name=name,
            partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=int(error))
                for index, error in by_partition.items()
            ],
        )
        for name, by_partition in by_topic.items()
    ]
    return WritableTxnMarkerResult(producer_id=producer_id, topics=topics)


class _Writer:
    """Collects a request's records; later markers see earlier ones."""

    def __init__(self, broker: Broker) -> None:
        self.records: list[Record] = []
        self._broker = broker
        self._ends: dict[tuple[Uuid, int], int] = {}
        self._producers: dict[tuple[Uuid, int, int], ProducerStateEntry] = {}

    def write(self, marker: WritableTxnMarker, name: str, index: int) -> Error:
        topic = self._broker.topic_by_name(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        log = self._broker.log(topic.topic_id, index)
        if log is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if topic.partitions[index].leader != self._broker.id:
            return Error.NOT_LEADER_OR_FOLLOWER
        if name == GROUP_TOPIC:
            return self._end_offsets(marker, topic, log)
        if copying.has_too_few_in_sync(self._broker, topic, index):
            return Error.NOT_ENOUGH_REPLICAS
        return self._append(marker, topic, log)

    def _end_offsets(self, marker: WritableTxnMarker, topic: Topic, log: Log) -> Error:
        """End the group's transaction; write a marker if its log has rows."""
        has_rows = len(topic.partitions[log.partition].replicas) > 1
        has_rows = has_rows or self._broker.settings.brokertwin_internal_logs
        if has_rows or any(each.producer_id == marker.producer_id for each in log.transactions):
            error = self._append(marker, topic, log)
        elif not self._broker.settings.transaction_partition_verification_enable:
            error = self._note(marker, topic, log)
        else:
            error = Error.NONE
        if error is not Error.NONE:
            return error
        self.records += transactional_offsets.marker_records(
            self._broker, marker.producer_id, log.partition, marker.transaction_result
        )
        return Error.NONE

    def _append(self, marker: WritableTxnMarker, topic: Topic, log: Log) -> Error:
        batch = self._batch(marker, topic, log)
        error = self._check(marker, log, batch)
        if error is not Error.NONE:
            return error
        place = (log.topic_id, log.partition)
        verifications.forget(self._broker, *place, marker.producer_id)
        self._ends[place] = batch.last_offset + 1
        self.records.append(BatchAppended(*place, batch))
        return Error.NONE

    def _note(self, marker: WritableTxnMarker, topic: Topic, log: Log) -> Error:
        """Store the marker's epochs in a partition without a log."""
        error = self._check(marker, log, self._batch(marker, topic, log))
        if error is Error.NONE:
            ids = (log.topic_id, log.partition, marker.producer_id)
            now = self._broker.now
            epochs = (marker.producer_epoch, now, marker.coordinator_epoch)
            self.records.append(ProducerNoted(*ids, *epochs))
        return error

    def _batch(self, marker: WritableTxnMarker, topic: Topic, log: Log) -> Batch:
        batch = control_batches.end_batch(
            marker.producer_id,
            marker.producer_epoch,
            EndMarker(
                is_commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                is_append_time=self._broker.rules_of(topic).records.takes_append_time,
            ),
            self._ends.get((log.topic_id, log.partition), log.log_end_offset),
            self._broker.now,
        )
        batch.partition_leader_epoch = log.leader_epoch
        return batch

    def _check(self, marker: WritableTxnMarker, log: Log, batch: Batch) -> Error:
        """Check the producer's state, and update it if the marker is valid."""
        producer = self._known((log.topic_id, log.partition), marker.producer_id)
        error = producers.check_marker(producer, batch, marker.transaction_version)
        if error is Error.NONE:
            producers.update(producer, batch)
        return error

    def _known(self, place: tuple[Uuid, int], producer_id: int) -> ProducerStateEntry:
        """Copy the producer's state, including this request's markers."""
        producer = self._producers.get((*place, producer_id))
        if producer is None:
            key = producers.producer_key(self._broker.id, *place, producer_id)
            stored = (
                self._broker.tables.producers.get(key, ProducerStateEntry) or ProducerStateEntry()
            )
            producer = self._producers[(*place, producer_id)] = msgspec.structs.replace(stored)
        return producer


API = Api(
    kafka_apis.WRITE_TXN_MARKERS,
    handle,
    on_reply=on_response,
    uncommitted=uncommitted.error_of_the_log,
    commit_timeout_ms=lambda settings: settings.request_timeout_ms,
    is_sent_when_committed=True,
)
