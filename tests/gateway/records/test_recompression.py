"""Recompression (`compression.type`), compared with a real broker."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.records import recompression
from brokertwin.protocol import compression
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.bodies import render
from brokertwin.protocol.record_batches import HEADER_BYTES
from brokertwin.state.configs.codecs import TopicCodec
from tests.support.batches import CODECS, batch
from tests.support.configs import BROKER, SET
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import KEEPING, WRITTEN_MS, Track
from tests.support.patience import wait_until

GOLDEN = "logs/recompression"
REQUESTED = {"uncompressed": "none", **{name: name for name in CODECS if name != "none"}}
VALUES = (b"one" * 300, b"two", b"", b"three" * 20_000)
TOO_EARLY = {3, 6}
"""Errors of a real broker that does not lead a new partition yet."""
OF_BYTES = ("baseOffset", "crc", "sizeInBytes", "partitionLeaderEpoch")
"""Header fields that depend on the place or the exact bytes."""


def produced(client: Client, topic: str, data: bytes) -> dict[str, Any]:
    """Return the partition's response, once it has a leader."""
    responses: list[dict[str, Any]] = []

    def is_completed() -> bool:
        responses.append(client.produce(topic, data))
        return responses[-1]["errorCode"] not in TOO_EARLY

    wait_until(is_completed, "the topic has a leader")
    return responses[-1]


def made(codec: str) -> bytes:
    """Return a batch in a codec; its bytes may vary."""
    return batch(*VALUES, codec=codec, timestamps=[WRITTEN_MS] * len(VALUES))


def kept(client: Client, topic: str, data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return a stored batch's header and records."""
    response = produced(client, topic, data)
    assert response["errorCode"] == 0, response
    data = bytes(client.fetch(topic, response["baseOffset"])["records"])
    found = records.parse(data)
    assert (found.error, found.size_in_bytes) == (0, len(data))
    header = {
        key: value for key, value in render(found.batches[0], 0).items() if key not in OF_BYTES
    }
    return header, compression.decompress(header["compressionType"], data[HEADER_BYTES:])


def alter(client: Client, kind: int, name: str, **configs: str) -> None:
    """Alter settings of a topic, or of all brokers."""
    changes = [
        {"name": key.replace("_", "."), "configOperation": SET, "value": value}
        for key, value in configs.items()
    ]
    resource = {"resourceType": kind, "resourceName": name, "configs": changes}
    response = client.call("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]})
    assert response["responses"][0]["errorCode"] == 0, response


@pytest.mark.parametrize("requested", [*REQUESTED, "producer"])
def test_batches_are_stored_in_the_topics_codec_like_kafkas(
    real_kafka: Address, track: Track, requested: str
) -> None:
    data = [track.drawn(codec, partial(made, codec)) for codec in CODECS]
    with running_gateway(KEEPING) as gateway:
        found = []
        for client in (track.connection(lambda: Client(real_kafka)), gateway.client()):
            with client:
                topic = f"kept-{requested}"
                client.topic(topic, compression_type=requested)
                found.append([kept(client, topic, each) for each in data])
        assert found[1] == found[0]
        expected = [REQUESTED.get(requested, codec) for codec in CODECS]
        assert [header["compressionType"] for header, _ in found[1]] == expected


def test_received_and_stored_sizes_are_limited_like_kafkas(
    real_kafka: Address, track: Track
) -> None:
    smaller = [
        track.drawn(codec, partial(batch, b"a" * 1000, codec=codec, timestamps=[WRITTEN_MS]))
        for codec in ("none", "gzip")
    ]
    with running_gateway(KEEPING) as gateway:
        found = []
        for client in (track.connection(lambda: Client(real_kafka)), gateway.client()):
            with client:
                for codec in ("gzip", "uncompressed"):
                    configs = {"compression_type": codec, "max_message_bytes": "500"}
                    topic = f"bounded-{codec}"
                    client.topic(topic, **configs)
                    for data in smaller:
                        response = produced(client, topic, data)
                        found.append((codec, response["errorCode"]))
    assert found[4:] == found[:4]
    assert found[:4] == [("gzip", 10), ("gzip", 0), ("uncompressed", 10), ("uncompressed", 10)]


def test_broker_setting_applies_where_the_topic_has_none() -> None:
    with running_gateway({"compression.type": "gzip"}) as gateway, gateway.client() as client:
        client.topic("plain")
        client.topic("own", compression_type="lz4")
        assert kept(client, "plain", made("none"))[0]["compressionType"] == "gzip"
        assert kept(client, "own", made("none"))[0]["compressionType"] == "lz4"
        alter(client, BROKER, "", compression_type="zstd")
        assert kept(client, "plain", made("none"))[0]["compressionType"] == "zstd"


def test_repeated_batch_of_an_idempotent_producer_is_recognized() -> None:
    with running_gateway() as gateway, gateway.client() as client:
        client.topic("once", compression_type="gzip")
        data = batch(b"a" * 500, producer=(client.producer_id(), 0, 0))
        first, second = (client.produce("once", data) for _ in range(2))
        assert (first["errorCode"], second["errorCode"]) == (0, 0)
        assert first["baseOffset"] == second["baseOffset"] == 0
        assert client.list_offset("once", -1)["offset"] == 1


def test_codec_survives_a_restart(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running_gateway(journal=journal) as gateway, gateway.client() as client:
        client.topic("logged", compression_type="snappy")
        before = kept(client, "logged", made("none"))
    with running_gateway(journal=journal) as gateway, gateway.client() as client:
        data = bytes(client.fetch("logged", 0)["records"])
    found = records.parse(data).batches[0]
    assert (found.compression_type, found.record_count) == ("snappy", len(VALUES))
    assert compression.decompress("snappy", data[HEADER_BYTES:]) == before[1]


@given(
    values=st.lists(st.binary(max_size=200), min_size=1, max_size=5),
    came=st.sampled_from(sorted(CODECS)),
    requested=st.sampled_from(sorted(CODECS)),
)
def test_recompression_keeps_the_records(values: list[bytes], came: str, requested: str) -> None:
    found = records.parse(batch(*values, codec=came))
    stored = recompression.in_codec(found, TopicCodec(requested), 9)
    assert stored.data is not None
    assert found.data is not None
    again = records.parse(stored.data)
    assert (again.error, again.batches) == (0, stored.batches)
    assert records.records_of(stored.data) == records.records_of(found.data)
    plain = [
        compression.decompress(header.compression_type, data[HEADER_BYTES:])
        for header, data in ((found.batches[0], found.data), (again.batches[0], stored.data))
    ]
    assert plain[0] == plain[1]


@pytest.mark.parametrize(("came", "requested"), [("none", "zstd"), ("zstd", "gzip")])
def test_produce_version_before_zstd_keeps_its_codec(came: str, requested: str) -> None:
    actual = records.parse(batch(*VALUES, codec=came))
    assert recompression.in_codec(actual, TopicCodec(requested), 6) is actual


def test_refused_batch_is_not_recompressed() -> None:
    found = records.parse(batch(*VALUES))
    refused = found._replace(error=2)
    assert recompression.in_codec(refused, TopicCodec("gzip"), 9) is refused
