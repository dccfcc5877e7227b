"""Defaults, types, bounds and choices of settings equal Kafka's definitions."""

import pytest

from brokertwin.state.configs.config_keys import ConfigKey, InvalidConfigError, parse
from tests.support import setting_values


def fault(name: str, key: ConfigKey, text: str) -> str | None:
    try:
        parse(name, key, text)
    except InvalidConfigError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def kafkas() -> list[setting_values.ValidatedSetting]:
    return setting_values.settings_of_kafka("configs/setting_values")


@pytest.mark.compares
def test_defaults_are_kafkas(kafkas: list[setting_values.ValidatedSetting]) -> None:
    theirs = {(each.of, each.name): each.default for each in kafkas}
    assert {where: key.default for where, key in setting_values.known().items()} == theirs


@pytest.mark.compares
def test_kafka_validates_values_at_bounds_alike(
    kafkas: list[setting_values.ValidatedSetting],
) -> None:
    known = setting_values.known()
    for each in kafkas:
        key = known[each.of, each.name]
        messages = [fault(each.name, key, text) for text in each.texts]
        assert messages == each.said, (each.of, each.name, each.texts)
    assert sum(len(each.said) for each in kafkas) > 3_000
