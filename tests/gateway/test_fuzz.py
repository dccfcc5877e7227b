"""Random bytes cause no crash, no hang, and no memory for claimed lengths."""

import contextlib
import struct
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from brokertwin.gateway import slices
from brokertwin.gateway.admin.api_versions import SERVED
from brokertwin.protocol.frames import RequestFrame, decode_request, encode_request
from brokertwin.protocol.primitives import MalformedError
from brokertwin.protocol.schemas import API_NAMES
from brokertwin.state.core.events import Reason
from tests.support.batches import CODECS, batch
from tests.support.bodies import bodies
from tests.support.examples import examples
from tests.support.gateways import Running, produce_body, running_gateway
from tests.support.patience import wait_until

FUZZ = settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
_SIZE = struct.Struct(">i")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    """Yield a gateway that slices all it can; at the end it has no connections, and no fault."""
    with (
        capture_logs() as logged,
        pytest.MonkeyPatch.context() as patched,
        running_gateway({"socket.request.max.bytes": "100000"}) as running,
    ):
        patched.setattr(slices, "SLICED_BYTES", 0)
        patched.setattr(slices, "ITEMS", 1)
        yield running
        with running.client() as client:
            client.send_frame(b"nonsense")
            assert client.is_closed()
        wait_until(lambda: not running.gateway._connections, "connections stay")
    assert "connection closed" in {entry["event"] for entry in logged}
    assert [entry for entry in logged if entry["event"] == "fault"] == []
    assert [entry for entry in logged if entry.get("reason") == Reason.FAULT] == []


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw a request of any served API with any values, and batches in record fields."""
    key = draw(st.sampled_from(sorted(key for key, api in SERVED.items() if api.kafka.last >= 0)))
    first, last = SERVED[key].versions
    version = draw(st.integers(first, last))
    body = draw(bodies(f"{API_NAMES[key]}Request", version))
    for topic in body.get("topicData", ()):
        for partition in topic["partitionData"]:
            codec = draw(st.sampled_from(sorted(CODECS)))
            partition["records"] = draw(st.sampled_from([None, b"", batch(b"x" * 40, codec=codec)]))
    if "maxWaitMs" in body:
        body["maxWaitMs"] = 0
    header = {
        "requestApiKey": key,
        "requestApiVersion": version,
        "correlationId": draw(st.integers(-(2**31), 2**31 - 1)),
        "clientId": draw(st.none() | st.text(max_size=5)),
    }
    return encode_request(RequestFrame(header, body))


@st.composite
def mutilated(draw: st.DrawFn) -> bytes:
    """Draw requests with flipped bits, missing pieces, and wrong lengths."""
    frames = draw(st.lists(requests(), min_size=1, max_size=3))
    data = bytearray(b"".join(_SIZE.pack(len(frame)) + frame for frame in frames))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(data) - 1))
        kind = draw(st.sampled_from(["flip", "cut", "length", "insert"]))
        if kind == "flip":
            data[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del data[place : place + draw(st.integers(1, 8))]
        elif kind == "insert":
            data[place:place] = draw(st.binary(max_size=8))
        else:
            data[place : place + 4] = draw(st.sampled_from([b"\x7f\xff\xff\xff", b"\xff" * 4]))
        if not data:
            break
    return bytes(data)


def check_alive(running: Running) -> None:
    with running.client() as client:
        client.call("METADATA", 9, topics=[])


@given(data=mutilated())
@FUZZ
def test_mutilated_requests_do_not_affect_other_clients(gateway: Running, data: bytes) -> None:
    with gateway.client() as client:
        client.send_bytes(data)
        check_alive(gateway)


@given(data=st.binary(max_size=300))
@FUZZ
def test_any_bytes_do_not_affect_other_clients(gateway: Running, data: bytes) -> None:
    with gateway.client() as client:
        client.send_bytes(data)
        check_alive(gateway)


@given(frame=requests())
@FUZZ
def test_request_with_any_values_gets_a_response_or_is_closed(
    gateway: Running, frame: bytes
) -> None:
    """The next request on the connection gets a response, too, unless it was closed."""
    with gateway.client() as client:
        client.send_frame(frame)
        try:
            client.send("METADATA", 9, topics=[])
            client.receive()
        except ConnectionError:
            pass
        check_alive(gateway)


@given(data=st.binary(max_size=64))
@FUZZ
def test_frame_is_a_request_or_malformed(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        decode_request(data)


def test_huge_lengths_allocate_no_memory(gateway: Running) -> None:
    """Short frames with huge sizes, and with huge strings and arrays."""
    claims = [_SIZE.pack(99_999), _SIZE.pack(20) + struct.pack(">hhih", 3, 8, 1, 32_767)]
    claims.append(_SIZE.pack(14) + struct.pack(">hhihi", 3, 8, 1, -1, 2**31 - 1))
    tracemalloc.start()
    try:
        for _ in range(100):
            for claim in claims:
                with gateway.client() as client:
                    client.send_bytes(claim)
        check_alive(gateway)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * 1024 * 1024


def test_refused_batches_leave_no_bytes_behind(gateway: Running) -> None:
    kept = len(gateway.engine._store)
    data = batch(b"x" * 1000)
    with gateway.client() as client:
        for number in range(50):
            broken = bytearray(data)
            broken[20 + number * 5] ^= 0xFF
            client.call("PRODUCE", 9, produce_body("nowhere", bytes(broken)))
            client.call("PRODUCE", 9, produce_body("nowhere", data))
    assert len(gateway.engine._store) == kept
