"""User errors are printed in one line with a hint, exit code 2 and no traceback."""

from pathlib import Path

import pytest

from brokertwin.cli.options import broker_settings, named_values
from brokertwin.errors import UserError
from tests.support.console import brokertwin


def test_an_unknown_key_in_the_file_names_the_nearest(empty_directory: Path) -> None:
    (empty_directory / "brokertwin.toml").write_text("cels = 2\n")
    done = brokertwin("config", "show", cwd=empty_directory)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "Unknown setting cels in brokertwin.toml.\nDid you mean cells or clusters?\n"
    )


def test_a_property_without_a_value_is_refused(empty_directory: Path) -> None:
    done = brokertwin("kafka", "start", "--property", "broken", cwd=empty_directory)
    assert done.returncode == 2
    assert done.stderr == "Invalid value of --property: 'broken'.\nPass NAME=VALUE.\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "num.partitons=3",
            "Kafka 4.3 has no broker setting num.partitons.\nDid you mean num.partitions or",
        ),
        (
            "group.streams.assignors=sticky",
            "Kafka 4.3 has no broker setting group.streams.assignors.\nKafka 4.4 has it, with",
        ),
        ("num.partitions=three", "Invalid value three for configuration num.partitions: Not a"),
        (
            "brokertwin.transaction.version=1",
            "brokertwin.transaction.version is a setting of the broker model",
        ),
    ],
)
def test_a_property_that_kafka_does_not_take_is_refused_before_it_starts(
    given: str, message: str, empty_directory: Path
) -> None:
    data = empty_directory / "data"
    words = ("kafka", "start", "--property", given, "--data-dir", str(data))
    done = brokertwin(*words, cwd=empty_directory)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert not data.exists()


def test_named_values_split_at_the_first_equals_sign() -> None:
    assert named_values("--set", ["a=1", " b = x=y ", "a=2"]) == {"a": "2", "b": "x=y"}


@pytest.mark.parametrize("pair", ["a", "=1", " =1"])
def test_named_values_need_a_name_and_a_value(pair: str) -> None:
    with pytest.raises(UserError, match="Invalid value of "):
        named_values("--set", [pair])


def test_set_goes_before_the_broker_config_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("num.partitions=3\nlog.retention.ms=5\n")
    values = broker_settings(file, ["num.partitions=7"])
    assert values == {"num.partitions": "7", "log.retention.ms": "5"}
