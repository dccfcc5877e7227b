"""Poll timeouts, node choice and lost connections of the network client."""

from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.era import Era
from brokertwin.clients.metadata import Metadata, MetadataSettings, ProducerMetadata
from brokertwin.clients.network import (
    Connect,
    NetworkClient,
    NetworkSettings,
    RecoveryStrategy,
    SendMetadata,
)
from brokertwin.clients.node_connections import UNLIMITED_MS, NodeConnections
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.metadata import MetadataResponse, MetadataResponseBroker

LATEST = 13
FOREVER = UNLIMITED_MS
NOW = 1_000_000


def first() -> float:
    """Begins with the first node; the shortest pauses."""
    return 0.0


def response(*nodes: int) -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=node, host="host", port=9092 + node) for node in nodes
    ]
    return MetadataResponse(brokers=brokers)


class Client(NetworkClient):
    """A client whose metadata knows some nodes, all of them updated at `NOW`."""

    def __init__(self, *nodes: int, settings: NetworkSettings | None = None) -> None:
        self.metadata = ProducerMetadata(MetadataSettings())
        super().__init__(self.metadata, first, settings)
        self.metadata.bootstrap([("localhost", 9092)])
        if nodes:
            self.metadata.update(self.metadata.new_request(NOW), response(*nodes), LATEST, NOW)

    def connect(self, *nodes: int) -> None:
        for node in nodes:
            self.ready(self.metadata.snapshot.nodes[node], NOW)
            self.connected(node)
        self.poll(0, NOW)

    def least_loaded(self, now: int = NOW) -> int | None:
        node = self.least_loaded_node(now)
        return node.id if node is not None else None


def test_example_16_the_poll_timeout_is_the_shortest_of_three() -> None:
    client = Client(0)
    client.connect(0)
    age = client.metadata.settings.metadata_max_age_ms
    assert client.poll(100, NOW + age - 40) == ([], 40, 40)
    assert client.poll(FOREVER, NOW) == ([], age, 30_000)
    actions, metadata_timeout, select = client.poll(100, NOW + age)
    assert [type(action) for action in actions] == [SendMetadata]
    assert (metadata_timeout, select) == (30_000, 100)


def test_example_17_without_a_node_it_retries_after_the_reconnect_backoff() -> None:
    client = Client()
    client.poll(0, NOW)
    client.disconnected(-1, NOW)
    client.metadata.last_refresh_ms = 0
    client.metadata.attempts = 0
    assert client.least_loaded() is None
    assert client.poll(FOREVER, NOW) == ([], 50, 50)
    assert client.poll(20, NOW) == ([], 50, 20)


def test_a_request_for_metadata_connects_first_then_sends_then_waits() -> None:
    client = Client()
    poll = client.poll(FOREVER, NOW)
    assert poll.actions == [Connect(client.metadata.snapshot.nodes[-1])]
    assert poll.metadata_timeout_ms == 50
    assert client.poll(FOREVER, NOW + 1) == ([], 50, 50)
    client.connected(-1)
    actions = client.poll(FOREVER, NOW + 2).actions
    assert [type(action) for action in actions] == [SendMetadata]
    assert client.poll(FOREVER, NOW + 3) == ([], 30_000, 30_000)
    client.on_metadata_response(-1, response(0), LATEST, NOW + 9)
    assert list(client.metadata.snapshot.nodes) == [0]
    assert client.poll(FOREVER, NOW + 9).metadata_timeout_ms == 300_000


def test_a_response_without_brokers_is_a_failed_update() -> None:
    client = Client()
    client.connect(-1)
    version = client.metadata.update_version
    client.on_metadata_response(-1, response(), LATEST, NOW)
    assert client.metadata.update_version == version
    assert (client.metadata.attempts, client.poll(FOREVER, NOW).metadata_timeout_ms) == (1, 80)


def test_a_connection_at_its_limit_waits_for_responses() -> None:
    client = Client(0)
    client.connect(0)
    for request in range(5):
        client.sent(0, request, NOW)
    client.metadata.request_update()
    assert client.poll(FOREVER, NOW + 100) == ([], 50, 50)
    client.on_response(0, 3)
    assert [type(a) for a in client.poll(FOREVER, NOW + 100).actions] == [SendMetadata]


def test_the_least_loaded_node_is_idle_else_least_busy_else_connecting_else_longest_untried() -> (
    None
):
    client = Client(0, 1, 2)
    assert client.least_loaded() == 0
    client.ready(client.metadata.snapshot.nodes[2], NOW)
    assert client.least_loaded() == 2
    client.connect(0, 1)
    client.sent(0, 1, NOW)
    assert client.least_loaded() == 1
    client.sent(1, 2, NOW)
    client.sent(1, 3, NOW)
    assert client.least_loaded() == 0
    for node in (1, 0, 2):
        client.disconnected(node, NOW + node)
    assert client.least_loaded(NOW + 39) is None
    assert client.least_loaded(NOW + 500) == 0


def test_the_first_node_is_random() -> None:
    metadata = Metadata()
    draws = iter([0.0, 0.34, 0.99])
    client = NetworkClient(metadata, lambda: next(draws))
    metadata.bootstrap([("a", 1), ("b", 2), ("c", 3)])
    chosen = [client.least_loaded_node(NOW) for _ in range(3)]
    assert [node.id for node in chosen if node is not None] == [-1, -2, -3]


def test_a_lost_connection_requests_metadata() -> None:
    client = Client(0, 1)
    client.connect(0)
    client.sent(0, 7, NOW)
    assert client.disconnected(0, NOW + 10) == [7]
    assert client.metadata.is_update_requested
    assert client.metadata.attempts == 0


def test_a_lost_metadata_request_is_a_failed_update() -> None:
    client = Client()
    client.connect(-1)
    assert client.disconnected(-1, NOW + 10) == []
    assert (client.metadata.attempts, client.metadata.last_refresh_ms) == (1, NOW + 10)
    assert client.poll(FOREVER, NOW + 10).metadata_timeout_ms == 80


def test_a_connection_lost_while_an_update_is_due_is_a_failed_update() -> None:
    client = Client()
    client.poll(FOREVER, NOW)
    client.disconnected(-1, NOW + 10)
    assert client.metadata.attempts == 1


def test_overdue_responses_and_connections_time_out() -> None:
    client = Client(0, 1)
    client.connect(0)
    client.sent(0, 7, NOW)
    client.ready(client.metadata.snapshot.nodes[1], NOW)
    assert client.overdue(NOW + 8_000) == []
    assert client.overdue(NOW + 8_001) == [1]
    assert client.disconnected(1, NOW + 8_001) == []
    assert client.overdue(NOW + 30_000) == []
    assert client.overdue(NOW + 30_001) == [0]
    assert client.disconnected(0, NOW + 30_001) == [7]


def test_rebootstrap_restarts_from_the_configured_addresses() -> None:
    recovery = NetworkSettings(metadata_recovery_strategy=RecoveryStrategy.REBOOTSTRAP)
    client = Client(0, settings=recovery)
    client.connect(0)
    client.disconnected(0, NOW)
    actions = client.poll(FOREVER, NOW + 30).actions
    assert actions == []
    client.metadata.last_refresh_ms = 0
    actions = client.poll(FOREVER, NOW + 30).actions
    assert actions == [Connect(client.metadata.snapshot.nodes[-1])]
    assert list(client.metadata.snapshot.nodes) == [-1]


def test_a_broker_may_request_a_rebootstrap() -> None:
    """KIP-1102."""
    reported = MetadataResponse(brokers=[], error_code=Error.REBOOTSTRAP_REQUIRED)
    for strategy, nodes in ((RecoveryStrategy.REBOOTSTRAP, [-1]), (RecoveryStrategy.NONE, [0, 1])):
        client = Client(0, 1, settings=NetworkSettings(metadata_recovery_strategy=strategy))
        client.connect(0)
        client.metadata.request_update()
        (request,) = client.poll(FOREVER, NOW + 100).actions
        assert isinstance(request, SendMetadata)
        client.on_metadata_response(0, reported, LATEST, NOW + 200)
        assert list(client.metadata.snapshot.nodes) == nodes


def test_consecutive_failures_increase_backoff_and_setup_timeout() -> None:
    connections = NodeConnections(retry_backoff(50, 1000), retry_backoff(10_000, 30_000))
    waits = []
    for _ in range(7):
        connections.connecting(0, NOW, 0.5)
        setup = connections.delay_ms(0, NOW)
        connections.disconnected(0, NOW, 0.5)
        waits.append((setup, connections.delay_ms(0, NOW)))
    assert [wait for _, wait in waits] == [50, 100, 200, 400, 800, 1000, 1000]
    assert [setup for setup, _ in waits] == [10_000, 20_000, *[30_000] * 5]
    assert not connections.can_connect(0, NOW + 999)
    assert connections.can_connect(0, NOW + 1000)
    connections.connecting(0, NOW, 0.5)
    connections.ready(0, 0.5)
    assert connections.delay_ms(0, NOW) == UNLIMITED_MS
    connections.disconnected(0, NOW, 0.5)
    assert connections.delay_ms(0, NOW + 20) == 30


def test_a_throttled_node_is_not_ready_until_the_throttle_ends() -> None:
    """KIP-219."""
    client = Client(0, 1)
    client.connect(0, 1)
    nodes = client.metadata.snapshot.nodes
    client.throttled(0, "PRODUCE", 9, 300, NOW)
    client.throttled(0, "FETCH", 13, 100, NOW + 50)
    client.throttled(1, "PRODUCE", 5, 300, NOW)
    client.throttled(1, "OFFSET_FOR_LEADER_EPOCH", 4, 300, NOW)
    assert not client.ready(nodes[0], NOW + 299)
    assert client.ready(nodes[1], NOW)
    assert client.least_loaded(NOW + 299) == 1
    assert client.poll_delay_ms(0, NOW + 100) == 200
    assert client.poll(FOREVER, NOW + 100).select_timeout_ms == 200
    assert client.ready(nodes[0], NOW + 300)
    assert client.poll_delay_ms(0, NOW + 300) == UNLIMITED_MS


def test_a_lost_connection_does_not_end_the_throttle() -> None:
    client = Client(0)
    client.connect(0)
    client.throttled(0, "HEARTBEAT", 4, 5_000, NOW)
    client.disconnected(0, NOW)
    assert client.poll_delay_ms(0, NOW) < 5_000
    node = client.metadata.snapshot.nodes[0]
    assert not client.ready(node, NOW + 1_000)
    client.connected(0)
    assert [client.ready(node, NOW + after) for after in (4_999, 5_000)] == [False, True]


def test_clients_of_0_10_know_no_throttling() -> None:
    settings = MetadataSettings(era=Era.KAFKA_0_10)
    client = NetworkClient(ProducerMetadata(settings), first)
    client.throttled(0, "PRODUCE", 9, 300, NOW)
    assert client.poll_delay_ms(0, NOW) == 0
