"""Transactions over sockets in both protocols, on a real Kafka and on a gateway.

The levels of `transaction.version` go up and down while producers live (KIP-890).
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from brokertwin.clients.client_loop import Close
from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.io.producer import Producer, TransactionError
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.transactions import ProducerTransactions, TransactionManagerState
from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.protocol.errors import Error
from brokertwin.settings import default_home
from tests.support.gateways import Client, running_gateway
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.socket_records import read_committed

pytestmark = pytest.mark.clients

State = TransactionManagerState
FEATURE = "transaction.version"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
PATIENCE_MS = PATIENCE_S * 1_000
LEVELS = pytest.mark.parametrize("level", [2, 1])


@pytest.fixture(scope="module", params=["gateway", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """One of our own: its features change."""
    if request.param == "gateway":
        with running_gateway(SETTINGS) as gateway:
            yield gateway.bootstrap
        return
    broker = EmbeddedKafka(tmp_path_factory.mktemp("transactions") / "broker", default_home())
    try:
        yield broker.start(SETTINGS)
    finally:
        broker.stop()


def at(bootstrap: str) -> Client:
    host, _, port = bootstrap.rpartition(":")
    return Client(Address(host, int(port)))


def finalize(bootstrap: str, level: int) -> None:
    """The cluster goes to this level, if it is not there."""
    kind = 1 if level == 2 else 2
    update = {"feature": FEATURE, "maxVersionLevel": level, "upgradeType": kind}
    software = {"clientSoftwareName": "test", "clientSoftwareVersion": "1"}

    def is_there(client: Client) -> bool:
        reported = client.call("API_VERSIONS", 4, software)["finalizedFeatures"]
        return {each["name"]: each["maxVersionLevel"] for each in reported}[FEATURE] == level

    with at(bootstrap) as client:
        if not is_there(client):
            body = {"timeoutMs": 30_000, "featureUpdates": [update], "validateOnly": False}
            assert client.call("UPDATE_FEATURES", 2, body)["errorCode"] == 0
            wait_until(lambda: is_there(client))


def topic_at(bootstrap: str, name: str) -> str:
    """A topic of two partitions, which takes 1,000 bytes at most."""
    unique = f"{name}-{time.time_ns()}"
    with at(bootstrap) as client:
        client.topic(unique, 2, max_message_bytes="1000")
    return unique


def of(producer: Producer) -> ProducerTransactions:
    client = producer.client
    assert isinstance(client, ProducerClient)
    assert client.transactions is not None
    return client.transactions


def is_aborted(bootstrap: str, transactional_id: str) -> bool:
    """Whether the coordinator has ended a transaction for which its producer took too long."""
    with at(bootstrap) as client:
        body = {"transactionalIds": [transactional_id]}
        (result,) = client.call("DESCRIBE_TRANSACTIONS", 0, body)["transactionStates"]
    return bool(result["transactionState"] == "CompleteAbort")


def begun(producer: Producer, topic: str, *values: str) -> list[str]:
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.send(topic, ProducerRecord(None, value.encode()), number % 2)
    return list(values)


def committed(bootstrap: str, topic: str, expected: int) -> list[str]:
    return sorted(
        (each.value or b"").decode() for each in read_committed(bootstrap, topic, expected)
    )


def cut(producer: Producer) -> int:
    """All its connections are lost; how many it had."""
    sockets = producer._sockets
    assert sockets is not None
    nodes = list(sockets._connections)
    for node in nodes:
        sockets.do(Close(node))
        sockets._failed.append(node)
    return len(nodes)


def turn_until(
    producer: Producer, is_done: Callable[[], bool], each: Callable[[], object] = lambda: None
) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_done():
        assert time.monotonic() < until, (of(producer).state, of(producer).error)
        each()
        producer.turn(5)


@LEVELS
def test_only_committed_records_are_read(bootstrap: str, level: int) -> None:
    finalize(bootstrap, level)
    topic = topic_at(bootstrap, "ends")
    good = []
    with Producer(bootstrap, ProducerConfig(transactional_id=topic)) as producer:
        producer.init_transactions(PATIENCE_MS)
        epoch = of(producer).id_and_epoch.epoch
        for number in range(6):
            values = begun(producer, topic, f"{number}a", f"{number}b")
            offsets = {TopicPartition(topic, 0): number}
            producer.send_offsets_to_transaction(topic, offsets, Generation())
            if number % 3:
                producer.commit_transaction(PATIENCE_MS)
                good += values
            else:
                producer.flush(PATIENCE_MS)
                producer.abort_transaction(PATIENCE_MS)
            bumps = number + 1 if level == 2 else 0
            assert of(producer).id_and_epoch.epoch == epoch + bumps
        begun(producer, topic, "6a")
        producer.flush(PATIENCE_MS)
        producer.abort_transaction(PATIENCE_MS)
    assert committed(bootstrap, topic, len(good)) == sorted(good)
    assert group_offset(bootstrap, topic) == 5


def group_offset(bootstrap: str, topic: str) -> int:
    group = {"groupId": topic, "topics": [{"name": topic, "partitionIndexes": [0]}]}
    with at(bootstrap) as client:
        response = client.call("OFFSET_FETCH", 9, {"groups": [group], "requireStable": True})
    return int(response["groups"][0]["topics"][0]["partitions"][0]["committedOffset"])


@LEVELS
def test_a_producer_with_the_same_id_fences_the_previous_one(bootstrap: str, level: int) -> None:
    finalize(bootstrap, level)
    topic = topic_at(bootstrap, "fenced")
    config = ProducerConfig(transactional_id=topic)
    with Producer(bootstrap, config) as before, Producer(bootstrap, config) as after:
        before.init_transactions(PATIENCE_MS)
        begun(before, topic, "lost")
        before.flush(PATIENCE_MS)
        after.init_transactions(PATIENCE_MS)
        with pytest.raises(TransactionError, match="FATAL_ERROR: 90 PRODUCER_FENCED"):
            before.commit_transaction(PATIENCE_MS)
        begun(after, topic, "kept")
        after.commit_transaction(PATIENCE_MS)
    assert committed(bootstrap, topic, 1) == ["kept"]


@LEVELS
def test_a_producer_aborts_after_a_rejected_record_and_continues(
    bootstrap: str, level: int
) -> None:
    finalize(bootstrap, level)
    topic = topic_at(bootstrap, "refused")
    with Producer(bootstrap, ProducerConfig(transactional_id=topic)) as producer:
        producer.init_transactions(PATIENCE_MS)
        begun(producer, topic, "small", "large" * 1_000)
        with pytest.raises(TransactionError, match="ABORTABLE_ERROR: 10 MESSAGE_TOO_LARGE"):
            producer.commit_transaction(PATIENCE_MS)
        producer.abort_transaction(PATIENCE_MS)
        begun(producer, topic, "again", "and again")
        producer.commit_transaction(PATIENCE_MS)
    assert committed(bootstrap, topic, 2) == ["again", "and again"]


@LEVELS
def test_a_timed_out_transaction_fences_only_before_kip_890(bootstrap: str, level: int) -> None:
    finalize(bootstrap, level)
    topic = topic_at(bootstrap, "too-long")
    config = ProducerConfig(transactional_id=topic, transaction_timeout_ms=500)
    with Producer(bootstrap, config) as producer:
        producer.init_transactions(PATIENCE_MS)
        begun(producer, topic, "lost")
        producer.flush(PATIENCE_MS)
        wait_until(partial(is_aborted, bootstrap, topic), "its time is over")
        producer.send(topic, ProducerRecord(None, b"late"), 0)
        turn_until(producer, lambda: of(producer).state is State.ABORTABLE_ERROR)
        assert of(producer).error is Error.INVALID_PRODUCER_EPOCH
        if level == 1:
            with pytest.raises(TransactionError, match="FATAL_ERROR: 90 PRODUCER_FENCED"):
                producer.abort_transaction(PATIENCE_MS)
            return
        producer.abort_transaction(PATIENCE_MS)
        begun(producer, topic, "kept")
        producer.commit_transaction(PATIENCE_MS)
    assert committed(bootstrap, topic, 1) == ["kept"]


@LEVELS
def test_a_late_commit_is_fatal(bootstrap: str, level: int) -> None:
    finalize(bootstrap, level)
    topic = topic_at(bootstrap, "late-commit")
    config = ProducerConfig(transactional_id=topic, transaction_timeout_ms=500)
    with Producer(bootstrap, config) as producer:
        producer.init_transactions(PATIENCE_MS)
        begun(producer, topic, "lost")
        producer.flush(PATIENCE_MS)
        wait_until(partial(is_aborted, bootstrap, topic), "its time is over")
        why = "48 INVALID_TXN_STATE" if level == 2 else "90 PRODUCER_FENCED"
        with pytest.raises(TransactionError, match=f"FATAL_ERROR: {why}"):
            producer.commit_transaction(PATIENCE_MS)


def test_the_protocol_follows_the_cluster_from_one_transaction_to_the_next(bootstrap: str) -> None:
    finalize(bootstrap, 1)
    topic = topic_at(bootstrap, "steps")
    good, adds_first = [], []
    with Producer(bootstrap, ProducerConfig(transactional_id=topic)) as producer:
        producer.init_transactions(PATIENCE_MS)
        first, epochs = of(producer).id_and_epoch.epoch, []
        for number, level in enumerate((2, 2, 1, 1, 1)):
            good += begun(producer, topic, f"{number}a")
            producer.flush(PATIENCE_MS)
            finalize(bootstrap, level)
            cut(producer)
            good += [f"{number}b"]
            producer.send(topic, ProducerRecord(None, f"{number}b".encode()), 1)
            adds_first.append(of(producer).rules.adds_partitions_first)
            producer.commit_transaction(PATIENCE_MS)
            epochs.append(of(producer).id_and_epoch.epoch - first)
    assert adds_first == [True, False, False, True, True]
    assert epochs == [1, 2, 3, 3, 3]
    assert committed(bootstrap, topic, len(good)) == sorted(good)


@LEVELS
def test_each_committed_record_is_written_once_despite_disconnects(
    bootstrap: str, level: int
) -> None:
    finalize(bootstrap, level)
    topic = topic_at(bootstrap, "losses")
    draw, happened = random.Random(level), Counter[str]()
    good = []
    config = ProducerConfig(transactional_id=topic, linger_ms=0, retry_backoff_ms=10)
    with Producer(bootstrap, config) as producer:
        producer.init_transactions(PATIENCE_MS)

        def lose() -> None:
            if draw.random() < 0.1:
                happened["cuts"] += cut(producer) > 0

        for number in range(40):
            values = begun(producer, topic, f"{number}a", f"{number}b", f"{number}c")
            turn_until(producer, lambda: draw.random() < 0.3, lose)
            is_commit = draw.random() < 0.7
            if is_commit:
                of(producer).commit()
                good += values
            else:
                of(producer).abort()
            turn_until(producer, lambda: of(producer).state is State.READY, lose)
            happened["commits" if is_commit else "aborts"] += 1
    assert committed(bootstrap, topic, len(good)) == sorted(good)
    assert min(happened[what] for what in ("cuts", "commits", "aborts")) > 5, happened
