"""How many requests a second a gateway answers to many connections, and whether all get their turn.

    brokerstream gateway --listen localhost:9092 &
    python bench/gateway_load.py localhost:9092 --connections 50 --seconds 10

Every connection sends a request, waits for its answer, checks it, and sends the next. `produce`: a
batch of one record from an idempotent producer, acks=all, to a partition of its own; `fetch`: the
first batch of that partition; `metadata`: the topic; `mixed`: the three in turn.
"""

import argparse
import asyncio
import statistics
import struct
import time
from typing import Any, NamedTuple

from kafka.record.default_records import DefaultRecordBatchBuilder

from brokerstream.gateway.protocol.frames import Request, decode_response, encode_request

TOPIC = "load"
PRODUCE, FETCH, METADATA, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 3, 19, 22
VERSIONS = {PRODUCE: 9, FETCH: 12, METADATA: 9, CREATE_TOPICS: 5, INIT_PRODUCER_ID: 4}
KINDS = {
    "produce": (PRODUCE,),
    "fetch": (FETCH,),
    "metadata": (METADATA,),
    "mixed": (PRODUCE, FETCH, METADATA),
}
TOPIC_EXISTS = 36
LOADING = 14
_SIZE = struct.Struct(">i")


class Client:
    """One connection.

    Attributes:
        latencies: seconds from each request to its answer.
    """

    def __init__(self, number: int, value: bytes) -> None:
        self.latencies: list[float] = []
        self._partition = number
        self._value = value
        self._sequence = 0
        self._producer_id = -1
        self._correlation = 0

    async def connect(self, host: str, port: int) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(host, port)

    async def call(self, api_key: int, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for the answer."""
        self._correlation += 1
        version = VERSIONS[api_key]
        header = {
            "requestApiKey": api_key,
            "requestApiVersion": version,
            "correlationId": self._correlation,
            "clientId": f"load-{self._partition}",
        }
        frame = encode_request(Request(header, body))
        self._writer.write(_SIZE.pack(len(frame)) + frame)
        (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
        correlation, response = decode_response(
            api_key, version, await self._reader.readexactly(size)
        )
        if correlation != self._correlation:
            raise ValueError(f"answer {correlation} to request {self._correlation}")
        return response

    async def create_topic(self, partitions: int) -> None:
        """Create the topic where it is not there."""
        topic = {"name": TOPIC, "numPartitions": partitions, "replicationFactor": 1}
        answer = await self.call(CREATE_TOPICS, {"topics": [topic], "timeoutMs": 30000})
        if answer["topics"][0]["errorCode"] not in {0, TOPIC_EXISTS}:
            raise ValueError(f"CreateTopics: {answer}")

    async def load(self, kinds: tuple[int, ...], until: float) -> None:
        """Send requests until the time is over."""
        body = {"transactionalId": None, "transactionTimeoutMs": 60000}
        while True:
            answer = await self.call(INIT_PRODUCER_ID, body)
            if answer["errorCode"] != LOADING:
                break
        if answer["errorCode"]:
            raise ValueError(f"InitProducerId: {answer}")
        self._producer_id = answer["producerId"]
        await self._produce()
        while time.perf_counter() < until:
            for kind in kinds:
                begin = time.perf_counter()
                await _CALLS[kind](self)
                self.latencies.append(time.perf_counter() - begin)

    async def _produce(self) -> None:
        builder = DefaultRecordBatchBuilder(2, 0, 0, self._producer_id, 0, self._sequence, 1 << 20)
        builder.append(0, time.time_ns() // 1_000_000, None, self._value, [])
        self._sequence += 1
        partition = {"index": self._partition, "records": bytes(builder.build())}
        body = {
            "acks": -1,
            "timeoutMs": 30000,
            "topicData": [{"name": TOPIC, "partitionData": [partition]}],
        }
        answer = await self.call(PRODUCE, body)
        error = answer["responses"][0]["partitionResponses"][0]["errorCode"]
        if error:
            raise ValueError(f"Produce: error {error}")

    async def _fetch(self) -> None:
        partition = {"partition": self._partition, "fetchOffset": 0, "partitionMaxBytes": 1}
        topic = {"topic": TOPIC, "partitions": [partition]}
        body = {"maxWaitMs": 500, "minBytes": 1, "maxBytes": 1, "topics": [topic]}
        answer = await self.call(FETCH, body)
        if self._value not in answer["responses"][0]["partitions"][0]["records"]:
            raise ValueError(f"Fetch: {answer}")

    async def _metadata(self) -> None:
        answer = await self.call(METADATA, {"topics": [{"name": TOPIC}]})
        if answer["topics"][0]["errorCode"]:
            raise ValueError(f"Metadata: {answer}")


_CALLS = {PRODUCE: Client._produce, FETCH: Client._fetch, METADATA: Client._metadata}


class Result(NamedTuple):
    """What was measured; latencies in seconds, requests for each connection."""

    seconds: float
    latencies: list[float]
    requests: list[int]


async def run(
    host: str, port: int, connections: int, seconds: float, kind: str, value_bytes: int
) -> Result:
    """Load a gateway."""
    clients = [Client(number, b"x" * value_bytes) for number in range(connections)]
    for client in clients:
        await client.connect(host, port)
    await clients[0].create_topic(connections)
    begin = time.perf_counter()
    await asyncio.gather(*(client.load(KINDS[kind], begin + seconds) for client in clients))
    took = time.perf_counter() - begin
    latencies = sorted(latency for client in clients for latency in client.latencies)
    return Result(took, latencies, [len(client.latencies) for client in clients])


def main() -> None:
    """Read the arguments, load, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kind", choices=KINDS, default="mixed")
    parser.add_argument("--value-bytes", type=int, default=100)
    given = parser.parse_args()
    host, _, port = given.bootstrap.rpartition(":")
    result = asyncio.run(
        run(host, int(port), given.connections, given.seconds, given.kind, given.value_bytes)
    )
    total = len(result.latencies)
    quantiles = statistics.quantiles(result.latencies, n=100)
    print(
        f"{given.kind}: {total} requests on {given.connections} connections in"
        f" {result.seconds:.1f} s: {total / result.seconds:,.0f} requests/s;"
        f" latency {quantiles[49] * 1000:.1f} ms (median), {quantiles[98] * 1000:.1f} ms (p99);"
        f" a connection had {min(result.requests)} to {max(result.requests)}"
    )


if __name__ == "__main__":
    main()
