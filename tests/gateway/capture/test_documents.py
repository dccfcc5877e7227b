"""A document holds a whole frame: encoded again it has the same bytes."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokertwin.gateway.capture.documents import CapturedExchange, End
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.bodies import render
from brokertwin.protocol.frames import RequestFrame, encode_request, encode_response
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.protocol.schemas import API_NAMES, MESSAGES
from brokertwin.state.access.redaction import HIDDEN_BYTES, may_hold_credentials
from tests.support.batches import batch
from tests.support.bodies import bodies
from tests.support.examples import examples

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.jsonl.gz"))
PRODUCE, FETCH, METADATA, API_VERSIONS, SASL_AUTHENTICATE, SHARE_FETCH = 0, 1, 3, 18, 36, 78
WITH_RECORDS = {PRODUCE, FETCH, SHARE_FETCH}
PLAIN_APIS = sorted(
    key for key in API_NAMES if key not in WITH_RECORDS and not may_hold_credentials(key)
)


def header(api_key: int, version: int) -> dict[str, Any]:
    name = KAFKA_APIS[api_key].name
    return {
        "requestApiKey": api_key,
        "requestApiVersion": version,
        "correlationId": 7,
        "clientId": "a client",
        "requestApiKeyName": name,
    }


def exchange(
    request: bytes, response: bytes | None, principal: str | None = "User:a"
) -> CapturedExchange:
    result = CapturedExchange(1000, 5.0, "c1", principal)
    result.read_request(request)
    if response is not None:
        result.read_response(response)
    return result


def document(request: bytes, response: bytes | None, **how: Any) -> dict[str, Any]:
    made = exchange(request, response)
    written = made.document(**{"ended": 5.0025, "is_delivered": True, "broker": None, **how})
    assert b"\n" not in written
    result: dict[str, Any] = json.loads(written)
    return result


@given(data=st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_document_is_encoded_to_the_bytes_of_the_wire(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(PLAIN_APIS), label="API")
    first, last = MESSAGES[f"{API_NAMES[key]}Request"].versions
    version = data.draw(st.integers(first, last), label="version")
    request = data.draw(bodies(f"{API_NAMES[key]}Request", version), label="request")
    response = data.draw(bodies(f"{API_NAMES[key]}Response", version), label="response")
    sent = encode_request(RequestFrame(header(key, version), request))
    responded = bytes(encode_response(key, version, 7, response))
    actual = document(sent, responded)
    assert encode_request(RequestFrame(actual["requestHeader"], actual["request"])) == sent
    assert bytes(encode_response(key, version, 7, actual["response"])) == responded
    assert "reason" not in actual


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name.split(".")[0])
def test_exchanges_are_restored_from_their_documents(capture: Path) -> None:
    for line in gzip.decompress(capture.read_bytes()).decode().splitlines():
        recorded = json.loads(line)
        if recorded.get("kind"):
            end = End(recorded["time"], recorded["connection"])
            assert end.document(None).decode() == line
            continue
        key = recorded["requestHeader"]["requestApiKey"]
        version = recorded["requestHeader"]["requestApiVersion"]
        if key in WITH_RECORDS:
            continue
        request = encode_request(RequestFrame(recorded["requestHeader"], recorded["request"]))
        response = bytes(encode_response(key, version, 7, recorded["response"]))
        made = exchange(request, response, recorded["principal"])
        made.time, made.connection = recorded["time"], recorded["connection"]
        ended = 5.0 + recorded["responseTime"] / 1000
        is_delivered = recorded.get("delivered", True)
        assert json.loads(made.document(ended, is_delivered, None)) == recorded


def produce(acks: int, data: bytes | None) -> bytes:
    partition = {"index": 3, "records": data}
    topics = [{"name": "t", "partitionData": [partition]}]
    body = {"transactionalId": None, "acks": acks, "timeoutMs": 1, "topicData": topics}
    return encode_request(RequestFrame(header(PRODUCE, 9), body))


def test_record_set_is_shown_as_headers_of_whole_batches() -> None:
    data = batch(b"a") + batch(b"b", b"c")
    found = document(produce(-1, data + data[:70]), None)
    partition = found["request"]["topicData"][0]["partitionData"][0]
    assert partition["records"] is None
    assert partition["recordsSizeInBytes"] == len(data) + 70
    first, second = partition["batches"]
    assert first == render(records.parse(batch(b"a")).batches[0], 0)
    assert (second["recordCount"], second["magic"]) == (2, 2)


def test_record_set_of_a_fetch_response_is_shown_as_headers() -> None:
    partition = {"partitionIndex": 0, "highWatermark": 9, "records": batch(b"a")}
    response = {"responses": [{"topic": "t", "partitions": [partition]}]}
    sent = encode_request(RequestFrame(header(FETCH, 12), {}))
    found = document(sent, bytes(encode_response(FETCH, 12, 7, response)))
    shown = found["response"]["responses"][0]["partitions"][0]
    assert shown["recordsSizeInBytes"] == len(batch(b"a"))
    assert [each["recordCount"] for each in shown["batches"]] == [1]
    assert shown["highWatermark"] == 9


def test_produce_with_acks_0_has_a_null_response() -> None:
    one_way = exchange(produce(0, None), None)
    assert one_way.is_one_way
    one_way.is_complete = True
    found = json.loads(one_way.document(9.0, True, None))
    assert found["response"] is None
    assert found["responseTime"] == 0
    assert not exchange(produce(1, None), None).is_one_way


def test_missing_response_differs_from_a_null_response() -> None:
    actual = document(produce(-1, None), None, is_delivered=False)
    assert "response" not in actual
    assert actual["delivered"] is False


def test_frame_of_a_document() -> None:
    sent = encode_request(RequestFrame(header(METADATA, 12), {"topics": None}))
    found = document(sent, None, broker=4)
    assert (found["time"], found["responseTime"], found["broker"]) == (1000, 2.5, 4)
    assert (found["connection"], found["principal"]) == ("c1", "User:a")
    unknown = exchange(sent, None, principal=None).document(5.0, True, None)
    assert "principal" not in json.loads(unknown)


@pytest.mark.parametrize(("key", "version"), [(999, 0), (METADATA, 99), (SASL_AUTHENTICATE, 77)])
def test_undecodable_frame_has_a_reason_and_no_bytes(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7" + b"hunter2" * 9
    actual = document(frame, b"\0\0\0\7" + b"hunter2" * 9)
    assert (actual["request"], "response" in actual) == (None, False)
    assert actual["requestHeader"]["requestApiKey"] == key
    assert actual["requestHeader"]["correlationId"] == 7
    assert "is not supported" in actual["reason"]
    assert (actual["requestSizeInBytes"], actual["responseSizeInBytes"]) == (71, 67)
    assert "hunter2" not in json.dumps(actual)


@pytest.mark.parametrize(
    ("key", "version", "client"), [(PRODUCE, 2, "app"), (METADATA, 99, "app"), (999, 0, None)]
)
def test_a_request_of_an_unknown_version_keeps_its_client_id(
    key: int, version: int, client: str | None
) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7\0\3app" + b"body"
    assert document(frame, None)["requestHeader"]["clientId"] == client


@given(st.binary(max_size=40))
def test_any_bytes_become_a_document(frame: bytes) -> None:
    actual = document(frame, frame)
    assert actual["request"] is not None or "reason" in actual


def test_undecodable_response_keeps_the_request() -> None:
    sent = encode_request(RequestFrame(header(METADATA, 12), {"topics": None}))
    actual = document(sent, b"\0\0\0\7\xff\xff")
    assert actual["request"]["topics"] is None
    assert "response" not in actual
    assert actual["reason"].startswith("response: ")


def test_unsupported_api_versions_request_has_a_version_0_response() -> None:
    body = {"clientSoftwareName": "x", "clientSoftwareVersion": "1"}
    request = encode_request(RequestFrame(header(API_VERSIONS, 4), body))
    refused = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 3}]}
    found = document(request, bytes(encode_response(API_VERSIONS, 0, 7, refused)))
    assert found["response"] == refused


def test_document_contains_no_token() -> None:
    sent = encode_request(
        RequestFrame(header(SASL_AUTHENTICATE, 2), {"authBytes": b"\0a\0hunter2"})
    )
    response = {
        "errorCode": 0,
        "errorMessage": None,
        "authBytes": b"hunter2",
        "sessionLifetimeMs": 0,
    }
    found = document(sent, bytes(encode_response(SASL_AUTHENTICATE, 2, 7, response)))
    assert found["request"]["authBytes"] == HIDDEN_BYTES
    assert found["response"]["authBytes"] == HIDDEN_BYTES
