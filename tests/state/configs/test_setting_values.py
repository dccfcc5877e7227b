"""Defaults, types, bounds and choices of settings are those of Kafka's own definitions."""

import pytest

from brokertwin.state.configs.config_keys import ConfigKey, InvalidConfigError, parse
from tests.support import setting_values


def fault(name: str, key: ConfigKey, text: str) -> str | None:
    """What is said against a value."""
    try:
        parse(name, key, text)
    except InvalidConfigError as error:
        return str(error)
    return None


def test_defaults_are_those_of_kafka() -> None:
    theirs = {(each["of"], each["name"]): each["default"] for each in setting_values.recorded()}
    assert {where: key.default for where, key in setting_values.known().items()} == theirs


def test_each_value_at_a_bound_is_taken_or_refused_as_by_kafka() -> None:
    known, asked = setting_values.known(), 0
    for each in setting_values.recorded():
        key = known[each["of"], each["name"]]
        said = [fault(each["name"], key, text) for text in each["texts"]]
        assert said == each["said"], (each["of"], each["name"], each["texts"])
        asked += len(said)
    assert asked > 3_000


@pytest.mark.kafka
def test_what_was_recorded_kafka_says() -> None:
    recorded = setting_values.recorded()
    names = ("of", "name", "texts")
    assert setting_values.ask_kafka([{n: each[n] for n in names} for each in recorded]) == recorded
