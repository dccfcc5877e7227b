"""Unmodified clients and scenarios of the exam against a running Spark job.

A request takes about a micro-batch, so `runs` starts clients and the exam concurrently on one job,
and the tests check the results.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest

from brokertwin.protocol.generated.produce import TopicProduceData
from brokertwin.state.configs.broker_config import parse
from brokertwin.testing.exam.verdicts import Outcome, Result
from tests.gateway.records.test_log_cleaner import LEFT, LEFT_OF_TWO
from tests.gateway.records.test_log_cleaner import records as left_of
from tests.gateway.records.test_log_cleaner import write as write_wave
from tests.gateway.test_cleaner_like_kafka import CONFIGS as COMPACTED
from tests.gateway.test_cleaner_like_kafka import Side
from tests.gateway.test_group_clients import RECORDS as GROUP_RECORDS
from tests.gateway.test_group_clients import (
    ConfluentMember,
    Member,
    NewProtocolMember,
    PythonMember,
    fill,
    poll_until,
)
from tests.gateway.test_mixed_group_clients import (
    GROUP,
    assert_offsets_are_kept,
    crash,
    is_shared,
    owners_of_single_partitions,
    work,
)
from tests.gateway.test_mixed_group_clients import PARTITIONS as GROUP_PARTITIONS
from tests.support.batches import batch
from tests.support.exams import OF_A_JOB, deviating, examined
from tests.support.gateway_processes import gateway as gateway_process
from tests.support.gateways import Running, produce_body, serving
from tests.support.kafka_tools import run_tool
from tests.support.patience import wait_until
from tests.support.proxies import capturing
from tests.support.record_streams import Stream, values_of
from tests.support.round_trips import (
    PARTITIONS,
    PATIENCE_S,
    produce_with_confluent,
    produce_with_kafka_python,
    read_with_confluent,
    read_with_kafka_python,
    records,
)
from tests.support.running_jobs import RunningJob
from tests.support.time_outs import time_outs
from tests.support.watched_fetches import WatchedEngine, in_one_session

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CLIENTS, EXAMINED = CLUSTERS = ("clients", "examined")
SETTINGS = {
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.heartbeat.interval.ms": "10000",
    "group.consumer.assignment.interval.ms": "100",
    "log.cleaner.backoff.ms": "1000",
}
COUNT = 1_000
WANTED = records(COUNT)
SESSION_PARTITIONS, SESSION_POLLS = 200, 15
LINES = [f"line {number}" for number in range(50)]
SCENARIO_PATIENCE = 40
"""Factor by which a scenario may be slower than with Kafka."""


@pytest.fixture(scope="module")
def job(kafka: str, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningJob]:
    typed, _ = parse(SETTINGS)
    directory = tmp_path_factory.mktemp("job")
    running = RunningJob(kafka, directory, spark, typed, clusters=CLUSTERS)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def gateways(job: RunningJob) -> Iterator[dict[str, Running]]:
    with ExitStack() as stack:
        engines = {name: WatchedEngine(job.engine(name)) for name in CLUSTERS}
        yield {name: stack.enter_context(serving(engine)) for name, engine in engines.items()}


@pytest.fixture(scope="module")
def gateway(gateways: dict[str, Running]) -> Running:
    return gateways[CLIENTS]


@pytest.fixture(scope="module")
def runs(
    gateways: dict[str, Running], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Any]]]:
    """Run all slow parts concurrently."""
    bootstrap = gateways[CLIENTS].bootstrap
    tasks: dict[str, Callable[[], Any]] = {}
    tasks["exam"] = partial(
        examined,
        gateways[EXAMINED].addresses[1],
        *OF_A_JOB,
        patience=SCENARIO_PATIENCE,
        jobs=len(OF_A_JOB),
    )
    tasks["kafka-python"] = partial(with_kafka_python, bootstrap)
    tasks["confluent-kafka"] = partial(with_confluent, bootstrap)
    tasks["console tools"] = partial(with_console_tools, bootstrap)
    tasks["session of kafka-python"] = partial(in_a_session_of_kafka_python, gateways[CLIENTS])
    tasks["session of Java"] = partial(in_a_session_of_java, gateways[CLIENTS])
    recording = tmp_path_factory.mktemp("five") / "five.jsonl"
    tasks["compacted topic"] = partial(of_a_compacted_topic, gateways[CLIENTS])
    tasks["five members"] = partial(five_members_of_both_protocols, gateways[CLIENTS], recording)
    with ThreadPoolExecutor(len(tasks)) as pool:
        yield {name: pool.submit(each) for name, each in tasks.items()}


def make_topic(bootstrap: str, name: str, partitions: int = 1) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    topic = confluent_kafka.admin.NewTopic(name, partitions, 1)
    # The first micro-batch of a job has taken longer than the client's 60 s on a busy machine.
    (made,) = admin.create_topics([topic], request_timeout=PATIENCE_S).values()
    assert made.result(PATIENCE_S) is None


def with_kafka_python(bootstrap: str) -> None:
    make_topic(bootstrap, "kafka-python", PARTITIONS)
    options = time_outs("kafka-python", "producers")
    produce_with_kafka_python(bootstrap, "kafka-python", WANTED, **options)
    options = time_outs("kafka-python", "consumers")
    assert read_with_kafka_python(bootstrap, "kafka-python", COUNT, **options) == WANTED


def with_confluent(bootstrap: str) -> None:
    make_topic(bootstrap, "confluent", PARTITIONS)
    options = time_outs("librdkafka", "producers")
    produce_with_confluent(bootstrap, "confluent", WANTED, **options)
    options = time_outs("librdkafka", "consumers")
    assert read_with_confluent(bootstrap, "confluent", COUNT, **options) == WANTED


def words(role: str) -> list[str]:
    """Return the timeouts for Java's console tools."""
    given = time_outs("Java", role)
    return [word for name in given for word in ("--command-property", f"{name}={given[name]}")]


def in_a_session_of_kafka_python(gateway: Running) -> int:
    """Return the fetches of one session with 200 partitions of kafka-python.

    Each fetch finds records, or it would wait for its deadline.
    """
    topic = "session-python"
    make_topic(gateway.bootstrap, topic, SESSION_PARTITIONS)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=gateway.bootstrap,
        client_id=topic,
        group_id=None,
        **{**time_outs("kafka-python", "consumers"), "fetch_max_wait_ms": 0},
    )
    consumer.assign([kafka.TopicPartition(topic, number) for number in range(SESSION_PARTITIONS)])
    deadline = time.monotonic() + PATIENCE_S
    while gateway.engine.incremental(topic) < SESSION_POLLS and time.monotonic() < deadline:
        consumer.poll(timeout_ms=1000)
    consumer.close()
    return len(in_one_session(gateway.engine.of(topic)))


def in_a_session_of_java(gateway: Running) -> int:
    """Return the same for a Java group member that gets a record after each fetch."""
    topic = "session-java"
    make_topic(gateway.bootstrap, topic, SESSION_PARTITIONS)

    def produce() -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": gateway.bootstrap, **time_outs("librdkafka", "producers")}
        )
        deadline = time.monotonic() + PATIENCE_S
        for number in range(SESSION_POLLS):
            while gateway.engine.incremental(topic) < number and time.monotonic() < deadline:
                time.sleep(0.05)
            producer.produce(topic, b"%d" % number, partition=number)
            producer.poll(0)
        producer.flush(PATIENCE_S)

    thread = threading.Thread(target=produce)
    thread.start()
    place = ("--topic", topic, "--group", topic, "--from-beginning")
    count = ("--max-messages", str(SESSION_POLLS), "--command-property", f"client.id={topic}")
    at_once = ("--command-property", "fetch.max.wait.ms=0")
    run_tool(
        gateway.bootstrap, "consumer.ConsoleConsumer", *place, *count, *words("consumers"), *at_once
    )
    thread.join()
    return len(in_one_session(gateway.engine.of(topic)))


def five_members_of_both_protocols(gateway: Running, recording: Path) -> int:
    """Play a tenth of `test_mixed_group_clients.py`; return the number of owners."""
    with capturing(gateway.bootstrap, recording) as recorded:
        fill(gateway, GROUP, GROUP_PARTITIONS)
        with gateway.client(timeout_s=PATIENCE_S) as client:
            named = client.call("METADATA", 12, name=GROUP)
        through: Any = recorded
        of_python, of_librdkafka = (
            time_outs(client, "consumers") for client in ("kafka-python", "librdkafka")
        )
        members: list[Member] = [PythonMember(through, GROUP, **of_python)]
        members.append(ConfluentMember(through, GROUP, **of_librdkafka))
        members += [NewProtocolMember(through, GROUP) for _ in range(3)]
        poll_until(members, lambda read: len(set(read)) == GROUP_RECORDS and is_shared(members))
        work(gateway, members)
        members.pop().close()
        crash(recorded.bootstrap, members)
        poll_until(members, lambda _: is_shared(members))
        work(gateway, members)
        for each in members:
            each.close()
    assert_offsets_are_kept(recorded.documents())
    return owners_of_single_partitions(recorded, named["topics"][0]["topicId"])


def with_console_tools(bootstrap: str) -> list[str]:
    text = "\n".join(LINES) + "\n"
    make_topic(bootstrap, "console")
    run_tool(bootstrap, "ConsoleProducer", "--topic", "console", *words("producers"), text=text)
    place = ("--topic", "console", "--group", "console", "--from-beginning")
    count = ("--max-messages", str(len(LINES)))
    read = run_tool(bootstrap, "consumer.ConsoleConsumer", *place, *count, *words("consumers"))
    return read.splitlines()


def of_a_compacted_topic(gateway: Running) -> None:
    """Return the records after the job's cleaner ran once, and twice."""
    side = Side(*gateway.addresses[1])
    side.create("compacted", COMPACTED)
    write_wave(side, topic="compacted")
    wait_until(lambda: left_of(side, "compacted") == LEFT)
    write_wave(side, 1, "compacted")
    wait_until(lambda: left_of(side, "compacted") == LEFT_OF_TWO)
    side.conn.close()


@pytest.mark.usefixtures("runs")
def test_requests_of_all_connections_share_micro_batches(job: RunningJob, gateway: Running) -> None:
    clients = [gateway.client(timeout_s=PATIENCE_S) for _ in range(20)]
    before = job.batches()
    for client in clients:
        client.send("METADATA", 9, topics=[])
    for client in clients:
        client.receive()
    assert job.batches() - before <= 3
    for client in clients:
        with client:
            pass


@pytest.mark.usefixtures("runs")
def test_acks_0_gets_no_response_and_is_appended(gateway: Running) -> None:
    with gateway.client(timeout_s=PATIENCE_S) as client:
        client.topic("silent")
        client.send("PRODUCE", 9, produce_body("silent", batch(b"0"), acks=0))
        assert client.produce("silent", batch(b"1"))["baseOffset"] == 1


@pytest.mark.usefixtures("runs")
def test_batches_are_stored_in_the_codec_of_their_topic(gateway: Running) -> None:
    name = f"packed-{token_hex(3)}"
    with gateway.client(timeout_s=PATIENCE_S) as client:
        client.topic(name, compression_type="gzip")
        topic = TopicProduceData(name=name)
        wait_until(lambda: gateway.engine.codec_of(1, topic) is not None)
        plain = batch(b"a" * 500)
        assert client.produce(name, plain)["errorCode"] == 0
        assert len(client.fetch(name, 0)["records"]) < len(plain) / 2


@pytest.mark.usefixtures("runs")
def test_clients_of_another_gateway_continue_when_one_is_killed(
    job: RunningJob, gateway: Running
) -> None:
    settings = job.bench.settings
    words = ("--engine", "spark", "--bootstrap", str(settings.bootstrap))
    words += ("--prefix", settings.prefix, "--cluster", CLIENTS)
    with gateway.client(timeout_s=PATIENCE_S) as client:
        client.topic("of-one")
        client.topic("of-other")
        with gateway_process(*words) as (one, first), gateway_process(*words) as (_, second):
            of_one = Stream("{}:{}".format(*first[1]), "of-one")
            of_other = Stream("{}:{}".format(*second[1]), "of-other")
            of_one.wait_for(1)
            of_other.wait_for(1)
            one.kill()
            of_other.wait_for(20)
            of_other.end()
            of_one.abandon()
        assert of_other.failed == []
        assert values_of(client, "of-other") == of_other.acknowledged
        kept = values_of(client, "of-one")
        assert len(kept) == len(set(kept))
        assert set(of_one.acknowledged) <= set(kept)


@pytest.mark.parametrize("name", ["kafka-python", "confluent-kafka"])
def test_thousand_records_are_read_once(runs: dict[str, Future[Any]], name: str) -> None:
    """With idempotence, and the timeouts of the document."""
    assert runs[name].result() is None


def test_group_member_prints_records_of_the_java_console_producer(
    runs: dict[str, Future[Any]],
) -> None:
    assert runs["console tools"].result() == LINES


def test_log_cleaner_of_the_job_leaves_the_records_of_the_gateways(
    runs: dict[str, Future[Any]],
) -> None:
    assert runs["compacted topic"].result() is None


@pytest.mark.parametrize("client", ["kafka-python", "Java"])
def test_consumer_of_200_partitions_stays_in_one_fetch_session(
    runs: dict[str, Future[Any]], client: str
) -> None:
    assert runs[f"session of {client}"].result() >= SESSION_POLLS


def test_scenarios_get_kafkas_responses_from_a_job(
    runs: dict[str, Future[list[Result]]],
) -> None:
    results = runs["exam"].result()
    assert deviating(results) == {}
    assert {each.outcome for each in results} == {Outcome.AGREES}


def test_partition_has_one_owner_per_epoch_in_a_mixed_group(
    runs: dict[str, Future[Any]],
) -> None:
    """No offset is lost or decreases; five members join at once, one leaves, one is killed."""
    assert runs["five members"].result() >= 5


def test_restarted_job_loses_and_repeats_no_records(job: RunningJob, gateway: Running) -> None:
    with gateway.client(timeout_s=PATIENCE_S) as client:
        client.topic("restarted")
        stream = Stream(gateway.bootstrap, "restarted")
        stream.wait_for(1)
        job.stop()
        client.send("METADATA", 9, topics=[])
        job.start()
        assert len(client.receive()) > 0
        stream.wait_for(20)
        stream.end()
        assert stream.failed == []
        assert values_of(client, "restarted") == stream.acknowledged
    job.stop()
    job.bench.assert_live_run_equals_replay(*CLUSTERS, is_done=False)
