"""Reader of one gateway's responses from a job's topic `responses`.

Gateways can share a partition of the topic; rows of other gateways are skipped. Spark's sink is
at-least-once, so a row may be repeated; the engine ignores responses without a pending request.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from brokertwin.errors import UserError
from brokertwin.gateway.engine.engine import EngineResponse, ResponseRow
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import TopicRow, consumer, first_and_end, row_of
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S, full_name
from brokertwin.state.core import outputs
from brokertwin.state.core.outputs import BROKER_CHANGES, BrokerChange

POLL_S = 0.2
"""Poll timeout, after which the thread checks whether it should end."""

ROWS_AT_ONCE = 1_000

_log = structlog.get_logger("brokertwin.gateway")


class Arrived(NamedTuple):
    event_id: str
    response: EngineResponse


Found = Arrived | BrokerChange


class ResponseReader(threading.Thread):
    """Delivers rows written to a partition of `responses` after `open`.

    Args:
        partition: partition to read.
        incarnation: prefix of the ids of this gateway's events.
        cluster: cluster whose broker changes are delivered.
        deliver: called in this thread with responses and changes.
    """

    def __init__(
        self,
        client: ClientProperties,
        prefix: str,
        partition: int,
        incarnation: str,
        cluster: str,
        deliver: Callable[[list[Found]], None],
    ) -> None:
        super().__init__(name="responses", daemon=True)
        self._client = client
        self._topic = full_name(prefix, outputs.RESPONSES)
        self._partition = partition
        self._id_prefix = f"{incarnation}-"
        self._cluster = cluster
        self._deliver = deliver
        self._has_stopped = threading.Event()
        self._wants_another = threading.Event()
        self._next = 0
        self._consumer: Consumer | None = None
        self._decoder = msgspec.json.Decoder(ResponseRow)
        self._change_decoder = msgspec.json.Decoder(BrokerChange)

    def open(self) -> None:
        """Seek to the partition's end; events may be written only after this.

        Raises:
            UserError: Kafka does not respond.
        """
        self._consumer = consumer(self._client)
        try:
            _, end = first_and_end(self._consumer, TopicPartition(self._topic, self._partition))
        except KafkaException as error:
            raise UserError(
                f"Cannot read {self._topic} at {self._client.bootstrap}: {error.args[0].str()}."
            ) from None
        self._next = end
        self._read_on()

    def run(self) -> None:
        assert self._consumer is not None, "open() comes first"
        while not self._has_stopped.is_set():
            if self._wants_another.is_set():
                self._wants_another.clear()
                self._consumer.close()
                self._consumer = consumer(self._client)
                self._read_on()
            first = self._consumer.poll(POLL_S)
            if first is None:
                continue
            messages = [first, *self._consumer.consume(ROWS_AT_ONCE, 0)]
            for message in messages:
                if message.error() is None:
                    self._next = (message.offset() or 0) + 1
            responses = [arrived for arrived in map(self._arrived, messages) if arrived]
            if responses:
                self._deliver(responses)
        self._consumer.close()

    def _read_on(self) -> None:
        assert self._consumer is not None
        self._consumer.assign([TopicPartition(self._topic, self._partition, self._next)])

    def begin_again(self) -> None:
        """Replace the consumer soon.

        A librdkafka consumer was observed to return no more rows, without an error, after a broker
        had been suspended for two minutes.
        """
        self._wants_another.set()

    def stop(self) -> None:
        self._has_stopped.set()
        self.join(KAFKA_TIMEOUT_S)

    def _arrived(self, message: Message) -> Found | None:
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                _log.warning("cannot read responses now", topic=self._topic, error=error.str())
            return None
        row = row_of(message)
        try:
            return self._found(row)
        except msgspec.MsgspecError as failure:
            _log.error("invalid response row", offset=row.offset, error=str(failure))
            return None

    def _found(self, row: TopicRow) -> Found | None:
        """Decode a row for this gateway, or return None. Raises msgspec.MsgspecError."""
        if row.id.startswith(BROKER_CHANGES):
            change = self._change_decoder.decode(row.value or b"")
            return change if change.cluster == self._cluster else None
        if not row.id.startswith(self._id_prefix):
            return None
        return Arrived(row.id, self._decoder.decode(row.value or b"").to_response())
