"""Static settings by Kafka's names: parsing, validation, unknown names."""

import contextlib
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.configs import config_keys, topic_configs
from brokertwin.state.configs.broker_config import (
    ACTED_ON,
    OUR_SETTINGS,
    SETTINGS,
    TYPED,
    UnknownSettingError,
    parse,
)
from brokertwin.state.configs.config_keys import ConfigKey, InvalidConfigError, Type
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.setting_kinds import DYNAMIC_ONLY
from brokertwin.state.core.settings import KAFKA_4_4, RELEASE, BrokerSettings

OF_4_4 = {RELEASE: KAFKA_4_4}


def test_nothing_given_is_kafkas_default() -> None:
    assert parse({}) == (BrokerSettings(), [])


def test_typed_defaults_are_kafkas() -> None:
    for name, field in TYPED.items():
        key = {**SETTINGS, **DYNAMIC_ONLY}[name]
        typed = getattr(BrokerSettings(), field)
        if key.default is None:
            assert typed in ((), None), f"{name} has no default in Kafka"
            continue
        listed = list(typed) if isinstance(typed, tuple) else typed
        assert listed == config_keys.parse(name, key, key.default), name


def test_settings_in_use_are_kafkas() -> None:
    known = KAFKA_SETTINGS.keys() | OUR_SETTINGS.keys() | DYNAMIC_ONLY.keys()
    assert known >= ACTED_ON


def test_brokertwin_settings_are_off_by_default() -> None:
    assert all(name.startswith("brokertwin.") for name in OUR_SETTINGS)
    assert not OUR_SETTINGS.keys() & KAFKA_SETTINGS.keys()
    typed, warnings = parse({"brokertwin.reject.unknown.producer": "true"})
    assert typed.brokertwin_reject_unknown_producer
    assert not BrokerSettings().brokertwin_reject_unknown_producer
    assert warnings == []


@pytest.mark.parametrize("shards", [0, 9])
def test_session_cache_has_one_to_eight_shards(shards: int) -> None:
    """Each shard has a part of the ids, which are int32."""
    name = "brokertwin.fetch.session.cache.shards"
    with pytest.raises(InvalidConfigError, match=f"Invalid value {shards}"):
        parse({name: str(shards)})
    assert parse({name: "8"})[0].brokertwin_fetch_session_cache_shards == 8


def test_given_settings_are_typed_and_kept_as_text() -> None:
    typed, warnings = parse({"num.partitions": " 12 ", "auto.create.topics.enable": "FALSE"})
    assert (typed.num_partitions, typed.auto_create_topics_enable) == (12, False)
    assert typed.given == {"num.partitions": "12", "auto.create.topics.enable": "FALSE"}
    assert warnings == []


def test_setting_without_effect_causes_a_warning() -> None:
    given_settings = {
        "num.io.threads": "3",
        "log.flush.interval.messages": "1",
        "num.partitions": "2",
    }
    _, warnings = parse({**given_settings, "listener.name.x.ssl.protocol": "TLS"})
    assert warnings == [
        "num.io.threads is a setting of Kafka that has no effect here",
        "log.flush.interval.messages is the default of new topics and not enforced",
        "listener.name.x.ssl.protocol is a setting of Kafka that has no effect here",
    ]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("num.partition", "num.partitions"),
        ("Message.Max.Bytes", "message.max.bytes"),
        ("log.retention.hour", "log.retention.hours"),
        ("zookeeper.connect", None),
    ],
)
def test_unknown_name_is_rejected_with_similar_names(name: str, nearest: str | None) -> None:
    with pytest.raises(UnknownSettingError, match=r"Kafka 4\.3 has no broker setting") as error:
        parse({name: "1"})
    assert error.value.nearest[:1] == ([nearest] if nearest else [])
    assert error.value.name == name


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "many", "Not a number of type INT"),
        ("offsets.topic.replication.factor", "40000", "Not a number of type SHORT"),
        ("delete.topic.enable", "no", "Expected value to be either true or false"),
        ("log.message.timestamp.type", "Now", "must be one of: CreateTime, LogAppendTime"),
        ("log.cleanup.policy", "delete,", "values must not be empty"),
        ("group.share.delivery.count.limit", "11", "Value must be no more than 10"),
        ("ssl.client.auth", "always", "must be one of: required, requested, none"),
    ],
)
def test_invalid_value_is_rejected(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfigError, match=reason):
        parse({name: text})


def test_secrets_are_validated_but_not_kept() -> None:
    typed, warnings = parse({"ssl.key.password": "hunter2"})
    assert b"hunter2" not in msgspec.msgpack.encode(typed)
    assert len(warnings) == 1


def test_case_matters_as_in_kafka() -> None:
    parse({"group.consumer.migration.policy": "upgrade"})
    with pytest.raises(InvalidConfigError):
        parse({"compression.type": "ZSTD"})


@given(st.sets(st.sampled_from(sorted(KAFKA_SETTINGS))))
def test_giving_the_defaults_changes_nothing(names: set[str]) -> None:
    defaults = {name: KAFKA_SETTINGS[name].default for name in names}
    typed, _ = parse({**OF_4_4, **{n: text for n, text in defaults.items() if text is not None}})
    assert typed == BrokerSettings(brokertwin_kafka_version=KAFKA_4_4, given=typed.given)


@given(st.sampled_from(sorted(KAFKA_SETTINGS)), st.text(max_size=12))
def test_any_text_is_accepted_or_rejected(name: str, text: str) -> None:
    with contextlib.suppress(InvalidConfigError):
        typed, _ = parse({**OF_4_4, name: text})
        assert typed.given.get(name, text.strip()) == text.strip()


def test_a_setting_of_kafka_4_4_is_unknown_to_4_3() -> None:
    name = "errors.deadletterqueue.topic.name.prefix"
    with pytest.raises(UnknownSettingError, match=f"{name}; Kafka 4.4 has it, with") as refused:
        parse({name: "dead."})
    assert name not in refused.value.nearest
    for release in (RELEASE, "brokerstream.kafka.version"):
        assert parse({name: "dead.", release: " 4.4"})[0].given[name] == "dead."


@given(st.integers(-(2**64), 2**64))
def test_long_has_64_bits(number: int) -> None:
    key = ConfigKey(Type.LONG)
    if -(2**63) <= number < 2**63:
        assert config_keys.parse("x", key, f" {number} ") == number
    else:
        with pytest.raises(InvalidConfigError, match="Not a number of type LONG"):
            config_keys.parse("x", key, str(number))


@pytest.mark.parametrize(
    ("text", "number"), [("0.5f", 0.5), (".5", 0.5), ("1e-3", 0.001), ("0x1p-1", 0.5)]
)
def test_double_is_parsed_like_java(text: str, number: float) -> None:
    assert config_keys.parse("x", ConfigKey(Type.DOUBLE), text) == number
    assert math.isnan(float(str(config_keys.parse("x", ConfigKey(Type.DOUBLE), "NaN"))))
    for refused in ("1_0", "nan", "inf", "0xp1", "", "1,5"):
        with pytest.raises(InvalidConfigError):
            config_keys.parse("x", ConfigKey(Type.DOUBLE), refused)


def test_topic_setting_defaults_to_the_brokers_and_kafkas() -> None:
    broker, _ = parse({"log.retention.hours": "2", "log.retention.minutes": "3"})
    assert topic_configs.value_of("retention.ms", {"retention.ms": "7"}, broker) == 7
    assert topic_configs.value_of("retention.ms", {}, broker) == 180_000
    assert topic_configs.value_of("retention.ms", {}, BrokerSettings()) == 604_800_000
    assert topic_configs.value_of("internal.segment.bytes", {}, broker) is None


def test_every_synonym_is_a_setting_of_kafka() -> None:
    for config in topic_configs.TOPIC_CONFIGS.values():
        assert {synonym.name for synonym in config.synonyms} <= KAFKA_SETTINGS.keys()


def test_share_group_settings_in_use_cause_no_warning() -> None:
    held = {"group.share.record.lock.duration.ms": "2000", "group.share.max.size": "5"}
    assert parse(held)[1] == []
    assert len(parse({"group.share.persister.class.name": "x"})[1]) == 1
