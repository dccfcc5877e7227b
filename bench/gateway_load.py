"""Requests per second of a broker over many connections, and their fairness.

    brokertwin gateway --listen localhost:9092 &
    python bench/gateway_load.py localhost:9092 --connections 50 --seconds 10

Every connection sends a request, waits for its response, checks it, and sends the next. `produce`:
a batch of one record by an idempotent producer, acks=all, to a partition per connection; `fetch`:
the first batch of that partition; `metadata`: the topic; `mixed`: the three in turn.

A request is encoded once and only its varying fields are updated, so that this tool uses little
processor time. The first response of each kind is decoded and checked. Later ones must be equal
byte for byte except for the correlation id, the offset of a batch (one more each time), and the log
end offsets in a Fetch.
"""

import argparse
import copy
import select
import socket
import statistics
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from brokertwin.protocol.frames import (
    RequestFrame,
    decode_response,
    encode_request,
    encode_response,
)

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
COME_AGAIN = frozenset({3, 5, 6, 14, 15, 41})
"""Retriable errors of a broker that has just started or a topic just created."""

TIMESTAMP = int(time.time() * 1000)
MARK = 0x0123456789ABCDEF
"""Placeholder for a varying number, to find its place in a response's bytes."""

CORRELATION_AT = 8
"""Position in a request, including its size field."""

CRC_AT, CHECKED_FROM, SEQUENCE_AT = 17, 21, 53
TRIES = 100
_SIZE = struct.Struct(">i")
_CRC = struct.Struct(">I")
_OFFSET = struct.Struct(">q")


class _Call:
    """One kind of request on a connection, and its expected responses.

    Args:
        frame: the request.
        first: its first response.
        changing: the same response with `MARK` for each varying number.
        offset: of the batch in the first response; None if there is none.
    """

    def __init__(
        self, frame: bytes, first: bytes, changing: bytes, offset: int | None = None
    ) -> None:
        self.frame = bytearray(_SIZE.pack(len(frame)) + frame)
        self.offset = offset
        self._first = first
        mark = _OFFSET.pack(MARK)
        self._holes, at = [(0, _SIZE.size)], changing.find(mark)
        while at >= 0:
            self._holes.append((at, at + len(mark)))
            at = changing.find(mark, at + len(mark))
        self._same = self._without_holes(first)

    def _without_holes(self, answer: bytes) -> list[bytes]:
        ends = [*(start for start, _ in self._holes[1:]), len(answer)]
        return [answer[end:start] for (_, end), start in zip(self._holes, ends, strict=True)]

    def check(self, answer: bytes, correlation: int) -> None:
        """Raise ValueError for an unexpected response."""
        if _SIZE.unpack_from(answer)[0] != correlation:
            raise ValueError(f"answer {_SIZE.unpack_from(answer)[0]} to request {correlation}")
        if len(answer) != len(self._first) or self._without_holes(answer) != self._same:
            raise ValueError(f"another answer than the first: {answer.hex()}")
        if self.offset is not None:
            self.offset += 1
            if _OFFSET.unpack_from(answer, self._holes[1][0])[0] != self.offset:
                raise ValueError(f"not the offset {self.offset}: {answer.hex()}")


class LoadClient:
    """One connection.

    Attributes:
        latencies: seconds from each request to its response.
        first_answers: the first response of each kind, by API key.
    """

    def __init__(self, host: str, port: int, number: int, value: bytes) -> None:
        self.latencies: list[float] = []
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._partition = number
        self._value = value
        self._sequence = 0
        self._correlation = 0
        self._calls: dict[int, _Call] = {}
        self.first_answers: list[tuple[int, dict[str, Any]]] = []
        self._sent: tuple[_Call, float]
        self._received = bytearray()

    def call(self, api_key: int, body: dict[str, Any]) -> tuple[bytes, bytes, dict[str, Any]]:
        """Send a request and wait; return both frames and the response body."""
        self._correlation += 1
        header = {
            "requestApiKey": api_key,
            "requestApiVersion": VERSIONS[api_key],
            "correlationId": self._correlation,
            "clientId": f"load-{self._partition}",
        }
        frame = encode_request(RequestFrame(header, body))
        self.socket.sendall(_SIZE.pack(len(frame)) + frame)
        answer = None
        while answer is None:
            answer = self._receive()
        correlation, response = decode_response(api_key, VERSIONS[api_key], answer)
        if correlation != self._correlation:
            raise ValueError(f"answer {correlation} to request {self._correlation}")
        return frame, answer, response

    def _until_sound(
        self, api_key: int, body: dict[str, Any], error_of: Callable[[dict[str, Any]], int]
    ) -> tuple[bytes, bytes, dict[str, Any]]:
        for _ in range(TRIES):
            found = self.call(api_key, body)
            error = error_of(found[2])
            if not error:
                return found
            if error not in COME_AGAIN:
                break
            time.sleep(0.1)
        raise ValueError(f"API {api_key}: {found[2]}")

    def _first(
        self, api_key: int, body: dict[str, Any], error_of: Callable[[dict[str, Any]], int]
    ) -> tuple[bytes, bytes, dict[str, Any]]:
        frame, answer, response = self._until_sound(api_key, body, error_of)
        self.first_answers.append((api_key, copy.deepcopy(response)))
        return frame, answer, response

    def create_topic(self, partitions: int) -> None:
        topic = {"name": TOPIC, "numPartitions": partitions, "replicationFactor": 1}
        _, _, answer = self.call(CREATE_TOPICS, {"topics": [topic], "timeoutMs": 30000})
        if answer["topics"][0]["errorCode"] not in {0, TOPIC_EXISTS}:
            raise ValueError(f"CreateTopics: {answer}")

    def prepare(self) -> None:
        """Send and check the first request of each kind, unmeasured."""
        self._metadata()
        body = {"transactionalId": None, "transactionTimeoutMs": 60000}
        _, _, answer = self._until_sound(INIT_PRODUCER_ID, body, lambda it: it["errorCode"])
        self._produce(answer["producerId"], answer["producerEpoch"])
        self._fetch()

    def _produce(self, producer_id: int, epoch: int) -> None:
        builder = DefaultRecordBatchBuilder(2, 0, 0, producer_id, epoch, 0, 1 << 20)
        builder.append(0, TIMESTAMP, None, self._value, [])
        batch = bytes(builder.build())
        body = {
            "acks": -1,
            "timeoutMs": 30000,
            "topicData": [
                {
                    "name": TOPIC,
                    "partitionData": [{"index": self._partition, "records": batch}],
                }
            ],
        }
        frame, answer, response = self._first(
            PRODUCE, body, lambda it: it["responses"][0]["partitionResponses"][0]["errorCode"]
        )
        told = response["responses"][0]["partitionResponses"][0]
        offset = told["baseOffset"]
        told["baseOffset"] = MARK
        changing = _encoded(PRODUCE, response)
        self._calls[PRODUCE] = _Call(frame, answer, changing, offset)
        self._batch_at = self._calls[PRODUCE].frame.index(batch)
        self._batch_end = self._batch_at + len(batch)

    def _fetch(self) -> None:
        partition = {"partition": self._partition, "fetchOffset": 0, "partitionMaxBytes": 1}
        topic = {"topic": TOPIC, "partitions": [partition]}
        body = {"maxWaitMs": 500, "minBytes": 1, "maxBytes": 1, "topics": [topic]}
        frame, answer, response = self._first(
            FETCH, body, lambda it: it["responses"][0]["partitions"][0]["errorCode"]
        )
        told = response["responses"][0]["partitions"][0]
        if self._value not in told["records"]:
            raise ValueError(f"Fetch: {response}")
        told["highWatermark"] = told["lastStableOffset"] = MARK
        self._calls[FETCH] = _Call(frame, answer, _encoded(FETCH, response))

    def _metadata(self) -> None:
        def error_of(answer: dict[str, Any]) -> int:
            topic = answer["topics"][0]
            errors = [topic["errorCode"], *(each["errorCode"] for each in topic["partitions"])]
            return int(max(errors))

        frame, answer, response = self._first(METADATA, {"topics": [{"name": TOPIC}]}, error_of)
        self._calls[METADATA] = _Call(frame, answer, _encoded(METADATA, response))

    def send(self, api_key: int) -> None:
        """Send the next request of a kind."""
        call = self._calls[api_key]
        frame = call.frame
        self._correlation += 1
        _SIZE.pack_into(frame, CORRELATION_AT, self._correlation)
        if api_key == PRODUCE:
            self._sequence += 1
            at = self._batch_at
            _SIZE.pack_into(frame, at + SEQUENCE_AT, self._sequence)
            checked = bytes(memoryview(frame)[at + CHECKED_FROM : self._batch_end])
            _CRC.pack_into(frame, at + CRC_AT, crc32c(checked))
        self._sent = call, time.perf_counter()
        self.socket.sendall(frame)

    def answered(self) -> bool:
        """Read available bytes; return whether the response is complete, after checking it."""
        answer = self._receive()
        if answer is None:
            return False
        call, begun = self._sent
        self.latencies.append(time.perf_counter() - begun)
        call.check(answer, self._correlation)
        return True

    def _receive(self) -> bytes | None:
        """Return the response, or None while it is incomplete."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ValueError("the connection was closed")
        self._received += data
        if len(self._received) < _SIZE.size:
            return None
        end = _SIZE.size + _SIZE.unpack_from(self._received)[0]
        if len(self._received) < end:
            return None
        answer = bytes(memoryview(self._received)[_SIZE.size : end])
        del self._received[:end]
        return answer


def _encoded(api_key: int, response: dict[str, Any]) -> bytes:
    return bytes(encode_response(api_key, VERSIONS[api_key], 0, response))


class LoadResult(NamedTuple):
    """Latencies in seconds, and the requests of each connection."""

    seconds: float
    latencies: list[float]
    requests: list[int]

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds


class Load:
    def __init__(self, host: str, port: int, connections: int, value_bytes: int) -> None:
        value = b"x" * value_bytes
        self._clients = [LoadClient(host, port, number, value) for number in range(connections)]
        self._clients[0].create_topic(connections)
        with ThreadPoolExecutor(
            connections
        ) as pool:  # # a job completes several requests in one micro-batch
            list(pool.map(LoadClient.prepare, self._clients))

    def run(self, kind: str, seconds: float) -> LoadResult:
        """Send requests for `seconds` and wait for the last responses."""
        poll = select.epoll()
        turns = dict.fromkeys((each.socket.fileno() for each in self._clients), 0)
        clients = {each.socket.fileno(): each for each in self._clients}
        kinds = KINDS[kind]
        begun = time.perf_counter()
        for number, client in clients.items():
            client.latencies.clear()
            poll.register(number, select.EPOLLIN)
            client.send(kinds[0])
        waiting = len(clients)
        while waiting:
            for number, _ in poll.poll():
                client = clients[number]
                if not client.answered():
                    continue
                if time.perf_counter() - begun >= seconds:
                    waiting -= 1
                    continue
                turns[number] += 1
                client.send(kinds[turns[number] % len(kinds)])
        took = time.perf_counter() - begun
        poll.close()
        latencies = [latency for client in self._clients for latency in client.latencies]
        return LoadResult(took, latencies, [len(client.latencies) for client in self._clients])

    def first_answers(self) -> list[tuple[int, dict[str, Any]]]:
        """Return each connection's first response of each kind, by API key."""
        return [answer for client in self._clients for answer in client.first_answers]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kind", choices=KINDS, default="mixed")
    parser.add_argument("--value-bytes", type=int, default=100)
    given = parser.parse_args()
    host, _, port = given.bootstrap.rpartition(":")
    load = Load(host, int(port), given.connections, given.value_bytes)
    result = load.run(given.kind, given.seconds)
    quantiles = statistics.quantiles(result.latencies, n=100)
    print(
        f"{given.kind}: {len(result.latencies)} requests on {given.connections} connections in"
        f" {result.seconds:.1f} s: {result.rate:,.0f} requests/s;"
        f" latency {quantiles[49] * 1000:.1f} ms (median), {quantiles[98] * 1000:.1f} ms (p99);"
        f" a connection had {min(result.requests)} to {max(result.requests)}"
    )


if __name__ == "__main__":
    main()
