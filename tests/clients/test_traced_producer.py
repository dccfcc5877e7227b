"""The log lines of seed 001's example, from a producer of Kafka 0.10 on our own state machines.

`two_messages.log` has the document's lines. Each turn of the loop gets the time at which the
document's client has read its clock, which is slightly before its lines.
"""

import re
from pathlib import Path

import msgspec

from brokertwin.clients.client_loop import Action, Connected, NetworkEvent, ResponseReceived, Send
from brokertwin.clients.era import Era
from brokertwin.clients.eras import metadata_settings, producer_config
from brokertwin.clients.messages import ProducerRecord, size_of
from brokertwin.clients.network import Connect
from brokertwin.clients.traced import TracedProducerClient
from tests.support.machine import Bench, header

DOCUMENT = Path(__file__).parent / "two_messages.log"
ZERO = 1_494_151_200_000
"""18:00:00 of the document, in ms since 1970."""

FORMER_MESSAGES = 11
ORDER = [1, 0, 2]
"""Order of the partitions in a broker's response: that of a Java hash map."""

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

OMITTED = [
    "INFO [Sender] readyNodes:0",
    "INFO [Metadata] needUpdate: false",
    "INFO [NetworkClient] metadataTimeout:299860",
]
"""Lines of the first turn that the document leaves out; it has them in every other turn."""


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


def without_blanks(line: str) -> str:
    return re.sub(r"\s", "", line)


class Example:
    """The document's application, its producer, and broker 0."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bench = Bench(brokers=(0,))
        self.bench.topic("test", 3)
        for _ in range(FORMER_MESSAGES):
            self.bench.append("test", header(size=36))
        self.client = TracedProducerClient(
            producer_config(Era.KAFKA_0_10),
            lambda: 0.5,
            write=self.lines.append,
            metadata=metadata_settings(Era.KAFKA_0_10),
        )
        self._sent: list[Send] = []

    def say(self, text: str) -> None:
        """A line of the application."""
        self.lines.append(f"INFO {text} (kafka.examples.Producer)")

    def offer(self, at_ms: int, value: bytes) -> int | None:
        message = ProducerRecord(None, value)
        self.client.record = message
        return self.client.offer(ZERO + at_ms, "test", None, size_of(message))

    def turn(self, at_ms: int) -> list[Action]:
        """One turn of the sender; returns its actions."""
        actions = self.client.turn(ZERO + at_ms).actions
        self._sent += [each for each in actions if isinstance(each, Send)]
        return actions

    def connect(self, at_ms: int, node: int) -> None:
        """Open a connection, with the handshake that clients of 0.10 do not have."""
        self.client.take(ZERO + at_ms, Connected(node))
        self.client.take(ZERO + at_ms, self._responded(self._handshake()))

    def _handshake(self) -> Send:
        (send,) = [each for each in self.client._actions if isinstance(each, Send)]
        self.client._actions.clear()
        return send

    def respond(self, at_ms: int) -> None:
        """The response to the request in flight arrives."""
        (send,) = self._sent
        self._sent.clear()
        self.client.take(ZERO + at_ms, self._responded(send))

    def _responded(self, send: Send) -> NetworkEvent:
        body = msgspec.to_builtins(send.body)
        response = self.bench.request(send.api, send.version, body)
        if send.api == "METADATA":
            response["brokers"][0] |= {"host": "192.168.199.101", "port": 9092}
            partitions = response["topics"][0]["partitions"]
            partitions.sort(key=lambda each: ORDER.index(each["partitionIndex"]))
        return ResponseReceived(send.node, send.request_id, response)


def run() -> list[str]:
    """The steps of the document, with its times in ms after 18:00:00."""
    example = Example()
    example.client.start([("localhost", 9092)], ZERO + 4_939)
    example.turn(5_079)
    example.client.started()
    example.say("start producer client app")

    example.say("start send #1 message...")
    assert example.offer(15_109, b"m1") is None
    assert any(isinstance(each, Connect) for each in example.turn(15_117))
    example.connect(15_246, -1)
    example.turn(15_246)
    example.turn(15_448)
    example.respond(15_467)
    example.turn(15_628)

    assert example.offer(15_636, b"m1") is not None
    example.lines.append("INFO sending #1 message end.. (kafka.examples.Producer)")
    example.turn(15_700)
    example.connect(15_706, 0)
    example.turn(15_706)
    example.turn(15_720)
    example.respond(15_737)
    example.turn(15_741)

    example.say("start send #2 message...")
    assert example.offer(16_706, b"m2") is not None
    example.say("sending #2 message end..")
    return example.lines


def test_the_93_log_lines_of_the_two_messages() -> None:
    expected = document_lines()
    for wrong, right in TYPING_ERRORS.items():
        expected = [line.replace(wrong, right) for line in expected]
    ours = run()
    first = ours.index(OMITTED[0])
    assert ours[first : first + len(OMITTED)] == OMITTED
    del ours[first : first + len(OMITTED)]
    assert list(map(without_blanks, ours)) == list(map(without_blanks, expected))
