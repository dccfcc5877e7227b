"""The wire codec: every message of Kafka 4.3.1, in every version."""

import gzip
import importlib
import inspect
import itertools
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from brokertwin.kafka_io import jars
from brokertwin.protocol.bodies import render
from brokertwin.protocol.codec import message_reader, message_writer
from brokertwin.protocol.frames import (
    RequestFrame,
    UnsupportedError,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_sized_response,
)
from brokertwin.protocol.generated.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.protocol.primitives import (
    MalformedError,
    NotEncodableError,
)
from brokertwin.protocol.schemas import API_NAMES, MESSAGES, parse_versions
from brokertwin.settings import default_home
from tests.support.bodies import NOT_FINITE, bodies, full_body
from tests.support.examples import examples
from tests.wire import schemas

CAPTURES = sorted((Path(__file__).parent.parent / "captures").glob("*.jsonl.gz"))
QUICK = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78

KAFKA_PYTHON_MODULES = (
    "admin.acl",
    "admin.client_quotas",
    "admin.cluster",
    "admin.configs",
    "admin.groups",
    "admin.topics",
    "admin.transactions",
    "admin.users",
    "consumer.fetch",
    "consumer.group",
    "consumer.metadata",
    "consumer.offsets",
    "metadata.api_versions",
    "metadata.find_coordinator",
    "metadata.metadata",
    "producer.produce",
    "producer.transaction",
    "sasl",
)


def kafka_python_messages() -> dict[str, type[ApiMessage]]:
    modules = [importlib.import_module(f"kafka.protocol.{m}") for m in KAFKA_PYTHON_MODULES]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, ApiMessage) and name in MESSAGES
    }


KAFKA_PYTHON = kafka_python_messages()


def encoded(name: str, version: int, body: dict[str, Any]) -> bytes:
    out = bytearray()
    message_writer(name, version)(out, body)
    return bytes(out)


def versions_of(name: str) -> list[int]:
    first, last = MESSAGES[name].versions
    return list(range(first, last + 1))


def test_most_messages_are_compared_with_kafka_python() -> None:
    assert len(KAFKA_PYTHON) > len(MESSAGES) / 2


def api_of(name: str) -> tuple[int, bool]:
    return MESSAGES[name].api_key, name.endswith("Request")


def framed(name: str, version: int, body: dict[str, Any]) -> bytes:
    """Return a message with its header."""
    key, is_request = api_of(name)
    if not is_request:
        return bytes(encode_response(key, version, 7, body))
    header = {
        "requestApiKey": key,
        "requestApiVersion": version,
        "correlationId": 7,
        "clientId": "a client",
    }
    return encode_request(RequestFrame(header, body))


def check_round_trip(name: str, version: int, body: dict[str, Any]) -> bytes:
    written = encoded(name, version, body)
    assert message_reader(name, version)(written, 0) == (body, len(written))
    return written


def check_against_kafka_python(name: str, version: int, body: dict[str, Any]) -> None:
    """Check that kafka-python reads our bytes, and writes the same."""
    theirs = KAFKA_PYTHON.get(name)
    if name == "ApiVersionsResponse":
        body = {**body, "errorCode": 0}  # kafka-python reads an error as version 0
    if theirs is not None and theirs.min_version <= version <= theirs.max_version:
        frame = framed(name, version, body)
        read = theirs.decode(frame, version=version, header=True)
        if not api_of(name)[1]:
            assert read.header.correlation_id == 7
            read._header = None  # kafka-python writes no response headers
        again = read.encode(version=version, header=api_of(name)[1])
        assert frame.endswith(bytes(again))
        assert len(frame) - len(again) in ({0} if api_of(name)[1] else {4, 5})


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_every_field_of_every_version_round_trips(name: str) -> None:
    for version, is_null in itertools.product(versions_of(name), (False, True)):
        body = full_body(name, version, is_null)
        check_round_trip(name, version, body)
        check_against_kafka_python(name, version, body)


@given(data=st.data())
@QUICK
def test_any_values_round_trip_and_truncated_data_is_malformed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(MESSAGES)), label="name")
    version = data.draw(st.sampled_from(versions_of(name)), label="version")
    body = data.draw(bodies(name, version), label="body")
    written = check_round_trip(name, version, body)
    check_against_kafka_python(name, version, body)
    if written:
        end = data.draw(st.integers(0, len(written) - 1), label="end")
        with pytest.raises(MalformedError):
            message_reader(name, version)(written[:end], 0)


def test_omitted_fields_get_their_defaults() -> None:
    for name in MESSAGES:
        for version in versions_of(name):
            written = encoded(name, version, {})
            body, _ = message_reader(name, version)(written, 0)
            assert encoded(name, version, body) == written, f"{name} {version}"


def test_response_is_sent_behind_its_size() -> None:
    body = {"topics": [{"name": "a" * 300}]}
    frame = encode_response(3, 12, 7, body)
    assert encode_sized_response(3, 12, 7, body) == len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize("version", [0, 9, 13])
def test_shared_part_of_responses_is_encoded_once_per_version(version: int) -> None:
    partition = MetadataResponsePartition(partition_index=1, leader_id=2, replica_nodes=[2])
    topics = [MetadataResponseTopic(name=each, partitions=[partition]) for each in "abb"]
    response = MetadataResponse(topics=topics)
    written = encoded("MetadataResponse", version, render(response, version))
    for _ in range(2):
        out = bytearray()
        message_writer("MetadataResponse", version, MetadataResponse)(out, response)
        assert out == written
    (kept,) = (each for each in vars(topics[0]).values() if isinstance(each, bytes))
    assert written.count(kept) == 1


@pytest.mark.parametrize("value", [*NOT_FINITE, 0.1, -2.5e300])
def test_double_without_json_number_is_a_string(value: str | float) -> None:
    ops = [{"key": "request_percentage", "value": value, "remove": False}]
    entity = [{"entityType": "user", "entityName": "alice"}]
    body = {"entries": [{"entity": entity, "ops": ops}], "validateOnly": False}
    written = check_round_trip("AlterClientQuotasRequest", 1, body)
    assert struct.pack(">d", float(value)) in written


def lines_of(capture: Path) -> list[dict[str, Any]]:
    with gzip.open(capture, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def without_records(response: dict[str, Any]) -> None:
    """Remove record sets: recordings have null there, which a ShareFetch cannot have."""
    for topic in response["responses"]:
        for partition in topic["partitions"]:
            partition["records"] = b""


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name.split(".")[0])
def test_recorded_exchanges_round_trip(capture: Path) -> None:
    """Their bodies are in the form of Kafka's RequestConvertToJson, except record sets."""
    for line in lines_of(capture):
        if "requestHeader" not in line:
            continue  # the end of a connection
        header, body = line["requestHeader"], line["request"]
        key, version = header["requestApiKey"], header["requestApiVersion"]
        frame = encode_request(RequestFrame(header, body))
        request_frame = decode_request(frame)
        assert request_frame.header == header
        assert key == PRODUCE or request_frame.body == body
        if line["response"] is not None:
            if key == SHARE_FETCH:
                without_records(line["response"])
            received = bytes(encode_response(key, version, 7, line["response"]))
            correlation, response = decode_response(key, version, received)
            assert correlation == 7
            assert key in (FETCH, SHARE_FETCH) or response == line["response"]


@pytest.mark.kafka
def test_the_schemas_are_those_in_kafkas_jars() -> None:
    found = sorted(jars.fetch(jars.kafka_jars(), default_home()))
    of_kafka = [path for path in found if path.name.startswith("kafka-")]
    assert schemas.TARGET.read_text() == schemas.text_of(of_kafka, jars.KAFKA_VERSION)


def test_every_api_of_kafka_exists_in_all_its_versions() -> None:
    assert API_NAMES.keys() >= {key for key, api in KAFKA_APIS.items() if api.is_listed}
    for key, name in API_NAMES.items():
        api = KAFKA_APIS[key]
        for kind in ("Request", "Response"):
            versions = MESSAGES[f"{name}{kind}"].versions
            assert versions.first <= api.first
            assert versions.last >= api.last


@pytest.mark.parametrize(
    ("version", "length"),
    [(8, b"\x7f\xff\xff\xff"), (9, b"\xff\xff\xff\xff\x07"), (8, b"\x80\0\0\0")],
)
def test_huge_length_allocates_no_memory(version: int, length: bytes) -> None:
    with pytest.raises(MalformedError):
        message_reader("MetadataRequest", version)(length + b"\0" * 8, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_string_longer_than_an_int16_length_is_malformed(version: int) -> None:
    body = {"transactionalId": "x" * 32_767, "transactionTimeoutMs": 1}
    written = encoded("InitProducerIdRequest", version, body)
    read = message_reader("InitProducerIdRequest", version)
    assert read(written, 0)[0] == body
    if version == 2:  # flexible from this version on
        longer = b"\x81\x80\2" + b"x" * 32_768 + written[-5:]
        with pytest.raises(MalformedError, match="32768 bytes at byte 3; 32767 at most"):
            read(longer, 0)


def test_unknown_tags_are_skipped() -> None:
    body = {"topics": None, "allowAutoTopicCreation": True}
    for name in ("includeClusterAuthorizedOperations", "includeTopicAuthorizedOperations"):
        body[name] = False
    written = encoded("MetadataRequest", 9, body)
    assert written.endswith(b"\0")
    tagged = written[:-1] + b"\1\x63\3abc"
    assert message_reader("MetadataRequest", 9)(tagged, 0)[0] == body


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"topics": [{"name": 7}]}, "topics"),
        ({"topics": [{"name": "x" * 40_000}]}, "32767 at most"),
        ({"topics": [{"name": "x", "topicId": "short"}]}, "is no uuid"),
        ({"allowAutoTopicCreation": True, "topics": 5}, "topics"),
    ],
)
def test_mismatched_body_is_refused_with_the_field_name(body: dict[str, Any], text: str) -> None:
    with pytest.raises(NotEncodableError, match=text):
        encoded("MetadataRequest", 12, body)


def test_null_is_refused_where_the_version_has_none() -> None:
    with pytest.raises(NotEncodableError, match="clusterId"):
        encoded("DescribeClusterResponse", 0, {"clusterId": None})


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (4, 0), (0, 2), (3, 99)])
def test_unknown_api_or_version_is_reported_with_its_correlation_id(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + b"\0\0\0\7\xff\xff"
    with pytest.raises(UnsupportedError) as caught:
        decode_request(frame)
    assert (caught.value.api_key, caught.value.version) == (key, version)
    assert caught.value.correlation_id == 7
    assert str(caught.value).endswith(": Kafka 4 removed it") == ((key, version) == (0, 2))


def test_version_ranges_are_parsed_like_kafkas() -> None:
    assert list(parse_versions("3-13")) == [3, 13]
    assert 9 in parse_versions("4+")
    assert 5 not in parse_versions("4")
    assert 0 not in parse_versions("none")
