"""Eight threads share a producer, on a gateway and on a real Kafka."""

import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from brokertwin.clients.backoff import constant_backoff
from brokertwin.clients.client_loop import Action, NetworkEvent, Send
from brokertwin.clients.era import Era
from brokertwin.clients.io.shared_producer import SharedProducer
from brokertwin.clients.io.sockets import SocketNetwork
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.metadata_wait import MetadataWait, Step
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked, RecordFailed
from brokertwin.gateway.edge_fields import Address
from tests.support.gateways import Client, running_gateway
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.socket_records import read_committed

pytestmark = pytest.mark.clients

THREADS, MESSAGES = 8, 50
SEED = MetadataSettings(refresh_backoff=constant_backoff(), era=Era.KAFKA_0_10)
TODAY = MetadataSettings()


@pytest.fixture(scope="module", params=["gateway", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kafka":
        yield request.getfixturevalue("kafka")
        return
    with running_gateway() as gateway:
        yield gateway.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic whose leaders take records.

    A new leader is in Metadata before it does. It would refuse a producer's first batch and take
    the second one, and the first would be out of order for good.
    """
    name = f"shared-{time.time_ns()}"
    host, _, port = bootstrap.rpartition(":")
    latest = [{"partitionIndex": each, "timestamp": -1} for each in range(3)]
    body = {"replicaId": -1, "topics": [{"name": name, "partitions": latest}]}
    with Client(Address(host, int(port))) as client:
        client.topic(name, 3)

        def has_leaders() -> bool:
            (found,) = client.call("LIST_OFFSETS", 7, body)["topics"]
            return [each["errorCode"] for each in found["partitions"]] == [0] * 3

        wait_until(has_leaders)
    return name


@pytest.fixture
def requested_topics(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    topics: list[list[str]] = []
    do = SocketNetwork.do

    def noted(network: SocketNetwork, action: Action) -> None:
        if isinstance(action, Send) and action.api == "METADATA":
            topics.append([each.name for each in action.body.topics])  # type: ignore[attr-defined]
        do(network, action)

    monkeypatch.setattr(SocketNetwork, "do", noted)
    return topics


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Holds the sender until all threads wait for metadata; one that came later asks again."""
    event, waiting = threading.Event(), list[MetadataWait]()
    wait, start = SocketNetwork.wait, MetadataWait.start

    def wait_for_all(network: SocketNetwork, timeout_ms: int) -> list[NetworkEvent]:
        event.set()
        wait_until(lambda: len(waiting) >= THREADS)
        return wait(network, timeout_ms)

    def noted(each: MetadataWait, now: int) -> Step:
        waiting.append(each)
        return start(each, now)

    monkeypatch.setattr(SocketNetwork, "wait", wait_for_all)
    monkeypatch.setattr(MetadataWait, "start", noted)
    return event


@pytest.mark.parametrize("rules", [SEED, TODAY], ids=["0.10", "today"])
def test_eight_threads_wait_for_one_metadata_request(
    bootstrap: str,
    topic: str,
    requested_topics: list[list[str]],
    held: threading.Event,
    rules: MetadataSettings,
) -> None:
    results: list[RecordAcked | RecordFailed] = []
    waits: list[list[int]] = []
    begin = threading.Barrier(THREADS)
    with SharedProducer(bootstrap, ProducerConfig(), results.append, metadata=rules) as producer:

        def send(user: int) -> None:
            begin.wait(PATIENCE_S)
            waited = []
            for number in range(MESSAGES):
                waited.append(producer.wait_on_metadata(topic).waited_ms)
                producer.send(topic, ProducerRecord(None, f"{user}-{number}".encode()))
            waits.append(waited)

        threads = [threading.Thread(target=send, args=(user,)) for user in range(THREADS)]
        assert held.wait(PATIENCE_S)
        for each in threads:
            each.start()
        for each in threads:
            each.join(PATIENCE_S)
        producer.flush(PATIENCE_S * 1_000)
        metadata = producer.client.metadata
        refreshed = metadata.last_successful_refresh_ms
        assert metadata.time_to_next_update(refreshed + 161) == 300_000 - 161
    assert Counter(type(each) for each in results) == {RecordAcked: THREADS * MESSAGES}
    assert [topics for topics in requested_topics if topic in topics] == [[topic]]
    if rules is SEED:
        assert len(requested_topics) == 1
    assert len(waits) == THREADS
    assert {waited for each in waits for waited in each[1:]} == {0}, "later messages wait 0 ms"
    values = sorted((each.value or b"").decode() for each in read_committed(bootstrap, topic, 400))
    assert values == sorted(f"{a}-{b}" for a in range(THREADS) for b in range(MESSAGES))
