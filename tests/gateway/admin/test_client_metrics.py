"""Metrics that clients push are decompressed as far as they may be large, and no further."""

import tracemalloc
from base64 import b64encode

import pytest

from brokertwin.gateway.admin import client_metrics
from brokertwin.gateway.admin.client_metrics import Software
from brokertwin.gateway.limits import Limits
from brokertwin.gateway.records import compression
from brokertwin.state.apis.push_telemetry import NOT_READABLE

MOST = 64 * 1024
CODECS = tuple(enumerate(compression.NAMES))[1:]


def sizes(kind: int, metrics: bytes) -> tuple[int, int]:
    """What an event says of metrics: their size as they came, and decompressed."""
    body = {"compressionType": kind, "metrics": b64encode(metrics).decode()}
    client_metrics.complete(body, Software(), 1, MOST)
    assert "metrics" not in body
    return int(body["metricsSizeInBytes"]), int(body["decompressedSizeInBytes"])


@pytest.mark.parametrize(("kind", "codec"), CODECS)
def test_they_may_be_as_large_as_that_and_one_byte_more_is_not_read(kind: int, codec: str) -> None:
    most, more = (compression.compress(codec, bytes(size)) for size in (MOST, MOST + 1))
    assert sizes(kind, most) == (len(most), MOST)
    assert sizes(kind, more) == (len(more), NOT_READABLE)


@pytest.mark.parametrize(("kind", "codec"), CODECS)
def test_no_more_is_made_of_a_bomb(kind: int, codec: str) -> None:
    bomb = compression.compress(codec, bytes(128 * MOST))
    tracemalloc.start()
    try:
        assert sizes(kind, bomb)[1] == NOT_READABLE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MOST + 4 * len(bomb)


@pytest.mark.parametrize(("kind", "codec"), CODECS)
def test_what_comes_as_more_is_not_decompressed(
    kind: int, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = bytes(MOST + 1)

    def asked(*_: object) -> bytes:
        raise AssertionError(f"{codec} is read")

    monkeypatch.setattr(compression, "decompress", asked)
    assert sizes(kind, metrics) == (MOST + 1, NOT_READABLE)


def test_the_broker_setting_says_how_large() -> None:
    assert Limits.of({"telemetry.max.bytes": "7"}).telemetry_bytes == 7
    assert Limits.of({}).telemetry_bytes == 1_048_576
