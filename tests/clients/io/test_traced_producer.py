"""The log lines of seed 001's example, from a producer of Kafka 0.10 and its sender thread.

`two_messages.log` has the document's lines. The threads run in virtual time, in which connections
and responses take as long as in the document's figure.
"""

import re
import threading
from functools import partial
from pathlib import Path

import msgspec

from brokertwin.clients.client_loop import Action, ResponseReceived, Send
from brokertwin.clients.era import Era
from brokertwin.clients.eras import metadata_settings, producer_config
from brokertwin.clients.io.traced import TracedProducer
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.traced import TracedProducerClient
from brokertwin.protocol.bodies import render
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.machine import START, header
from tests.support.shared_producers import RESPONSE_MS, TOPIC, SlowNetwork, Users

DOCUMENT = Path(__file__).parent / "two_messages.log"
START_MS, PAUSE_MS = 10_000, 1_000
FORMER_MESSAGES = 11

TYPING_ERRORS = {
    "to node1 for send metadata": "to node -1 for send metadata",
    "Initiating connection to node1 at": "Initiating connection to node -1 at",
    "Partition(topi =test": "Partition(topic=test",
    "callback null to test_2": "callback null to topic test_2",
    "Sender$1@6008d3ea": "Sender$1",
    "Initiating connection to node 0 at localhost:": "Initiating connection to node 0 at"
    " 192.168.199.101:",
    "ready to send: [localhost:9092]": "ready to send: [192.168.199.101:9092]",
}
"""Typing errors of the document, an object's address in Java, and names of the author's machine."""


def document_lines() -> list[str]:
    """The lines of the document without times; a line that does not begin with a time continues."""
    lines: list[str] = []
    for row in DOCUMENT.read_text().splitlines():
        begun = re.fullmatch(r"\[18:00:\d\d,\d{3}\] (.*)", row)
        if begun:
            lines.append(begun[1])
        elif row:
            lines[-1] += row
    return lines


OF_USERS = re.compile(
    r"TRACE (Requesting|Waking|Sending record|Allocating|\[KafkaProducer])"
    r"|INFO \[Metadata] awaitUpdate|TRACE Starting|DEBUG Starting"
    r"|DEBUG Updated cluster metadata version 1|DEBUG Kafka producer started"
)
"""Lines of the application's thread; the others are those of the sender's."""

PASS = re.compile(
    r"INFO (\[Sender] readyNodes:0|\[MetadataUpdater] metadataTimeout: 0"
    r"|\[Metadata] needUpdate: \w+|\[NetworkClient] metadataTimeout:\d+"
    r"|\[NetworkClient] select timeout:\d+|\[accumulator] (batch|ready).*)"
)
"""Lines of a pass without work. Ours has more: today's clients wait for ApiVersions, too."""


class Seeded(TracedProducer):
    """The producer of the document, whose first record without a key goes to partition 0."""

    def _make_client(
        self, config: ProducerConfig, metadata: MetadataSettings | None
    ) -> TracedProducerClient:
        return TracedProducerClient(
            config, lambda: 0.0, write=self._write, metadata=metadata, may_create_topics=False
        )


def run() -> list[tuple[bool, str]]:
    """Return the lines in order, and whether the application's thread wrote each."""
    users = Users(1)
    for _ in range(FORMER_MESSAGES):
        users.bench.append(TOPIC, header(size=36))
    lines: list[tuple[bool, str]] = []

    def write(line: str) -> None:
        lines.append(("network-thread" not in threading.current_thread().name, line))

    users.config = producer_config(Era.KAFKA_0_10)
    with users.producer(make=partial(Seeded, write=write)) as producer:

        def send_two() -> None:
            users.time.sleep(START_MS)
            producer.send(TOPIC, ProducerRecord(None, b"m1", timestamp=START))
            users.time.sleep(PAUSE_MS)
            producer.send(TOPIC, ProducerRecord(None, b"m2", timestamp=START))

        users.run(send_two)
    return lines


def masked(line: str) -> str:
    """A line without blanks, addresses, times, and the partition of the second message."""
    line = re.sub(r"\s", "", line)
    line = re.sub(r"(localhost|192\.168\.199\.101):\d+", "HOST", line)
    line = re.sub(r"test_[12]", "NEXT", line)
    return re.sub(r"metadataTimeout:[23]\d{5}\b|(createdTimeMs|timestamp)=\w+", "TIME", line)


def expected() -> list[str]:
    lines = document_lines()
    for wrong, right in TYPING_ERRORS.items():
        lines = [line.replace(wrong, right) for line in lines]
    return [line for line in lines if "kafka.examples" not in line and "message end" not in line]


def without_more_passes(ours: list[str], document: list[str]) -> list[str]:
    """Our lines without those of passes that the document does not have at that place."""
    kept = []
    left = list(map(masked, document))
    for line in ours:
        if left and masked(line) == left[0]:
            left.pop(0)
        elif PASS.fullmatch(line):
            continue
        kept.append(line)
    return kept


def test_each_thread_writes_its_lines_in_the_order_of_the_document() -> None:
    lines = run()
    for is_user in (True, False):
        ours = [line for of_user, line in lines if of_user is is_user]
        document = [line for line in expected() if bool(OF_USERS.match(line)) is is_user]
        kept = without_more_passes(ours, document)
        if not is_user:  # the document ends with the second message, which is not sent yet
            kept = kept[: len(document)]
        assert list(map(masked, kept)) == list(map(masked, document))


def test_the_sender_makes_a_pass_between_the_metadata_and_the_record() -> None:
    """[4] and [5] of the document; the wait ends with [4]."""
    texts = [line for _, line in run()]
    updated = next(n for n, line in enumerate(texts) if "metadata version 2" in line)
    record = next(n for n, line in enumerate(texts) if "Sending record" in line)
    between = texts[updated + 1 : record]
    assert [re.sub(r":[23]\d{5}$", ":TIME", line) for line in between] == [
        "INFO [Sender] readyNodes:0",
        "INFO [Metadata] needUpdate: false",
        "INFO [NetworkClient] metadataTimeout:TIME",
        "INFO [NetworkClient] select timeout:30000",
        "INFO [Metadata] awaitUpdate end...",
    ]
    woken = next(n for n, line in enumerate(texts) if "is full or a new batch" in line)
    assert record < woken < texts.index("INFO [accumulator] drained batch: test-0")


def test_an_idle_sender_writes_nothing() -> None:
    lines = run()
    started = lines.index((True, "DEBUG Kafka producer started"))
    requested = lines.index((True, "TRACE Requesting metadata update for topic test."))
    assert all(
        "select" in line or PASS.fullmatch(line) for _, line in lines[started + 1 : requested]
    )
    assert sum("select timeout" in line for _, line in lines[:requested]) == 1


class FailsSecond(SlowNetwork):
    """A network whose broker refuses the second Produce before it appends."""

    produced = 0

    def do(self, action: Action) -> None:
        is_produce = isinstance(action, Send) and action.api == "PRODUCE"
        self.produced += is_produce
        if not is_produce or self.produced != 2:
            super().do(action)
            return
        assert isinstance(action, Send)
        part = PartitionProduceResponse(index=0, error_code=Error.LEADER_NOT_AVAILABLE)
        topic_id = action.body.topic_data[0].topic_id
        topic = TopicProduceResponse(topic_id=topic_id, partition_responses=[part])
        body = render(ProduceResponse(responses=[topic]), action.version)
        event = ResponseReceived(action.node, action.request_id, body)
        self._due.append((self._time.now + RESPONSE_MS, event))


def test_batch_2_of_5_in_flight_fails_and_2_to_5_are_sent_again_in_order() -> None:
    """Seed 002: a batch that waits to be sent again has a star."""
    users = Users(1)
    users.network = FailsSecond(users.time, users.bench)
    lines: list[str] = []
    users.config = msgspec.structs.replace(
        producer_config(Era.KAFKA_2_0, is_idempotent=True), batch_size=1
    )
    make = partial(Seeded, write=lines.append)
    with users.producer(metadata_settings(Era.KAFKA_2_0), make) as producer:

        def send_five() -> None:
            for number in range(5):
                producer.send(TOPIC, ProducerRecord(None, b"%d" % number, timestamp=START), 0)
            users.time.sleep(5 * PAUSE_MS)

        users.run(send_five)
    in_flight = "DEBUG [TransactionManager] in flight test-0: "
    drawn = [line.removeprefix(in_flight) for line in lines if line.startswith(in_flight)]
    assert drawn == [
        "0 1 2 3 4",
        *("0 1* 2 3 4", "1* 2 3 4", "1* 2* 3 4", "1* 2* 3* 4", "1* 2* 3* 4*"),
        *("1 2* 3* 4*", "2* 3* 4*", "2 3* 4*", "3* 4*", "3 4*", "4*", "4", "none"),
    ]
    assert [each.offset for each in users.results] == [0, 1, 2, 3, 4]
