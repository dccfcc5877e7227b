"""A witness of a simulated cluster: the logs that its brokers write, and what really happened."""

import re
from collections.abc import Mapping
from typing import Any

from brokertwin.protocol.bodies import render
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import KAFKA_APIS, WRITE_TXN_MARKERS
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.request_logs import RequestLogs
from brokertwin.simulation.truth import Truth
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.decision import Message
from brokertwin.state.core.events import Kind
from brokertwin.state.core.records import BatchAppended, ProducerNoted, Record

_INSTANCE = re.compile(r"#\d+")
MARKERS_VERSION = 1


class Witness:
    """Passes what happens on to the logs and to the truth."""

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.logs = RequestLogs(seed)
        self.truth = Truth()
        self._clock = clock
        self._markers: list[Message] = []
        self._marked: set[tuple[int, str, int, int]] = set()

    def client_of(self, connection: str) -> str:
        """Return the client id of a connection: all instances of a client have the same."""
        return _INSTANCE.sub("", connection.rpartition("-")[0])

    def requested(
        self,
        request_id: str,
        broker: int,
        header: Mapping[str, Any],
        body: Mapping[str, Any],
        instance: str,
        connection: str,
    ) -> None:
        """Note a request that a broker takes; `instance` names the client's process."""
        now = self._clock.now
        self.logs.requested(request_id, broker, header, body, instance, connection, now)
        api = KAFKA_APIS[header["requestApiKey"]].name
        self.truth.requested(request_id, header["clientId"], api)

    def responded(self, request_id: str, response: Any) -> None:
        """Note a response that a broker sends."""
        self.logs.responded(request_id, response, self._clock.now)
        parts = (
            (response, *(response.get("results") or ())) if isinstance(response, Mapping) else ()
        )
        if any(each.get("errorCode") for each in parts):
            self.truth.refused(request_id)

    def begin(self) -> None:
        """Prepare for an event; a repeated event begins again."""
        self.truth.begin()
        self._markers.clear()
        self._marked.clear()

    def record(self, machine: int, event_id: str, record: Record) -> None:
        """Note a record that the current event writes."""
        self.truth.record(machine, event_id, record)
        if isinstance(record, ProducerNoted):
            place = record.topic_id, record.partition, record.producer_id
            self._marked.add((machine, *place))
        elif isinstance(record, BatchAppended) and record.batch.is_control:
            place = record.topic_id, record.partition, record.batch.producer_id
            self._marked.add((machine, *place))

    def message(self, message: Message) -> None:
        """Note a message between brokers; a coordinator sends markers to itself, too."""
        if message.api_key == WRITE_TXN_MARKERS.key:
            self._markers.append(message)

    def take(self, cell: Cell, document: bytes) -> None:
        """Compare the state after an event with the state before, and write lines of markers."""
        self.truth.take(cell, document)
        for message in self._markers:
            self._marker_line(message)
        self._markers.clear()
        self._marked.clear()

    def broker(self, broker: int, change: Kind) -> None:
        self.truth.broker(broker, change, self._clock.now)

    def _marker_line(self, message: Message) -> None:
        """Write the line of a WriteTxnMarkers; a leader that wrote no marker refused it."""
        body = render(message.body, MARKERS_VERSION)
        ids = {name: topic_id for topic_id, name in self.truth.topics.items()}
        markers = []
        for marker in body["markers"]:
            topics = []
            for topic in marker["topics"]:
                partitions = []
                for index in topic["partitionIndexes"]:
                    place = ids.get(topic["name"], ""), index, marker["producerId"]
                    is_written = (message.receiver, *place) in self._marked
                    code = Error.NONE if is_written else Error.NOT_LEADER_OR_FOLLOWER
                    partitions.append({"partitionIndex": index, "errorCode": int(code)})
                topics.append({"name": topic["name"], "partitions": partitions})
            markers.append({"producerId": marker["producerId"], "topics": topics})
        self.logs.between(
            message.sender, message.receiver, body, {"markers": markers}, self._clock.now
        )
