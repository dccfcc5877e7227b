"""What Kafka's own definitions (`ConfigDef`) say of settings' values, at their bounds above all.

`SettingValues.java` beside this file asks them.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from brokertwin.state.configs.config_keys import ConfigKey, Type
from brokertwin.state.configs.group_configs import GROUP_CONFIGS
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.setting_kinds import AUTHORIZERS
from brokertwin.state.configs.topic_configs import TOPIC_CONFIGS
from tests.support.goldens import golden
from tests.support.java_responses import json_from_java

DRIVER = Path(__file__).with_name("SettingValues.java")
BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
ALWAYS = ("-2", "-1", "0", "1", "", "x")
ANY_CLASS = "authorizer.class.name"
"""Kafka takes the name of any class, here there is one authorizer."""


def known() -> dict[tuple[str, str], ConfigKey]:
    """Return the supported settings of Kafka 4.3.1 by resource type and name."""
    of_brokers = {n: key for n, key in KAFKA_SETTINGS.items() if n not in AUTHORIZERS}
    of_topics = {name: config.key for name, config in TOPIC_CONFIGS.items()}
    kinds = {"broker": of_brokers, "topic": of_topics, "group": GROUP_CONFIGS}
    found = {(of, name): key for of, keys in kinds.items() for name, key in keys.items()}
    return {place: key for place, key in found.items() if not key.is_of_4_4}


def is_bounded(name: str, key: ConfigKey) -> bool:
    """Whether a definition says which values there are: numbers, and texts that are given."""
    is_number = key.type in (*BITS, Type.DOUBLE, Type.BOOLEAN)
    return is_number or (bool(key.choices) and name != ANY_CLASS)


def texts_of(key: ConfigKey) -> list[str]:
    """Texts at the edges of a setting: numbers at its bounds, each choice and its like.

    No list is empty: some may not be in Kafka, which is not looked at here.
    """
    ends = [int(end) for end in (key.least, key.most) if end is not None]
    if key.type in BITS:
        ends += [-(2 ** (BITS[key.type] - 1)), 2 ** (BITS[key.type] - 1)]
    near = [str(end + by) for end in ends for by in (-1, 0, 1)]
    chosen = [text for each in key.choices for text in (each, each.lower(), each.upper())]
    found = dict.fromkeys((*ALWAYS, *near, *chosen))
    return [text for text in found if text or key.type is not Type.LIST]


class ValidatedSetting(NamedTuple):
    """A setting, texts as its value, and for each None or Kafka's error message."""

    of: str
    name: str
    default: str | None
    texts: list[str]
    said: list[str | None]


def settings_of_kafka(golden_name: str) -> list[ValidatedSetting]:
    """Return what Kafka says of the settings here, from a golden or from Java."""
    requests: list[dict[str, Any]] = [
        {"of": of, "name": name, "texts": texts_of(key) if is_bounded(name, key) else []}
        for (of, name), key in known().items()
    ]
    lines = [json.dumps(each) for each in requests]
    responses = golden(golden_name, lambda: json_from_java(DRIVER, lines), scenario=requests)
    return [
        ValidatedSetting(**requested, **response)
        for requested, response in zip(requests, responses, strict=True)
    ]
