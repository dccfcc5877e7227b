"""Hostile clients get a bounded part of memory, connections and time."""

import gzip
import socket
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import crc32c
import psutil
import pytest
import snappy
import zstandard
from structlog.testing import capture_logs

from brokertwin.errors import UserError
from brokertwin.gateway import connection_quotas
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.protocol import compression
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import API_KEYS
from tests.gateway.security.test_security import with_sasl
from tests.support import sasl
from tests.support.batches import CODECS, batch
from tests.support.examples import examples
from tests.support.gateways import Client, Running, produce_body, running_gateway
from tests.support.goldens import golden
from tests.support.patience import growing, wait_until

MIB = 1 << 20
IDLE = examples(200)
"""Idle connections: EXAMPLES=50 makes them ten thousand."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    limits = GatewayLimits(connections=IDLE + 100)
    with running_gateway(limits=limits) as running:
        yield running


def sends_long_ids(address: Address) -> list[bool]:
    """Send INIT_PRODUCER_ID v4 with ids of 32,767 bytes, and of one more."""
    head = struct.pack(">hhih", 22, 4, 7, -1) + b"\0"
    tail = struct.pack(">iqh", 60_000, -1, -1) + b"\0"
    with Client(address) as client:
        client.send_frame(head + b"\x80\x80\2" + b"x" * 32_767 + tail)
        is_completed = client.receive()[:4] == struct.pack(">i", 7)
        client.send_frame(head + b"\x81\x80\2" + b"x" * 32_768 + tail)
        return [is_completed, client.is_closed()]


def test_too_long_string_closes_the_connection_like_kafkas(
    real_kafka: Address, gateway: Running
) -> None:
    real = golden("access/long_strings", lambda: sends_long_ids(real_kafka), scenario=[22, 4])
    assert sends_long_ids(gateway.addresses[1]) == real == [True, True]


def check_alive(running: Running) -> None:
    with running.client() as client:
        client.call("METADATA", 9, topics=[])


# -- connection quotas


def test_connection_above_the_limit_waits_until_another_closes() -> None:
    with running_gateway({"max.connections": "2"}) as running, ExitStack() as stack:
        first, second = (stack.enter_context(running.client()) for _ in range(2))
        for client in (first, second):
            client.call("METADATA", 9, topics=[])
        third = stack.enter_context(running.client())
        third.send("METADATA", 9, topics=[])
        wait_until(lambda: len(running.gateway._arrivals.waiting) == 1)
        second.call("METADATA", 9, topics=[])
        assert not third.has_something()
        first.__exit__()
        assert third.receive()
        assert running.gateway.connections == 2


def test_pending_connection_that_closes_takes_no_place() -> None:
    with running_gateway({"max.connections": "1"}) as running, ExitStack() as stack:
        first = stack.enter_context(running.client())
        first.call("METADATA", 9, topics=[])
        with running.client():
            wait_until(lambda: len(running.gateway._arrivals.waiting) == 1)
        last = stack.enter_context(running.client())
        last.send("METADATA", 9, topics=[])
        wait_until(lambda: len(running.gateway._arrivals.waiting) == 2)
        first.__exit__()
        assert last.receive()


def test_waiting_connections_are_bounded_and_close_with_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_quotas, "WAITING_MAX", 1)
    with ExitStack() as stack:
        running = stack.enter_context(running_gateway({"max.connections": "1"}))
        first, second, third = (stack.enter_context(running.client()) for _ in range(3))
        first.call("METADATA", 9, topics=[])
        assert third.is_closed()
        assert not second.has_something()
        running.run(running.gateway.close())
        assert second.is_closed()


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"max.connections.per.ip": "2"}, 2),
        ({"max.connections.per.ip": "9", "max.connections.per.ip.overrides": "localhost:1"}, 1),
        ({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:3"}, 3),
    ],
)
def test_connections_of_an_address_are_limited(settings: dict[str, str], most: int) -> None:
    with running_gateway(settings) as running, ExitStack() as stack:
        clients = [stack.enter_context(running.client()) for _ in range(most)]
        for client in clients:
            client.call("METADATA", 9, topics=[])
        with running.client() as too_many:
            assert too_many.is_closed()
        clients[0].__exit__()
        wait_until(lambda: running.gateway.connections == most - 1)
        check_alive(running)


def change(client: Client, resource: str, **values: str | None) -> None:
    """Alter settings of a running broker, or of all; None deletes a setting."""
    configs = [
        {"name": name, "configOperation": int(value is None), "value": value}
        for name, value in values.items()
    ]
    body = {"resourceType": 4, "resourceName": resource, "configs": configs, "validateOnly": False}
    (response,) = client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)["responses"]
    assert response["errorCode"] == 0, response


@pytest.mark.parametrize("name", ["max.connections", "listener.name.plaintext.max.connections"])
def test_altered_connection_limits_apply_and_admit_waiting_connections(name: str) -> None:
    with running_gateway() as running, running.client() as first:
        change(first, "1", **{name: "2"})
        with running.client() as second, running.client() as third:
            second.call("METADATA", 9, topics=[])
            third.send("METADATA", 9, topics=[])
            wait_until(lambda: len(running.gateway._arrivals.waiting) == 1)
            change(first, "1", **{name: "3"})
            assert third.receive()
            change(first, "1", **{"max.connections.per.ip": "3"})
            with running.client() as fourth:
                fourth.send("METADATA", 9, topics=[])
                change(first, "1", **{name: None})
                assert fourth.is_closed(), "more than three of an address"
            overrides = {"max.connections.per.ip.overrides": "127.0.0.1:4,nowhere.invalid:9"}
            change(first, "1", **overrides)
            with running.client() as fifth:
                assert fifth.is_closed(), "a list with a host that nobody knows has no effect"
            change(first, "1", **{"max.connections.per.ip.overrides": "127.0.0.1:4"})
            check_alive(running)


def test_listener_limit_applies_from_the_start() -> None:
    name = "listener.name.plaintext.max.connections"
    with running_gateway({name: "1"}) as running, running.client() as first:
        first.call("METADATA", 9, topics=[])
        with running.client() as second:
            second.send("METADATA", 9, topics=[])
            wait_until(lambda: len(running.gateway._arrivals.waiting) == 1)
    with pytest.raises(UserError, match=name.rpartition("max")[2]):
        GatewayLimits.of({name: "many"})


def test_each_broker_counts_its_own_connections() -> None:
    with running_gateway({"max.connections": "1"}, brokers=2) as running, ExitStack() as stack:
        clients = [stack.enter_context(running.client(broker)) for broker in (1, 2)]
        for client in clients:
            client.call("METADATA", 9, topics=[])
        change(clients[1], "2", **{"max.connections": "2"})
        stack.enter_context(running.client(2)).call("METADATA", 9, topics=[])
        stack.enter_context(running.client(1)).send("METADATA", 9, topics=[])
        wait_until(lambda: len(running.gateway._arrivals.waiting) == 1)


@pytest.mark.parametrize("text", ["nowhere.invalid:5", "127.0.0.1:many", "127.0.0.1"])
def test_malformed_overrides_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"Invalid entry of max\.connections\.per\.ip\.overrides"):
        GatewayLimits.of({"max.connections.per.ip.overrides": text})


def test_address_is_forgotten_with_its_last_connection() -> None:
    with running_gateway() as running:
        check_alive(running)
        wait_until(lambda: running.gateway.connections == 0)
        door = running.gateway._arrivals._doors[1]
        assert (door.count, dict(door.by_host)) == (0, {})


def test_idle_connections_take_little_memory_and_do_not_delay_others(gateway: Running) -> None:
    """The growth includes both ends: the clients are in this process, too."""
    process = psutil.Process()
    check_alive(gateway)
    before = process.memory_info().rss
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(gateway.client())
        wait_until(lambda: gateway.gateway.connections >= IDLE)
        check_alive(gateway)
        grown = process.memory_info().rss - before
    assert grown < 10 * MIB + IDLE * 16 * 1024, f"{grown / IDLE:.0f} bytes for each"
    wait_until(lambda: gateway.gateway.connections == 0)


def test_partial_frame_is_kept_as_received_and_dropped_after_the_idle_time() -> None:
    with running_gateway({"connections.max.idle.ms": "400"}) as running, running.client() as half:
        half.send_bytes(struct.pack(">ih", 100 * MIB, API_KEYS["PRODUCE"]) + b"x" * 1000)
        wait_until(lambda: running.gateway.connections == 1)
        assert half.is_closed()


# -- clients that do not read


def request_much(client: Client, written: bytes) -> None:
    """Request a response with this batch; encoding it first keeps the connection from idling."""
    size = len(written)
    client.topic("wide", max_message_bytes=str(2 * size))
    assert client.produce("wide", written)["errorCode"] == 0
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 2 * size}
    client.send("FETCH", 12, partition, maxBytes=2 * size, sessionEpoch=-1, topic="wide")


@contextmanager
def slow_reader(
    written: bytes, idle_ms: int, buffer_bytes: int
) -> Iterator[tuple[Running, Client, int]]:
    """A client that has requested this batch, and its idle time, which the request is within."""
    for longer_ms in map(int, growing(idle_ms)):
        settings = {"connections.max.idle.ms": str(longer_ms)}
        with running_gateway(settings) as running, running.client() as slow:
            slow._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            try:
                request_much(slow, written)
            except ConnectionError:
                continue
            yield running, slow, longer_ms
            return


@pytest.mark.full
def test_client_that_reads_no_response_is_closed_after_the_idle_time() -> None:
    """Its connection and pending bytes used to stay forever."""
    written = batch(b"x" * 12 * MIB)
    with capture_logs() as logged, slow_reader(written, 600, 4096) as (running, _, idle_ms):
        wait_until(lambda: running.gateway.connections == 0)
        check_alive(running)
    assert f"idle for more than {idle_ms} ms" in {entry.get("reason") for entry in logged}


@pytest.mark.full
def test_slow_reader_gets_the_whole_response() -> None:
    """It takes longer than the idle time, but reads some bytes in each interval."""
    size = 30 * MIB
    with slow_reader(batch(b"x" * size), 1000, MIB) as (_, slow, idle_ms):
        received, begin = 0, time.monotonic()
        while received < size:
            part = slow._socket.recv(MIB)
            assert part, "closed on the way"
            received += len(part)
            time.sleep(0.06 * idle_ms / 1000 * len(part) / MIB)
        assert time.monotonic() - begin > idle_ms / 1000


# -- decompression bombs


def bomb(codec: str, data: bytes, count: int) -> bytes:
    """Return a batch whose records are `data`, with a valid CRC."""
    packers: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "snappy": snappy.compress,
        "lz4": lambda each: compression.compress("lz4", each),
        "zstd": zstandard.ZstdCompressor().compress,
    }
    packed = packers[codec](data)
    made = bytearray(batch(b"a")[: records.HEADER_BYTES]) + packed
    struct.pack_into(">i", made, 8, len(made) - records.LOG_OVERHEAD)
    struct.pack_into(">h", made, records.ATTRIBUTES_POSITION, CODECS[codec])
    struct.pack_into(">i", made, 23, count - 1)
    struct.pack_into(">i", made, 57, count)
    struct.pack_into(">I", made, 17, crc32c.crc32c(bytes(made[21:])))
    return bytes(made)


@pytest.fixture(scope="module")
def zeros() -> bytes:
    """Return zeros, half as many as the decompression limit."""
    return bytes(compression.DECOMPRESSED_BYTES_MAX // 2)


@pytest.mark.parametrize("codec", sorted(CODECS.keys() - {"none"}))
def test_bomb_is_decompressed_to_the_limit_and_refused(
    codec: str, zeros: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4 * MIB
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", most)
    data = bomb(codec, zeros, 1)
    tracemalloc.start()
    try:
        found = records.parse(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.error == Error.UNKNOWN_SERVER_ERROR
    assert peak < 4 * most + 4 * len(data)


@pytest.mark.parametrize(("most", "error"), [(6, Error.NONE), (5, Error.INVALID_RECORD)])
def test_batch_with_too_many_records_is_refused_before_parsing_them(
    most: int, error: Error, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million of seven bytes each are 725 bytes, half a second and 73 MB; there was no limit."""
    monkeypatch.setattr(records, "RECORDS_MAX", most)
    assert records.parse(batch(*[b"a" * 50] * 6, codec="zstd")).error == error


# -- SASL


def test_password_guessing_does_not_delay_other_logins(tmp_path: Path) -> None:
    """Passwords are hashed one at a time, off the event loop; logged-in clients are served."""
    with running_gateway(security=with_sasl(tmp_path)) as running, ExitStack() as stack:
        inside = stack.enter_context(running.client())
        assert sasl.log_in(inside)["errorCode"] == 0
        guessers = [stack.enter_context(running.client()) for _ in range(40)]
        for guesser in guessers:
            sasl.handshake(guesser, sasl.PLAIN)
        for number, guesser in enumerate(guessers):
            message = sasl.plain(password=f"guess {number}")
            guesser.send("SASL_AUTHENTICATE", 2, authBytes=message)
        inside.call("METADATA", 9, topics=[])
        with running.client() as late:
            assert sasl.log_in(late)["errorCode"] == 0
        for guesser in guessers:
            guesser.receive()
            assert guesser.is_closed()
        failed = running.gateway.traffic.failed_authentications
    assert failed == len(guessers)


def test_unauthenticated_connection_buffers_one_frame(tmp_path: Path) -> None:
    """The frame may have half a megabyte; another request closes the connection."""
    with running_gateway(security=with_sasl(tmp_path)) as running:
        with running.client() as large:
            large.send_bytes(struct.pack(">i", 524_289))
            assert large.is_closed()
        with running.client() as requests:
            requests.send("METADATA", 9, topics=[])
            assert requests.is_closed()
        with running.client() as producer:
            producer.send("PRODUCE", 9, produce_body("any", batch(b"x")))
            assert producer.is_closed()
