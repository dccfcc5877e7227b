"""Pushed client metrics are decompressed up to a limit."""

import tracemalloc
from base64 import b64encode

import pytest
from msgspec import UNSET

from brokertwin.gateway.admin import client_metrics
from brokertwin.gateway.admin.client_metrics import Software
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.protocol import compression
from brokertwin.protocol.generated.push_telemetry import PushTelemetryRequest
from brokertwin.state.apis.push_telemetry import NOT_READABLE

MOST = 64 * 1024
CODECS = tuple(enumerate(compression.NAMES))[1:]


def sizes(kind: int, metrics: bytes) -> tuple[int, int]:
    """Return the metrics sizes of an event: compressed and decompressed."""
    body = PushTelemetryRequest(compression_type=kind, metrics=b64encode(metrics).decode())
    client_metrics.complete(body, Software(), 1, MOST)
    assert body.metrics is UNSET
    return body.metrics_size_in_bytes, body.decompressed_size_in_bytes


@pytest.mark.parametrize(("kind", "codec"), CODECS)
def test_metrics_of_the_limit_are_read_and_one_byte_more_is_not(kind: int, codec: str) -> None:
    most, more = (compression.compress(codec, bytes(size)) for size in (MOST, MOST + 1))
    assert sizes(kind, most) == (len(most), MOST)
    assert sizes(kind, more) == (len(more), NOT_READABLE)


@pytest.mark.parametrize(("kind", "codec"), CODECS)
def test_decompression_bomb_stops_at_the_limit(kind: int, codec: str) -> None:
    bomb = compression.compress(codec, bytes(128 * MOST))
    tracemalloc.start()
    try:
        assert sizes(kind, bomb)[1] == NOT_READABLE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MOST + 4 * len(bomb)


@pytest.mark.parametrize(("kind", "codec"), CODECS)
def test_metrics_that_arrive_above_the_limit_are_not_decompressed(
    kind: int, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = bytes(MOST + 1)

    def requested(*_: object) -> bytes:
        raise AssertionError(f"{codec} is read")

    monkeypatch.setattr(compression, "decompress", requested)
    assert sizes(kind, metrics) == (MOST + 1, NOT_READABLE)


def test_broker_setting_limits_the_size() -> None:
    assert GatewayLimits.of({"telemetry.max.bytes": "7"}).telemetry_bytes == 7
    assert GatewayLimits.of({}).telemetry_bytes == 1_048_576
