"""Clients that write the log lines of the seeds about their work.

Source: seeds 000 and 001; `KafkaProducer`, `Sender`, `NetworkClient`, `Metadata` in Kafka 0.10,
`FetchSessionHandler` in Kafka 1.1. A line has its level first and no time:

    TRACE Requesting metadata update for topic test.
    INFO [NetworkClient] select timeout:30000

The state machines are those of other clients; a pass of the sender is a turn of the loop. Lines
about `needUpdate` appear once a turn, as in the seed.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from brokertwin.clients.client_loop import InFlightRequest, LoopTurn, ResponseReceived
from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.era import Era
from brokertwin.clients.eras import metadata_settings
from brokertwin.clients.fetch_session import FetchMetadata, FetchSessionHandler, ResponseCheck
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.metadata import Metadata, RequestAndVersion
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.network import Draw, NetworkClient, NetworkSettings, Poll
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.producer_batch import ProducerBatch
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.sender import SenderRequest
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error, error_name
from brokertwin.protocol.generated.fetch import FetchResponse
from brokertwin.protocol.generated.metadata import MetadataResponse
from brokertwin.protocol.generated.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from brokertwin.state.core.java_hashes import hash_map_order, partition_hash
from brokertwin.state.fetch.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID

Write = Callable[[str], None]

MESSAGE_OVERHEAD = 34
"""Bytes of a message of format 1 without key and value (Kafka 0.10)."""


class TracedNetwork(NetworkClient):
    """A network loop that writes lines about time-outs, connections and metadata."""

    def __init__(
        self, metadata: Metadata, draw: Draw, settings: NetworkSettings, write: Write
    ) -> None:
        super().__init__(metadata, draw, settings)
        self._write = write
        self._is_need_shown = False

    def begin_turn(self) -> None:
        self._is_need_shown = False

    def poll(self, timeout_ms: int, now: int) -> Poll:
        """Poll, and write the time-outs."""
        if timeout_ms == 0:
            self._write("INFO [NetworkClient] poll timeout:0")
        polled = super().poll(timeout_ms, now)
        self._write(f"INFO [NetworkClient] metadataTimeout:{polled.metadata_timeout_ms}")
        self._write(f"INFO [NetworkClient] select timeout:{polled.select_timeout_ms}")
        return polled

    def ready(self, node: Node, now: int) -> bool:
        """Whether the node can receive a request, as `NetworkClient.ready`."""
        self._show_need()
        return super().ready(node, now)

    def connected(self, node: int) -> None:
        super().connected(node)
        self._write(f"DEBUG Completed connection to node {node}")

    def on_metadata_response(
        self, node: int, response: MetadataResponse, version: int, now: int
    ) -> None:
        super().on_metadata_response(node, response, version, now)
        self._write(updated(self._metadata))

    def _maybe_update(self, now: int) -> int:
        self._show_need()
        return super()._maybe_update(now)

    def _request_metadata(self, node: Node, now: int) -> int:
        self._write("INFO [MetadataUpdater] metadataTimeout: 0")
        is_ready = self.can_send(node.id, now)
        is_connecting = self.connections.is_any_connecting()
        if not is_ready and not is_connecting and self.connections.can_connect(node.id, now):
            self._write(f"DEBUG Initialize connection to node {node.id} for send metadata request")
        result = super()._request_metadata(node, now)
        if is_ready and self._in_progress is not None:
            text = _requested(self._in_progress)
            self._write(f"DEBUG Sending metadata request {text} to node {node.id}")
        return result

    def _connect(self, node: Node, now: int) -> None:
        super()._connect(node, now)
        self._write(f"DEBUG Initiating connection to node {node.id} at {node.host}:{node.port}.")

    def _show_need(self) -> None:
        if not self._is_need_shown:
            self._is_need_shown = True
            needs_update = str(self._metadata.is_update_requested).lower()
            self._write(f"INFO [Metadata] needUpdate: {needs_update}")


def _requested(sent: RequestAndVersion) -> str:
    topics = sent.request.topics
    names = "all" if topics is None else ",".join(topic.name or "" for topic in topics)
    return f"{{topics=[{names}]}}"


def updated(metadata: Metadata) -> str:
    text = cluster_text(metadata.snapshot)
    return f"DEBUG Updated cluster metadata version {metadata.update_version} to {text}"


def cluster_text(snapshot: MetadataSnapshot) -> str:
    """`Cluster.toString`, with its partitions in the order of Java's `HashMap`."""
    nodes = ", ".join(
        f"{node.host}:{node.port} (id: {node.id} rack: {node.rack or 'null'})"
        for node in snapshot.nodes.values()
    )
    infos = snapshot.partitions
    order = hash_map_order(infos, lambda at: partition_hash(*at), len(infos))
    partitions = ", ".join(
        f"Partition(topic={at.topic},partition={at.partition},leader={_text(infos[at].leader_id)},"
        f"replicas={_ids(infos[at].replica_ids)},isr={_ids(infos[at].isr_ids)}"
        for at in order
    )
    return f"Cluster(nodes = [{nodes}], partitions = [{partitions}])"


def _text(leader: int | None) -> str:
    return "none" if leader is None else str(leader)


def _ids(nodes: Iterable[int]) -> str:
    return f"[{''.join(f'{node},' for node in nodes)}]"


class TracedProducerClient(ProducerClient):
    """A producer that writes the lines of seed 001.

    The caller sets `record` before each `offer`.
    """

    network: TracedNetwork

    def __init__(self, config: Any, draw: Draw, *, write: Write, **settings: Any) -> None:
        """Raises ProducerConfigError."""
        write("TRACE Starting the Kafka producer")
        super().__init__(config, draw, **settings)
        self.network = TracedNetwork(self.metadata, draw, self.network.settings, write)
        self.record = ProducerRecord(None, None)
        self._write = write
        self._drained: list[SenderRequest] = []
        self._sizes: dict[int, int] = {}
        self._shown: dict[TopicPartition, str] = {}
        self._has_message_sets = self.metadata.settings.era is Era.KAFKA_0_10

    def start(self, addresses: Iterable[tuple[str, int]], now: int) -> None:
        super().start(addresses, now)
        self._write(updated(self.metadata))
        self._write("DEBUG Starting Kafka producer I/O thread.")

    # Records

    def offer(
        self, now: int, topic: str, key: bytes | None, size_in_bytes: int, **given: Any
    ) -> int | None:
        """Add a record, as `ProducerClient.offer`, and write its way to a batch."""
        record_id = super().offer(now, topic, key, size_in_bytes, **given)
        if record_id is not None:
            if self._has_message_sets:
                key, value = self.record.key or b"", self.record.value or b""
                self._sizes[record_id] = MESSAGE_OVERHEAD + len(key) + len(value)
            self._show_record(topic, record_id, given.get("partition"))
        return record_id

    def _show_record(self, topic: str, record_id: int, partition: int | None) -> None:
        batch = self._batch_of(topic, record_id)
        if batch is None:  # too large, or after a fatal error
            return
        name = f"{topic}_{batch.topic_partition.partition}"
        record = (
            f"ProducerRecord(topic={topic}, partition={_null(partition)},"
            f" key={_null(self.record.key)}, value={_null(self.record.value)},"
            f" timestamp={_null(self.record.timestamp if self.record.timestamp >= 0 else None)})"
        )
        self._write(f"TRACE Sending record {record} with callback null to topic {name}")
        size = max(self.producer.config.batch_size, batch.size_in_bytes)
        is_new = len(batch.records) == 1
        if is_new:
            self._write(f"TRACE Allocating a new {size} byte message buffer for {name}")
        if is_new or not self.producer.accumulator.has_open(batch.topic_partition, 0):
            self._write(f"TRACE Waking up the sender, {name} is full or a new batch")

    def _batch_of(self, topic: str, record_id: int) -> ProducerBatch | None:
        for info in self.metadata.snapshot.by_topic.get(topic, ()):
            for batch in self.producer.accumulator.queued(info.partition)[-1:]:
                if batch.records[-1].id == record_id:
                    return batch
        return None

    # Event loop

    def turn(self, now: int) -> LoopTurn:
        self.network.begin_turn()
        return super().turn(now)

    def _work(self, now: int) -> None:
        for batch in list(self.producer.accumulator.heads()):
            waited_ms = now - batch.created
            is_expired = str(waited_ms >= self.producer.config.linger_ms).lower()
            self._write(f"INFO [accumulator] batch: {_name(batch)}")
            self._write(f"INFO [accumulator] ready expired: {is_expired}")
        super()._work(now)
        sent, self._drained = self._drained, []
        for outgoing in sent:
            for batch in outgoing.batches:
                self._write(f"INFO [accumulator] drained batch: {_name(batch)}")
                if batch.has_sequence:
                    self._show_sequence(batch)
        nodes = list({outgoing.node: None for outgoing in sent})
        if sent:
            known = self.metadata.snapshot.nodes
            addresses = ", ".join(f"{known[node].host}:{known[node].port}" for node in nodes)
            self._write(f"TRACE Nodes with data ready to send: [{addresses}]")
            requests = ", ".join(self._request_text(outgoing, now) for outgoing in sent)
            self._write(f"TRACE Created {len(sent)} produce requests: [{requests}]")
        self._write(f"INFO [Sender] readyNodes:{len(nodes)}")

    def _show_sequence(self, batch: ProducerBatch) -> None:
        """Write the id and sequence of a batch (seed 002)."""
        id_and_epoch = batch.id_and_epoch
        self._write(
            f"DEBUG Assigned producerId {id_and_epoch.producer_id} and producerEpoch"
            f" {id_and_epoch.epoch} to batch with base sequence {batch.base_sequence} being sent to"
            f" partition {_name(batch)}"
        )
        self._show_in_flight(batch.topic_partition)

    def _show_in_flight(self, partition: TopicPartition) -> None:
        """Write the base sequences of unacknowledged batches; `*` waits to be sent again."""
        manager = self.producer.manager
        if manager is None:
            return
        batches = manager.sequences(partition).in_flight
        shown = " ".join(
            f"{each.base_sequence}{'' if each.is_on_wire else '*'}" for each in batches
        )
        if self._shown.get(partition) != shown:
            self._shown[partition] = shown
            at = f"{partition.topic}-{partition.partition}"
            self._write(f"DEBUG [TransactionManager] in flight {at}: {shown or 'none'}")

    def _put(self, now: int, *args: Any, **given: Any) -> bool:
        tag = given.get("tag")
        if isinstance(tag, SenderRequest) and isinstance(tag.body, ProduceRequest):
            self._drained.append(tag)
        return super()._put(now, *args, **given)

    def _request_text(self, outgoing: SenderRequest, now: int) -> str:
        """`ClientRequest.toString`, with the sizes of the batches in place of their bytes."""
        body = outgoing.body
        assert isinstance(body, ProduceRequest)
        topics: dict[str, list[str]] = {}
        for batch in outgoing.batches:
            sizes = [self._sizes.pop(record.id, 0) for record in batch.records]
            size = sum(sizes) if self._has_message_sets else batch.size_in_bytes
            cap = max(self.producer.config.batch_size, size)
            topics.setdefault(batch.topic_partition.topic, []).append(
                f"{{partition={batch.topic_partition.partition},"
                f"record_set=HeapByteBuffer[pos=0 lim={size} cap={cap}]}}"
            )
        data = ",".join(
            f"{{topic={topic},data=[{','.join(partitions)}]}}"
            for topic, partitions in topics.items()
        )
        expects = str(outgoing.expects_response).lower()
        return (
            f"ClientRequest(expectResponse={expects},callback=o.a.k.c.p.internals.Sender$1,"
            f"request=RequestSend(header={{.}}, body={{acks={body.acks},"
            f"timeout={body.timeout_ms},topic_data=[{data}]}}), createdTimeMs={now},"
            " sendTimeMs=0)"
        )

    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        if not isinstance(response, ProduceResponse):
            super()._on_response(now, request, response, event)
            return
        self._write(f"TRACE Received produce response from node {request.node}")
        for batch, result in _results(request.tag.batches, response):
            name = _name(batch)
            if result.error_code == Error.NONE:
                offset = result.base_offset
                self._write(f"TRACE Produced messages to {name} with base offset offset {offset}.")
            else:
                error = error_name(result.error_code)
                self._write(f"WARN Got error produce response on topic-partition {name}: {error}")
        super()._on_response(now, request, response, event)
        for batch in request.tag.batches:
            self._show_in_flight(batch.topic_partition)


def _null(value: bytes | int | None) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "null" if value is None else str(value)


def _name(batch: ProducerBatch) -> str:
    return f"{batch.topic_partition.topic}-{batch.topic_partition.partition}"


def _results(
    batches: Iterable[ProducerBatch], response: ProduceResponse
) -> Iterable[tuple[ProducerBatch, PartitionProduceResponse]]:
    """The batches of a request with their results, which have the request's order."""
    results = (each for topic in response.responses for each in topic.partition_responses)
    return zip(batches, results, strict=False)


class TracedConsumerClient(ConsumerClient):
    """A consumer that writes lines about its network and its fetch sessions (seed 000)."""

    network: TracedNetwork

    def __init__(self, *given: Any, write: Write, **settings: Any) -> None:
        super().__init__(*given, **settings)
        draw = given[3]
        self.network = TracedNetwork(self.metadata, draw, self.network.settings, write)
        uses_sessions = self._fetcher.settings.uses_sessions
        self._fetcher.new_session = lambda node: TracedSession(
            node, write, uses_sessions=uses_sessions
        )

    def turn(self, now: int) -> LoopTurn:
        self.network.begin_turn()
        return super().turn(now)


def consumer_maker(era: Era | None, write: Write | None) -> Callable[..., ConsumerClient]:
    """Return the class of a consumer with the rules of an era and lines, if wanted."""
    metadata = metadata_settings(era)
    if write is None:
        return partial(ConsumerClient, metadata=metadata)
    return partial(TracedConsumerClient, metadata=metadata, write=write)


class TracedSession(FetchSessionHandler):
    """A fetch session that writes a line for each response."""

    def __init__(self, node: int, write: Write, *, uses_sessions: bool = True) -> None:
        super().__init__(uses_sessions=uses_sessions)
        self._node = node
        self._write = write

    def handle_response(self, response: FetchResponse, version: int) -> ResponseCheck:
        sent = self.next_metadata
        named = list(self._named_partitions(response.responses, version))
        check = super().handle_response(response, version)
        kind = "a full" if sent.is_full else "an incremental"
        shown = self._partitions_text(named)
        sent_one = f"DEBUG Node {self._node} sent {kind} fetch response"
        if response.error_code != Error.NONE:
            self._write(
                f"INFO Node {self._node} was unable to process the fetch request with"
                f" {metadata_text(sent)}: {check.problem}."
            )
        elif not check.is_accepted:
            invalid = kind.replace("a full", "an invalid full").replace("an inc", "an invalid inc")
            self._write(
                f"INFO Node {self._node} sent {invalid} fetch response with {check.problem}"
            )
        elif sent.is_full and response.session_id == INVALID_SESSION_ID:
            self._write(f"{sent_one}{shown}")
        elif sent.is_full:
            made = response.session_id
            self._write(f"{sent_one} that created a new incremental fetch session {made}{shown}")
        elif response.session_id == INVALID_SESSION_ID:
            self._write(f"{sent_one} closing session {sent.session_id}{shown}")
        else:
            self._write(f"{sent_one} for session {response.session_id}{shown}")
        return check

    def _partitions_text(self, named: list[TopicPartition]) -> str:
        """`responseDataToLogString`: partitions of the response, and of the rest of the session."""
        implied = [at for at in self.session_partitions if at not in named]
        rest = f", implied=({_joined(implied)})" if implied else ""
        return f" with response=({_joined(named)}){rest}"


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{at.topic}-{at.partition}" for at in partitions)


def metadata_text(metadata: FetchMetadata) -> str:
    """`FetchMetadata.toString`."""
    names = {INITIAL_EPOCH: "INITIAL", FINAL_EPOCH: "FINAL"}
    session = "INVALID" if metadata.session_id == INVALID_SESSION_ID else metadata.session_id
    return f"(sessionId={session}, epoch={names.get(metadata.epoch, metadata.epoch)})"
