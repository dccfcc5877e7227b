"""The engine `spark` on real topics, with a cell of this process as the job.

The response topic can contain rows that a job writes rarely: repeated ones, rows of other gateways,
or none at all.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from structlog.testing import capture_logs

from brokertwin.errors import UserError
from brokertwin.gateway.engine import response_reader, spark_engine
from brokertwin.gateway.engine.engine import (
    EdgeRequest,
    EngineResponse,
    NoResponseError,
    internal_header,
)
from brokertwin.gateway.engine.spark_engine import OTHER_CELLS, THROTTLE_MAX_MS, SparkEngine
from brokertwin.kafka_io import placement, topics
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import (
    ID_HEADER,
    TopicRow,
    consumer,
    events_of,
    is_end,
    row_of,
)
from brokertwin.kafka_io.topics import full_name
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import decode_response
from brokertwin.sinks.topic_writer import NewRow, write_all
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.output_rows import EventRefusedError
from brokertwin.state.core import outputs
from brokertwin.state.core.api import NotBuilt
from brokertwin.state.core.events import EVENT_BYTES_MAX, Kind, Reason
from brokertwin.state.core.outputs import Output
from brokertwin.streaming.job import job
from tests.support.batches import batch
from tests.support.configs import BROKER, SET, Change, Real, alter
from tests.support.gateways import Client, Running, produce_body, serving
from tests.support.jobs import JobBench
from tests.support.patience import wait_until
from tests.support.running_jobs import engine_for, engine_placed

pytestmark = pytest.mark.kafka

PRODUCE, METADATA = 0, 3
HOST = "127.0.0.1"
PATIENCE_S = 2.0
LONG_WAIT_MS = 60_000


class HandDrivenJob:
    """A job whose micro-batches are repeated: every response is written twice."""

    def __init__(self, bench: JobBench) -> None:
        self.bench = bench
        self._cell = Cell(bench.cell_settings("a"))
        self._reader = consumer(bench.client)
        requests = full_name(bench.prefix, topics.REQUESTS)
        partitions = range(bench.settings.requests_partitions)
        self._reader.assign([TopicPartition(requests, n, OFFSET_BEGINNING) for n in partitions])
        self._is_running = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Handle the requests in the topic, and later ones."""
        self._is_running.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_running.clear()
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        self.stop()
        self._reader.close()

    def _run(self) -> None:
        producer = Producer(topics.writer_configuration(self.bench.client))
        responses = full_name(self.bench.prefix, outputs.RESPONSES)
        while self._is_running.is_set():
            message = self._reader.poll(0.05)
            if message is not None and not is_end(message):
                for row in 2 * self._rows(row_of(message)):
                    headers: dict[str, str | bytes | None] = {ID_HEADER: row.id}
                    producer.produce(
                        responses, row.value, partition=row.partition or 0, headers=headers
                    )
            producer.poll(0)
        producer.flush()

    def _rows(self, row: TopicRow) -> list[Output]:
        decided = (self._cell.handle(e.value or b"", e.position) for e in events_of(row))
        return [row for rows in decided for row in rows if row.topic == outputs.RESPONSES]


@pytest.fixture
def hand_driven(kafka: str, tmp_path: Path) -> Iterator[HandDrivenJob]:
    bench = JobBench(kafka, tmp_path, responses_partitions=1, requests_partitions=2)
    placement.write(bench.client, bench.prefix, job.placements(bench.settings))
    made = HandDrivenJob(bench)
    yield made
    made.close()


def engine_of(made: HandDrivenJob, **options: Any) -> SparkEngine:
    return engine_for(made.bench, "a", **options)


def events_in(made: HandDrivenJob) -> list[dict[str, Any]]:
    """Return the events of clients, without those that gateways send about settings."""
    events = made.bench.documents("requests")
    return [event for event in events if event.get("kind") != Kind.TELL_SETTINGS]


@contextmanager
def impatient(made: HandDrivenJob, **options: Any) -> Iterator[Running]:
    with serving(engine_of(made, response_timeout_s=PATIENCE_S, **options)) as running:
        yield running


def metadata(client: Client) -> dict[str, Any]:
    return client.call("METADATA", 9, topics=[])


def is_responding(running: Running) -> bool:
    """Return whether a client gets a response; a slow machine may time out."""
    with running.client() as client, suppress(ConnectionError):
        return bool(metadata(client)["brokers"])
    return False


def fetch_that_waits(topic: str) -> dict[str, Any]:
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    return {
        "maxWaitMs": LONG_WAIT_MS,
        "minBytes": 1,
        "maxBytes": 1 << 20,
        "sessionEpoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }


def test_gateways_of_one_partition_take_their_own_responses_once(
    hand_driven: HandDrivenJob,
) -> None:
    hand_driven.start()
    with (
        serving(engine_of(hand_driven)) as first,
        serving(engine_of(hand_driven)) as second,
        first.client() as one,
        second.client() as other,
    ):
        one.topic("shared")
        for number in range(0, 6, 2):
            assert one.produce("shared", batch(b"%d" % number))["baseOffset"] == number
            assert other.produce("shared", batch(b"%d" % number))["baseOffset"] == number + 1
        read = [bytes(client.fetch("shared", 0)["records"]) for client in (one, other)]
        assert read[0] == read[1]
        hand_driven.stop()
    rows = hand_driven.bench.all_rows(outputs.RESPONSES)
    assert len(rows) == 2 * len({row.id for row in rows})
    assert len({row.id.partition("-")[0] for row in rows}) == 2


def test_engine_starts_at_the_end_of_its_partition(hand_driven: HandDrivenJob) -> None:
    """Earlier responses are not decoded."""
    topic = full_name(hand_driven.bench.prefix, outputs.RESPONSES)
    engine = engine_of(hand_driven)
    incarnation = engine._events.incarnation
    rows = [NewRow("", b"nonsense", 0, f"{incarnation}-{number}") for number in (1, 2)]
    with capture_logs() as logs:
        write_all(hand_driven.bench.client, topic, rows)
        with serving(engine) as running, running.client() as client:
            hand_driven.start()
            assert metadata(client)["brokers"]
            write_all(hand_driven.bench.client, topic, rows[:1])
            assert metadata(client)["brokers"]
            hand_driven.stop()
    complaints = [log for log in logs if log["event"] == "invalid response row"]
    assert [log["offset"] >= len(rows) for log in complaints] == [True]


def test_requests_to_a_stopped_job_time_out(
    hand_driven: HandDrivenJob,
) -> None:
    with capture_logs() as logs, impatient(hand_driven) as running:
        with running.client() as requests, running.client() as produces:
            started = time.monotonic()
            requests.send("METADATA", 9, topics=[])
            for _ in range(2):
                produces.send("PRODUCE", 9, acks=1, timeoutMs=1, topicData=[])
            assert requests.is_closed()
            assert produces.is_closed()
            assert time.monotonic() - started >= PATIENCE_S
        hand_driven.start()
        wait_until(partial(is_responding, running), "things go on when the job does")
        assert not running.engine._pending
        hand_driven.stop()
    reason = "the job has not responded for 2 s; does it run?"
    closed = [log["reason"] for log in logs if log["event"] == "connection closed"]
    assert closed[:2] == [reason, reason]
    assert set(closed) == {reason}
    assert next(log["requests"] for log in logs if log["event"] == reason) == 3


def test_request_pending_in_a_cell_waits_as_long_as_the_job_runs(
    hand_driven: HandDrivenJob,
) -> None:
    hand_driven.start()
    with impatient(hand_driven) as running, running.client() as client:
        started = time.monotonic()
        wait_until(partial(is_responding, running), "the job runs")
        client.topic("quiet")
        client.send("FETCH", 12, fetch_that_waits("quiet"))
        time.sleep(2.5 * PATIENCE_S)
        assert len(running.engine._pending) == 1
        hand_driven.stop()
        assert client.is_closed()
        seconds = time.monotonic() - started
    probes = [row for row in events_in(hand_driven) if row.get("broker", 1) == 1]
    count = sum(row.get("connection", "").endswith("-probe") for row in probes)
    assert 2 <= count <= seconds / (PATIENCE_S / 2) + 1


@pytest.mark.parametrize("most", [{"in_flight_max": 2}, {"in_flight_bytes_max": 2}])
def test_request_without_queue_space_is_written_later(
    hand_driven: HandDrivenJob, most: dict[str, int]
) -> None:
    """Its connection used to be closed. Other responses carry a throttle time meanwhile."""
    rows = most.get("in_flight_max", 1)
    with serving(engine_of(hand_driven, **most)) as running:
        clients = [running.client() for _ in range(5)]
        for client in clients:
            client.send("METADATA", 9, topics=[])
        wait_until(lambda: len(running.engine._queued) == 5 - rows)
        assert len(running.engine._pending) == rows
        assert running.engine.throttle_ms == THROTTLE_MAX_MS
        hand_driven.start()
        responses = [decode_response(METADATA, 9, client.receive())[1] for client in clients]
        assert all(response["brokers"] for response in responses)
        assert max(response["throttleTimeMs"] for response in responses) > 0
        wait_until(lambda: not running.engine._pending)
        assert (running.engine.throttle_ms, running.engine._in_flight_bytes) == (0, 0)
        assert clients[0].call("METADATA", 9, topics=[])["throttleTimeMs"] == 0
        for client in clients:
            client.__exit__()
        hand_driven.stop()


def test_requests_without_queue_space_time_out_with_the_others(
    hand_driven: HandDrivenJob,
) -> None:
    with impatient(hand_driven, in_flight_max=1) as running:
        clients = [running.client() for _ in range(3)]
        for client in clients:
            client.send("METADATA", 9, topics=[])
        assert all(client.is_closed() for client in clients)
        assert not running.engine._pending
        assert all(each.pending.future.done() for each in running.engine._queued)


def test_silent_reader_is_started_again(
    hand_driven: HandDrivenJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a stall of the broker: the topic got responses that the gateway did not read."""
    deaf = {"fetch.min.bytes": 100_000_000, "fetch.wait.max.ms": 200_000}
    made: list[object] = []

    def first_is_deaf(client: ClientProperties) -> Consumer:
        made.append(client)
        changes = {**deaf, "socket.timeout.ms": 202_000} if len(made) == 1 else {}
        return consumer(client, changes)

    monkeypatch.setattr(response_reader, "consumer", first_is_deaf)
    hand_driven.start()
    with impatient(hand_driven) as running:
        with running.client() as client:
            client.send("METADATA", 9, topics=[])
            assert client.is_closed()
        wait_until(partial(is_responding, running), "another reader hears")
        hand_driven.stop()
    assert len(made) >= 2


def wait_until_waiting(running: Running, count: int) -> None:
    wait_until(lambda: len(running.engine._pending) >= count)


@pytest.mark.parametrize(
    ("raised", "error"),
    [(NotBuilt("a part"), Error.UNSUPPORTED_VERSION), (KeyError(7), Error.UNKNOWN_SERVER_ERROR)],
)
def test_dead_letter_is_an_error_response(
    hand_driven: HandDrivenJob, monkeypatch: pytest.MonkeyPatch, raised: Exception, error: Error
) -> None:
    def fails(*_: object) -> Any:
        raise raised

    for key in (PRODUCE, METADATA):
        monkeypatch.setitem(BUILT, key, msgspec.structs.replace(BUILT[key], handle=fails))
    hand_driven.start()
    with serving(engine_of(hand_driven)) as running, running.client() as client:
        response = client.produce("any", batch(b"a"), partition=3)
        assert (response["index"], response["errorCode"]) == (3, error)
        (topic,) = client.call("METADATA", 9, name="any")["topics"]
        assert (topic["name"], topic["errorCode"]) == ("any", error)
        hand_driven.stop()


def test_gateway_of_an_older_placement_reports_that_it_must_restart(
    hand_driven: HandDrivenJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Any:
        raise EventRefusedError(Reason.WRONG_KEY, "no cell of this job has the key 'a.9'")

    api = msgspec.structs.replace(BUILT[METADATA], handle=fails)
    monkeypatch.setitem(BUILT, METADATA, api)
    hand_driven.start()
    with capture_logs() as logs, serving(engine_of(hand_driven)) as running:
        with running.client() as client:
            for _ in range(2):
                (topic,) = client.call("METADATA", 9, name="any")["topics"]
                assert topic["errorCode"] != Error.NONE
        hand_driven.stop()
    (result,) = [log for log in logs if log["event"] == OTHER_CELLS]
    assert result["detail"] == "no cell of this job has the key 'a.9'"


def test_event_that_kafka_refuses_closes_its_connection(
    hand_driven: HandDrivenJob,
) -> None:
    placed = job.placements(hand_driven.bench.settings)[0]
    wrong = msgspec.structs.replace(placed, requests_partitions=1_000)
    engine = engine_placed(hand_driven.bench, wrong)
    with capture_logs() as logs, serving(engine) as running:
        for _ in ("told when the topic is known", "told at once, because it is"):
            with running.client() as client:
                client.send("METADATA", 9, topics=[])
                assert client.is_closed()
        assert not running.engine._pending
    closed = [log["reason"] for log in logs if log["event"] == "connection closed"]
    assert closed == ["Kafka does not take the request: Local: Unknown partition"] * 2


class FailedProducer:
    """librdkafka's producer after a fatal error, which no broker can provoke."""

    def produce(self, *_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    def poll(self, _: float) -> None:
        """Deliver nothing."""


def test_failed_producer_is_replaced(hand_driven: HandDrivenJob) -> None:
    hand_driven.start()
    with serving(engine_of(hand_driven)) as running:
        running.engine._producer = FailedProducer()
        with running.client() as client:
            client.send("METADATA", 9, topics=[])
            assert client.is_closed()
        with running.client() as client:
            assert metadata(client)["brokers"]
        hand_driven.stop()


def test_oversized_event_is_an_error_response(hand_driven: HandDrivenJob) -> None:
    with serving(engine_of(hand_driven)) as running:
        header = internal_header(METADATA, 9, None)
        body = {"topics": [{"name": "x" * EVENT_BYTES_MAX}]}

        async def submit() -> Any:
            return await running.engine.submit(EdgeRequest(1, "c1", "User:a", "", header, body))

        assert running.run(submit()).error["reason"] == "too large"
    assert events_in(hand_driven) == []


def test_requests_of_one_turn_of_the_loop_are_one_row(hand_driven: HandDrivenJob) -> None:
    hand_driven.start()
    with serving(engine_of(hand_driven)) as running:
        header = internal_header(METADATA, 9, None)
        names = [f"c{number}" for number in range(30)]

        async def submit() -> list[EngineResponse]:
            requests = (EdgeRequest(1, c, "User:a", "", header, {"topics": []}) for c in names)
            return list(await asyncio.gather(*map(running.engine.submit, requests)))

        assert [response.error for response in running.run(submit())] == [None] * len(names)
    assert [event["connection"].rpartition("-")[2] for event in events_in(hand_driven)] == names
    (place,) = {(row.partition, row.offset) for row in hand_driven.bench.all_rows("requests")}
    assert place[1] == 0


def test_event_contains_its_origin(hand_driven: HandDrivenJob) -> None:
    hand_driven.start()
    with serving(engine_of(hand_driven)) as running, running.client() as client:
        metadata(client)
        hand_driven.stop()
        incarnation = running.engine._events.incarnation
    (event,) = events_in(hand_driven)
    assert event["id"] == f"{incarnation}-1"
    assert event["connection"] == f"{incarnation}-c1"
    assert (event["host"], event.get("broker", 1), event.get("replyTo", 0)) == ("127.0.0.1", 1, 0)
    row, _request = hand_driven.bench.rows("requests")
    assert (row.key, row.id, row.partition) == (b"a", event["id"], 0)


def test_closed_connection_is_sent_only_with_share_sessions(
    hand_driven: HandDrivenJob,
) -> None:
    hand_driven.start()
    with serving(engine_of(hand_driven)) as running:
        with running.client() as client:
            metadata(client)
        with running.client() as client:
            client.call("SHARE_FETCH", 2)
        wait_until(lambda: running.gateway.connections == 0)
    events = events_in(hand_driven)
    assert [event.get("kind") for event in events] == [None, None, "disconnect"]
    requested, ended = events[1:]
    assert (ended["connection"], ended.get("broker", 1)) == (requested["connection"], 1)


def test_submitted_events_are_written_before_closing(hand_driven: HandDrivenJob) -> None:
    """Also while a batch is being written; no further response is sent."""
    with serving(engine_of(hand_driven)) as running, running.client() as client:
        client.send("METADATA", 9, topics=[])
        wait_until_waiting(running, 1)
        with running.client() as produces:
            produces.send("PRODUCE", 9, produce_body("any", batch(b"a")))
            time.sleep(0.01)
    events = events_in(hand_driven)
    apis = [event["requestHeader"]["requestApiKey"] for event in events]
    assert apis in ([METADATA], [METADATA, PRODUCE])


def test_nothing_is_accepted_after_closing(hand_driven: HandDrivenJob) -> None:
    engine = engine_of(hand_driven)

    async def submit_late() -> None:
        await engine.start()
        await engine.close()
        header = internal_header(METADATA, 9, None)
        await engine.submit(EdgeRequest(1, "c1", "User:a", "", header, {}))

    with pytest.raises(NoResponseError, match="the gateway ends"):
        asyncio.run(submit_late())
    assert hand_driven.bench.rows("requests") == []


def alter_quotas(client: Client, entity: dict[str, str], key: str, value: float) -> None:
    named = [{"entityType": kind, "entityName": name} for kind, name in entity.items()]
    response = client.call("ALTER_CLIENT_QUOTAS", 1, entity=named, key=key, value=value)
    assert response["entries"][0]["errorCode"] == 0


def test_settings_of_the_edge_follow_the_job(
    hand_driven: HandDrivenJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codecs of topics, quotas, connection limits; a second gateway applies them, too."""
    monkeypatch.setattr(spark_engine, "SETTINGS_S", 0.1)
    hand_driven.start()
    with serving(engine_of(hand_driven)) as first, serving(engine_of(hand_driven)) as second:
        with first.client() as client:
            client.topic("packed", compression_type="gzip")
            client.topic("plain")
            alter_quotas(client, {"ip": HOST}, "connection_creation_rate", 1000.0)
            alter_quotas(client, {"client-id": "tester"}, "request_percentage", 5000.0)
            changes: list[Change] = [("max.connections", SET, "500")]
            alter(
                Real("{}:{}".format(*first.addresses[1])),
                "INCREMENTAL_ALTER_CONFIGS",
                1,
                [(BROKER, "", changes)],
            )
        for running in (first, second):
            engine = running.engine
            with running.client() as client:

                def is_known(engine: SparkEngine = engine, client: Client = client) -> bool:
                    metadata(client)
                    return bool(engine.known(1).changed(1))

                wait_until(is_known)
                limit = engine.known(1).connection_limit(1, HOST)
                assert limit is not None and limit.per_second == 1000
                assert engine.known(1).connection_limit(1, "10.0.0.1") is None
                share = engine.request_limit(1, "User:a", "tester")
                assert share is not None and share.rate.per_second == 5000
                assert engine.request_limit(1, "User:a", "other") is None
                assert engine.known(1).changed(1) == {"max.connections": "500"}
                assert client.produce("packed", batch(b"a" * 500))["errorCode"] == 0
                assert client.produce("plain", batch(b"a" * 500))["errorCode"] == 0
        with second.client() as client:
            packed, plain = (client.fetch(name, 0)["records"] for name in ("packed", "plain"))
        hand_driven.stop()
    assert len(packed) < len(plain) / 2


def test_missing_topics_are_an_error_with_a_hint(hand_driven: HandDrivenJob) -> None:
    bench = hand_driven.bench
    placed = job.placements(bench.settings)[0]
    bench.prefix += "-other"
    with pytest.raises(UserError, match="has no topic"):
        asyncio.run(engine_placed(bench, placed).start())
