"""Clients that fetch partitions, with and without a group.

Source: seed 001; `KafkaConsumer` in Kafka, its fetching half. `consumer_client.py` adds group
membership. `ReaderClient` reads given partitions, as Kafka's restore consumer does:

    reader.read({TopicPartition("words-changelog", 0): 17})     from an offset; None: the beginning
    reader.request_ends([TopicPartition("words-changelog", 0)])
    reader.poll()                                               records
    reader.ends                                                 end offsets
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.client_loop import (
    ClientLoop,
    InFlightRequest,
    ResponseReceived,
    UnsentRequest,
)
from brokertwin.clients.consumer_events import Truncated
from brokertwin.clients.consumer_metadata import ConsumerMetadata
from brokertwin.clients.fetcher import (
    CLIENT,
    Fetcher,
    FetchSettings,
    OffsetReset,
    PendingFetch,
    Records,
)
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Draw, NetworkSettings
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.position_validation import ValidationRequest
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.fetch import FetchResponse
from brokertwin.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from brokertwin.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
)

EPOCHS = "OFFSET_FOR_LEADER_EPOCH"
IN_FLIGHT_MAX = 100
CONSUMER_NETWORK = NetworkSettings(max_in_flight_requests_per_connection=IN_FLIGHT_MAX)


class _Lookup(NamedTuple):
    """A ListOffsets request for start offsets."""

    request: ListOffsetsRequest


class _EndLookup(NamedTuple):
    """A ListOffsets request for an end offset; `number` identifies the call."""

    partition: TopicPartition
    number: int


class FetchingClient(ClientLoop):
    """Reads the assigned partitions of a subscription.

    Attributes:
        subscription: assigned partitions and positions.
    """

    metadata: ConsumerMetadata

    def __init__(
        self,
        metadata: ConsumerMetadata,
        subscription: SubscriptionState,
        fetches: FetchSettings,
        draw: Draw,
        network: NetworkSettings,
    ) -> None:
        super().__init__(metadata, draw, network)
        self.subscription = subscription
        self._fetcher = Fetcher(fetches, subscription)

    def truncations(self) -> list[Truncated]:
        """Return the log truncations found since the last call."""
        validator = self._fetcher.validator
        truncations, validator.truncations = validator.truncations, []
        return truncations

    def _read(self, now: int) -> None:
        self._validate(now)
        snapshot = self.metadata.snapshot
        for leader, request in self._fetcher.lookups(snapshot):
            node = snapshot.nodes[leader]
            self._want(UnsentRequest(node, "LIST_OFFSETS", request, _Lookup(request)))
        for broker, data in self._fetcher.wanted(snapshot, now).items():
            node = snapshot.nodes[broker]
            version = self.version(broker, "FETCH")
            if self.network.ready(node, now) and version is not None:
                fetch = self._fetcher.fetch(broker, data, version)
                self._want(UnsentRequest(node, "FETCH", fetch.body, fetch))

    def _close_sessions(self) -> None:
        """Close the fetch sessions at brokers with a connection, so that their slots are free."""
        nodes = self.metadata.snapshot.nodes
        versions = {node: self.version(node, "FETCH") for node in nodes}
        known = {node: version for node, version in versions.items() if version is not None}
        for fetch in self._fetcher.closing(known):
            self._want(UnsentRequest(nodes[fetch.node], "FETCH", fetch.body, fetch))

    def _validate(self, now: int) -> None:
        """Validate positions with their leaders, from version 3 on (KIP-320)."""
        validator = self._fetcher.validator
        validator.look(self.metadata)
        for request in validator.requests():
            if not self.network.ready(request.node, now):
                continue
            if self.version(request.node.id, EPOCHS) is None:
                validator.skip(request)
            else:
                validator.on_sent(request)
                self._want(UnsentRequest(request.node, EPOCHS, request.request, request))
        if validator.needs_metadata:
            validator.needs_metadata = False
            self._fetcher.needs_metadata = True

    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        match request.tag:
            case ValidationRequest() as validation:
                assert isinstance(response, OffsetForLeaderEpochResponse)
                self._fetcher.validator.on_response(validation, response)
            case _Lookup():
                assert isinstance(response, ListOffsetsResponse)
                self._fetcher.looked_up(response)
            case PendingFetch(is_last=True):
                """The session is closed."""
            case PendingFetch() as fetch:
                assert isinstance(response, FetchResponse)
                found = self._named(fetch, event)
                self._fetcher.on_response(request.node, response, request.version, found, now)
                if moved := self._fetcher.take_moved():
                    self.metadata.update_partition_leadership(moved, _nodes(event))

    def _named(self, fetch: PendingFetch, event: ResponseReceived) -> dict[TopicPartition, Records]:
        names = {data.topic_id: at.topic for at, data in fetch.data.session_partitions.items()}
        return {
            TopicPartition(names.get(topic, topic), partition): records
            for (topic, partition), records in event.records.items()
        }

    def _may_be_dropped(self, request: InFlightRequest) -> bool:
        tag = request.tag
        return isinstance(tag, PendingFetch) and not tag.is_last

    def _failed(self, now: int, tag: Any) -> None:
        match tag:
            case _Lookup(request):
                self._fetcher.lookup_failed(request)
            case PendingFetch(node=node, is_last=False):
                self._fetcher.failed(node)
            case ValidationRequest() as validation:
                self._fetcher.validator.failed(validation)


def _nodes(event: ResponseReceived) -> list[Node]:
    """The endpoints of the leaders in a response (KIP-951)."""
    endpoints = event.body.get("nodeEndpoints") or ()
    return [Node(each["nodeId"], each["host"], each["port"], each["rack"]) for each in endpoints]


class ReaderClient(FetchingClient):
    """Reads partitions named by the caller.

    Attributes:
        ends: requested end offsets so far, open transactions included.
    """

    def __init__(
        self,
        fetches: FetchSettings,
        draw: Draw,
        *,
        network: NetworkSettings = CONSUMER_NETWORK,
        metadata: MetadataSettings | None = None,
    ) -> None:
        consumer_metadata = ConsumerMetadata(frozenset(), metadata, may_create=False)
        fetches = msgspec.structs.replace(fetches, auto_offset_reset=OffsetReset.EARLIEST)
        super().__init__(consumer_metadata, SubscriptionState(), fetches, draw, network)
        self.ends: dict[TopicPartition, int] = {}
        self._end_requests: dict[TopicPartition, int] = {}
        self._requested_ends: dict[TopicPartition, int] = {}
        self._count = 0

    def read(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Read exactly these partitions; new ones from an offset. None reads from the beginning."""
        had = self.subscription.positions.keys()
        new = {each: offset for each, offset in offsets.items() if each not in had}
        self.subscription.assign(offsets)
        for partition, offset in new.items():
            if offset is None:
                self.subscription.without_offset.add(partition)
            else:
                self.subscription.seek(partition, offset)
        self._end_requests = {
            at: number for at, number in self._end_requests.items() if at in offsets
        }
        self.ends = {at: end for at, end in self.ends.items() if at in offsets}

    def request_ends(self, partitions: Iterable[TopicPartition]) -> None:
        """Request the end offsets; earlier results are dropped."""
        for partition in partitions:
            self._count += 1
            self._end_requests[partition] = self._count
            self.ends.pop(partition, None)

    def position(self, partition: TopicPartition) -> int | None:
        """The next offset to read; None while unknown."""
        return self.subscription.positions.get(partition)

    def poll(self) -> list[tuple[TopicPartition, int, Any]]:
        """Return fetched records, at most `max.poll.records`."""
        return self._fetcher.take()

    # Event loop

    def _work(self, now: int) -> None:
        topics = frozenset(at.topic for at in self.subscription.positions)
        self.metadata.want(topics)
        if not topics:
            return
        self._fetch_ends()
        self._read(now)
        if self._fetcher.needs_metadata:
            self._fetcher.needs_metadata = False
            self.metadata.request_update()

    def _fetch_ends(self) -> None:
        snapshot = self.metadata.snapshot
        for partition, number in sorted(self._end_requests.items()):
            if self._requested_ends.get(partition) == number:
                continue
            info = snapshot.partitions.get(partition)
            if info is None or info.leader_id not in snapshot.nodes:
                self._fetcher.needs_metadata = True
                continue
            self._requested_ends[partition] = number
            requested = ListOffsetsPartition(
                partition_index=partition.partition, timestamp=OffsetReset.LATEST
            )
            topic = ListOffsetsTopic(name=partition.topic, partitions=[requested])
            request = ListOffsetsRequest(replica_id=CLIENT, topics=[topic])
            node = snapshot.nodes[info.leader_id]
            self._want(UnsentRequest(node, "LIST_OFFSETS", request, _EndLookup(partition, number)))

    def _deadlines(self, now: int) -> list[int]:
        return []

    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        if not isinstance(request.tag, _EndLookup):
            super()._on_response(now, request, response, event)
            return
        assert isinstance(response, ListOffsetsResponse)
        lookup = request.tag
        result = response.topics[0].partitions[0]
        if result.error_code != Error.NONE:
            self._end_unknown(lookup)
        elif self._end_requests.get(lookup.partition) == lookup.number:
            del self._end_requests[lookup.partition]
            self.ends[lookup.partition] = result.offset

    def _failed(self, now: int, tag: Any) -> None:
        if isinstance(tag, _EndLookup):
            self._end_unknown(tag)
        else:
            super()._failed(now, tag)

    def _end_unknown(self, lookup: _EndLookup) -> None:
        """Request the end offset again unless that has happened."""
        self._fetcher.needs_metadata = True
        if self._requested_ends.get(lookup.partition) == lookup.number:
            del self._requested_ends[lookup.partition]

    def _lost(self, now: int, node: int) -> None:
        """Do nothing: `_failed` received each request."""
