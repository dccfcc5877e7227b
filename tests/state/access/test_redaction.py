"""Redaction removes all credentials and nothing else."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.access.redaction import (
    HIDDEN,
    HIDDEN_BYTES,
    is_sensitive,
    may_hold_credentials,
    redact,
    redact_exchange,
)

SCHEMAS = Path(__file__).parents[3] / "brokertwin" / "protocol" / "schemas.json"
SECRET = "correct horse battery staple"
SECRET_BYTES = base64.b64encode(SECRET.encode()).decode()
CREATE_TOPICS, DESCRIBE_CONFIGS, ALTER_CONFIGS, SASL_AUTHENTICATE = 19, 32, 33, 36
INCREMENTAL_ALTER_CONFIGS, ALTER_SCRAM, ENVELOPE, STREAMS_HEARTBEAT = 44, 51, 58, 88
UNKNOWN_API = 999

OPEN_BYTES = {
    "SyncGroupRequest.assignment",
    "SyncGroupResponse.assignment",
    "JoinGroupRequest.metadata",
    "JoinGroupResponse.metadata",
    "DescribeGroupsResponse.memberMetadata",
    "DescribeGroupsResponse.memberAssignment",
    "PushTelemetryRequest.metrics",
}
"""Bytes fields of Kafka's messages that are not credentials, besides records."""


def alter(name: str, value: str | None) -> dict[str, Any]:
    return {
        "resources": [
            {
                "resourceType": 4,
                "resourceName": "1",
                "configs": [{"name": name, "configOperation": 0, "value": value}],
            }
        ],
        "validateOnly": False,
    }


def value_of(body: Any) -> Any:
    return body["resources"][0]["configs"][0]["value"]


def bytes_fields(name: str, fields: list[dict[str, Any]]) -> Iterator[str]:
    for field in fields:
        if field["type"] == "bytes":
            yield f"{name}.{field['name']}"
        yield from bytes_fields(name, field.get("fields", []))


def test_every_bytes_field_of_every_message_is_redacted_or_listed_as_open() -> None:
    messages = json.loads(SCHEMAS.read_text(encoding="utf-8"))["messages"]
    fields = [each for name in messages for each in bytes_fields(name, messages[name]["fields"])]
    for full_name in fields:
        message, field = full_name.split(".")
        is_request = message.endswith("Request")
        shown = redact(messages[message]["apiKey"], {"in": [{field: SECRET_BYTES}]}, is_request)
        kept = shown["in"][0][field] == SECRET_BYTES
        assert kept is (full_name in OPEN_BYTES), full_name
    assert set(fields) >= OPEN_BYTES


def lists_of_settings(name: str, fields: list[dict[str, Any]]) -> Iterator[str]:
    """Lists in a message whose items have a name and a value, both texts."""
    for field in fields:
        inner = field.get("fields", [])
        texts = {each["name"] for each in inner if each["type"] == "string"}
        if {"name", "value"} <= texts:
            yield f"{name}.{field['name']}"
        yield from lists_of_settings(name, inner)


def test_every_list_of_settings_of_every_message_redacts_passwords() -> None:
    messages = json.loads(SCHEMAS.read_text(encoding="utf-8"))["messages"]
    found = [e for name in messages for e in lists_of_settings(name, messages[name]["fields"])]
    for full_name in found:
        message, field = full_name.split(".")
        secret = {"name": "ssl.key.password", "value": SECRET}
        is_request = message.endswith("Request")
        shown = redact(messages[message]["apiKey"], {"in": [{field: [secret]}]}, is_request)
        assert shown["in"][0][field][0]["value"] == HIDDEN, full_name
    assert {"CreateTopicsRequest.configs", "DescribeConfigsResponse.synonyms"} <= set(found)


@pytest.mark.parametrize("is_request", [True, False])
def test_sasl_token_is_redacted_in_both_directions(is_request: bool) -> None:
    body = {"errorCode": 0, "authBytes": SECRET_BYTES}
    shown = redact(SASL_AUTHENTICATE, body, is_request)
    assert shown == {"errorCode": 0, "authBytes": HIDDEN_BYTES}
    assert body["authBytes"] == SECRET_BYTES, "the given body is not changed"


def test_salt_and_salted_password_are_redacted_but_not_the_user() -> None:
    upsertion = {"name": "alice", "mechanism": 1, "iterations": 4096}
    secret = {"salt": SECRET_BYTES, "saltedPassword": SECRET_BYTES}
    shown = redact(ALTER_SCRAM, {"deletions": [], "upsertions": [upsertion | secret]}, True)
    hidden = {"salt": HIDDEN_BYTES, "saltedPassword": HIDDEN_BYTES}
    assert shown == {"deletions": [], "upsertions": [upsertion | hidden]}


@pytest.mark.parametrize(
    ("api_key", "is_request", "body"),
    [
        (38, False, {"tokenId": "t1", "hmac": SECRET_BYTES}),
        (39, True, {"hmac": SECRET_BYTES, "renewPeriodMs": 1}),
        (40, True, {"hmac": SECRET_BYTES, "expiryTimePeriodMs": 1}),
        (41, False, {"tokens": [{"tokenId": "t1", "hmac": SECRET_BYTES}]}),
        (ENVELOPE, True, {"requestData": SECRET_BYTES, "requestPrincipal": SECRET_BYTES}),
        (ENVELOPE, False, {"responseData": SECRET_BYTES, "errorCode": 0}),
    ],
)
def test_tokens_and_enveloped_requests_are_redacted(
    api_key: int, is_request: bool, body: Any
) -> None:
    assert SECRET_BYTES not in json.dumps(redact(api_key, body, is_request))


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "ssl.keystore.key",
        "delegation.token.secret.key",
        "sasl.jaas.config",
        "listener.name.external.ssl.key.password",
        "listener.name.external.scram-sha-256.sasl.jaas.config",
        "my.plugin.password",
        "my.plugin.secret",
        "confluent.license",
        "",
    ],
)
@pytest.mark.parametrize("api_key", [ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS])
def test_passwords_and_unknown_settings_are_redacted(api_key: int, name: str) -> None:
    assert is_sensitive(name)
    assert value_of(redact(api_key, alter(name, SECRET), True)) == HIDDEN
    assert value_of(redact(api_key, alter(name, None), True)) is None


@pytest.mark.parametrize(
    "name",
    [
        "retention.ms",
        "log.retention.ms",
        "ssl.keystore.location",
        "listener.name.external.ssl.keystore.location",
        "share.auto.offset.reset",
        "interval.ms",
    ],
)
def test_other_settings_are_kept(name: str) -> None:
    body = alter(name, "7")
    assert redact(INCREMENTAL_ALTER_CONFIGS, body, True) == body


def test_sensitive_setting_is_redacted_with_its_synonyms() -> None:
    synonyms = [{"name": "log.dir", "value": SECRET, "source": 4}]
    config = {"name": "log.dir", "value": SECRET, "isSensitive": True, "synonyms": synonyms}
    shown = redact(DESCRIBE_CONFIGS, {"results": [{"configs": [config]}]}, False)
    assert SECRET not in json.dumps(shown)
    assert shown["results"][0]["configs"][0]["synonyms"][0]["source"] == 4


def test_settings_of_new_topics_are_redacted() -> None:
    configs = [{"name": "cleanup.policy", "value": "compact"}, {"name": "x", "value": SECRET}]
    shown = redact(CREATE_TOPICS, {"topics": [{"name": "x", "configs": configs}]}, True)
    kept, hidden = shown["topics"][0]["configs"]
    assert (kept["value"], hidden["value"]) == ("compact", HIDDEN)


def test_settings_in_a_topology_are_redacted_by_key() -> None:
    configs = [{"key": "retention.ms", "value": "1"}, {"key": "x", "value": SECRET}]
    topology = {"subtopologies": [{"stateChangelogTopics": [{"topicConfigs": configs}]}]}
    shown = redact(STREAMS_HEARTBEAT, {"topology": topology}, True)
    topics = shown["topology"]["subtopologies"][0]["stateChangelogTopics"]
    assert [each["value"] for each in topics[0]["topicConfigs"]] == ["1", HIDDEN]


def test_error_message_does_not_repeat_a_redacted_value() -> None:
    response = {"responses": [{"errorCode": 40, "errorMessage": f"Invalid value {SECRET} for x"}]}
    request, shown = redact_exchange(ALTER_CONFIGS, alter("x.password", SECRET), response)
    assert value_of(request) == HIDDEN
    assert shown["responses"][0]["errorMessage"] == "Invalid value [hidden] for x"
    _, kept = redact_exchange(ALTER_CONFIGS, alter("retention.ms", "-7"), response)
    assert kept == response


def test_other_messages_are_returned_unchanged() -> None:
    produce = {"topicData": [{"name": "salt", "partitionData": []}]}
    assert redact(0, produce, True) is produce


def test_only_some_apis_and_all_unknown_ones_are_redacted() -> None:
    looked_at = [key for key in (0, 1, 3, SASL_AUTHENTICATE, 999) if may_hold_credentials(key)]
    assert looked_at == [SASL_AUTHENTICATE, UNKNOWN_API]


NOISE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "value", "configs", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def around(draw: st.DrawFn, core: dict[str, Any]) -> Any:
    """A body with `core` at some depth, among other fields."""
    body: Any = core
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            body = [*draw(st.lists(NOISE, max_size=2)), body]
        else:
            others = draw(st.dictionaries(st.sampled_from(["b", "topics"]), NOISE, max_size=2))
            body = {**others, draw(st.sampled_from(["resources", "results", "x"])): body}
    return body


SECRET_NAMES = st.sampled_from(["sasl.jaas.config", "ssl.key.password", "a.b"]) | st.text(
    "abc.password", min_size=1, max_size=20
).filter(is_sensitive)


@given(data=st.data(), name=SECRET_NAMES, is_list=st.booleans())
@pytest.mark.parametrize(
    ("api_key", "is_request"),
    [
        (CREATE_TOPICS, True),
        (DESCRIBE_CONFIGS, False),
        (ALTER_CONFIGS, True),
        (INCREMENTAL_ALTER_CONFIGS, True),
        (UNKNOWN_API, True),
        (UNKNOWN_API, False),
    ],
)
def test_no_sensitive_setting_survives_at_any_depth(
    api_key: int, is_request: bool, data: st.DataObject, name: str, is_list: bool
) -> None:
    value = data.draw(st.sampled_from([SECRET, [SECRET], {"value": SECRET}, {"a": [SECRET]}]))
    setting = {"name": name, "value": value, "synonyms": [{"name": "log.dir", "value": SECRET}]}
    body = data.draw(around({"configs": [setting] if is_list else setting}))
    assert SECRET not in json.dumps(redact(api_key, body, is_request))


@given(data=st.data())
@pytest.mark.parametrize("name", ["authBytes", "hmac", "saltedPassword", "requestData"])
def test_no_secret_bytes_survive_at_any_depth_of_an_unknown_api(
    name: str, data: st.DataObject
) -> None:
    value = data.draw(st.sampled_from([SECRET, [SECRET], {"a": SECRET}]))
    body = data.draw(around({name: value}))
    assert SECRET not in json.dumps(redact(UNKNOWN_API, body, data.draw(st.booleans())))


@given(body=NOISE, api_key=st.sampled_from([ALTER_CONFIGS, DESCRIBE_CONFIGS, UNKNOWN_API]))
def test_redaction_is_idempotent(body: Any, api_key: int) -> None:
    once = redact(api_key, body, True)
    assert redact(api_key, once, True) == once
