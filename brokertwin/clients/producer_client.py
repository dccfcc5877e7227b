"""A producer: sender and metadata on one event loop.

Source: seeds 001 and 002; `KafkaProducer`, `Sender` in Kafka. It does no I/O (see
`clients/client_loop.py`):

    record_id = client.offer(now, "orders", b"a key", size_in_bytes=120)     # None: not yet
    turn, take               batches are sent, responses arrive
    client.events()          RecordAcked, RecordFailed

The loop's connections decide which nodes accept requests (`_Nodes`).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from brokertwin.clients.client_loop import (
    ClientLoop,
    Close,
    InFlightRequest,
    ResponseReceived,
    UnsentRequest,
)
from brokertwin.clients.metadata import MetadataSettings, ProducerMetadata
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.network import Draw, NetworkSettings
from brokertwin.clients.partitioner import Partitioner
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer import ProducerMachine
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import (
    ConnectionStalled,
    MetadataWanted,
    RecordAcked,
    RecordFailed,
)
from brokertwin.clients.sender import SenderRequest
from brokertwin.clients.transaction_rules import Versions, rules_of
from brokertwin.clients.transactions import ProducerTransactions, TransactionRequest
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.init_producer_id import InitProducerIdResponse
from brokertwin.protocol.generated.produce import ProduceRequest, ProduceResponse


class _Nodes:
    """Adapts the loop's connections to the sender."""

    def __init__(self, client: "ProducerClient") -> None:
        self._client = client
        self._refused: set[int] = set()
        self._sent: set[int] = set()

    def next_id(self) -> int:
        return self._client.next_id()

    def may_send(self, node: int, now: int) -> bool:
        known = self._client.metadata.snapshot.nodes.get(node)
        may = known is not None and self._client.network.ready(known, now)
        (self._refused.discard if may or known is None else self._refused.add)(node)
        return may

    def least_loaded(self, now: int) -> int | None:
        node = self._client.network.least_loaded_node(now)
        return node.id if node is not None and self.may_send(node.id, now) else None

    def sent(self, node: int, request_id: int, now: int) -> None:
        self._sent.add(request_id)
        self._client.network.sent(node, request_id, now)

    def on_response(self, node: int, request_id: int) -> None:
        """Untrack a request; the loop updates the connection."""
        self._sent.discard(request_id)

    def disconnected(self, node: int, now: int) -> list[int]:
        """Return the sender's requests that get no response."""
        lost = [each for each in self._client.network.disconnected(node, now) if each in self._sent]
        self._sent.difference_update(lost)
        return lost

    def deadlines(self, now: int) -> list[int]:
        return [now + self._client.network.poll_delay_ms(node, now) for node in self._refused]


class ProducerClient(ClientLoop):
    """One producer; `producer` has its records."""

    metadata: ProducerMetadata

    def __init__(
        self,
        config: ProducerConfig,
        draw: Draw,
        *,
        network: NetworkSettings | None = None,
        metadata: MetadataSettings | None = None,
        may_create_topics: bool = True,
    ) -> None:
        """Raises ProducerConfigError."""
        settings = msgspec.structs.replace(
            network or NetworkSettings(),
            request_timeout_ms=config.request_timeout_ms,
            max_in_flight_requests_per_connection=config.max_in_flight_requests_per_connection,
        )
        producer_metadata = ProducerMetadata(metadata, may_create=may_create_topics)
        super().__init__(producer_metadata, draw, settings)
        self.producer = ProducerMachine(config, draw, _Nodes(self))
        self.partitioner = Partitioner(
            self.producer.config,
            draw,
            lambda partition: len(self.producer.accumulator.queued(partition)),
            self.metadata.settings.era,
            self.producer.latencies.is_slow,
        )
        self._results: list[RecordAcked | RecordFailed] = []
        self._has_sent = False
        self._known: MetadataSnapshot | None = None

    # API

    def start(self, addresses: Iterable[tuple[str, int]], now: int) -> None:
        self.metadata.bootstrap(addresses, now)

    @property
    def transactions(self) -> ProducerTransactions | None:
        """The transactions; None without a transactional id."""
        return self.producer.transactions

    def offer(
        self,
        now: int,
        topic: str,
        key: bytes | None,
        size_in_bytes: int,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> int | None:
        """Add a record and return its id; None if it has to wait.

        It waits for the topic's metadata or for room in `buffer.memory`. Kafka's client blocks the
        caller for at most `max.block.ms`. Without `partition`, the partitioner chooses one.
        """
        self.metadata.add(topic, now)
        snapshot = self.metadata.snapshot
        count = snapshot.partition_count(topic)
        if not count or (partition is not None and partition >= count):
            if topic not in self.metadata.new_topics:
                self.metadata.request_update()
            return None
        chosen = partition
        if chosen is None:
            chosen = self.partitioner.partition(topic, key, snapshot)
        assert chosen is not None, "the topic has partitions"
        to = TopicPartition(topic, chosen)
        if not self.producer.has_room(to, size_in_bytes):
            return None
        record_id = self.producer.send(now, to, size_in_bytes, timestamp)
        if partition is None and (key is None or self.producer.config.partitioner_ignore_keys):
            is_full = not self.producer.accumulator.has_open(to, size_in_bytes)
            self.partitioner.appended(to, size_in_bytes, is_full=is_full, snapshot=snapshot)
        return record_id

    def send(
        self, now: int, partition: TopicPartition, size_in_bytes: int, timestamp: int | None = None
    ) -> int:
        """Add a record; returns the id that events refer to."""
        self.metadata.add(partition.topic, now)
        return self.producer.send(now, partition, size_in_bytes, timestamp)

    def events(self) -> list[RecordAcked | RecordFailed]:
        """Return the results of records since the last call, in order."""
        results, self._results = self._results, []
        return results

    # Event loop

    def _work(self, now: int) -> None:
        if self.metadata.snapshot is not self._known:
            self._known = self.metadata.snapshot
            self.producer.update_metadata(self._known)
        if self.transactions is not None:
            self.transactions.offer(rules_of(self.features))
        sent = self.producer.poll(now)
        self._has_sent = bool(sent)
        for outgoing in sent:
            api = "PRODUCE" if isinstance(outgoing.body, ProduceRequest) else "INIT_PRODUCER_ID"
            is_supported = self._put(
                now,
                outgoing.node,
                outgoing.request_id,
                api,
                outgoing.body,
                tag=outgoing,
                batches=outgoing.batches,
                expects_response=outgoing.expects_response,
                versions=self._versions_of(api),
            )
            if not is_supported and outgoing.expects_response:
                self.network.on_response(outgoing.node, outgoing.request_id)
        if self.transactions is not None:
            self._send_to_coordinator(now, self.transactions)
        self._drain_events(now)

    def _versions_of(self, api: str) -> Versions | None:
        """The versions that the transaction protocol allows; None allows all."""
        transactions = self.transactions
        return transactions.rules.versions.get(api) if transactions is not None else None

    def _send_to_coordinator(self, now: int, transactions: ProducerTransactions) -> None:
        request = transactions.next_request(now, is_flushed=self.producer.is_idle)
        if request is not None:
            versions = self._versions_of(request.api)
            self._want(
                UnsentRequest(request.to, request.api, request.body, request, versions=versions)
            )

    def _drain_events(self, now: int) -> None:
        for event in self.producer.events():
            self._on_event(now, event)

    def _on_event(self, now: int, event: Any) -> None:
        match event:
            case RecordAcked() | RecordFailed():
                self._results.append(event)
            case ConnectionStalled(node):
                self._actions.append(Close(node))
                self._forget(now, node)
            case MetadataWanted(topics):
                for topic in topics:
                    self.metadata.add(topic, now)
                self.metadata.request_update()

    def _deadlines(self, now: int) -> list[int]:
        if self.metadata.settings.era is not None:
            return [now] if self._has_sent else self.producer.next_passes(now)
        deadline = self.producer.next_deadline(now)
        return [] if deadline is None else [deadline]

    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        if isinstance(request.tag, TransactionRequest):
            assert self.transactions is not None, "it has sent a request"
            self.transactions.on_response(now, response)
            return
        assert isinstance(response, ProduceResponse | InitProducerIdResponse)
        self.producer.on_response(now, request.tag.request_id, response)
        self._drain_events(now)

    def _failed(self, now: int, tag: SenderRequest | TransactionRequest) -> None:
        """Fail a request of an unsupported API; a closed connection is handled before."""
        if isinstance(tag, TransactionRequest):
            assert self.transactions is not None, "it has sent a request"
            self.transactions.failed(now, is_unsupported=self.unsupported == tag.api)
        elif self.unsupported is not None:
            self.producer.on_response(now, tag.request_id, Error.UNSUPPORTED_VERSION)

    def _drop(self, now: int, node: int) -> None:
        self.producer.disconnected(now, node)

    def _lost(self, now: int, node: int) -> None:
        """Do nothing: the sender was notified in `_drop`."""
