"""Reading partitions on the loop, whoever says which: a group's coordinator, or the caller.

Source: seed 001; `KafkaConsumer` in Kafka, its half that fetches. `consumer_client.py` adds a
group's membership. `ReaderClient` is what reads without one, as Kafka's restore consumer does:

    reader.read({TopicPartition("words-changelog", 0): 17})     from where; None: from the beginning
    reader.ask_ends([TopicPartition("words-changelog", 0)])
    reader.poll()                                               what has come
    reader.ends                                                 where the partitions end
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.client_loop import Answered, ClientLoop, UnderWay, Wanted
from brokertwin.clients.consumer_events import Truncated
from brokertwin.clients.consumer_metadata import ConsumerMetadata
from brokertwin.clients.fetcher import CLIENT, Fetch, Fetcher, FetchSettings, OffsetReset, Records
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Draw, NetworkSettings
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.position_validation import Question
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Body
from brokertwin.state.core.wire.generated.fetch import FetchResponse
from brokertwin.state.core.wire.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from brokertwin.state.core.wire.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
)

EPOCHS = "OFFSET_FOR_LEADER_EPOCH"
IN_FLIGHT_MAX = 100
CONSUMER_NETWORK = NetworkSettings(max_in_flight_requests_per_connection=IN_FLIGHT_MAX)


class _Lookup(NamedTuple):
    """A ListOffsets under way for where to begin."""

    request: ListOffsetsRequest


class _EndLookup(NamedTuple):
    """One for where a partition ends: which wish it belongs to."""

    partition: TopicPartition
    wish: int


class FetchingClient(ClientLoop):
    """What reads the partitions of its subscription from where their positions are.

    Attributes:
        subscription: what is assigned, and how far it is read.
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
        """The logs that were found to have been cut since the last call."""
        validator = self._fetcher.validator
        found, validator.truncations = validator.truncations, []
        return found

    def _read(self, now: int) -> None:
        self._validate(now)
        snapshot = self.metadata.snapshot
        for leader, request in self._fetcher.lookups(snapshot):
            node = snapshot.nodes[leader]
            self._want(Wanted(node, "LIST_OFFSETS", request, _Lookup(request)))
        for broker in self._fetcher.wanted(snapshot, now):
            node = snapshot.nodes[broker]
            version = self.version(broker, "FETCH")
            if not self.network.ready(node, now) or version is None:
                continue
            for fetch in self._fetcher.requests(snapshot, version, now, only=broker):
                self._want(Wanted(node, "FETCH", fetch.body, fetch))

    def _validate(self, now: int) -> None:
        """Leaders are asked, in version 3 or later, whether they have what was read (KIP-320)."""
        validator = self._fetcher.validator
        validator.look(self.metadata)
        for question in validator.questions():
            if not self.network.ready(question.node, now):
                continue
            if self.version(question.node.id, EPOCHS) is None:
                validator.skip(question)
            else:
                validator.asked(question)
                self._want(Wanted(question.node, EPOCHS, question.request, question))
        if validator.needs_metadata:
            validator.needs_metadata = False
            self._fetcher.needs_metadata = True

    def _answered(self, now: int, request: UnderWay, response: Body, event: Answered) -> None:
        match request.tag:
            case Question() as question:
                assert isinstance(response, OffsetForLeaderEpochResponse)
                self._fetcher.validator.answered(question, response)
            case _Lookup():
                assert isinstance(response, ListOffsetsResponse)
                self._fetcher.looked_up(response)
            case Fetch() as fetch:
                assert isinstance(response, FetchResponse)
                found = self._named(fetch, event)
                self._fetcher.answered(request.node, response, request.version, found, now)
                if moved := self._fetcher.take_moved():
                    self.metadata.update_partition_leadership(moved, _nodes(event))

    def _named(self, fetch: Fetch, event: Answered) -> dict[TopicPartition, Records]:
        names = {data.topic_id: at.topic for at, data in fetch.data.session_partitions.items()}
        return {
            TopicPartition(names.get(topic, topic), partition): records
            for (topic, partition), records in event.records.items()
        }

    def _failed(self, now: int, tag: Any) -> None:
        match tag:
            case _Lookup(request):
                self._fetcher.lookup_failed(request)
            case Fetch(node=node):
                self._fetcher.failed(node)
            case Question() as question:
                self._fetcher.validator.failed(question)


def _nodes(event: Answered) -> list[Node]:
    """Where the leaders are that an answer names (KIP-951)."""
    told = event.body.get("nodeEndpoints") or ()
    return [Node(each["nodeId"], each["host"], each["port"], each["rack"]) for each in told]


class ReaderClient(FetchingClient):
    """A reader of partitions that its caller names.

    Attributes:
        ends: the offset behind the last record of partitions that were asked for, open
            transactions and all, as far as leaders have said.
    """

    def __init__(
        self,
        fetches: FetchSettings,
        draw: Draw,
        *,
        network: NetworkSettings = CONSUMER_NETWORK,
        metadata: MetadataSettings | None = None,
    ) -> None:
        known = ConsumerMetadata(frozenset(), metadata, may_create=False)
        fetches = msgspec.structs.replace(fetches, auto_offset_reset=OffsetReset.EARLIEST)
        super().__init__(known, SubscriptionState(), fetches, draw, network)
        self.ends: dict[TopicPartition, int] = {}
        self._wishes: dict[TopicPartition, int] = {}
        self._asked_ends: dict[TopicPartition, int] = {}
        self._count = 0

    def read(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Reads exactly these, new ones from an offset; None: from the beginning."""
        had = self.subscription.positions.keys()
        new = {each: offset for each, offset in offsets.items() if each not in had}
        self.subscription.assign(offsets)
        for partition, offset in new.items():
            if offset is None:
                self.subscription.without_offset.add(partition)
            else:
                self.subscription.seek(partition, offset)
        self._wishes = {at: wish for at, wish in self._wishes.items() if at in offsets}
        self.ends = {at: end for at, end in self.ends.items() if at in offsets}

    def ask_ends(self, partitions: Iterable[TopicPartition]) -> None:
        """Asks the leaders where partitions end; what was known of these is forgotten."""
        for partition in partitions:
            self._count += 1
            self._wishes[partition] = self._count
            self.ends.pop(partition, None)

    def position(self, partition: TopicPartition) -> int | None:
        """The offset to be read next; None while it is not known."""
        return self.subscription.positions.get(partition)

    def poll(self) -> list[tuple[TopicPartition, int, Any]]:
        """What has come, as far as `max.poll.records` goes."""
        return self._fetcher.take()

    # The loop's

    def _work(self, now: int) -> None:
        wanted = frozenset(at.topic for at in self.subscription.positions)
        self.metadata.want(wanted)
        if not wanted:
            return
        self._ask_for_ends()
        self._read(now)
        if self._fetcher.needs_metadata:
            self._fetcher.needs_metadata = False
            self.metadata.request_update()

    def _ask_for_ends(self) -> None:
        snapshot = self.metadata.snapshot
        for partition, wish in sorted(self._wishes.items()):
            if self._asked_ends.get(partition) == wish:
                continue
            known = snapshot.partitions.get(partition)
            if known is None or known.leader_id not in snapshot.nodes:
                self._fetcher.needs_metadata = True
                continue
            self._asked_ends[partition] = wish
            asked = ListOffsetsPartition(
                partition_index=partition.partition, timestamp=OffsetReset.LATEST
            )
            topic = ListOffsetsTopic(name=partition.topic, partitions=[asked])
            request = ListOffsetsRequest(replica_id=CLIENT, topics=[topic])
            node = snapshot.nodes[known.leader_id]
            self._want(Wanted(node, "LIST_OFFSETS", request, _EndLookup(partition, wish)))

    def _deadlines(self, now: int) -> list[int]:
        return []

    def _answered(self, now: int, request: UnderWay, response: Body, event: Answered) -> None:
        if not isinstance(request.tag, _EndLookup):
            super()._answered(now, request, response, event)
            return
        assert isinstance(response, ListOffsetsResponse)
        lookup = request.tag
        answer = response.topics[0].partitions[0]
        if answer.error_code != Error.NONE:
            self._end_unknown(lookup)
        elif self._wishes.get(lookup.partition) == lookup.wish:
            del self._wishes[lookup.partition]
            self.ends[lookup.partition] = answer.offset

    def _failed(self, now: int, tag: Any) -> None:
        if isinstance(tag, _EndLookup):
            self._end_unknown(tag)
        else:
            super()._failed(now, tag)

    def _end_unknown(self, lookup: _EndLookup) -> None:
        """It is asked for again, unless that has happened since."""
        self._fetcher.needs_metadata = True
        if self._asked_ends.get(lookup.partition) == lookup.wish:
            del self._asked_ends[lookup.partition]

    def _lost(self, now: int, node: int) -> None:
        """Nothing but what `_failed` was told."""
