"""Redaction of credentials in request and response bodies.

brokertwin records no credentials: every body is redacted before it is written to a file, a topic or
a log. Redacted by Kafka's message schemas are

- tokens of SaslAuthenticate, in both directions (a PLAIN token is user and password; with a SCRAM
  exchange passwords can be guessed offline);
- salt and salted password in AlterUserScramCredentials; the `hmac` of delegation tokens, which is a
  password;
- setting values in AlterConfigs, IncrementalAlterConfigs, CreateTopics, DescribeConfigs and
  StreamsGroupHeartbeat, by Kafka's rule for its request log: values of type PASSWORD, values that
  the broker marks `isSensitive`, and values of unknown names (`my.plugin.password`, a JAAS entry of
  a listener), which may be anything;
- requests within Envelope, and metadata records in FetchSnapshot;
- any of these in the body of an unknown API.

Levels of loggers are redacted, too, because their names are not settings.

Not redacted: record bytes, and metadata of group members, which belong to the clients.

Source: `RequestChannel.Request.loggableRequest`, `KafkaConfig.maybeSensitive`, the message schemas.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from brokertwin.protocol.kafka_apis import (
    ALTER_CONFIGS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_DELEGATION_TOKEN,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_DELEGATION_TOKEN,
    ENVELOPE,
    EXPIRE_DELEGATION_TOKEN,
    FETCH_SNAPSHOT,
    INCREMENTAL_ALTER_CONFIGS,
    KAFKA_APIS,
    RENEW_DELEGATION_TOKEN,
    SASL_AUTHENTICATE,
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
)
from brokertwin.state.configs.config_keys import Type
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.topic_configs import TOPIC_CONFIGS

Body = dict[str, Any]

HIDDEN = "[hidden]"
"""Replaces a text, as in Kafka."""

HIDDEN_BYTES = "W2hpZGRlbl0="
"""Replaces bytes: HIDDEN in base64, so that the body still fits its schema."""

_PASSWORD_TYPE = 9
"""`configType` of a password in DescribeConfigs."""

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.")
_OTHER_NAMES = frozenset(
    {
        "consumer.assignment.interval.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.topic.name",
        "interval.ms",
        "match",
        "metrics",
        "share.assignment.interval.ms",
        "share.auto.offset.reset",
        "share.delivery.count.limit",
        "share.heartbeat.interval.ms",
        "share.isolation.level",
        "share.partition.max.record.locks",
        "share.record.lock.duration.ms",
        "share.renew.acknowledge.enable",
        "share.session.timeout.ms",
        "streams.assignment.interval.ms",
        "streams.assignor.name",
        "streams.heartbeat.interval.ms",
        "streams.initial.rebalance.delay.ms",
        "streams.num.standby.replicas",
        "streams.rack.aware.assignment.tags",
        "streams.session.timeout.ms",
    }
)
"""Settings of groups and client metrics, none of which is a password."""


class _Rule(NamedTuple):
    """Names of secret bytes fields, and of lists of settings."""

    secrets: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()


_TOKEN = _Rule(secrets=frozenset({"authBytes"}))
_HMAC = _Rule(secrets=frozenset({"hmac"}))
_SETTINGS = _Rule(settings=frozenset({"configs", "synonyms"}))
_TOPOLOGY = _Rule(settings=frozenset({"topicConfigs"}))
_RULES: dict[tuple[int, bool], _Rule] = {
    (CREATE_TOPICS.key, True): _SETTINGS,
    (CREATE_TOPICS.key, False): _SETTINGS,
    (DESCRIBE_CONFIGS.key, False): _SETTINGS,
    (ALTER_CONFIGS.key, True): _SETTINGS,
    (SASL_AUTHENTICATE.key, True): _TOKEN,
    (SASL_AUTHENTICATE.key, False): _TOKEN,
    (CREATE_DELEGATION_TOKEN.key, False): _HMAC,
    (RENEW_DELEGATION_TOKEN.key, True): _HMAC,
    (EXPIRE_DELEGATION_TOKEN.key, True): _HMAC,
    (DESCRIBE_DELEGATION_TOKEN.key, False): _HMAC,
    (INCREMENTAL_ALTER_CONFIGS.key, True): _SETTINGS,
    (ALTER_USER_SCRAM_CREDENTIALS.key, True): _Rule(secrets=frozenset({"salt", "saltedPassword"})),
    (ENVELOPE.key, True): _Rule(secrets=frozenset({"requestData", "requestPrincipal"})),
    (ENVELOPE.key, False): _Rule(secrets=frozenset({"responseData"})),
    (FETCH_SNAPSHOT.key, False): _Rule(secrets=frozenset({"unalignedRecords"})),
    (STREAMS_GROUP_HEARTBEAT.key, True): _TOPOLOGY,
    (STREAMS_GROUP_DESCRIBE.key, False): _TOPOLOGY,
}
"""Rules by API key and `is_request`."""

_EVERY_RULE = _Rule(
    frozenset().union(*(rule.secrets for rule in _RULES.values())),
    frozenset().union(*(rule.settings for rule in _RULES.values())),
)


_PLAIN = KAFKA_APIS.keys() - {key for key, _ in _RULES}
"""Keys of the APIs whose bodies hold no credentials."""


def may_hold_credentials(api_key: int) -> bool:
    """True if bodies of the API must be redacted; others are returned unchanged."""
    return api_key not in _PLAIN


def redact(api_key: int, body: Any, is_request: bool) -> Any:
    """A body without credentials; the given one is not changed.

    Args:
        api_key: the API's key; for an unknown one every rule applies.
        body: a body in Kafka's JSON field names, of any version; parts that do not fit the schema
            are allowed.
        is_request: true for a request, false for a response.
    """
    rule = _RULES.get((api_key, is_request))
    if rule is None:
        if api_key in KAFKA_APIS:
            return body
        rule = _EVERY_RULE
    return _redacted(body, rule)


def redact_exchange(api_key: int, request: Any, response: Any) -> tuple[Any, Any]:
    """A request and its response without credentials.

    Values redacted in the request are also redacted in error messages of the response.
    """
    shown = redact(api_key, response, is_request=False)
    rule = _RULES.get((api_key, True), _Rule())
    if rule.settings:
        secrets = sorted(set(_hidden_texts(request, rule)), key=len, reverse=True)
        if secrets:
            pattern = re.compile("|".join(re.escape(secret) for secret in secrets))
            shown = _without(shown, pattern)
    return redact(api_key, request, is_request=True), shown


def is_sensitive(name: object) -> bool:
    """True if the value of a setting may be a credential."""
    if not isinstance(name, str):
        return True
    if name in TOPIC_CONFIGS or name in _OTHER_NAMES:
        return False
    key = KAFKA_SETTINGS.get(_LISTENER_PREFIX.sub("", name, count=1))
    return key is None or key.type is Type.PASSWORD


def _redacted(value: Any, rule: _Rule) -> Any:
    if isinstance(value, list):
        return [_redacted(part, rule) for part in value]
    if not isinstance(value, dict):
        return value
    shown = {}
    for name, part in value.items():
        if name in rule.secrets and part is not None:
            shown[name] = HIDDEN_BYTES
        elif name in rule.settings:
            shown[name] = _settings_redacted(part, rule, is_hidden=False)
        else:
            shown[name] = _redacted(part, rule)
    return shown


def _settings_redacted(value: Any, rule: _Rule, is_hidden: bool) -> Any:
    """A list of settings, or one of them; `is_hidden` if it belongs to a redacted one."""
    if isinstance(value, list):
        return [_settings_redacted(part, rule, is_hidden) for part in value]
    if not isinstance(value, dict):
        return None if value is None else HIDDEN
    hides = is_hidden or _is_hidden(value)
    shown = {}
    for name, part in value.items():
        if name in rule.settings:
            shown[name] = _settings_redacted(part, rule, hides)
        elif name == "value" and hides:
            shown[name] = None if part is None else HIDDEN
        else:
            shown[name] = _redacted(part, rule)
    return shown


def _is_hidden(setting: Body) -> bool:
    is_marked = setting.get("isSensitive") is True or setting.get("configType") == _PASSWORD_TYPE
    return is_marked or is_sensitive(setting.get("name", setting.get("key")))


def _hidden_texts(value: Any, rule: _Rule) -> Iterator[str]:
    """Values of a request's redacted settings."""
    if isinstance(value, list):
        for part in value:
            yield from _hidden_texts(part, rule)
    elif isinstance(value, dict):
        text = value.get("value")
        if isinstance(text, str) and text and _is_hidden(value):
            yield text
        for part in value.values():
            yield from _hidden_texts(part, rule)


def _without(value: Any, secrets: re.Pattern[str], name: str = "") -> Any:
    """A copy whose error messages do not contain the secrets."""
    if isinstance(value, list):
        return [_without(part, secrets, name) for part in value]
    if isinstance(value, dict):
        return {key: _without(part, secrets, key) for key, part in value.items()}
    if isinstance(value, str) and name == "errorMessage":
        return secrets.sub(HIDDEN, value)
    return value
