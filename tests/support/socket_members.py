"""A member of a classic group over sockets: our coordinator's client beside other clients."""

import random
import time

import msgspec

from brokerstream.clients.assignors.assign import AssignorName
from brokerstream.clients.consumer_config import ConsumerConfig
from brokerstream.clients.consumer_coordinator import ConsumerCoordinator, Outgoing
from brokerstream.clients.consumer_requests import RESPONSES
from brokerstream.clients.fetcher import Fetch, Fetcher, FetchSettings, OffsetReset, Records
from brokerstream.clients.metadata import Metadata
from brokerstream.clients.metadata_snapshot import MetadataSnapshot
from brokerstream.clients.partitions import TopicPartition
from brokerstream.clients.subscription_state import SubscriptionState
from brokerstream.gateway.answers import Address
from brokerstream.gateway.protocol.frames import decode_response
from brokerstream.gateway.records import batch_headers
from brokerstream.state.apis.list_offsets import ListOffsetsResponse
from brokerstream.state.apis.metadata import MetadataResponse
from brokerstream.state.core.kafka_apis import KAFKA_APIS
from brokerstream.state.core.schema import render
from brokerstream.state.fetch.fetch_bodies import FetchResponse
from tests.support.gateways import Client
from tests.support.group_network import VERSIONS

PAUSE_S = 0.02
METADATA_VERSION, FETCH_VERSION, LIST_VERSION = 12, 16, 8
_KEYS = {api.name: key for key, api in KAFKA_APIS.items()}


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class SocketMember:
    """One member, with one connection for the lookup and one to its coordinator.

    It reads no records: where nothing is committed it stands at 0 until it is told to `seek`.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *assignors: AssignorName
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.events: list[str] = []
        self.subscription = SubscriptionState([topic])
        config = ConsumerConfig(
            group_id=topic,
            assignors=assignors,
            heartbeat_interval_ms=random.randint(80, 120),
            auto_commit_interval_ms=100,
        )
        self.coordinator = ConsumerCoordinator(config, self.subscription)
        self._counts = {topic: partitions}
        self._clients = {False: Client(Address(host, int(port)))}
        self._sent: dict[bool, dict[int, Outgoing]] = {False: {}, True: {}}

    def poll(self) -> list[bytes]:
        """A turn: what is due is sent, what has come is taken."""
        self.coordinator.poll(monotonic_ms(), self._counts)
        self._send()
        time.sleep(PAUSE_S)
        self._receive()
        self._take_events()
        self.seek_unread()
        return []

    def seek_unread(self) -> None:
        """Partitions of which nothing is committed begin at 0."""
        for partition in list(self.subscription.without_offset):
            self.subscription.seek(partition, 0)

    def assigned(self) -> set[int]:
        return {partition.partition for partition in self.subscription.assigned}

    def seek(self, offset: int) -> None:
        """Has read every partition up to an offset."""
        for partition in self.subscription.assigned:
            self.subscription.seek(partition, offset)

    def positions(self) -> dict[TopicPartition, int | None]:
        return dict(self.subscription.positions)

    def close(self) -> None:
        self.coordinator.close(monotonic_ms())
        self._send()
        while self._sent[True]:
            self._receive()
        self._take_events()
        for client in self._clients.values():
            client.__exit__()

    def _send(self) -> None:
        for outgoing in self.coordinator.take():
            version = VERSIONS[outgoing.api]
            body = render(outgoing.body, version)
            client = self._clients[outgoing.to_coordinator]
            self._sent[outgoing.to_coordinator][client.send(outgoing.api, version, body)] = outgoing

    def _receive(self) -> None:
        """Answers come in the order of the requests of their connection."""
        for to_coordinator, client in list(self._clients.items()):
            sent = self._sent[to_coordinator]
            while sent and client.has_something():
                outgoing = sent.pop(next(iter(sent)))
                version = VERSIONS[outgoing.api]
                _, body = decode_response(_KEYS[outgoing.api], version, client.receive())
                response = msgspec.convert(body, RESPONSES[outgoing.api])
                self.coordinator.answered(monotonic_ms(), outgoing.id, response)
        node = self.coordinator.coordinator
        if node is not None and True not in self._clients:
            self._clients[True] = Client(Address(node.host, node.port))

    def _take_events(self) -> None:
        self.events += [type(event).__name__ for event in self.coordinator.events]
        self.coordinator.events.clear()


class SocketReader(SocketMember):
    """A member that reads: its polls give what it has read, as `partition@offset`."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *assignors: AssignorName
    ) -> None:
        super().__init__(bootstrap, topic, partitions, *assignors)
        settings = FetchSettings(
            auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=50, max_poll_records=7
        )
        self._topic = topic
        self._fetcher = Fetcher(settings, self.subscription)
        self._metadata = Metadata()
        self._leaders: dict[int, Client] = {}
        self._fetches: dict[int, Fetch] = {}

    def poll(self) -> list[bytes]:
        """As Kafka's consumer: what has come is given, after the next fetches have gone out."""
        taken = self._fetcher.take()
        super().poll()
        self._look_up()
        for fetch in self._fetcher.requests(self._snapshot(), FETCH_VERSION):
            self._fetches[fetch.node] = fetch
            version = fetch.data.version(FETCH_VERSION)
            self._leader(fetch.node).send("FETCH", version, render(fetch.body, version))
        self._take_fetches()
        return [b"%d@%d" % (partition.partition, offset) for partition, offset, _ in taken]

    def close(self) -> None:
        super().close()
        for client in self._leaders.values():
            client.__exit__()

    def seek_unread(self) -> None:
        """Where nothing is committed the leaders are asked."""

    def _snapshot(self) -> MetadataSnapshot:
        if self._fetcher.needs_metadata or not self._metadata.snapshot.partitions:
            sent = self._metadata.new_request(monotonic_ms())
            wanted = {"topics": [{"name": self._topic}]}
            body = self._clients[False].call("METADATA", METADATA_VERSION, wanted)
            response = msgspec.convert(body, MetadataResponse)
            self._metadata.update(sent, response, METADATA_VERSION, monotonic_ms())
            self._fetcher.needs_metadata = False
        return self._metadata.snapshot

    def _leader(self, node: int) -> Client:
        if node not in self._leaders:
            found = self._metadata.snapshot.nodes[node]
            self._leaders[node] = Client(Address(found.host, found.port))
        return self._leaders[node]

    def _look_up(self) -> None:
        for node, request in self._fetcher.lookups(self._snapshot()):
            host = self._metadata.snapshot.nodes[node]
            with Client(Address(host.host, host.port)) as client:
                body = client.call("LIST_OFFSETS", LIST_VERSION, render(request, LIST_VERSION))
            self._fetcher.looked_up(msgspec.convert(body, ListOffsetsResponse))

    def _take_fetches(self) -> None:
        for node, fetch in list(self._fetches.items()):
            client, version = self._leaders[node], fetch.data.version(FETCH_VERSION)
            if client.has_something():
                del self._fetches[node]
                _, body = decode_response(_KEYS["FETCH"], version, client.receive())
                names = {
                    data.topic_id: p.topic for p, data in fetch.data.session_partitions.items()
                }
                found = {}
                for topic in body["responses"]:
                    for answer in topic["partitions"]:
                        name = topic.get("topic") or names[topic["topicId"]]
                        place = TopicPartition(name, answer["partitionIndex"])
                        records = _records(answer.pop("records") or b"")
                        if records is not None:
                            found[place] = records
                response = msgspec.convert(body, FetchResponse)
                self._fetcher.answered(node, response, version, found)


def _records(data: bytes) -> Records | None:
    """The offsets of whole batches, none of which has gaps."""
    ends = [(h["baseOffset"], h["baseOffset"] + h["lastOffsetDelta"]) for h in batch_headers(data)]
    items = [(offset, None) for first, last in ends for offset in range(first, last + 1)]
    return Records(items, items[-1][0] + 1) if items else None
