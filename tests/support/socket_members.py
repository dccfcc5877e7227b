"""A member of a classic group over sockets: our coordinator's client beside other clients."""

import random
import time

import msgspec

from brokerstream.clients.assignors.assign import AssignorName
from brokerstream.clients.consumer_config import ConsumerConfig
from brokerstream.clients.consumer_coordinator import ConsumerCoordinator, Outgoing
from brokerstream.clients.consumer_requests import RESPONSES
from brokerstream.clients.partitions import TopicPartition
from brokerstream.clients.subscription_state import SubscriptionState
from brokerstream.gateway.answers import Address
from brokerstream.gateway.protocol.frames import decode_response
from brokerstream.state.core.kafka_apis import KAFKA_APIS
from brokerstream.state.core.schema import render
from tests.support.gateways import Client
from tests.support.group_network import VERSIONS

PAUSE_S = 0.02
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
        for partition in list(self.subscription.without_offset):
            self.subscription.seek(partition, 0)
        return []

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
