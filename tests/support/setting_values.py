"""What Kafka's own definitions (`ConfigDef`) say of settings' values, at their bounds above all.

A line of `tests/state/recorded/setting_values.jsonl.gz` is a setting: `of` (broker, topic, group),
`name`, `default`, `texts`, and in `said` for each text None or the words with which Kafka 4.3.1
refuses it. `python -m tests.support.setting_values` asks Kafka anew, with `SettingValues.java`.
"""

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

from brokertwin.kafka_io import jars
from brokertwin.kafka_io.java import java_executable
from brokertwin.settings import default_home
from brokertwin.state.configs.config_keys import ConfigKey, Type
from brokertwin.state.configs.group_configs import GROUP_CONFIGS
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.setting_kinds import AUTHORIZERS
from brokertwin.state.configs.topic_configs import TOPIC_CONFIGS
from tests.support.recorded import RECORDED, Exchange, exchanges

DRIVER = Path(__file__).with_name("SettingValues.java")
NAME = "setting_values"
BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
ALWAYS = ("-2", "-1", "0", "1", "", "x")
ANY_CLASS = "authorizer.class.name"
"""Kafka takes the name of any class, here there is one authorizer."""


def known() -> dict[tuple[str, str], ConfigKey]:
    """The settings here, by what they are of and their name."""
    of_brokers = {n: key for n, key in KAFKA_SETTINGS.items() if n not in AUTHORIZERS}
    of_topics = {name: config.key for name, config in TOPIC_CONFIGS.items()}
    kinds = {"broker": of_brokers, "topic": of_topics, "group": GROUP_CONFIGS}
    return {(of, name): key for of, keys in kinds.items() for name, key in keys.items()}


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


def ask_kafka(questions: list[dict[str, Any]]) -> list[Exchange]:
    """The same, with what Kafka says."""
    class_path = ":".join(str(jar) for jar in jars.fetch(jars.kafka_jars(), default_home()))
    done = subprocess.run(
        [java_executable(), "-XX:TieredStopAtLevel=1", "-cp", class_path, str(DRIVER)],
        input="".join(f"{json.dumps(each)}\n" for each in questions),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = map(json.loads, done.stdout.splitlines())
    return [question | answer for question, answer in zip(questions, answers, strict=True)]


def recorded() -> list[Exchange]:
    """What Kafka has said."""
    return exchanges(NAME)


def main() -> None:
    """Write the file."""
    questions = [
        {"of": of, "name": name, "texts": texts_of(key) if is_bounded(name, key) else []}
        for (of, name), key in known().items()
    ]
    lines = "".join(f"{json.dumps(each)}\n" for each in ask_kafka(questions))
    file = RECORDED / f"{NAME}.jsonl.gz"
    file.write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    main()
