"""A producer and a cell, and between them a network that loses, repeats, delays and reorders.

Connections keep TCP's guarantees: data arrive in order, and a closed connection delivers nothing to
the client. But a request that was on it may have reached the broker, which may handle it at any
later time; and whatever the client does next goes over another connection. A schedule lists the
events.

    net = Network(ProducerConfig())
    net.play([(Step.SEND, 0), (Step.CUT, 1), (Step.WAIT, 3), (Step.LATE, 0)])
    net.settle()
    assert net.violations() == []
"""

from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import msgspec

from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionInfo
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.producer_config import INT32_MAX, ProducerConfig
from brokertwin.clients.producer_events import (
    ConnectionStalled,
    MetadataWanted,
    RecordAcked,
    RecordFailed,
)
from brokertwin.clients.sender import SenderRequest
from brokertwin.protocol.bodies import render
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.init_producer_id import InitProducerIdResponse
from brokertwin.protocol.generated.produce import ProduceRequest, ProduceResponse
from brokertwin.state.logs import log as logs
from tests.support.machine import Bench
from tests.support.standalone_producer import StandaloneProducer

PRODUCE, PRODUCE_VERSION = "PRODUCE", 12
INIT, INIT_VERSION = "INIT_PRODUCER_ID", 5
TOPIC = "orders"
BROKERS = (1, 2)
PARTITIONS = 2
DELAY_MS = 1_000
"""Minimum difference between sending and arrival of a message that counts as delayed."""

PAUSES = (1, 20, 150, 500, 2_000, 31_000)
"""Duration of a waiting step in ms: about backoffs, and more than `request.timeout.ms`."""

ROUNDS_MAX = 3_000


class Step(StrEnum):
    """Possible next events; the number chooses the place, the amount or the item."""

    SEND = "the application sends a record"
    WAIT = "time passes"
    REQUEST = "a request arrives"
    RESPONSE = "an answer arrives"
    CUT = "a connection is closed"
    LATE = "a request from a closed connection is handled"
    REPEAT = "a request arrives twice"
    REFUSE = "a request gets a retriable error and is not handled"
    COMMIT = "the application commits its transaction"
    ABORT = "the application aborts its transaction"
    OFFSETS = "the application commits a group's offset with its transaction"
    LEVEL = "the cluster finalizes the other level of transaction.version"


Schedule = list[tuple[Step, int]]

REFUSALS = (Error.LEADER_NOT_AVAILABLE, Error.NOT_ENOUGH_REPLICAS, Error.REQUEST_TIMED_OUT)

FAULTS = ("lost requests", "lost answers", "repeats", "delays", "reorderings")
"""The kinds that every run has to inject; `Network.injected` also counts refusals and expiries."""


class Sent(NamedTuple):
    """A request in flight; `body` is its content when it was sent."""

    outgoing: SenderRequest
    body: dict[str, Any]
    time: int


class Response(NamedTuple):
    outgoing: SenderRequest
    body: dict[str, Any]
    time: int


Message = TypeVar("Message", Sent, Response)


class Wire:
    """One connection: requests one way, responses the other."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.requests: deque[Sent] = deque()
        self.responses: deque[Response] = deque()


class Network:
    """Two brokers, one topic, a producer, and the connections between them."""

    def __init__(
        self,
        config: ProducerConfig,
        sizes: tuple[int, ...] = (50,),
        max_message_bytes: int = 1_000_000,
        is_shuffled: bool = False,
        broker: dict[str, Any] | None = None,
    ) -> None:
        self.bench = Bench(brokers=BROKERS, **(broker or {}))
        topic_id = self.bench.topic(TOPIC, PARTITIONS, max_message_bytes=str(max_message_bytes))
        self.producer = StandaloneProducer(config)
        self.sizes = sizes
        self.is_shuffled = is_shuffled
        self.injected: Counter[str] = Counter()
        self.sent: dict[int, TopicPartition] = {}
        self.acked: dict[int, int] = {}
        self.failed: dict[int, RecordFailed] = {}
        self.reported_twice: list[int] = []
        self._sent_at: dict[int, int] = {}
        self._topic_id = topic_id
        self._wires = {node: Wire(node) for node in BROKERS}
        self._closed: list[Wire] = []
        self._handled: Counter[tuple[Any, ...]] = Counter()
        self._newest: dict[int, int] = {}
        self._learn()

    @property
    def now(self) -> int:
        return self.bench.now

    def play(self, schedule: Schedule) -> None:
        """Play all events of the schedule; impossible ones are skipped."""
        self._poll()
        steps = self._steps()
        for step, number in schedule:
            steps[step](number)
            self._poll()

    def _steps(self) -> dict[Step, Callable[[int], object]]:
        return {
            Step.SEND: self.send,
            Step.WAIT: lambda number: self.wait(PAUSES[number % len(PAUSES)]),
            Step.REQUEST: self._request,
            Step.RESPONSE: self._respond,
            Step.CUT: self._cut,
            Step.LATE: self._late,
            Step.REPEAT: self._repeat,
            Step.REFUSE: self._refuse,
        }

    def settle(self) -> None:
        """Run without losses until every record is acknowledged or failed.

        Requests left on closed connections are handled last. Then every partition takes one more
        record, which must arrive.
        """
        self.producer.flush()
        self._run_dry()
        while self._closed:
            self._late(0)
        last = [self.send(partition) for partition in range(PARTITIONS)]
        self._run_dry()
        self.reported_twice += [record for record in last if record not in self.acked]

    def _run_dry(self) -> None:
        for _ in range(ROUNDS_MAX):
            self._poll()
            busy = [wire for wire in self._wires.values() if wire.requests or wire.responses]
            for wire in busy:
                if wire.requests:
                    self._handle(wire, wire.requests.popleft())
                if wire.responses:
                    self._deliver(wire.responses.popleft())
            if busy:
                continue
            if self._is_done():
                return
            deadline = self.producer.next_deadline(self.now)
            assert deadline is not None, "records wait for nothing"
            self.bench.now = deadline
        raise AssertionError("the producer does not come to an end")

    def _is_done(self) -> bool:
        return self.producer.is_idle

    # Events of the schedule

    def send(self, number: int) -> int:
        partition = TopicPartition(TOPIC, number % PARTITIONS)
        size = self.sizes[number // PARTITIONS % len(self.sizes)]
        record = self.producer.send(self.now, partition, size)
        self.sent[record] = partition
        self._sent_at[record] = self.now
        return record

    def wait(self, milliseconds: int) -> None:
        self.bench.now += milliseconds

    def _request(self, number: int) -> None:
        if wire := self._wire(number, "requests"):
            self._handle(wire, self._next(wire.requests, number))

    def _respond(self, number: int) -> None:
        if wire := self._wire(number, "responses"):
            self._deliver(self._next(wire.responses, number))

    def _next(self, messages: deque[Message], number: int) -> Message:
        """The message that comes next: the oldest, or without order any of them."""
        if not self.is_shuffled:
            return messages.popleft()
        at = number // len(BROKERS) % len(messages)
        message = messages[at]
        del messages[at]
        return message

    def _repeat(self, number: int) -> None:
        """The broker gets it twice in a row, and the client two responses."""
        if wire := self._wire(number, "requests"):
            request = self._next(wire.requests, number)
            self._handle(wire, request)
            if self._may_repeat(request):
                self._handle(wire, request)

    def _may_repeat(self, request: Sent) -> bool:
        return True

    def _refuse(self, number: int) -> None:
        wire = self._wire(number, "requests")
        if wire is None or wire.requests[0].outgoing.batches == []:
            return
        request = wire.requests.popleft()
        error = REFUSALS[number // len(BROKERS) % len(REFUSALS)]
        batches = request.outgoing.batches
        responses = [{"index": b.topic_partition.partition, "errorCode": error} for b in batches]
        body = {"responses": [{"name": TOPIC, "partitionResponses": responses}]}
        wire.responses.append(Response(request.outgoing, body, self.now))
        self.injected["refusals"] += 1

    def _cut(self, number: int) -> None:
        """Some of the requests under way have reached the broker: those sent first."""
        wire = self._wires[BROKERS[number % len(BROKERS)]]
        arrived = number // len(BROKERS) % (len(wire.requests) + 1)
        self.injected["lost requests"] += len(wire.requests) - arrived
        while len(wire.requests) > arrived:
            wire.requests.pop()
        self._close(wire.node)
        self.producer.disconnected(self.now, wire.node)

    def _close(self, node: int) -> None:
        wire = self._wires[node]
        self.injected["lost answers"] += len(wire.responses)
        if wire.requests:
            self._closed.append(wire)
        self._wires[node] = Wire(node)

    def _late(self, number: int) -> None:
        if not self._closed:
            return
        wire = self._closed[number % len(self._closed)]
        self._handle(wire, wire.requests.popleft())
        self.injected["lost answers"] += 1
        if not wire.requests:
            self._closed.remove(wire)

    def _wire(self, number: int, kind: str) -> Wire | None:
        """A connection with something to deliver, the one that `number` says if it has."""
        wires = [wire for wire in self._wires.values() if getattr(wire, kind)]
        return wires[number % len(wires)] if wires else None

    # The two ends

    def _poll(self) -> None:
        for outgoing in self.producer.poll(self.now):
            self._wires[outgoing.node].requests.append(self._on_its_way(outgoing))
        for event in self.producer.events():
            match event:
                case RecordAcked(record, _, offset):
                    self._reported(record)
                    self.acked[record] = offset
                case RecordFailed(record):
                    self._reported(record)
                    self.failed[record] = event
                    age = self.now - self._sent_at[record]
                    self.injected["expiries"] += age >= self.producer.config.delivery_ms
                case ConnectionStalled(node):
                    self._close(node)
                case MetadataWanted():
                    self._learn()

    def _reported(self, record: int) -> None:
        if record in self.acked or record in self.failed:
            self.reported_twice.append(record)

    def _on_its_way(self, outgoing: SenderRequest) -> Sent:
        """The request as bytes would hold it; a batch's locator names its records."""
        body = render(outgoing.body, self._api_of(outgoing)[1])
        names = {b.topic_partition.partition: _names(b.records) for b in outgoing.batches}
        for topic in body.get("topicData", []):
            for partition in topic["partitionData"]:
                partition["batches"][0]["locator"] = names[partition["index"]]
        return Sent(outgoing, body, self.now)

    def _handle(self, wire: Wire, request: Sent) -> None:
        """The broker handles a request; its response sets out."""
        number = request.outgoing.request_id
        self.injected["reorderings"] += number < self._newest.get(wire.node, 0)
        self._newest[wire.node] = max(number, self._newest.get(wire.node, 0))
        self.injected["delays"] += self.now - request.time >= DELAY_MS
        for topic in request.body.get("topicData", []):
            for partition in topic["partitionData"]:
                batch = partition["batches"][0]
                key = (partition["index"], batch["locator"])
                self._handled[key] += 1
                self.injected["repeats"] += self._handled[key] > 1
        response = self._response_of(wire, request)
        if Error.MESSAGE_TOO_LARGE in _errors(response):
            self.injected["refusals"] += 1
        wire.responses.append(Response(request.outgoing, response, self.now))

    def _api_of(self, outgoing: SenderRequest) -> tuple[str, int]:
        is_produce = isinstance(outgoing.body, ProduceRequest)
        return (PRODUCE, PRODUCE_VERSION) if is_produce else (INIT, INIT_VERSION)

    def _response_of(self, wire: Wire, request: Sent) -> dict[str, Any]:
        api, version = self._api_of(request.outgoing)
        response: dict[str, Any] = self.bench.request(api, version, request.body, broker=wire.node)
        return response

    def _deliver(self, response: Response) -> None:
        self.injected["delays"] += self.now - response.time >= DELAY_MS
        self._take(response)

    def _take(self, reply: Response) -> None:
        kind = ProduceResponse if "responses" in reply.body else InitProducerIdResponse
        response = msgspec.convert(reply.body, kind)
        self.producer.on_response(self.now, reply.outgoing.request_id, response)

    def _learn(self) -> None:
        response = self.bench.request("METADATA", 12, name=TOPIC)
        partitions = {}
        for partition in response["topics"][0]["partitions"]:
            where = TopicPartition(TOPIC, partition["partitionIndex"])
            partitions[where] = PartitionInfo(
                where, partition["leaderId"], partition["leaderEpoch"]
            )
        nodes = {b["nodeId"]: Node(b["nodeId"], b["host"], b["port"]) for b in response["brokers"]}
        self.producer.update_metadata(
            MetadataSnapshot(nodes=nodes, partitions=partitions, topic_ids={TOPIC: self._topic_id})
        )

    # Results

    def log(self, partition: int) -> dict[int, int]:
        """The records of a partition's log: their ids by their offsets, in order; no markers."""
        tables = self.bench.cell.tables
        result: dict[int, int] = {}
        for broker in BROKERS:
            log = tables.logs.get(logs.log_key(broker, self._topic_id, partition), logs.Log)
            if log is not None:
                for batch in logs.batches_from(tables.of(broker), log, 0):
                    names = (batch.locator or "").split(",")
                    if not batch.is_control:
                        result |= {
                            batch.base_offset + at: int(name) for at, name in enumerate(names)
                        }
        return result

    def violations(self) -> list[str]:
        """Return violations of exactly-once, in-order delivery by one producer."""
        violations = [
            f"record {record} was told twice or never came" for record in self.reported_twice
        ]
        ended = self.acked.keys() | self.failed.keys()
        violations += [f"record {record} never ended" for record in self.sent.keys() - ended]
        for partition in range(PARTITIONS):
            violations += self._violations_of(partition, self.log(partition))
        is_harmless = self.injected["expiries"] + self.injected["refusals"] == 0
        if is_harmless and not self._may_fail() and self.failed:
            violations.append(
                f"nothing expired or was refused, but these failed: {sorted(self.failed)}"
            )
        return violations

    def _may_fail(self) -> bool:
        return self.is_shuffled or self.producer.config.retries < INT32_MAX

    def _violations_of(self, partition: int, placed: dict[int, int]) -> list[str]:
        log = list(placed.values())
        times = Counter(log)
        mine = [r for r, where in self.sent.items() if where.partition == partition]
        acked = [record for record in mine if record in self.acked]
        violations = [
            f"record {record} is {times[record]} times in the log of {partition}"
            for record in acked
            if times[record] != 1
        ]
        if not violations and [record for record in log if record in self.acked] != acked:
            violations.append(f"partition {partition} is out of order: {log}")
        violations += [
            f"record {record} was acknowledged at {self.acked[record]}, not where it is"
            for record in acked
            if self.acked[record] >= 0 and placed.get(self.acked[record]) != record
        ]
        violations += [
            f"record {record} failed for certain, but is in the log"
            for record in mine
            if record in self.failed
            and not self.failed[record].may_be_written
            and times[record] > 0
        ]
        return violations


def _errors(response: dict[str, Any]) -> set[int]:
    topics = response.get("responses", [])
    return {partition["errorCode"] for topic in topics for partition in topic["partitionResponses"]}


def _names(records: list[Any]) -> str:
    return ",".join(str(record.id) for record in records)
