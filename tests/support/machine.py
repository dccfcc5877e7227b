"""A cell on the bench: requests in, responses out, without Spark and without Kafka.

bench = Bench(num_partitions=3)
bench.topic("orders")
bench.request("METADATA", 12, name="orders")
"""

from typing import Any

import msgspec

from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.state.cell import check
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import outputs
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from tests.support.bodies import request_body

CLUSTER = "bench"
START = 1_700_000_000_000
"""The time of the first event, in ms since 1970."""

CHECKED_ALL, CHECKED_EVERY = 50, 20
"""The invariants are checked after each of the first events, then after every twentieth."""

_OF_EVENTS = {
    *("id", "cluster", "broker", "time", "connection", "principal", "principalIsAsserted", "host"),
    *("listener", "nonce", "replyTo", "requestHeader", "choices", "isHeld"),
}
"""Fields of an event; a test gives those of a request with the same name in a list or struct."""


def header(count: int = 1, *producer: int, size: int = 70, **fields: Any) -> dict[str, Any]:
    """A batch's header as an event has it: a batch of `count` records in `size` bytes.

    `producer` is id, epoch and first sequence; `fields` come on top, by Kafka's names.
    """
    made = {
        "baseOffset": 0,
        "lastOffsetDelta": count - 1,
        "recordCount": count,
        "sizeInBytes": size,
    }
    names = ("producerId", "producerEpoch", "baseSequence")
    return {**made, **dict(zip(names, producer, strict=bool(producer))), **fields}


def produce_body(
    topic: str, *headers: dict[str, Any], partition: int = 0, acks: int = -1, **fields: Any
) -> dict[str, Any]:
    """A Produce of batches with these headers to a partition; `fields` come on top."""
    data = [{"index": partition, "batches": list(headers)}]
    return {"acks": acks, "topicData": [{"name": topic, "partitionData": data}], **fields}


class RefusedError(AssertionError):
    """The event has become a dead letter."""


class Bench:
    """One cell, fed event by event; its invariants are checked after each.

    Attributes:
        cell: the cell; replace it to go on from stored columns.
        rows: every row that it has put out, in order; `last` holds those of the last event.
        now: the time of the next event, in ms since 1970; it moves only when told to.
        is_checked: whether the invariants are; not where a rule is broken on purpose.
        responses: the documents of `responses` by request id, decoded.
    """

    def __init__(
        self,
        brokers: tuple[int, ...] = (1,),
        may_hold: bool = False,
        event_time: str = "recorded",
        **broker_settings: Any,
    ) -> None:
        self.settings = CellSettings(
            name=CLUSTER,
            cluster=CLUSTER,
            brokers=list(brokers),
            broker_settings=BrokerSettings(**broker_settings),
            event_time=event_time,
            may_hold=may_hold,
        )
        self.cell = Cell(self.settings)
        self.rows: list[Output] = []
        self.last: list[Output] = []
        self.now = START
        self.responses: dict[str, dict[str, Any]] = {}
        self.is_checked = True
        self._count = 0
        self._handled = 0

    def request(
        self, api: str | int, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> Any:
        """The response to a request, or None while it waits (and for acks 0).

        `fields` are those of the event, and of the body, as `request_body` takes them. Raises
        RefusedError where the event becomes a dead letter.
        """
        event_id = self.send(api, version, body, **fields)
        if self.dead_letters(self.last):
            raise RefusedError(self.dead_letters(self.last))
        return self.responses.get(event_id, {}).get("response")

    def send(
        self, api: str | int, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> str:
        """Hands over a request, whatever becomes of it; gives back its id."""
        key = API_KEYS[api] if isinstance(api, str) else api
        event = {name: fields.pop(name) for name in _OF_EVENTS & fields.keys()}
        self._count += 1
        event_id = str(event.get("id", f"r{self._count}"))
        header = {
            "requestApiKey": key,
            "requestApiVersion": version,
            "correlationId": self._count,
            "clientId": "bench",
        }
        self.handle(
            {
                "id": event_id,
                "cluster": CLUSTER,
                "broker": self.settings.brokers[0],
                "time": self.now,
                "connection": "c1",
                "nonce": f"nonce-{self._count}",
                "requestHeader": header,
                "request": request_body(api, version, body, fields),
                **event,
            }
        )
        return event_id

    def append(
        self,
        topic: str,
        *headers: dict[str, Any],
        partition: int = 0,
        version: int = 11,
        acks: int = -1,
        name: str | None = None,
        **event: Any,
    ) -> dict[str, Any]:
        """Return the partition's response to a Produce of batches with these headers.

        `name` is the transactional id.
        """
        body = produce_body(topic, *headers, partition=partition, acks=acks, transactionalId=name)
        response = self.request("PRODUCE", version, body, **event)
        return dict(response["responses"][0]["partitionResponses"][0])

    def tick(self, milliseconds: int = 0) -> list[Output]:
        """Lets time pass; the rows that this gives."""
        self.now += milliseconds
        self._count += 1
        tick = {"id": f"tick-{self._count}", "cluster": CLUSTER, "kind": "tick"}
        return self.handle({**tick, "time": self.now})

    def disconnect(self, connection: str) -> list[Output]:
        """A connection has ended; the rows that this gives."""
        self._count += 1
        gone = {"id": f"gone-{self._count}", "cluster": CLUSTER, "kind": "disconnect"}
        return self.handle({**gone, "connection": connection, "time": self.now})

    def handle(self, event: dict[str, Any] | bytes) -> list[Output]:
        """Hands over any document; the rows that it gives."""
        document = event if isinstance(event, bytes) else msgspec.json.encode(event)
        self.last = self.cell.handle(document, Position(0, self._count))
        self.rows.extend(self.last)
        self._handled += 1
        is_due = self._handled <= CHECKED_ALL or self._handled % CHECKED_EVERY == 0
        if self.is_checked and is_due:
            check.hold(self.cell)
        for row in self.last:
            if row.topic == outputs.RESPONSES and row.value is not None:
                self.responses[row.id] = msgspec.json.decode(row.value)
        return self.last

    def topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Creates a topic; gives back its id. `configs` have `_` for `.`."""
        values = [{"name": key.replace("_", "."), "value": each} for key, each in configs.items()]
        topic = {"name": name, "numPartitions": partitions, "replicationFactor": 1}
        response = self.request("CREATE_TOPICS", 7, topic, configs=values, timeoutMs=30_000)
        created = response["topics"][0]
        assert created["errorCode"] == 0, created
        return str(created["topicId"])

    def records(self) -> list[dict[str, Any]]:
        """The records of every event so far, as the topic `records` has them."""
        return self.records_of(self.rows)

    def records_of(self, rows: list[Output]) -> list[dict[str, Any]]:
        return [msgspec.json.decode(row.value or b"") for row in self.of(outputs.RECORDS, rows)]

    def dead_letters(self, rows: list[Output] | None = None) -> list[dict[str, Any]]:
        found = self.of(outputs.DEAD_LETTERS, rows)
        return [msgspec.json.decode(row.value or b"") for row in found]

    def of(self, topic: str, rows: list[Output] | None = None) -> list[Output]:
        """The rows for one topic; of all events unless `rows` are given."""
        return [row for row in (self.rows if rows is None else rows) if row.topic == topic]

    def reload(self) -> None:
        """Store the cell and continue from the stored data, like the next micro-batch."""
        self.cell = Cell(self.settings, self.cell.columns())
