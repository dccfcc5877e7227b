"""Time of a Produce request in the gateway, by part.

    python bench/gateway_budget.py

A gateway in this process gets the frames of an idempotent producer, one record each, from a
transport without a socket. µs of one request:

    all        the whole request, from received bytes to the bytes of the response
    protocol   only decoding the frame and encoding the response
    core       only the cell: the event of the request, and its rows
    edge       the rest: connection, event loop, record batches, engine

Figures are the 2nd percentile of single requests, which other load on the machine and garbage
collection rarely interrupt. The kernel has no part; `gateway.py` measures processor time with it.
"""

import asyncio
import struct
import time
from typing import Any

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from brokertwin.gateway import edge_fields
from brokertwin.gateway.connection import BrokerConnection
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.engine import EdgeRequest
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.listeners import GatewayListener
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.gateway.server import Gateway
from brokertwin.protocol.frames import (
    RequestFrame,
    decode_request,
    decode_response,
    encode_request,
    encode_sized_response,
)
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.settings import BrokerSettings

VERSIONS = {0: 11, 3: 9, 19: 5, 22: 4}
WARM, COUNTED = 2000, 8000
PERCENT = 2
PARTITIONS = 16
CRC_AT, CHECKED_FROM, SEQUENCE_AT = 17, 21, 53


class MemoryTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def resume_reading(self) -> None:
        """Do nothing."""

    def is_closing(self) -> bool:
        return False


class BudgetClient:
    def __init__(self, connection: BrokerConnection) -> None:
        self.transport = MemoryTransport()
        self.connection = connection
        connection.connection_made(self.transport)

    async def call(self, api_key: int, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request; return the body of the response."""
        header = {"requestApiKey": api_key, "requestApiVersion": VERSIONS[api_key]}
        header |= {"correlationId": 1, "clientId": "budget"}
        frame = encode_request(RequestFrame(header, body))
        response = await self.exchange(len(frame).to_bytes(4, "big") + frame)
        return decode_response(api_key, VERSIONS[api_key], response[4:])[1]

    async def exchange(self, data: bytes) -> bytes:
        """Deliver bytes; return the response."""
        self.connection.data_received(data)
        while not self.transport.written:
            await asyncio.sleep(0)
        return self.transport.written.pop()

    async def frames(self, count: int) -> list[bytes]:
        """Return Produce requests, after their topic and producer id exist."""
        topic = {"name": "budget", "numPartitions": PARTITIONS, "replicationFactor": 1}
        await self.call(19, {"topics": [topic], "timeoutMs": 1000})
        producer = {"errorCode": -1}
        while producer["errorCode"]:
            producer = await self.call(22, {"transactionalId": None, "transactionTimeoutMs": 1000})
        ids = producer["producerId"], producer["producerEpoch"]
        builder = DefaultRecordBatchBuilder(2, 0, 0, *ids, 0, 1 << 20)
        builder.append(0, 1_700_000_000_000, None, b"x" * 100, [])
        batch = bytearray(builder.build())
        header = {"requestApiKey": 0, "requestApiVersion": VERSIONS[0]}
        header |= {"correlationId": 1, "clientId": "budget"}
        made = []
        for number in range(count):
            struct.pack_into(">i", batch, SEQUENCE_AT, number // PARTITIONS)
            struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[CHECKED_FROM:])))
            partition = {"index": number % PARTITIONS, "records": bytes(batch)}
            data = [{"name": "budget", "partitionData": [partition]}]
            body = {"acks": -1, "timeoutMs": 1000, "topicData": data}
            frame = encode_request(RequestFrame(header, body))
            made.append(len(frame).to_bytes(4, "big") + frame)
        return made


class TimesOfAPart:
    """Collects times in ns; `with` it, one is measured."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._begun = 0

    def __enter__(self) -> None:
        self._begun = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        self._times.append(time.perf_counter_ns() - self._begun)

    @property
    def microseconds(self) -> float:
        return sorted(self._times)[len(self._times) * PERCENT // 100] / 1000


async def measure() -> dict[str, float]:
    """Return the time of each part in µs."""
    engine = LocalEngine("budget", [1], BrokerSettings())
    gateway = Gateway(engine, Address("127.0.0.1", 0))
    await gateway.start()
    listener = GatewayListener(SecurityProtocol.PLAINTEXT, GatewaySecurity())
    client = BudgetClient(BrokerConnection(gateway.context(listener), 1, "c1"))
    frames = await client.frames(WARM + COUNTED)
    whole, protocol, core = TimesOfAPart(), TimesOfAPart(), TimesOfAPart()
    for frame in frames[:WARM]:
        response = decode_response(0, VERSIONS[0], (await client.exchange(frame))[4:])[1]
        assert not response["responses"][0]["partitionResponses"][0]["errorCode"], response
    for number, frame in enumerate(frames[WARM:]):
        if number % 2:
            with whole:
                await client.exchange(frame)
            continue
        with protocol:
            header, body = decode_request(frame[4:])
            encode_sized_response(0, VERSIONS[0], 1, response)
        edge_fields.store_batches(engine, 1, VERSIONS[0], body)
        request = EdgeRequest(1, "c1", "User:ANONYMOUS", "127.0.0.1", header, body)
        event = engine._events.request(request)
        with core:
            rows = engine._cell.handle(event, Position(0, number))
        engine._dispatch(rows)
    await gateway.close()
    found = {"all": whole.microseconds, "protocol": protocol.microseconds}
    found["core"] = core.microseconds
    return {**found, "edge": found["all"] - found["protocol"] - found["core"]}


if __name__ == "__main__":
    for part, microseconds in asyncio.run(measure()).items():
        print(f"{part:10}{microseconds:8.1f}")
