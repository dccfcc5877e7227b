"""Transactions of a producer on the client loop.

With both protocols: finalized `transaction.version` 1 or 2 (KIP-890).
"""

import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.clients.client_loop import SUPPORTED_VERSIONS
from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig, ProducerConfigError, checked
from brokertwin.clients.producer_events import RecordAcked, RecordFailed
from brokertwin.clients.transactions import (
    ProducerTransactions,
    TransactionManagerState,
    WrongStateError,
)
from brokertwin.protocol.errors import Error
from tests.support.bench_network import World, records_of
from tests.support.examples import examples

TOPIC = "orders"
PARTITIONS = 3
State = TransactionManagerState


@pytest.fixture(params=[1, 2])
def level(request: pytest.FixtureRequest) -> int:
    """The finalized `transaction.version`."""
    return int(request.param)


def world(level: int = 2, **settings: Any) -> World:
    made = World(
        (1, 2),
        transaction_state_log_num_partitions=1,
        brokertwin_transaction_version=level,
        **settings,
    )
    made.bench.topic(TOPIC, PARTITIONS, max_message_bytes="500")
    return made


def producer(made: World, name: str = "t", **config: Any) -> ProducerClient:
    client = made.producer(transactional_id=name, retry_backoff_ms=20, **config)
    of(client).init()
    until(made, client, State.READY)
    return client


def of(client: ProducerClient) -> ProducerTransactions:
    assert client.transactions is not None
    return client.transactions


def until(made: World, client: ProducerClient, state: State) -> None:
    for _ in range(400):
        if of(client).state is state:
            return
        made.turn()
    raise AssertionError(f"{of(client).state} {of(client).error}, not {state}")


def send(made: World, client: ProducerClient, *partitions: int, size: int = 10) -> list[int]:
    return [client.send(made.now, TopicPartition(TOPIC, at), size) for at in partitions]


def committed(made: World) -> list[int]:
    """The ids of records that read_committed shows, by partition and offset."""
    found = []
    for partition in range(PARTITIONS):
        part = {"partition": partition, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
        topics = [{"topic": TOPIC, "partitions": [part]}]
        body = {"maxBytes": 1 << 20, "isolationLevel": 1, "topics": topics}
        for broker in made.bench.settings.brokers:
            response = made.bench.request("FETCH", 11, body, broker=broker)
            result = response["responses"][0]["partitions"][0]
            if result["errorCode"] == Error.NONE:
                found += [
                    int(name) for _, name in result["batches"] and records_of(result, {}).items
                ]
    return found


def test_example_1_only_committed_records_are_read(level: int) -> None:
    made = world(level)
    client = producer(made)
    of(client).begin()
    first = send(made, client, 0, 1)
    made.run(500)
    assert committed(made) == []
    of(client).commit()
    until(made, client, State.READY)
    of(client).begin()
    send(made, client, 0, 2)
    made.run(500)
    of(client).abort()
    until(made, client, State.READY)
    made.run(500)
    assert committed(made) == first
    requested = made.networks[client].requested
    bumps = 2 if level == 2 else 0
    assert (of(client).id_and_epoch.epoch, requested["END_TXN"]) == (bumps, 2)
    assert {type(event) for event in client.events()} == {RecordAcked}


def test_example_2_commit_flushes_lingering_batches(level: int) -> None:
    made = world(level)
    client = producer(made, linger_ms=60_000)
    of(client).begin()
    sent = send(made, client, 0, 1, 2)
    made.run(500)
    assert made.networks[client].requested["PRODUCE"] == 0
    of(client).commit()
    until(made, client, State.READY)
    made.run(500)
    assert sorted(committed(made)) == sent


def test_example_3_an_empty_transaction_sends_no_request(level: int) -> None:
    made = world(level)
    client = producer(made)
    for end in (of(client).commit, of(client).abort):
        of(client).begin()
        end()
        until(made, client, State.READY)
    assert made.networks[client].requested["END_TXN"] == 0


def test_example_4_a_second_producer_fences_the_first(level: int) -> None:
    made = world(level)
    before = producer(made)
    of(before).begin()
    send(made, before, 0)
    made.run(500)
    after = producer(made)
    of(before).commit()
    until(made, before, State.FATAL_ERROR)
    assert of(before).error is Error.PRODUCER_FENCED
    assert committed(made) == []
    of(after).begin()
    sent = send(made, after, 0)
    of(after).commit()
    until(made, after, State.READY)
    made.run(500)
    assert committed(made) == sent
    assert of(after).id_and_epoch.epoch > of(before).id_and_epoch.epoch


def test_example_5_a_failed_record_allows_only_abort_then_bumps_the_epoch(level: int) -> None:
    made = world(level)
    client = producer(made)
    of(client).begin()
    send(made, client, 0)
    send(made, client, 1, size=600)
    until(made, client, State.ABORTABLE_ERROR)
    assert of(client).error is Error.MESSAGE_TOO_LARGE
    with pytest.raises(WrongStateError, match="MESSAGE_TOO_LARGE"):
        of(client).commit()
    epoch = of(client).id_and_epoch.epoch
    of(client).abort()
    until(made, client, State.READY)
    assert of(client).id_and_epoch.epoch > epoch
    of(client).begin()
    sent = send(made, client, 0, 1, 2)
    of(client).commit()
    until(made, client, State.READY)
    made.run(500)
    assert sorted(committed(made)) == sent


def test_example_6_offsets_are_committed_with_the_transaction(level: int) -> None:
    made = world(level)
    client = producer(made)
    at = TopicPartition(TOPIC, 0)
    for offset, end in ((5, of(client).commit), (9, of(client).abort)):
        of(client).begin()
        of(client).send_offsets("billing", {at: offset}, Generation())
        made.run(500)
        end()
        until(made, client, State.READY)
        made.run(500)
    group = {"groupId": "billing", "topics": [{"name": TOPIC, "partitionIndexes": [0]}]}
    body = {"groups": [group], "requireStable": True}
    responses = [made.bench.request("OFFSET_FETCH", 9, body, broker=each) for each in (1, 2)]
    (topics,) = (each["groups"][0]["topics"] for each in responses if each["groups"][0]["topics"])
    assert topics[0]["partitions"][0]["committedOffset"] == 5


def test_example_7_a_non_member_can_only_abort(level: int) -> None:
    made = world(level)
    client, member = producer(made), made.consumer("billing", TOPIC)
    made.run(3_000)
    of(client).begin()
    generation = member.coordinator.generation
    stale = Generation(generation.id - 1, generation.member_id)
    of(client).send_offsets("billing", {TopicPartition(TOPIC, 0): 5}, stale)
    until(made, client, State.ABORTABLE_ERROR)
    assert of(client).error is Error.ILLEGAL_GENERATION
    of(client).abort()
    until(made, client, State.READY)


def test_example_8_records_before_an_abort_are_not_sent(level: int) -> None:
    made = world(level)
    client = producer(made, linger_ms=60_000)
    of(client).begin()
    sent = send(made, client, 0)
    of(client).abort()
    until(made, client, State.READY)
    (failed,) = client.events()
    assert isinstance(failed, RecordFailed)
    assert (failed.record_id, failed.may_be_written) == (sent[0], False)
    assert made.networks[client].requested["PRODUCE"] == 0


def test_example_9_since_kip_890_produce_adds_partitions() -> None:
    adds_first = {"ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN"}
    for level, reported, versions in ((1, adds_first, (11, 4, 4)), (2, set(), (12, 5, 5))):
        made = world(level)
        client = producer(made)
        network = made.networks[client]
        requested_for_ids = network.requested["INIT_PRODUCER_ID"]
        for _ in range(2):
            of(client).begin()
            send(made, client, 0, 1)
            of(client).send_offsets("billing", {TopicPartition(TOPIC, 0): 5}, Generation())
            of(client).commit()
            until(made, client, State.READY)
            made.run(500)
        assert adds_first & network.requested.keys() == reported
        apis = ("PRODUCE", "TXN_OFFSET_COMMIT", "END_TXN")
        assert [set(network.versions[api]) for api in apis] == [{each} for each in versions]
        assert network.requested["INIT_PRODUCER_ID"] == requested_for_ids
        assert len(committed(made)) == 4


def test_example_10_the_upgrade_to_kip_890_bumps_the_epoch() -> None:
    made = world(level=1)
    client = producer(made)
    network = made.networks[client]
    epochs, inits = [], [network.requested["INIT_PRODUCER_ID"]]
    for level in (2, 2, 2, 1, 1, 1):
        of(client).begin()
        send(made, client, 0)
        made.run(500)
        of(client).commit()
        until(made, client, State.READY)
        epochs.append(of(client).id_and_epoch.epoch)
        inits.append(network.requested["INIT_PRODUCER_ID"])
        finalize(made, level)
        for node in network.nodes:
            network.cut(node)
        made.run(500)
    assert network.versions["END_TXN"] == [4, 4, 5, 5, 5, 4]
    assert epochs == [0, 1, 2, 3, 4, 4]
    assert [each - inits[0] for each in inits] == [0, 0, 1, 1, 1, 1, 1]
    assert len(committed(made)) == 6


def finalize(made: World, level: int) -> None:
    """The cluster goes to another level; clients hear of it from their next connection on."""
    update = {
        "feature": "transaction.version",
        "maxVersionLevel": level,
        "upgradeType": 1 if level == 2 else 2,
    }
    response = made.bench.request("UPDATE_FEATURES", 2, {"featureUpdates": [update]})
    assert response["errorCode"] == 0


def test_example_11_a_timed_out_transaction_fences_only_before_kip_890(
    level: int,
) -> None:
    made = world(level)
    client = producer(made, transaction_timeout_ms=5_000)
    of(client).begin()
    send(made, client, 0)
    made.run(20_000)
    late = send(made, client, 0)
    until(made, client, State.ABORTABLE_ERROR)
    assert of(client).error is Error.INVALID_PRODUCER_EPOCH
    of(client).abort()
    until(made, client, State.READY if level == 2 else State.FATAL_ERROR)
    if level == 2:
        of(client).begin()
        sent = send(made, client, 0)
        of(client).commit()
        until(made, client, State.READY)
        made.run(500)
        assert committed(made) == sent
        assert late != sent
    else:
        assert of(client).error is Error.PRODUCER_FENCED


def test_example_11_a_late_commit_is_fatal(level: int) -> None:
    made = world(level)
    client = producer(made, transaction_timeout_ms=5_000)
    of(client).begin()
    send(made, client, 0)
    made.run(20_000)
    of(client).commit()
    until(made, client, State.FATAL_ERROR)
    is_reported = Error.INVALID_TXN_STATE if level == 2 else Error.PRODUCER_FENCED
    assert of(client).error is is_reported
    assert committed(made) == []


def test_example_12_a_too_large_record_allows_only_abort(level: int) -> None:
    made = world(level)
    client = producer(made, max_request_size=400)
    of(client).begin()
    send(made, client, 0)
    send(made, client, 1, size=600)
    assert (of(client).state, of(client).error) == (State.ABORTABLE_ERROR, Error.MESSAGE_TOO_LARGE)
    of(client).abort()
    until(made, client, State.READY)
    made.run(500)
    assert committed(made) == []


def test_a_commit_waits_for_all_records(level: int) -> None:
    made = world(level)
    client = producer(made, linger_ms=0)
    network = made.networks[client]
    of(client).begin()
    send(made, client, 0)
    made.run(500)
    network.is_mute = True
    send(made, client, 0)
    of(client).commit()
    made.run(500)
    assert network.requested["END_TXN"] == 0
    network.is_mute = False
    until(made, client, State.READY)


@pytest.mark.parametrize("api", ["PRODUCE", "TXN_OFFSET_COMMIT", "END_TXN"])
def test_versions_of_the_other_protocol_are_never_sent(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of a cluster at level 2 that does not speak for it, such as an old proxy."""
    oldest, newest = SUPPORTED_VERSIONS[api]
    monkeypatch.setitem(SUPPORTED_VERSIONS, api, (oldest, newest - 1))
    made = world(level=2)
    client = producer(made)
    of(client).begin()
    send(made, client, 0)
    of(client).send_offsets("billing", {TopicPartition(TOPIC, 0): 5}, Generation())
    of(client).commit()
    until(made, client, State.FATAL_ERROR)
    assert of(client).error is Error.UNSUPPORTED_VERSION
    assert made.networks[client].requested[api] == 0
    assert committed(made) == []


def test_nothing_is_sent_outside_of_a_transaction(level: int) -> None:
    made = world(level)
    client = producer(made)
    send(made, client, 0)
    made.run(1_000)
    assert made.networks[client].requested["PRODUCE"] == 0
    with pytest.raises(WrongStateError):
        of(client).commit()


def test_settings_that_conflict() -> None:
    with pytest.raises(ProducerConfigError, match=r"transactional\.id"):
        checked(ProducerConfig(transactional_id="t", enable_idempotence=False))


# Losses

STEPS = st.sampled_from(["send", "send", "commit", "abort", "cut", "mute", "wait"])
happened: Counter[str] = Counter()


@pytest.mark.parametrize("level", [1, 2])
@settings(max_examples=examples(15))
@given(steps=st.lists(st.tuples(STEPS, st.integers(0, 11)), min_size=5, max_size=25))
def test_exactly_the_committed_records_are_read_once(
    level: int, steps: list[tuple[str, int]]
) -> None:
    made = world(level)
    client = producer(made, request_timeout_ms=2_000, delivery_timeout_ms=120_000, linger_ms=0)
    network, transactions = made.networks[client], of(client)
    pending: list[int] = []
    good: list[int] = []
    for step, number in [*steps, ("commit", 0)]:
        if step == "send":
            if transactions.state is State.READY:
                transactions.begin()
            pending += send(made, client, number % PARTITIONS)
        elif step in ("commit", "abort") and transactions.state is not State.READY:
            getattr(transactions, step)()
            for _ in range(number):
                made.turn(10)
            network.is_mute = False
            until(made, client, State.READY)
            good += pending if step == "commit" else []
            pending = []
            happened[step] += 1
        elif step == "cut" and network.nodes:
            network.cut(network.nodes[number % len(network.nodes)])
            happened["cuts"] += 1
        elif step == "mute":
            network.is_mute = not network.is_mute
            happened["mutes"] += 1
        made.turn((1, 20, 300)[number % 3])
    made.run(2_000)
    assert sorted(committed(made)) == good


def test_all_scenarios_occurred() -> None:
    reported = ", ".join(f"{count} {what}" for what, count in sorted(happened.items()))
    sys.stdout.write(f"transactions: {reported}\n")
    if happened:
        assert all(happened[what] for what in ("commit", "abort", "cuts", "mutes"))
