"""Settings of a real broker, and the file with them."""

from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io import broker_facts, properties
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.core.settings import RELEASE


def test_a_real_broker_returns_its_non_default_settings(kafka: str) -> None:
    actual = broker_facts.read(ClientProperties({"bootstrap.servers": kafka}))
    assert actual["offsets.topic.replication.factor"] == "1"
    assert "message.max.bytes" not in actual, "Kafka's default"
    assert RELEASE not in actual, "the model's default"
    assert not [name for name in actual if "listener" in name or "log.dir" in name]


def test_a_setting_of_kafka_4_4_shows_the_release() -> None:
    of_4_3 = [name for name, key in KAFKA_SETTINGS.items() if not key.is_of_4_4]
    assert broker_facts.release_of(of_4_3) == {}
    settings, _ = parse(broker_facts.release_of(KAFKA_SETTINGS))
    assert settings.is_4_4


def test_only_a_file_written_by_capture_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    broker_facts.write(file, {"num.partitions": "3"})
    broker_facts.write(file, {"num.partitions": "4", "super.users": "User:a\\b"})
    assert properties.read(file) == {"num.partitions": "4", "super.users": "User:a\\b"}
    file.write_text("num.partitions=5\n")
    with pytest.raises(UserError, match="not written by `brokertwin capture`"):
        broker_facts.write(file, {})
    assert properties.read(file) == {"num.partitions": "5"}


def test_an_unwritable_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Cannot write to"):
        broker_facts.write(tmp_path / "nowhere" / "a.properties", {})
