"""A gateway in a thread of the test's process, and a raw client for it."""

import asyncio
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.engine.persistence import JournalOptions
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.server import Gateway
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import RequestFrame, decode_response, encode_request
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.state.configs.broker_config import parse
from tests.support.bodies import request_body
from tests.support.patience import PATIENCE_S

HOST = "127.0.0.1"
CLUSTER = "tested"
TIMEOUT_S = PATIENCE_S

_SIZE = struct.Struct(">i")


class Running(NamedTuple):
    """A gateway that serves; `addresses` by broker."""

    gateway: Gateway
    engine: Any
    addresses: dict[int, Address]
    loop: asyncio.AbstractEventLoop

    @property
    def bootstrap(self) -> str:
        address = self.addresses[1]
        return f"{address.host}:{address.port}"

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_S)

    def client(self, broker: int = 1, timeout_s: float = TIMEOUT_S) -> "Client":
        return Client(self.addresses[broker], timeout_s)


@contextmanager
def running_gateway(
    settings: Mapping[str, str] | None = None,
    brokers: int = 1,
    journal: Path | None = None,
    limits: GatewayLimits | None = None,
    advertise: Address | None = None,
    engine_type: Callable[..., LocalEngine] = LocalEngine,
    security: GatewaySecurity | None = None,
) -> Iterator[Running]:
    """A gateway with the local engine on free ports; `settings` by Kafka's names."""
    typed, _ = parse(settings or {})
    kept = JournalOptions(journal) if journal is not None else None
    engine = engine_type(CLUSTER, list(range(1, brokers + 1)), typed, kept)
    with serving(
        engine, limits or GatewayLimits.of(settings or {}), advertise, security
    ) as running:
        yield running


@contextmanager
def serving(
    engine: Any,
    limits: GatewayLimits | None = None,
    advertise: Address | None = None,
    security: GatewaySecurity | None = None,
) -> Iterator[Running]:
    """A gateway with an engine on free ports, in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gateway", daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(TIMEOUT_S)

    gateway = Gateway(engine, Address(HOST, 0), advertise, limits, security)
    try:
        run(gateway.start())
        yield Running(gateway, engine, gateway.addresses, loop)
    finally:
        run(gateway.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(TIMEOUT_S)
        loop.close()


class Client:
    """A blocking connection that speaks in bodies."""

    def __init__(
        self,
        address: Address,
        timeout_s: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
        name: str = "tester",
        source: tuple[str, int] | None = None,
    ) -> None:
        """`name` is the client's id, `source` its own address.

        Raises OSError if the server does not respond, or if `tls` does not trust its certificate.
        """
        self.address, self.name = address, name
        self._socket = socket.create_connection(address, timeout_s, source)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=address.host)
        self._count = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(
        self, api: str, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Send a request and return its response; `fields` as `request_body` takes them."""
        correlation_id = self.send(api, version, body, **fields)
        actual, response = decode_response(API_KEYS[api], version, self.receive())
        assert actual == correlation_id
        return response

    def send(
        self, api: str, version: int, body: dict[str, Any] | None = None, **fields: Any
    ) -> int:
        """Send a request; gives back its correlation id."""
        body = request_body(api, version, body, fields)
        self._count += 1
        header = {
            "requestApiKey": API_KEYS[api],
            "requestApiVersion": version,
            "correlationId": self._count,
            "clientId": self.name,
        }
        self.send_frame(encode_request(RequestFrame(header, body)))
        return self._count

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(_SIZE.pack(len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def is_silent(self, for_s: float) -> bool:
        return not self._is_ready(for_s * 1000)

    def receive(self) -> bytes:
        """The next frame. Raises ConnectionError where the gateway has closed."""
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        return self._exactly(size)

    def is_closed(self) -> bool:
        """Whether the gateway closes the connection without a further byte."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def has_something(self) -> bool:
        return self._is_ready(0)

    def _is_ready(self, within_ms: float) -> bool:
        ready = select.poll()  # select() knows no descriptor above 1,023
        ready.register(self._socket, select.POLLIN)
        return bool(ready.poll(within_ms))

    def _exactly(self, size: int) -> bytes:
        result = b""
        while len(result) < size:
            part = self._socket.recv(size - len(result))
            if not part:
                raise ConnectionError("the gateway has closed the connection")
            result += part
        return result

    def topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic; gives back its id. `configs` have `_` for `.`."""
        values = [{"name": key.replace("_", "."), "value": each} for key, each in configs.items()]
        topic = {"name": name, "numPartitions": partitions, "replicationFactor": 1}
        response = self.call("CREATE_TOPICS", 7, topic, configs=values, timeoutMs=30_000)
        assert response["topics"][0]["errorCode"] == 0, response
        return str(response["topics"][0]["topicId"])

    def producer_id(self) -> int:
        body = {"transactionalId": None, "transactionTimeoutMs": 60_000}
        response = self.call("INIT_PRODUCER_ID", 4, body)
        if response["errorCode"] == Error.COORDINATOR_LOAD_IN_PROGRESS:  # the broker gets its block
            response = self.call("INIT_PRODUCER_ID", 4, body)
        assert response["errorCode"] == 0, response
        return int(response["producerId"])

    def produce(
        self, topic: str, records: bytes | None, partition: int = 0, acks: int = -1
    ) -> dict[str, Any]:
        """Produce a record set; returns the partition's response."""
        response = self.call("PRODUCE", 9, produce_body(topic, records, partition, acks))
        partition_response: dict[str, Any] = response["responses"][0]["partitionResponses"][0]
        return partition_response

    def fetch(
        self, topic: str, offset: int, partition: int = 0, max_bytes: int = 1 << 20
    ) -> dict[str, Any]:
        """Fetch from an offset; returns the partition's response."""
        part = {"partition": partition, "fetchOffset": offset, "partitionMaxBytes": max_bytes}
        result: dict[str, Any] = self.call(
            "FETCH", 12, part, maxBytes=max_bytes, sessionEpoch=-1, topic=topic
        )["responses"][0]["partitions"][0]
        return result

    def list_offset(
        self, topic: str, timestamp: int, partition: int = 0, isolation_level: int = 0
    ) -> dict[str, Any]:
        """ListOffsets; returns the partition's response."""
        part = {"partitionIndex": partition, "timestamp": timestamp}
        topics = [{"name": topic, "partitions": [part]}]
        body = {"replicaId": -1, "isolationLevel": isolation_level, "topics": topics}
        result: dict[str, Any] = self.call("LIST_OFFSETS", 7, body)["topics"][0]["partitions"][0]
        return result


def client_at(bootstrap: str) -> Client:
    """A connection to HOST:PORT."""
    host, _, port = bootstrap.rpartition(":")
    return Client(Address(host, int(port)))


def produce_body(
    topic: str, records: bytes | None, partition: int = 0, acks: int = -1
) -> dict[str, Any]:
    data = {"index": partition, "records": records}
    topics = [{"name": topic, "partitionData": [data]}]
    return {"acks": acks, "timeoutMs": 30000, "topicData": topics}
