"""Produce (key 0, versions 3 to 13): append record batches to logs.

Source: `KafkaApis.handleProduceRequest`, `ProduceRequest.validateRecords`, `UnifiedLog.append`,
`LogValidator` in Kafka; KIP-98, KIP-360, KIP-467, KIP-516 (topic ids, version 13), KIP-890
(transactions, verified up to version 11 and added from version 12 on), KIP-951 (current leader).

The gateway sends batch headers, and `recordsError` if the bytes of a batch are invalid (wrong CRC,
records that do not decode). Checks of the whole request:

    the first batch has a magic above 2                    2 CORRUPT_MESSAGE
    no WRITE permission on the transactional id            53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    unknown codec in the first batch, version below 7      -1 UNKNOWN_SERVER_ERROR
    brokertwin.require.idempotent.write, a producer id,
    no IDEMPOTENT_WRITE on the cluster                     31 CLUSTER_AUTHORIZATION_FAILED

Then each partition is checked: topic id, authorization (29 TOPIC_AUTHORIZATION_FAILED without WRITE
on the topic), topic, record set, leadership, replicas, batch, size, and producer state
(`state/logs/producer.py`). `state/logs/record_validation.py` checks keys and timestamps; the
gateway reports the invalid records (`refusedRecords` becomes `recordErrors`).

The first batch of a transaction waits for the coordinator's response after the record set check
(`state/transactions/transaction_verification.py`). `errorMessage` is set for 32 INVALID_TIMESTAMP
and for errors of the transaction coordinator, but not for sequences and epochs, like in Kafka.

A quota (`producer_byte_rate`) rejects nothing: `throttleTimeMs` is the time for which the
connection is muted (KIP-219; `state/cluster/quota_rates.py`). With acks -1 the response waits until
every in-sync replica has the batches or the request times out (`state/replication/acks.py`);
rejected partitions keep their error.
"""

from collections.abc import Iterator
from copy import copy

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.additions import RefusedRecords
from brokertwin.protocol.batch_headers import UNKNOWN_CODEC
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import NONE, Error
from brokertwin.protocol.generated.add_partitions_to_txn import AddPartitionsToTxnResponse
from brokertwin.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import quota_rates
from brokertwin.state.cluster.image import INTERNAL_TOPICS, Topic, leader_of
from brokertwin.state.cluster.machines import Broker, PartitionTail, tail_of
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, Message, PendingRequest, Request
from brokertwin.state.core.events import Choices
from brokertwin.state.core.records import BatchAppended, Record
from brokertwin.state.core.tables import decode_item
from brokertwin.state.logs import producer as producers
from brokertwin.state.logs import record_validation
from brokertwin.state.logs.log import Log
from brokertwin.state.logs.log_tail import LogTail
from brokertwin.state.replication import acks, copying
from brokertwin.state.replication.acks import TOPIC_IDS_SINCE, AcksState, PendingAppend
from brokertwin.state.share import share_partitions
from brokertwin.state.transactions import transaction_verification as verifications

ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write to internal topics."""

TIMESTAMP_TEXT = "One or more records have been rejected due to invalid timestamp"
"""The error message of 32 INVALID_TIMESTAMP (KIP-467)."""

ALL_IN_SYNC = -1
"""The acks that wait for every in-sync replica."""

MAGIC = 2
ZSTD_VERSION = 7


class AppendResult(msgspec.Struct, gc=False):
    """A partition's response, and the record of its append, if any.

    Followers must have the log up to `required_offset`; 0 without followers.
    """

    response: PartitionProduceResponse
    record: BatchAppended | None = None
    required_offset: int = 0


class ProduceState(msgspec.Struct, array_like=True):
    """A request that waits for the coordinator of its transaction.

    `denied` has the topics that the client may not write to. `requested` has the names and
    partitions sent to the coordinator, first at `since` (ms since 1970). `retries`: backoff before
    a retry.
    """

    body: ProduceRequest
    denied: list[str]
    requested: list[tuple[str, int]]
    since: int
    retries: bool = False


class Verifications(msgspec.Struct, frozen=True):
    """Denied topics and the coordinator's errors, by partition."""

    denied: frozenset[str] = frozenset()
    errors: dict[tuple[str, int], Error] = {}


NOTHING_DENIED = Verifications()


def handle(broker: Broker, request: Request) -> Decision:
    """Append the accepted batches.

    With acks 0 there is no response, and an error closes the connection.
    """
    body: ProduceRequest = request.body
    verified = NOTHING_DENIED
    if broker.has_authorizer:
        verified = Verifications(_denied(broker, request))
        if _lacks_idempotent_write(broker, request):
            return _refuse_all(broker, request, Error.CLUSTER_AUTHORIZATION_FAILED)
    for topic in body.topic_data:
        for partition in topic.partition_data:
            batches = partition.batches
            if batches and not 0 <= batches[0].magic <= MAGIC:
                text = f"Invalid magic found in record: {batches[0].magic}"
                return _refuse_all(broker, request, Error.CORRUPT_MESSAGE, text)
            for batch in batches:
                if batch.is_transactional:
                    return _transactional(broker, request, verified)
    version = request.header.request_api_version
    if version < ZSTD_VERSION and _has_unknown_codec(broker, request, verified):
        return _refuse_all(broker, request, Error.UNKNOWN_SERVER_ERROR)
    return _append_all(broker, request, verified)


def _lacks_idempotent_write(broker: Broker, request: Request) -> bool:
    """True if an idempotent producer needs a permission that it does not have (Kafka 2.0)."""
    if not broker.settings.brokertwin_require_idempotent_write:
        return False
    body: ProduceRequest = request.body
    is_idempotent = any(
        batch.producer_id >= 0 and not batch.is_transactional
        for topic in body.topic_data
        for partition in topic.partition_data
        for batch in partition.batches
    )
    return is_idempotent and not broker.allows_cluster(request, Operation.IDEMPOTENT_WRITE)


def _append_all(broker: Broker, request: Request, verified: Verifications) -> Decision:
    body: ProduceRequest = request.body
    version = request.header.request_api_version
    responses: list[TopicProduceResponse] = []
    records: list[Record] = []
    appended: list[PendingAppend] = []
    topics = body.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        topics = _distinct(topics, version)
    for produced in topics:
        topic = _topic(broker, produced, version)
        if verified.denied and _is_denied(verified, topic, produced):
            responses.append(_refused_topic(produced, version, Error.TOPIC_AUTHORIZATION_FAILED))
            continue
        results: list[PartitionProduceResponse] = []
        for each in produced.partition_data:
            outcome = _produce(broker, request, topic, each, verified.errors)
            if results and results[-1].index == each.index:
                # an invalid record set after a valid one
                results[-1] = outcome.response
                continue
            if outcome.record is not None:
                records.append(outcome.record)
            if outcome.required_offset and body.acks == ALL_IN_SYNC:
                assert topic is not None
                place = ((len(responses), len(results)), topic.topic_id, each.index)
                appended.append(PendingAppend(*place, outcome.required_offset))
            results.append(outcome.response)
        responses.append(_topic_response(produced, version, results))
    throttle = _throttle_ms(broker, request) if broker.has_quotas else 0
    if body.acks == 0:
        is_refused = any(p.error_code for topic in responses for p in topic.partition_responses)
        return Decision(records=records, closes_connection=is_refused, mute_ms=throttle)
    if not appended:
        response = ProduceResponse(responses=responses, throttle_time_ms=throttle)
        return Decision(records=records, response=response)
    decision = acks.wait_or_respond(
        broker, AcksState(responses, appended, throttle), broker.now + body.timeout_ms
    )
    decision.records = records
    return decision


def _topic_response(
    produced: TopicProduceData, version: int, partitions: list[PartitionProduceResponse]
) -> TopicProduceResponse:
    """A topic in the response, by id or by name as in the request."""
    if version >= TOPIC_IDS_SINCE:
        return TopicProduceResponse(topic_id=produced.topic_id, partition_responses=partitions)
    return TopicProduceResponse(name=produced.name, partition_responses=partitions)


def _throttle_ms(broker: Broker, request: Request) -> int:
    limit = quota_rates.produce_limit(broker, request.principal, request.header.client_id)
    if limit is None:
        return 0
    body: ProduceRequest = request.body
    partitions = (each for topic in body.topic_data for each in topic.partition_data)
    size = body.request_size_in_bytes or sum(each.records_size_in_bytes for each in partitions)
    return quota_rates.produce_throttle_ms(broker, limit, size)


def _transactional(broker: Broker, request: Request, verified: Verifications) -> Decision:
    """Append, or verify new transactions with the coordinator first."""
    body: ProduceRequest = request.body
    if not _may_write_transactions(broker, request):
        return _refuse_all(broker, request, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    batches = [
        batch
        for topic in body.topic_data
        for partition in topic.partition_data
        for batch in partition.batches
        if batch.is_transactional and batch.producer_id >= 0
    ]
    if len(batches) > 1 and len({(each.producer_id, each.producer_epoch) for each in batches}) > 1:
        return _refuse_all(broker, request, Error.INVALID_PRODUCER_ID_MAPPING)
    if request.version < ZSTD_VERSION and _has_unknown_codec(broker, request, verified):
        return _refuse_all(broker, request, Error.UNKNOWN_SERVER_ERROR)
    is_v2 = request.header.request_api_version >= verifications.ADDS_SINCE
    is_verified = is_v2 or broker.settings.transaction_partition_verification_enable
    if not batches or not is_verified:
        return _append_all(broker, request, verified)
    return _verify(broker, request, verified, broker.now)


def _verify(broker: Broker, request: Request, verified: Verifications, since: int) -> Decision:
    """Verify with the coordinator; append if no transaction begins."""
    body: ProduceRequest = request.body
    is_v2 = request.header.request_api_version >= verifications.ADDS_SINCE
    requested: dict[str, list[int]] = {}
    batch = None
    for topic, produced in _beginnings(broker, request, verified):
        batch = produced.batches[0]
        verifications.start(broker, topic.topic_id, produced.index, batch, is_v2)
        requested.setdefault(topic.name, []).append(produced.index)
    if batch is None:
        return _append_all(broker, request, verified)
    message = verifications.request(broker, body.transactional_id or "", batch, requested, is_v2)
    places = [(name, index) for name, indexes in requested.items() for index in indexes]
    if message is None:
        errors = dict.fromkeys(places, Error.COORDINATOR_NOT_AVAILABLE)
        return _append_all(broker, request, msgspec.structs.replace(verified, errors=errors))
    state = ProduceState(body, sorted(verified.denied), places, since)
    return _wait(state, broker.now + broker.settings.request_timeout_ms, message)


def _wait(state: ProduceState, deadline: int, *messages: Message) -> Decision:
    condition = Condition(deadline, [], msgspec.msgpack.encode(state))
    return Decision(condition=condition, messages=list(messages))


def _beginnings(
    broker: Broker, request: Request, verified: Verifications
) -> Iterator[tuple[Topic, PartitionProduceData]]:
    """Yield the local partitions in which a transaction would begin."""
    version = request.header.request_api_version
    for produced in _distinct(request.body.topic_data, version):
        topic = _topic(broker, produced, version)
        if topic is None or (verified.denied and _is_denied(verified, topic, produced)):
            continue
        for partition in produced.partition_data:
            if not 0 <= partition.index < len(topic.partitions):
                continue
            if topic.partitions[partition.index].leader != broker.id or not partition.batches:
                continue
            batch = partition.batches[0]
            if not batch.is_transactional or batch.producer_id == producers.NO_PRODUCER_ID:
                continue
            tail = tail_of(broker, topic.topic_id, partition.index)
            producer = tail.producer(batch.producer_id) if tail is not None else None
            if producers.is_ongoing(producer, batch.producer_epoch):
                continue
            if _record_set_error(version, partition) is NONE:
                yield topic, partition


def resume(
    broker: Broker, waiting: PendingRequest, _message: Message, response: AddPartitionsToTxnResponse
) -> Decision:
    """Append verified batches; retry while a transaction V2 ends."""
    state = decode_item(waiting.state, ProduceState)
    partition_errors = verifications.partition_errors(response)
    unknown = Error(response.error_code)
    if unknown is Error.CLUSTER_AUTHORIZATION_FAILED:
        unknown = Error.INVALID_TXN_STATE
    errors = {place: partition_errors.get(place, unknown) for place in state.requested}
    settings = broker.settings
    patience_ms = min(
        settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms
    )
    is_v2 = waiting.header.request_api_version >= verifications.ADDS_SINCE
    is_ending = is_v2 and Error.CONCURRENT_TRANSACTIONS in errors.values()
    if is_ending and broker.now - state.since < patience_ms:
        state.retries = True
        return _wait(state, broker.now + settings.add_partitions_to_txn_retry_backoff_ms)
    return _continue(broker, waiting, state, errors)


def complete(broker: Broker, waiting: PendingRequest) -> Decision:
    """Retry after the backoff; otherwise respond to a timeout."""
    if waiting.logs:
        return acks.complete(broker, waiting)
    state = decode_item(waiting.state, ProduceState)
    if state.retries:
        verified = Verifications(frozenset(state.denied))
        return _verify(broker, _request_of(waiting, state), verified, state.since)
    return _continue(
        broker, waiting, state, dict.fromkeys(state.requested, Error.NETWORK_EXCEPTION)
    )


def _continue(
    broker: Broker,
    waiting: PendingRequest,
    state: ProduceState,
    results: dict[tuple[str, int], Error],
) -> Decision:
    request = _request_of(waiting, state)
    errors: dict[tuple[str, int], Error] = {
        place: error for place, error in results.items() if error is not NONE
    }
    return _append_all(broker, request, Verifications(frozenset(state.denied), errors))


def _request_of(waiting: PendingRequest, state: ProduceState) -> Request:
    """Rebuild the request's fields that are used after authorization."""
    header, principal = waiting.header, waiting.principal
    return Request(header, state.body, principal, waiting.connection, "", Choices())


def _has_unknown_codec(broker: Broker, request: Request, verified: Verifications) -> bool:
    """True if a first batch has an unknown codec.

    Skips unauthorized partitions. Kafka fails when it looks for zstd.
    """
    for produced in request.body.topic_data:
        topic = _topic(broker, produced, request.version)
        if topic is None or _is_denied(verified, topic, produced):
            continue
        for each in produced.partition_data:
            if not 0 <= each.index < len(topic.partitions) or not each.batches:
                continue
            batch = each.batches[0]
            if batch.magic == MAGIC and batch.compression_type == UNKNOWN_CODEC:
                return True
    return False


def _may_write_transactions(broker: Broker, request: Request) -> bool:
    transactional_id = request.body.transactional_id
    if transactional_id is None or not broker.has_authorizer:
        return transactional_id is not None
    kind = ResourceType.TRANSACTIONAL_ID
    return broker.allows(request, Operation.WRITE, kind, transactional_id)


def _denied(broker: Broker, request: Request) -> frozenset[str]:
    """Return topics without WRITE permission; skip unknown ids."""
    topics = [_topic(broker, produced, request.version) for produced in request.body.topic_data]
    if request.version >= TOPIC_IDS_SINCE:
        names = [topic.name for topic in topics if topic is not None]
    else:
        names = [produced.name for produced in request.body.topic_data]
    return broker.denied_topics(request, Operation.WRITE, names)


def _is_denied(verified: Verifications, topic: Topic | None, produced: TopicProduceData) -> bool:
    return (topic.name if topic is not None else produced.name) in verified.denied


def _refused_topic(
    produced: TopicProduceData, version: int, error: Error, text: str | None = None
) -> TopicProduceResponse:
    named = {each.index: _refused(each, error, text).response for each in produced.partition_data}
    return _topic_response(produced, version, list(named.values()))


def _refuse_all(
    broker: Broker, request: Request, error: Error, text: str | None = None
) -> Decision:
    body: ProduceRequest = request.body
    throttle = _throttle_ms(broker, request)
    if body.acks == 0:
        return Decision(closes_connection=True)
    version = request.version
    distinct = _distinct(body.topic_data, version)
    responses = [_refused_topic(produced, version, error, text) for produced in distinct]
    return Decision(response=ProduceResponse(responses=responses, throttle_time_ms=throttle))


def _distinct(topics: list[TopicProduceData], version: int) -> list[TopicProduceData]:
    """Return each topic and partition once; omit topics without partitions.

    A partition appears twice if it has both valid and invalid record sets.
    """
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return topics
    named: dict[tuple[str, Uuid], dict[int, list[PartitionProduceData]]] = {}
    for topic in topics:
        for partition in topic.partition_data:
            places = named.setdefault((topic.name, topic.topic_id), {})
            places.setdefault(partition.index, []).append(partition)
    return [
        TopicProduceData(
            name=name,
            topic_id=topic_id,
            partition_data=[p for each in places.values() for p in _effective(version, each)],
        )
        for (name, topic_id), places in named.items()
    ]


def _effective(version: int, named: list[PartitionProduceData]) -> list[PartitionProduceData]:
    """Keep the last valid and the last invalid duplicate of a partition.

    The valid one is appended; the response is that of the invalid one, in whatever order they come.
    """
    last = {_record_set_error(version, each) is NONE: each for each in named}
    return [last[is_set] for is_set in (True, False) if is_set in last]


def _topic(broker: Broker, produced: TopicProduceData, version: int) -> Topic | None:
    if version >= TOPIC_IDS_SINCE:
        return broker.topic_by_id(produced.topic_id)
    return broker.topic_by_name(produced.name)


def _produce(
    broker: Broker,
    request: Request,
    topic: Topic | None,
    produced: PartitionProduceData,
    unverified: dict[tuple[str, int], Error],
) -> AppendResult:
    version = request.header.request_api_version
    if topic is None:
        by_id = version >= TOPIC_IDS_SINCE
        error = Error.UNKNOWN_TOPIC_ID if by_id else Error.UNKNOWN_TOPIC_OR_PARTITION
        return _refused(produced, error)
    if not 0 <= produced.index < len(topic.partitions):
        return _refused(produced, Error.UNKNOWN_TOPIC_OR_PARTITION)
    error = _record_set_error(version, produced)
    unknown = unverified.get((topic.name, produced.index)) if unverified else None
    if error is NONE and unknown is not None:
        reported = verifications.produce_error(unknown, version)
        return _refused(produced, reported, verifications.produce_error_message(unknown, version))
    if error is NONE and request.body.acks not in (ALL_IN_SYNC, 0, 1):
        error = Error.INVALID_REQUIRED_ACKS
    if error is not NONE:
        return _refused(produced, error)
    tail = tail_of(broker, topic.topic_id, produced.index)
    if tail is None or tail.topic_rules is None or broker.failed_dirs:
        refused = _refusal(broker, request, topic, produced)
        if refused is not None or tail is None:
            return refused or _not_leader(topic, produced)
    return _append(broker, request, topic, tail, produced)


def _refusal(
    broker: Broker, request: Request, topic: Topic, produced: PartitionProduceData
) -> AppendResult | None:
    """Return why a partition takes no batch, or None."""
    if topic.name in INTERNAL_TOPICS and request.header.client_id != ADMIN_CLIENT_ID:
        return _refused(produced, Error.INVALID_TOPIC_EXCEPTION)
    tail = broker.tail(topic.topic_id, produced.index)
    if tail is None and broker.has_lost(topic.topic_id, produced.index):
        return _refused(produced, Error.KAFKA_STORAGE_ERROR)
    if tail is None or topic.partitions[produced.index].leader != broker.id:
        return _not_leader(topic, produced)
    is_short = copying.has_too_few_in_sync(broker, topic, produced.index)
    if is_short and request.body.acks == ALL_IN_SYNC:
        return _failed(produced, tail.log, Error.NOT_ENOUGH_REPLICAS)
    if topic.name not in INTERNAL_TOPICS and not is_short:
        tail.topic_rules = broker.rules_of(topic)
    return None


def _record_set_error(version: int, produced: PartitionProduceData) -> Error:
    """Require one batch of magic 2 (`ProduceRequest.validateRecords`)."""
    batches = produced.batches
    if batches and batches[0].magic == MAGIC:
        if batches[0].compression_type == "zstd" and version < ZSTD_VERSION:
            return Error.UNSUPPORTED_COMPRESSION_TYPE
        if len(batches) == 1:
            return NONE
    if not batches and produced.records_error:
        return Error(produced.records_error)
    for batch in batches:
        if not 0 <= batch.magic <= MAGIC:
            return Error.CORRUPT_MESSAGE
    return Error.INVALID_RECORD


def _append(
    broker: Broker,
    request: Request,
    topic: Topic,
    tail: PartitionTail,
    produced: PartitionProduceData,
) -> AppendResult:
    batch, log, rules = produced.batches[0], tail.log, tail.topic_rules or broker.rules_of(topic)
    if batch.base_offset != 0:
        return _failed(produced, log, Error.INVALID_RECORD)
    came, kept = produced.records_size_in_bytes, batch.size_in_bytes  # the gateway may recompress
    if came > rules.max_message_bytes or kept > rules.max_message_bytes:
        return _refused(produced, Error.MESSAGE_TOO_LARGE)
    records_error, producer_id = produced.records_error, batch.producer_id
    if records_error and records_error == Error.CORRUPT_MESSAGE:
        return _refused(produced, Error.CORRUPT_MESSAGE)
    is_valid = 0 < batch.record_count == batch.last_offset_delta + 1 and not (
        batch.is_control or batch.end_marker is not None or batch.written is not None
    )
    is_valid &= batch.packed is None or request.is_from_machine
    if not is_valid or (batch.base_sequence < 0 and producer_id != producers.NO_PRODUCER_ID):
        return _failed(produced, log, Error.INVALID_RECORD)  # `LogValidator.validateBatch`
    if records_error:
        return _failed(produced, log, Error(records_error))
    error = record_validation.check(batch, produced.records_seen, rules.records, broker.now)
    if error is not NONE:
        return _refused_records(broker, topic, log, produced, error, rules.records)
    if kept > rules.segment_bytes:
        return _refused(produced, Error.RECORD_LIST_TOO_LARGE)
    if producer_id != producers.NO_PRODUCER_ID:
        verification = None
        if batch.is_transactional:
            place = (log.topic_id, log.partition, producer_id)
            verification = verifications.find(broker, *place)
        producer = tail.producer(producer_id)
        check = producers.check(producer, batch, rules.producers, verification)
        if check.duplicate is not None:
            return _repeated(tail, produced, check.duplicate)
        if check is not producers.ACCEPTED:
            return _failed(produced, log, check.error)
        if verification is not None:
            verifications.forget(broker, *place)
    batch = copy(batch)  # a request must not change
    offset = batch.base_offset = log.log_end_offset
    batch.partition_leader_epoch = log.leader_epoch
    append_time, batch.has_append_time = -1, rules.records.takes_append_time or None
    if batch.has_append_time:
        append_time = batch.max_timestamp = broker.now
        batch.greatest_delta = None
    response = PartitionProduceResponse(
        index=produced.index,
        base_offset=offset,
        log_append_time_ms=append_time,
        log_start_offset=log.log_start_offset,
    )
    record = BatchAppended(log.topic_id, log.partition, batch)
    required = 0 if tail.is_only_replica else offset + batch.last_offset_delta + 1
    return AppendResult(response, record, required)


def _refused_records(
    broker: Broker,
    topic: Topic,
    log: Log,
    produced: PartitionProduceData,
    error: Error,
    rules: record_validation.RecordRules,
) -> AppendResult:
    text = TIMESTAMP_TEXT if error is Error.INVALID_TIMESTAMP else None
    outcome = _failed(produced, log, error, text)
    outcome.response.refused_records = RefusedRecords(
        topic=topic.name, now=broker.now, **msgspec.structs.asdict(rules)
    )
    return outcome


def _repeated(
    tail: LogTail, produced: PartitionProduceData, duplicate: producers.RememberedBatch
) -> AppendResult:
    """Repeat the response; the append time is the batch's timestamp."""
    return AppendResult(
        PartitionProduceResponse(
            index=produced.index,
            base_offset=duplicate.first_offset,
            log_append_time_ms=duplicate.timestamp,
            log_start_offset=tail.log.log_start_offset,
        ),
        required_offset=0 if tail.is_only_replica else duplicate.last_offset + 1,
    )


def _refused(produced: PartitionProduceData, error: Error, text: str | None = None) -> AppendResult:
    """Return an error without a log start offset: the log is not read."""
    response = PartitionProduceResponse(
        index=produced.index, error_code=int(error), error_message=text
    )
    return AppendResult(response)


def _failed(
    produced: PartitionProduceData, log: Log, error: Error, text: str | None = None
) -> AppendResult:
    outcome = _refused(produced, error, text)
    outcome.response.log_start_offset = log.log_start_offset
    return outcome


def _not_leader(topic: Topic, produced: PartitionProduceData) -> AppendResult:
    outcome = _refused(produced, Error.NOT_LEADER_OR_FOLLOWER)
    outcome.response.current_leader = leader_of(topic.partitions[produced.index])
    return outcome


API = Api(
    kafka_apis.PRODUCE,
    handle,
    ready=acks.ready,
    complete=complete,
    resume=resume,
    on_reply=share_partitions.on_letters_written,
)
